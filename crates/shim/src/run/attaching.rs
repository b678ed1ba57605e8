//! The way to the lane: the server is linked, then the lane is taken, then what ended is told.
//!
//! The invariant here: both steps are calls beside the loop, so the channel is served meanwhile, and a
//! failure of either is an end that is told like any other.

use std::time::Duration;

use tokio::time::Instant;
use turnlane::Filter;

use super::{Done, HANDOFF_PAUSE, Server, Shim};
use crate::error::{Exit, LaneError};
use crate::lane::Attached;
use crate::options::ServerKind;
use crate::receipts::{self, LastReported};
use crate::state::Input;

impl Shim {
    /// The server is there, or cannot be.
    pub(super) fn linked(&mut self, linked: Result<Server, Exit>) -> Option<Exit> {
        let server = match linked {
            Ok(server) => server,
            Err(exit) => return Some(exit),
        };
        // First, so that nothing that is told is missed.
        self.events = Some(server.client.events(Filter::all()));
        self.lane = self.lane.through(server.client);
        self.server = server.kind;
        self.attach_until = Instant::now() + self.options.handoff_wait;
        if self.ending.is_none() {
            self.attach(Duration::ZERO, self.options.is_fresh);
        }
        None
    }

    /// Takes the lane, after a pause.
    pub(super) fn attach(&mut self, pause: Duration, is_fresh: bool) {
        let lane = self.lane.clone();
        let directory = self.options.state_directory.clone();
        self.calls.push(Box::pin(async move {
            tokio::time::sleep(pause).await;
            let binding = lane.binding().to_owned();
            let attached = lane.attach(&directory, is_fresh).await.map(Box::new);
            if let Ok(attached) = &attached
                && !attached.has_record
            {
                // Before the first message: without the file a kill would leave its end unreported.
                let last = LastReported {
                    binding,
                    thread: attached.thread.clone(),
                    turn: attached.newest_ended.clone(),
                };
                let writing = move || receipts::store(&directory, &last);
                if let Ok(Err(error)) = tokio::task::spawn_blocking(writing).await {
                    tracing::warn!(%error, "what is reported cannot be recorded");
                }
            }
            Done::Attached(attached)
        }));
    }

    /// The lane is ours: tells it, and what ended while no shim was there.
    pub(super) fn attached(&mut self, attached: Attached) {
        let is_first = !self.is_attached && self.machine.thread().is_empty();
        self.is_attached = true;
        self.lane = self.lane.of_thread(&attached.thread);
        self.model.clone_from(&attached.model);
        if is_first {
            self.apply(Input::Ready {
                thread: attached.thread.clone(),
                engine: attached.engine,
                health: attached.health,
                lane: attached.queue.lane.clone(),
                version: self.options.version.clone(),
            });
        } else {
            self.apply(Input::Lane(attached.queue.lane.clone()));
        }
        for end in attached.ended {
            if self.machine.running() == Some(end.turn.as_str()) {
                self.end_turn(end, None);
            } else {
                self.apply(Input::Recovered(Box::new(end)));
            }
        }
        if let Some(mut start) = attached.running {
            // What began in this process was told by no other shim.
            let is_older = start
                .started_at
                .is_none_or(|since| since < self.started_ms.div_euclid(1_000));
            start.is_found &= self.server == ServerKind::Daemon || is_older;
            self.start_turn(start);
        }
        self.rows_seen(&attached.queue);
        self.submit_waiting();
    }

    pub(super) fn not_attached(&mut self, error: LaneError) -> Option<Exit> {
        if self.ending.is_some() {
            return None;
        }
        let is_first = self.machine.thread().is_empty();
        match error {
            LaneError::Held(_) | LaneError::Unreachable(_) if !is_first => {
                // After a lost connection the server still knows the old one for a moment.
                self.attach(HANDOFF_PAUSE, false);
                None
            }
            LaneError::Held(_) if Instant::now() < self.attach_until => {
                self.attach(HANDOFF_PAUSE, self.options.is_fresh);
                None
            }
            LaneError::Held(reason) => Some(Exit::Held(reason)),
            LaneError::Store(reason) => Some(Exit::Store(reason)),
            LaneError::Refused { message, .. } => Some(Exit::StartFailed(message)),
            LaneError::Unreachable(reason) => Some(Exit::StartFailed(reason)),
        }
    }
}
