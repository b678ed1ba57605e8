//! Requests that wait for their answer, and the answers.
//!
//! The invariant here: a request leaves the map exactly when it is answered, and dropping it answers
//! it too.

use turnlane_engine::{AcceptedSteer, TurnKind};
use turnlane_protocol::ids::{ApprovalId, TurnId};
use turnlane_protocol::input::UserInput;
use turnlane_store::turn::TurnStatus;

use super::Actor;
use crate::approvals::not_ours;
use crate::error::{Error, NotSteerable};
use crate::ids;
use crate::lane::command::{Reply, StartAnswer, StartRequest};
use crate::lane::event::{Answer, RequestNo};
use crate::lane::rights::CallerRights;

/// A request that is not answered yet.
pub(super) enum Pending {
    Start {
        request: Box<StartRequest>,
        kind: TurnKind,
        reply: Reply<StartAnswer>,
        result: Option<Result<StartAnswer, Error>>,
        steer: Option<AcceptedSteer>,
    },
    Row {
        reply: Reply<StartAnswer>,
        result: Option<Result<StartAnswer, Error>>,
    },
    Steer {
        input: Vec<UserInput>,
        client_id: Option<String>,
        caller: CallerRights,
        reply: Reply<TurnId>,
        result: Option<Error>,
        steer: Option<AcceptedSteer>,
    },
    Interrupt {
        turn: Option<TurnId>,
        by: Option<String>,
        reply: Reply<()>,
    },
}

impl Actor {
    /// Keeps the result of an operation until its request is answered.
    pub(super) fn keep_result(&mut self, request: RequestNo, answer: Result<StartAnswer, Error>) {
        match self.requests.get_mut(&request) {
            Some(Pending::Start { result, .. } | Pending::Row { result, .. }) => {
                *result = Some(answer);
            }
            Some(Pending::Steer { result, .. }) => *result = answer.err(),
            Some(Pending::Interrupt { .. }) | None => {}
        }
    }

    /// Gives the engine the steer of a request that is on disk now.
    pub(super) fn hand_steer(&mut self, request: RequestNo) {
        if let Some(Pending::Start { steer, .. } | Pending::Steer { steer, .. }) =
            self.requests.get_mut(&request)
            && let Some(steer) = steer.take()
        {
            steer.hand_over();
        }
    }

    pub(super) fn answer(&mut self, request: RequestNo, answer: Answer) {
        match self.requests.remove(&request) {
            Some(Pending::Start { reply, result, .. } | Pending::Row { reply, result, .. }) => {
                let refused = self.refusal(answer);
                reply.send(start_answer(answer, result, refused));
            }
            Some(Pending::Steer { reply, result, .. }) => {
                let refused = self.refusal(answer);
                reply.send(steer_answer(answer, result, refused));
            }
            Some(Pending::Interrupt { turn, reply, .. }) => {
                self.answer_interrupt(turn, answer, reply);
            }
            None => {}
        }
    }

    fn answer_interrupt(&self, turn: Option<TurnId>, answer: Answer, reply: Reply<()>) {
        match (answer, turn) {
            (Answer::Interrupted, _) | (Answer::NotRunning, None) => reply.send(Ok(())),
            (Answer::NotRunning | Answer::OtherTurn(_), Some(turn)) => {
                self.answer_other_interrupt(turn, answer, reply);
            }
            (answer, _) => reply.send(Err(self.refusal(answer))),
        }
    }

    /// The approval does not wait: it was decided before, or never was.
    pub(super) fn answer_closed_approval(&self, approval: ApprovalId, reply: Reply<()>) {
        let shared = std::sync::Arc::clone(&self.shared);
        tokio::spawn(async move {
            reply.send(Err(not_ours(&shared, approval).await));
        });
    }

    /// The turn does not run: whether that is well depends on what became of it.
    fn answer_other_interrupt(&self, turn: TurnId, answer: Answer, reply: Reply<()>) {
        let ended = self.shared.store.turn(self.thread, ids::turn(turn));
        let queue = self.shared.store.row_of_turn(self.thread, ids::turn(turn));
        let refused = self.refusal(answer);
        tokio::spawn(async move {
            let answer = match ended.await {
                Err(error) => Err(error.into()),
                Ok(Some(turn)) if turn.status == TurnStatus::Interrupted => Ok(()),
                Ok(Some(_)) => Err(refused),
                Ok(None) => match queue.await {
                    Ok(Some(row)) if row.state.is_visible() => Err(Error::TurnQueued),
                    Ok(_) => Err(refused),
                    Err(error) => Err(error.into()),
                },
            };
            reply.send(answer);
        });
    }

    fn refusal(&self, answer: Answer) -> Error {
        match answer {
            Answer::NoActiveTurn => Error::NoTurnToSteer,
            Answer::NotRunning => Error::NoTurnToInterrupt,
            Answer::OtherTurn(active) => Error::OtherTurn {
                active: ids::wire_turn(active),
            },
            Answer::NotSteerable => Error::NotSteerable {
                why: match self.turn_kind {
                    TurnKind::Compact => NotSteerable::Compact,
                    TurnKind::Turn | TurnKind::Continue => NotSteerable::Engine,
                },
            },
            Answer::Busy => Error::Busy {
                turn: self.state.active_turn().map(ids::wire_turn),
            },
            Answer::Overloaded => Error::Overloaded,
            Answer::Stopping => Error::Stopping,
            Answer::Closing => Error::Closing,
            Answer::Lost | Answer::Result | Answer::Steered(_) | Answer::Interrupted => Error::Lost,
        }
    }
}

fn start_answer(
    answer: Answer,
    result: Option<Result<StartAnswer, Error>>,
    refused: Error,
) -> Result<StartAnswer, Error> {
    match answer {
        Answer::Steered(turn) => Ok(StartAnswer::Steered(ids::wire_turn(turn))),
        Answer::Result => result.unwrap_or(Err(Error::Lost)),
        _ => Err(refused),
    }
}

fn steer_answer(answer: Answer, result: Option<Error>, refused: Error) -> Result<TurnId, Error> {
    match answer {
        Answer::Steered(turn) => Ok(ids::wire_turn(turn)),
        Answer::Result => Err(result.unwrap_or(Error::NoTurnToSteer)),
        _ => Err(refused),
    }
}
