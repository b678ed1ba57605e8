//! Lanes that wait because a login was refused go on when the login changes.
//!
//! The invariant here: a wait records which login was refused, so a login that changed while no worker
//! ran is noticed by the next one. Only the file is looked at; whether the new login is accepted is found
//! out by the turn.
//!
//! Theory of operation: the dispatcher looks at the few login files of its engines whenever it looks at
//! the store. The store is asked when a file has changed, and every [`ASK_EVERY`], because a wait may be
//! recorded just after a change was noticed.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;
use turnlane_engine::{Engine, login};
use turnlane_store::StoreError;
use turnlane_store::lane::LoginStamp;

use crate::lanes::Lanes;
use crate::shared::Shared;

/// How often the store is asked for waits although no login file has changed.
const ASK_EVERY: Duration = Duration::from_secs(30);
/// How many waits one operation ends.
const LANES_AT_ONCE: u32 = 256;

/// The login files of a worker's engines, as they were seen last.
pub(crate) struct Logins {
    stamps: HashMap<PathBuf, Option<String>>,
    ask_at: Instant,
}

impl Logins {
    pub(crate) fn new(shared: &Shared) -> Self {
        let files = shared.engines.values();
        let files = files.filter_map(|engine| engine.login_file());
        Self {
            stamps: files.map(|file| (file, None)).collect(),
            ask_at: Instant::now(),
        }
    }

    /// Ends the waits for logins that have changed; the lanes look again.
    pub(crate) async fn look(&mut self, shared: &Shared, lanes: &Lanes) -> Result<(), StoreError> {
        let now = Instant::now();
        let is_due = self.ask_at <= now;
        if is_due {
            self.ask_at = now + ASK_EVERY;
        }
        for (file, seen) in &mut self.stamps {
            let path = file.clone();
            let stamped = tokio::task::spawn_blocking(move || login::stamp(&path)).await;
            // The runtime stops.
            let Ok(stamp) = stamped else {
                return Ok(());
            };
            if !is_due && seen.as_ref() == Some(&stamp) {
                continue;
            }
            let current = LoginStamp {
                file: file.display().to_string(),
                stamp: stamp.clone(),
            };
            let ended = shared.store.end_login_waits(current, LANES_AT_ONCE).await?;
            for thread in &ended {
                tracing::info!(%thread, "a lane goes on: its login has changed");
                lanes.wake(*thread);
            }
            // With more of them than one operation ends, the next look asks again.
            *seen = (ended.len() < LANES_AT_ONCE as usize).then_some(stamp);
        }
        Ok(())
    }
}

/// The login of an engine as it is now; none where it has no file.
pub(crate) fn current(engine: &dyn Engine) -> Option<LoginStamp> {
    let file = engine.login_file()?;
    Some(LoginStamp {
        stamp: login::stamp(&file),
        file: file.display().to_string(),
    })
}
