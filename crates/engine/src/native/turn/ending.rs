//! How a turn ends, and what is left of it.
//!
//! The invariant here: whatever ends a turn, its items are completed before the outcome and nothing
//! is said behind it. An interrupted turn leaves no process that it started, and tells the model of
//! the next turn that it was interrupted; a turn that is dropped leaves none either.

use turnlane_protocol::output_schema::check_answer;

use super::prepare::Opening;
use super::{Halt, Turn};
use crate::cancel::CancelReason;
use crate::native::sessions::InTurn;
use crate::outcome::TurnOutcome;
use crate::said::Fenced;

/// What the model of the next turn is told about an interrupted one.
const ABORTED: &str = "<turn_aborted>\nThis turn was stopped on purpose before its end. Commands and \
                       tools that were running were ended and may have partly run; look before you \
                       repeat them.\n</turn_aborted>";

/// What the model of the next turn is told about one that was cut by a stop of the server.
const STOPPED: &str = "<turn_stopped>\nThe server was stopped before the end of this turn and has \
                       started again since. Commands and tools that were running were ended and may \
                       have partly run; look before you repeat them. If no message of the user \
                       follows, go on with what you were doing.\n</turn_stopped>";

impl Turn {
    /// Runs the turn to its end.
    ///
    /// Dropped before, `in_turn` ends what the turn started.
    pub(super) async fn play(mut self, opening: Opening, in_turn: InTurn) -> TurnOutcome {
        let ended = self.whole(opening).await;
        let outcome = match ended {
            Ok(()) => {
                in_turn.end().await;
                TurnOutcome::completed()
            }
            Err(Halt::Failed(error)) => {
                in_turn.end().await;
                TurnOutcome::failed(*error)
            }
            Err(Halt::Interrupted(error)) => {
                in_turn.interrupt().await;
                // Fenced or not, the outcome is the same; the lane knows which.
                let _ = self.tell_next_turn().await;
                TurnOutcome {
                    error: error.map(|error| *error),
                    ..TurnOutcome::interrupted()
                }
            }
            Err(Halt::Fenced) => {
                in_turn.interrupt().await;
                TurnOutcome::interrupted()
            }
        };
        TurnOutcome {
            usage: self.used,
            last_agent_message: self.last_message,
            ..outcome
        }
    }

    async fn tell_next_turn(&mut self) -> Result<(), Fenced> {
        let cause = self.cancel.get().map(|cancelled| cancelled.reason);
        let note = self.author.note(match cause {
            Some(CancelReason::Shutdown) => STOPPED,
            _ => ABORTED,
        });
        self.record(vec![note]).await
    }

    /// Says when the last message is not what was asked for; the turn completes all the same.
    pub(super) async fn check_answer(&mut self) -> Result<(), Halt> {
        let Some(wanted) = &self.setup.settings.output_schema else {
            return Ok(());
        };
        let said = self.last_message.as_deref().unwrap_or_default();
        if let Err(problem) = check_answer(wanted, said) {
            let text = format!("the final message does not match outputSchema: {problem}");
            self.warn(&text).await?;
        }
        Ok(())
    }
}
