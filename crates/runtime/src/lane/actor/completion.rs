//! The end of a turn: open items closed, everything not yet written put into one transaction.
//!
//! The invariant here: every item that began has ended before the turn has, and an end that could
//! not be recorded is submitted again as it was, never made anew.

use turnlane_engine::{Accepted, OutcomeStatus, TurnOutcome};
use turnlane_protocol::approval::Decision;
use turnlane_protocol::notification::Decider;
use turnlane_protocol::turn::{ItemsView, Turn, TurnStatus};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};
use turnlane_protocol::usage::TurnUsage;
use turnlane_store::lane::Paused;
use turnlane_store::turn::{Complete, Keep, PauseChange, PauseWhen, TurnEnd, WaitingChange};

use super::Actor;
use super::results::Done;
use crate::fanout::board::STOPPED_BY_JOB;
use crate::ids;
use crate::lane::event::{AfterInterrupt, CancelWhy, EndHow};
use crate::lane::fate::{self, Ended, HandOver, WorkerStop};
use crate::lane::rows;
use crate::lane::turn::{BegunBy, RunningTurn};
use crate::logins;

/// A turn that has ended, for what is told when its end is on disk.
pub(super) struct EndedTurn {
    /// The turn as clients see it.
    pub turn: Turn,
    /// The model it ran with.
    pub model: String,
}

impl Actor {
    pub(super) fn commit_complete(&mut self, how: EndHow, queue: AfterInterrupt) {
        if self.closing.is_none() {
            self.prepare_end(how, queue);
        }
        let Some(complete) = &self.closing else {
            return;
        };
        let work = self.shared.store.complete(complete.as_ref().clone());
        self.submit(async move { Done::Complete(work.await) });
    }

    fn prepare_end(&mut self, how: EndHow, queue: AfterInterrupt) {
        self.close_open_items();
        let now_ms = self.now_ms();
        let worker_stop = self.worker_stop();
        let keep = if self.subscribers.count() > 0 {
            Keep::Ours
        } else {
            Keep::UnlessIdle
        };
        let Some(running) = &mut self.running else {
            return;
        };
        let outcome = outcome_of(running, how);
        if outcome.status == OutcomeStatus::Failed {
            self.shared.checked.forget(&running.accepted.thread.engine);
            let error = outcome.error.as_ref();
            self.place.iter().for_each(|place| place.failed(error));
        }
        let mut recorded = fate::after_turn(Ended {
            row: &running.accepted.row,
            outcome: &outcome,
            had_effect: running.had_effect,
            worker_stop,
            next_turn: ids::new_turn(now_ms),
            waits_before: self.waits,
            jitter: jitter(running.accepted.turn.id),
            now_ms,
        });
        if let WaitingChange::Begin(waiting) = &mut recorded.waiting
            && waiting.kind == fate::AUTH
            && let Some(engine) = self.shared.engines.get(&running.accepted.thread.engine)
        {
            // As it is after the turn: Codex may have written the file itself.
            waiting.login = logins::current(engine.as_ref());
        }
        self.waits = match &recorded.waiting {
            WaitingChange::Begin(waiting) => waiting.nth,
            WaitingChange::End => 0,
            WaitingChange::Keep => self.waits,
        };
        let usage = TurnUsage {
            turn: outcome.usage.or(running.turn_usage),
            thread: Some(running.usage.total.into()),
        };
        let answered = running.cancelled_by_answer && outcome.status == OutcomeStatus::Interrupted;
        let by_answer = answered && running.cancelled.is_none();
        let pauses = queue == AfterInterrupt::Pause
            || by_answer && self.shared.options.on_interrupt == AfterInterrupt::Pause;
        let pause = if pauses {
            PauseChange::Begin {
                paused: Paused {
                    reason: fate::INTERRUPT.to_owned(),
                    by: running.stopped_by.clone(),
                    since_ms: now_ms,
                },
                when: PauseWhen::RowsWait,
            }
        } else {
            recorded.pause
        };
        self.closing = Some(Box::new(Complete {
            grip: running.accepted.grip,
            row: running.accepted.row.id,
            turn_ord: running.accepted.turn.ord,
            end: TurnEnd {
                status: recorded.status,
                error: recorded.error.as_ref().map(rows::write),
                usage: Some(rows::write(&usage)),
                muted: recorded.muted,
            },
            put: std::mem::take(&mut running.put),
            fate: recorded.fate,
            waiting: recorded.waiting,
            pause,
            keep,
            at_ms: now_ms,
        }));
        let turn = ended_turn(running, &outcome, recorded.error, usage, now_ms);
        self.ended = Some(Box::new(EndedTurn {
            turn,
            model: running.model.clone(),
        }));
    }

