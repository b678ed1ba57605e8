//! The end of a turn, and the last words of its run.
//!
//! The invariant here: the last word follows from how the turn ended and from nothing else; before
//! it everything that is open is said to have ended, and an error is said once. What is said while
//! the turn runs is the run's business. Pure.

use turnlane::{ErrorKind, TurnStatus, TurnView, Usage};
use turnlane_protocol::exec_events::{self as lines, ItemBody};
use turnlane_protocol::turn::{Turn, TurnStatus as Stored};

use super::super::items::given_up;
use super::{Run, Told};

/// What is said of a turn that was stopped and has no words of its own.
pub(in super::super) const INTERRUPTED: &str = "turn interrupted";

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum End {
    /// The turn completed.
    Completed,
    /// It failed, or nobody knows.
    Failed,
    /// Somebody stopped it.
    Interrupted,
}

/// The end of a turn, as it was told or read.
#[derive(Clone, Debug)]
pub(in super::super) struct Ending {
    pub(in super::super) turn: String,
    pub(in super::super) status: TurnStatus,
    pub(in super::super) failure: Option<lines::Failure>,
    pub(in super::super) usage: Option<Usage>,
}

impl From<TurnView> for Ending {
    fn from(view: TurnView) -> Self {
        Self {
            turn: view.id.to_string(),
            status: view.status,
            failure: view.error.map(|error| lines::Failure {
                message: error.message,
                kind: error.kind,
                retry_at: error.retry_at,
            }),
            usage: view.usage,
        }
    }
}

impl From<Turn> for Ending {
    fn from(turn: Turn) -> Self {
        Self {
            turn: turn.id.to_string(),
            status: match turn.status {
                Stored::Completed => TurnStatus::Completed,
                Stored::Failed => TurnStatus::Failed,
                Stored::Interrupted => TurnStatus::Interrupted,
                Stored::InProgress => TurnStatus::InProgress,
            },
            failure: turn.error.map(|error| lines::Failure {
                message: error.message,
                kind: error.kind.unwrap_or(ErrorKind::Other),
                retry_at: error.retry_at,
            }),
            usage: turn.usage.map(|usage| Usage {
                turn: usage.turn,
                thread: usage.thread,
                ..Usage::default()
            }),
        }
    }
}

impl Run {
    /// The last words for a turn that has ended like this.
    pub(in super::super) fn finish(&mut self, ending: Ending) -> (Vec<Told>, End) {
        if ending.usage.is_some() {
            self.usage = ending.usage;
        }
        let failure = ending.failure;
        let failure = |default: &str, kind: ErrorKind| {
            failure.unwrap_or_else(|| lines::Failure {
                message: default.to_owned(),
                kind,
                retry_at: None,
            })
        };
        match ending.status {
            TurnStatus::Completed => {
                let mut told = self.closed();
                let usage = self.usage.clone().unwrap_or_default();
                told.push(Told::of(lines::Event::TurnCompleted {
                    usage: usage.thread.unwrap_or_default().into(),
                    turn_usage: usage.turn.map(Into::into),
                    turn_id: ending.turn,
                }));
                (told, End::Completed)
            }
            TurnStatus::Interrupted => {
                let mut failure = failure(INTERRUPTED, ErrorKind::Interrupted);
                if failure.kind != ErrorKind::Timeout {
                    failure.kind = ErrorKind::Interrupted;
                }
                (self.failed(failure, Said::Nothing), End::Interrupted)
            }
            TurnStatus::Failed => {
                let failure = failure("the turn failed", ErrorKind::Other);
                (self.failed(failure, Said::Error), End::Failed)
            }
            other => {
                let text = format!("the turn ended in a way that is not known: {other:?}");
                let failure = failure(&text, ErrorKind::Unknown);
                (self.failed(failure, Said::Error), End::Failed)
            }
        }
    }

    /// The last words for a turn whose end nobody can tell.
    pub(in super::super) fn give_up(&mut self, message: &str, kind: ErrorKind) -> (Vec<Told>, End) {
        let (end, said) = match kind {
            ErrorKind::Interrupted => (End::Interrupted, Said::Nothing),
            _ => (End::Failed, Said::Error),
        };
        let failure = lines::Failure {
            message: message.to_owned(),
            kind,
            retry_at: None,
        };
        (self.failed(failure, said), end)
    }

    fn failed(&mut self, failure: lines::Failure, said: Said) -> Vec<Told> {
        let mut told = self.closed();
        if said == Said::Error && self.failing.as_ref() != Some(&failure.message) {
            told.push(Told::of(lines::Event::Error {
                message: failure.message.clone(),
                kind: failure.kind.clone(),
                will_retry: false,
            }));
        }
        told.push(Told::of(lines::Event::TurnFailed {
            error: failure,
            turn_id: self.turn.clone().unwrap_or_default(),
        }));
        told
    }

    /// Ends what is open, in the order in which it began, and the plan at last.
    fn closed(&mut self) -> Vec<Told> {
        let mut told: Vec<_> = self.begin().into_iter().collect();
        let mut open: Vec<(String, ItemBody)> = self
            .seen
            .values_mut()
            .filter_map(|seen| Some((seen.id.clone(), seen.open.take()?)))
            .collect();
        // `item_9` comes before `item_10`.
        open.sort_by_key(|(id, _)| (id.len(), id.clone()));
        let todo = self.todo.take();
        let todo = todo.map(|(id, items)| (id, ItemBody::TodoList { items }));
        for (id, body) in open.into_iter().chain(todo) {
            let body = given_up(body);
            let item = lines::Item { id, body };
            told.push(Told::of(lines::Event::ItemCompleted { item }));
        }
        told
    }
}

/// Whether a failure is said as an error before the last word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Error,
    Nothing,
}
