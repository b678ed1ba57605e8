//! Notices that the daemon which runs the turn has ended.
//!
//! A client only sees that its connection is lost. Here the socket of the home is asked as well: a daemon
//! that was killed listens no more, and then the turn is cut off, however long the client looks for a
//! server.
//!
//! The invariant here: a run says that the daemon has ended only when no process serves the home and the
//! connection is lost. A run for a person ends then, after [`GONE_MAX`], in which a supervisor may start
//! the next daemon. A run for a script goes on looking, as its contract says.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use turnlane::{Client, Connection, ErrorKind};

use super::super::run::{End, Told};
use super::super::stream::Audience;
use super::Drive;
use crate::commands::serve::record::{Presence, presence};
use crate::shown::note;

/// How often the socket is asked while the connection is lost.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long a run for a person waits for the next daemon.
const GONE_MAX: Duration = Duration::from_secs(1);

/// The daemon that runs the turn, as seen from outside.
#[derive(Debug)]
pub(in super::super) struct DaemonWatch {
    home: PathBuf,
    connection: watch::Receiver<Connection>,
    audience: Audience,
    lost: Option<Loss>,
}

/// A connection that was lost.
#[derive(Clone, Copy, Debug)]
struct Loss {
    since: Instant,
    /// The daemon was seen to have ended, and the person was told.
    has_ended: bool,
}

impl DaemonWatch {
    pub(in super::super) fn new(home: PathBuf, client: &Client, audience: Audience) -> Self {
        Self {
            home,
            connection: client.connection(),
            audience,
            lost: None,
        }
    }

    /// Whether the connection is lost.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Whether no daemon was there when the socket was asked last.
    fn has_ended(&self) -> bool {
        self.lost.is_some_and(|lost| lost.has_ended)
    }
}

/// Waits for a change of the connection.
pub(super) async fn changed(watch: Option<&mut DaemonWatch>) {
    let Some(watch) = watch else {
        return std::future::pending().await;
    };
    if watch.connection.changed().await.is_err() {
        // The client is closed, and its events end as well.
        std::future::pending::<()>().await;
    }
}

/// Waits until the connection is lost; for ever where no daemon is watched.
pub(super) fn lost(watch: Option<&DaemonWatch>) -> impl Future<Output = ()> + use<> {
    let connection = watch.map(|watch| watch.connection.clone());
    async move {
        let is_lost = |now: &Connection| matches!(now, Connection::Reconnecting { .. });
        if let Some(mut connection) = connection
            && connection.wait_for(is_lost).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

impl Drive {
    /// The connection has changed: a lost one begins a look at the daemon, a new one ends it.
    pub(super) fn connection_changed(&mut self) {
        let Some(watch) = &mut self.daemon else {
            return;
        };
        let now = watch.connection.borrow_and_update().clone();
        match now {
            Connection::Reconnecting { .. } if watch.lost.is_none() => {
                let since = Instant::now();
                watch.lost = Some(Loss {
                    since,
                    has_ended: false,
                });
                self.timers.daemon = Some(since + LOOK_EVERY);
            }
            Connection::Ready { .. } => {
                watch.lost = None;
                self.timers.daemon = None;
            }
            _ => {}
        }
    }

    /// Asks whether a daemon serves the home; the last words, where that is the end.
    pub(super) fn look_at_daemon(&mut self) -> Option<(Vec<Told>, End)> {
        self.timers.daemon = Some(Instant::now() + LOOK_EVERY);
        let watch = self.daemon.as_mut()?;
        let lost = watch.lost.as_mut()?;
        if presence(&watch.home) != Presence::Absent {
            return None;
        }
        let is_first = !std::mem::replace(&mut lost.has_ended, true);
        let (audience, since) = (watch.audience, lost.since);
        if audience == Audience::Script {
            if is_first {
                note("the daemon has ended; waiting for the next one, for 30 s at most");
            }
            return None;
        }
        if since.elapsed() < GONE_MAX {
            return None;
        }
        let text = self.cut_off();
        Some(self.run.give_up(&text, ErrorKind::Unknown))
    }

    /// What became of the turn, where its daemon has ended and no other one came.
    pub(super) fn ended_with_daemon(&self) -> Option<String> {
        let has_ended = self.daemon.as_ref().is_some_and(DaemonWatch::has_ended);
        has_ended.then(|| self.cut_off())
    }

    fn cut_off(&self) -> String {
        if self.primary.row.is_some() {
            return "the daemon has ended before the turn began; the turn does not run any more\n  \
                    start a daemon with `turnlane serve --detach`, and repeat the command"
                .to_owned();
        }
        let thread = &self.primary.thread;
        format!(
            "the daemon has ended while the turn ran; the turn does not run again by itself\n  \
             start a daemon with `turnlane serve --detach`, see with `turnlane thread show {thread}` how \
             far the turn came, and go on with `turnlane exec resume {thread} PROMPT`"
        )
    }
}