    /// Whether the stop of the worker ends the turn, and by which rules.
    fn worker_stop(&self) -> WorkerStop {
        let Some(running) = &self.running else {
            return WorkerStop::No;
        };
        let engine = self.shared.engines.get(&running.accepted.thread.engine);
        let foreign = engine.is_some_and(|engine| engine.capabilities().foreign);
        let continues = engine.is_some_and(|engine| engine.continues());
        if foreign && continues && !self.forced && is_in_foreign_history(running) {
            return WorkerStop::Graceful;
        }
        if running.begun_by == BegunBy::DeadWorker || foreign && is_cut_off(running) {
            return WorkerStop::Foreign(running.hand_over);
        }
        match running.cancelled {
            Some(CancelWhy::Shutdown) if self.forced => WorkerStop::Forced,
            Some(CancelWhy::Shutdown) => {
                if continues {
                    WorkerStop::Graceful
                } else {
                    WorkerStop::GracefulWithoutHistory
                }
            }
            Some(CancelWhy::Interrupt | CancelWhy::Timeout) | None => WorkerStop::No,
        }
    }

    /// Ends what the engine has not: items, steers it never took, approvals.
    fn close_open_items(&mut self) {
        let now_ms = self.now_ms();
        let Some(running) = &mut self.running else {
            return;
        };
        let approvals = running.approvals.take_all();
        let open = running.items.close(now_ms);
        let untold = std::mem::take(&mut running.untold);
        for open in &open {
            running.finish(open.ord, &open.item, now_ms);
        }
        for open in approvals {
            self.resolve_at_end(open, Decision::Cancel, Decider::Interrupt);
        }
        for open in open {
            self.tell_item_completed(open.item, now_ms);
        }
        for item in untold.into_values() {
            self.tell_item_started(item.clone(), now_ms);
            self.tell_item_completed(item, now_ms);
        }
    }
}

/// Returns true if no client stopped the turn: the worker stops, or the engine lost its program.
fn is_cut_off(running: &RunningTurn) -> bool {
    let lost = |outcome: &TurnOutcome| !outcome.outcome_known;
    match running.cancelled {
        Some(CancelWhy::Shutdown) => true,
        Some(CancelWhy::Interrupt | CancelWhy::Timeout) => false,
        None => !running.cancelled_by_answer && running.outcome.as_ref().is_some_and(lost),
    }
}

/// Returns true if the stop of the worker cut a turn of a foreign engine, and that engine says that it had
/// taken the turn and has ended it: then its history has the message and what was done about it.
fn is_in_foreign_history(running: &RunningTurn) -> bool {
    let is_recorded = |outcome: &TurnOutcome| {
        outcome.status == OutcomeStatus::Interrupted
            && outcome.accepted == Accepted::Yes
            && outcome.outcome_known
    };
    running.begun_by != BegunBy::DeadWorker
        && running.cancelled == Some(CancelWhy::Shutdown)
        && running.hand_over == HandOver::Sent
        && running.outcome.as_ref().is_some_and(is_recorded)
}

/// How the turn ended, seen by the lane: an engine that was told to stop and did not complete was
/// interrupted, whatever it says.
fn outcome_of(running: &mut RunningTurn, how: EndHow) -> TurnOutcome {
    let said = running.outcome.take();
    let mut outcome = match how {
        EndHow::Ended => said.unwrap_or_else(TurnOutcome::lost),
        // Nobody can say what an engine that was given up has done.
        EndHow::Dropped => TurnOutcome {
            accepted: Accepted::Unknown,
            outcome_known: false,
            ..TurnOutcome::interrupted()
        },
    };
    if running.cancelled.is_some() && outcome.status == OutcomeStatus::Failed {
        outcome.status = OutcomeStatus::Interrupted;
    }
    let by_job = running.stopped_by.as_deref() == Some(STOPPED_BY_JOB);
    if by_job && outcome.status == OutcomeStatus::Interrupted && outcome.error.is_none() {
        // Told apart from a person's interrupt, also by a worker that settles the item after a crash.
        outcome.error = Some(TurnError::new(
            "stopped with its fan-out job",
            CodexErrorInfo::Other,
            ErrorKind::Stopped,
        ));
    }
    if running.cancelled == Some(CancelWhy::Timeout) && outcome.status != OutcomeStatus::Completed {
        outcome.error = Some(TurnError::new(
            "the turn took longer than it may",
            CodexErrorInfo::Other,
            ErrorKind::Timeout,
        ));
    }
    outcome
}

pub(super) fn ended_turn(
    running: &RunningTurn,
    outcome: &TurnOutcome,
    error: Option<TurnError>,
    usage: TurnUsage,
    now_ms: i64,
) -> Turn {
    let accepted = &running.accepted;
    let completed = outcome.status == OutcomeStatus::Completed;
    let last = running.last_message.clone().filter(|_| completed);
    Turn {
        items_view: if completed {
            ItemsView::Summary
        } else {
            ItemsView::NotLoaded
        },
        items: last.into_iter().collect(),
        status: match outcome.status {
            OutcomeStatus::Completed => TurnStatus::Completed,
            OutcomeStatus::Failed => TurnStatus::Failed,
            OutcomeStatus::Interrupted => TurnStatus::Interrupted,
        },
        error,
        completed_at: Some(now_ms.div_euclid(1_000)),
        duration_ms: Some((now_ms - accepted.turn.started_ms).max(0)),
        usage: Some(usage),
        ..super::telling::running_turn(accepted)
    }
}

/// A number from 0 to 999 that differs from turn to turn and needs no randomness.
fn jitter(turn: turnlane_store::TurnId) -> u32 {
    let bits = turn.as_uuid().as_u128();
    u32::try_from(bits % 1_000).unwrap_or(0)
}
