//! What is stored of the turn, for when nobody tells: gaps, lost servers, lanes of others.
//!
//! The invariant here: looking never decides what is not stored. A turn that is nowhere, or cannot be
//! asked about, is given up only after the bounds below; a turn that runs is waited for.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use turnlane::ErrorKind;
use turnlane_protocol::method::thread_resume;

use super::super::calls::Failed;
use super::super::run::{End, Ending, Told};
use super::{Drive, Following, Primary, STOP_MAX};

/// How long a server that came back may refuse us.
const LOST_MAX: Duration = Duration::from_secs(30);
/// How long a turn that left the queue may be nowhere.
const NOWHERE_MAX: Duration = Duration::from_secs(2);

/// What is stored of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Ended,
    Running,
    Nowhere,
}

impl Drive {
    /// Reads what is stored of the turn.
    pub(super) async fn look_up(&mut self) -> Result<Found, Failed> {
        let Primary { thread, turn, .. } = &self.primary;
        let Some(found) = self.calls.turn(thread, turn).await? else {
            return Ok(Found::Nowhere);
        };
        self.run.missed();
        if !found.status.is_final() {
            return Ok(Found::Running);
        }
        self.run.end_as_read(Ending::from(found));
        Ok(Found::Ended)
    }

    /// Looks whether the thread can be followed by now, and what became of the turn.
    pub(super) async fn look(&mut self) -> Option<(Vec<Told>, End)> {
        let thread = self.primary.thread.clone();
        if self.primary.row.is_some() {
            let queue = self.calls.queue(&thread).await;
            if queue.is_ok_and(|queue| self.tell_place(&queue)) {
                return None;
            }
        }
        if self.primary.following == Following::NotYet {
            let params = json!({"threadId": thread, "excludeTurns": true});
            let resumed = self.calls.ask::<Value>(thread_resume::METHOD, &params);
            if let Err(failed) = resumed.await {
                return self.out_of_reach(&failed);
            }
            self.primary.following = Following::Yes;
        }
        match self.look_up().await {
            Ok(Found::Ended | Found::Running) => {
                self.timers.look = None;
                self.timers.lost_since = None;
                None
            }
            Ok(Found::Nowhere) => {
                let since = *self.timers.lost_since.get_or_insert_with(Instant::now);
                let text = "the queued turn was removed before it began";
                let lost = since.elapsed() > NOWHERE_MAX;
                lost.then(|| self.run.give_up(text, ErrorKind::Other))
            }
            Err(failed) => self.out_of_reach(&failed),
        }
    }

    /// The thread cannot be followed now; whether that has been so for too long.
    fn out_of_reach(&mut self, failed: &Failed) -> Option<(Vec<Told>, End)> {
        // A lane that another process owns comes to us when our row does.
        if failed.is("ownedElsewhere") && self.primary.row.is_some() {
            return None;
        }
        let since = *self.timers.lost_since.get_or_insert_with(Instant::now);
        if since.elapsed() < LOST_MAX {
            return None;
        }
        let text = "the turn could not be found again; it may still be running";
        Some(self.run.give_up(text, ErrorKind::Unknown))
    }

    /// Says what was missed of the turn's items.
    pub(super) async fn fill_gap(&mut self) {
        if !self.run.has_gap() {
            return;
        }
        let Primary { thread, turn, .. } = &self.primary;
        let reading = self.calls.items(thread, turn);
        match tokio::time::timeout(STOP_MAX, reading).await {
            Ok(Ok(items)) => {
                let told = self.run.read_back(items);
                self.output.say(told);
            }
            Ok(Err(failed)) => tracing::warn!(?failed, "the turn's items could not be read"),
            Err(_) => tracing::warn!("the turn's items were not read in time"),
        }
    }
}
