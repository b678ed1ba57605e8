//! How a turn ends: by its last Codex turn, or by what is read back after a death.

use std::time::Duration;

use tokio::time::sleep;
use turnlane_protocol::turn_error::ErrorKind;

use super::listen::TurnEnd;
use super::{Halt, Turn};
use crate::codex::connection::Connection;
use crate::codex::errors::{classified, ours};
use crate::codex::history::{HistoryError, RecordedStatus, read_from};
use crate::codex::reconcile::{TurnKey, has_message, outcome_of, unexplained};
use crate::outcome::{TurnOutcome, approval_timeout};
use crate::request::TurnKind;
use crate::said::{Fenced, Steering};

/// How often a history that cannot be read is tried again.
const TRIES_MAX: u32 = 3;
/// Time between two tries.
const TRY_AGAIN: Duration = Duration::from_secs(5);

impl Turn {
    /// The outcome after a Codex turn; none: there is more to deliver.
    pub(super) async fn conclude(&mut self, end: TurnEnd) -> Result<Option<TurnOutcome>, Halt> {
        self.close_items().await?;
        if end.approval_timed_out {
            return Ok(Some(TurnOutcome::failed(approval_timeout())));
        }
        let error = end.error.or_else(|| self.error.take());
        let error = error.map(|error| classified(error, &self.limits));
        let outcome = match end.status {
            RecordedStatus::Completed => {
                if self.next_message().await? {
                    return Ok(None);
                }
                TurnOutcome::completed()
            }
            RecordedStatus::Failed => {
                let error = error.unwrap_or_else(unexplained);
                TurnOutcome::failed(error)
            }
            RecordedStatus::Interrupted => TurnOutcome {
                error,
                ..TurnOutcome::interrupted()
            },
            RecordedStatus::InProgress | RecordedStatus::Unlisted(_) => {
                let text = format!("Codex ended a turn with the status {:?}", end.status);
                TurnOutcome::failed(ours(text, ErrorKind::Protocol))
            }
        };
        Ok(Some(outcome))
    }

    /// Takes the next steer as the message of a further delivery; false: there is none.
    pub(super) async fn next_message(&mut self) -> Result<bool, Halt> {
        if self.refused_steer.is_none() {
            match self.ask.close_steer().await {
                Steering::Closed => return Ok(false),
                Steering::More => {
                    let more = self.steer.recv();
                    let more = self.cancel.unless_cancelled(more).await;
                    let more = more.map_err(|_cancelled| Halt::Cancelled)?;
                    self.refused_steer = Some(self.steer_message(more.ok_or(Fenced)?));
                }
            }
        }
        if let Some(steer) = self.refused_steer.take() {
            self.kind = TurnKind::Turn;
            self.message = steer.message.clone();
            self.announced = Some(steer);
        }
        Ok(true)
    }

    /// Completes open items as failed.
    pub(super) async fn close_items(&mut self) -> Result<(), Fenced> {
        let events = self.items.cut_off((self.shared.clock)());
        self.emit_all(events).await
    }

    /// Looks up what became of the delivery that a dead child had; none: it is sent again.
    pub(super) async fn reconcile(
        &mut self,
        connection: &Connection,
        thread: &str,
    ) -> Result<Option<TurnOutcome>, Halt> {
        let since_s = self.request.accepted_ms.div_euclid(1_000);
        let is_new = self
            .state
            .as_ref()
            .is_none_or(|state| state.total.is_none());
        let mut tries = 0;
        let turns = loop {
            tries += 1;
            let read = read_from(connection, thread, since_s);
            let read = self.cancel.unless_cancelled(read).await;
            match read.map_err(|_cancelled| Halt::Cancelled)? {
                Ok(turns) => break turns,
                Err(HistoryError::Absent) if is_new => break Vec::new(),
                Err(HistoryError::Died) => return Err(Halt::Died),
                Err(error) if tries == TRIES_MAX => {
                    let text = format!("the app-server of Codex died, and {error}");
                    return Ok(Some(self.crashed(&text)));
                }
                Err(_) => sleep(TRY_AGAIN).await,
            }
        };
        let key = TurnKey {
            codex_turn: self.progress.codex_turn.as_deref(),
            client_id: &self.message.client_id,
            has_message: has_message(self.kind),
        };
        let Some(record) = key.find(turns) else {
            // Codex told of work that its history does not have: running it again could do it twice.
            let is_harmless = self.items.count() == self.items_before;
            let text = "the app-server of Codex died, and its history lacks the turn";
            return Ok((!is_harmless).then(|| self.crashed(text)));
        };
        self.progress.is_accepted = true;
        let outcome = outcome_of(&record, &self.limits);
        for item in record.items {
            let events = match item.completed_at_ms {
                Some(_) => self.items.complete(item),
                None => self.items.start(item).into_iter().collect(),
            };
            self.emit_all(events).await?;
        }
        Ok(Some(outcome))
    }
}
