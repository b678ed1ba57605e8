//! The calls about engines: which there are, whether they could run, what they left running.
//!
//! The invariant here: only a good answer is kept, for the settings it was given for, and until a turn
//! of that engine fails; everything else asks the engine as it is now. Processes belong to threads,
//! whether they are loaded or not.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use turnlane_engine::{BackgroundTerminal, Capabilities};
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::method::{EngineStatus, TurnStartParams};

use crate::lane::recovery::OWN_ENGINES;
use crate::lane::rows;
use crate::runtime::Handle;
use crate::settings::Settings;

/// For how many different settings an engine's good answer is kept.
const KEPT_MAX: usize = 64;

/// The settings that engines were found able to run with.
#[derive(Debug, Default)]
pub(crate) struct Checked(Mutex<HashMap<String, HashSet<String>>>);

impl Checked {
    fn good(&self) -> MutexGuard<'_, HashMap<String, HashSet<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn holds(&self, engine: &str, settings: &str) -> bool {
        let good = self.good();
        good.get(engine).is_some_and(|kept| kept.contains(settings))
    }

    fn keep(&self, engine: &str, settings: String) {
        let mut good = self.good();
        let kept = good.entry(engine.to_owned()).or_default();
        if kept.len() >= KEPT_MAX {
            // Asked again, each is kept again; which ones go first does not matter.
            kept.clear();
        }
        kept.insert(settings);
    }

    /// A turn of the engine failed: what held before may not.
    pub(crate) fn forget(&self, engine: &str) {
        self.good().remove(engine);
    }
}

/// Something that a request needs the engine of its thread to be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// To take the last turns of a thread back.
    Revert,
    /// To make a history shorter.
    Compact,
}

impl Handle {
    /// The names of the engines of this worker, in order.
    pub fn engines(&self) -> Vec<String> {
        self.shared().engine_names().iter().cloned().collect()
    }

    /// What an engine can do; none when this worker does not have it.
    pub fn capabilities(&self, engine: &str) -> Option<Capabilities> {
        let engine = self.shared().engines.get(engine)?;
        Some(engine.capabilities())
    }

    /// Returns true if the engine of a thread can do this.
    ///
    /// An engine that this worker does not have is taken to be another program, which takes no turn
    /// back; only our own are known without being there.
    pub fn supports(&self, engine: &str, ability: Ability) -> bool {
        match (self.capabilities(engine), ability) {
            (Some(able), Ability::Revert) => able.revert,
            (Some(able), Ability::Compact) => able.compact,
            (None, _) => OWN_ENGINES.contains(&engine),
        }
    }

    /// Whether a turn with these settings could run. A yes is kept until a turn of the engine fails; a
    /// no is asked anew by each call.
    pub async fn engine_status(&self, engine: &str, settings: &Settings) -> EngineStatus {
        let Some(able) = self.shared().engines.get(engine) else {
            return EngineStatus {
                ok: false,
                reason: Some(format!("engine '{engine}' is not available")),
            };
        };
        let key = rows::write(settings).as_str().to_owned();
        let checked = &self.shared().checked;
        if checked.holds(engine, &key) {
            return EngineStatus {
                ok: true,
                reason: None,
            };
        }
        let settings = settings.clone().for_turn(&TurnStartParams::default(), None);
        let status = able.check(&settings).await;
        if status.ok {
            checked.keep(engine, key);
        }
        status
    }

    /// The processes that earlier turns of a thread left running.
    pub async fn background(&self, thread: ThreadId) -> Vec<BackgroundTerminal> {
        let mut left = Vec::new();
        for engine in self.shared().engines.values() {
            left.extend(engine.background(thread).await);
        }
        left
    }

    /// Ends one of those processes, or all, with their descendants; how many it ended.
    pub async fn end_background(&self, thread: ThreadId, process: Option<String>) -> usize {
        let mut ended = 0;
        for engine in self.shared().engines.values() {
            ended += engine.end_background(thread, process.clone()).await;
        }
        ended
    }
}
