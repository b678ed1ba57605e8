//! Handing a message to Codex: `turn/start`, or `thread/compact/start`.
//!
//! The invariant here: a delivery that Codex answered is listened to until its end; one that it left
//! unanswered makes the child broken, because a late begin would join the next turn of the thread.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep_until;
use turnlane_protocol::turn_error::ErrorKind;

use super::active::ActiveTurn;
use super::listen::TurnEnd;
use super::{Halt, Turn};
use crate::codex::connection::{CallFailure, Connection};
use crate::codex::errors::{of_call, ours};
use crate::codex::params;
use crate::codex::routes::Subscription;
use crate::outcome::TurnOutcome;
use crate::request::TurnKind;

/// How long an interrupted turn may take to be told as ended. The lane waits a second longer.
pub(super) const INTERRUPT_LIMIT: Duration = Duration::from_secs(4);
/// This many deliveries without an answer end the turn.
const UNANSWERED_MAX: u32 = 3;

/// The answer to `turn/start`.
#[derive(Deserialize)]
struct TurnAnswer {
    turn: NamedTurn,
}

#[derive(Deserialize)]
struct NamedTurn {
    id: String,
}

impl Turn {
    /// Delivers the message and listens until Codex's turn has ended.
    pub(super) async fn deliver(
        &mut self,
        connection: &Arc<Connection>,
        inbox: &mut Subscription,
    ) -> Result<TurnEnd, Halt> {
        let mut active = ActiveTurn::new(connection, inbox.thread());
        self.progress.codex_turn = None;
        self.error = None;
        self.items_before = self.items.count();
        self.drop_stale(inbox);
        let requested = self.request_turn(connection, inbox.thread());
        // An interrupt waits a moment for the answer: only a turn that is known can be interrupted.
        let answered = tokio::select! {
            answered = requested => answered,
            () = self.interrupt_deadline() => return Err(Halt::Cancelled),
        };
        match answered {
            Ok(Some(turn)) => {
                active.set_turn(&turn);
                self.progress.codex_turn = Some(turn);
            }
            Ok(None) => {}
            Err(failure) => return Err(self.undelivered(&mut active, &failure)),
        }
        if let Some(steer) = self.announced.take() {
            self.announce(&steer).await?;
        }
        self.listen(active, inbox).await
    }

    /// Codex's id of the turn; none: it is told by the begin of the turn.
    async fn request_turn(
        &self,
        connection: &Connection,
        thread: &str,
    ) -> Result<Option<String>, CallFailure> {
        match self.kind {
            TurnKind::Compact => {
                let params = json!({"threadId": thread});
                let answer = connection.call::<Value>("thread/compact/start", &params);
                answer.await.map(|_empty| None)
            }
            // A continued turn has no message: Codex 0.166 takes an empty input and asks the model with
            // the history alone.
            TurnKind::Turn | TurnKind::Continue => {
                let params = params::turn_start(&self.request.settings, thread, &self.message);
                let answer = connection.call::<TurnAnswer>("turn/start", &params);
                answer.await.map(|answer| Some(answer.turn.id))
            }
        }
    }

    fn undelivered(&mut self, active: &mut ActiveTurn, failure: &CallFailure) -> Halt {
        match failure {
            CallFailure::Died => {
                active.end();
                Halt::Died
            }
            CallFailure::Refused(_) => {
                active.end();
                self.refused(of_call(failure))
            }
            CallFailure::TimedOut { .. } | CallFailure::Unreadable { .. } => {
                self.unanswered += 1;
                active.connection().kill();
                active.end();
                if self.unanswered < UNANSWERED_MAX {
                    return Halt::Died;
                }
                let error = ours(failure.to_string(), ErrorKind::Timeout);
                Halt::Over(Box::new(TurnOutcome {
                    outcome_known: false,
                    ..TurnOutcome::failed(error)
                }))
            }
        }
    }

    /// Resolves when an interrupt has waited long enough.
    async fn interrupt_deadline(&self) {
        let cancelled = self.cancel.cancelled().await;
        let limit = tokio::time::Instant::now() + INTERRUPT_LIMIT;
        sleep_until(limit.min(cancelled.deadline)).await;
    }
}
