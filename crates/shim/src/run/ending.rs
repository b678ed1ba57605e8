//! The end of a shim: always the same steps in the same order, each with a limit.
//!
//! The invariant here: the lane is paused, the turn has ended or its time is over, its processes have
//! ended, and work is preserved, before the last events are sent. Commands are served meanwhile. The next
//! shim with this binding ends the pause.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::{Done, Origin, PreserveFor, Shim, StopSignal};
use crate::error::{Exit, LaneError};
use crate::lane::{QueueLook, SHIM_PAUSE};
use crate::preserve::{self, Preserved};
use crate::state::{Failure, Fate, Input, Outcome, TurnEnd};
use crate::wire::{Event, ShutdownReason};

/// How long the pause may take.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long an interrupted turn may take to end; the lane drops it after five seconds.
const INTERRUPT_MAX: Duration = Duration::from_millis(5_500);
/// How long the end of background commands may take.
const CLEAN_MAX: Duration = Duration::from_secs(3);
/// How long a successor may take.
const SUCCEED_MAX: Duration = Duration::from_secs(3);
/// How long everything before the preserving may take where nothing drains.
const STOP_MAX: Duration = Duration::from_secs(5);
/// What the last events and the exit need of a time limit.
const RESERVE: Duration = Duration::from_millis(400);
/// The least that a step gets, however little time is left.
const STEP_MIN: Duration = Duration::from_millis(100);

/// What is said of a panic; its text goes to standard error.
pub(super) const INTERNAL_ERROR: &str = "a task of the shim panicked";

/// Why a shim ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Kill,
    Shutdown {
        timeout: Duration,
        reason: ShutdownReason,
    },
    Eof {
        drain: Duration,
    },
    Detach,
    Signal(StopSignal),
    BrokenChannel,
    /// A task of the shim panicked.
    InternalError,
    LostServer,
}

/// A call that belongs to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Pause,
    Interrupt,
    Clean,
}

/// How far an end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Pausing,
    Draining,
    Interrupting { until: Instant },
    Cleaning,
    Succeeding,
    Preserving,
    Done,
}

/// An end that is under way.
#[derive(Debug)]
pub(super) struct Ending {
    cause: Cause,
    stage: Stage,
    drain_until: Instant,
    end_by: Option<Instant>,
    /// When the turn and its processes must have ended, where that is said apart.
    stop_by: Option<Instant>,
    /// A turn that the lane was about to begin when it was paused.
    expected: Option<String>,
    /// What went wrong on the way.
    notes: Vec<String>,
}

impl Ending {
    pub(super) fn cause(&self) -> Cause {
        self.cause
    }

    pub(super) fn wake_at(&self) -> Instant {
        match self.stage {
            Stage::Interrupting { until } => until,
            // The other stages end by the answer to their call.
            _ => self
                .drain_until
                .max(Instant::now() + Duration::from_millis(1)),
        }
    }

    /// Why the shim ended, for `Died`.
    pub(super) fn reason(&self) -> String {
        let cause = match self.cause {
            Cause::Kill => "killed".to_owned(),
            Cause::Shutdown { reason, .. } => format!("shutdown: {}", reason.word()),
            Cause::Eof { .. } => "the orchestrator closed the channel".to_owned(),
            Cause::Detach => "detached".to_owned(),
            Cause::Signal(StopSignal::Terminate) => "SIGTERM".to_owned(),
            Cause::Signal(StopSignal::Interrupt) => "SIGINT".to_owned(),
            Cause::Signal(StopSignal::HangUp) => "SIGHUP".to_owned(),
            Cause::BrokenChannel => "the channel is broken".to_owned(),
            Cause::InternalError => INTERNAL_ERROR.to_owned(),
            Cause::LostServer => "the server was lost".to_owned(),
        };
        self.notes
            .iter()
            .fold(cause, |reason, note| format!("{reason}; {note}"))
    }

    /// The time that a step before the preserving may take.
    fn stop_limit(&self, wanted: Duration) -> Duration {
        let left = self
            .stop_by
            .map(|stop| stop.saturating_duration_since(Instant::now()));
        self.limit(left.map_or(wanted, |left| left.min(wanted)))
    }

    /// The time that a step may take.
    fn limit(&self, wanted: Duration) -> Duration {
        let left = self.end_by.map(|end| {
            end.saturating_duration_since(Instant::now())
                .saturating_sub(RESERVE)
        });
        left.map_or(wanted, |left| left.min(wanted)).max(STEP_MIN)
    }

    /// Nothing drains any more.
    fn hurry(&mut self, now: Instant) {
        self.drain_until = now;
        let stop_by = now + STOP_MAX;
        self.stop_by = Some(self.stop_by.map_or(stop_by, |set| set.min(stop_by)));
    }

    fn exit(&self) -> Exit {
        match self.cause {
            Cause::Kill | Cause::Shutdown { .. } | Cause::Eof { .. } | Cause::Detach => {
                Exit::Ordered
            }
            Cause::Signal(signal) => Exit::Signal(signal),
            Cause::BrokenChannel => Exit::Channel("the channel is broken".to_owned()),
            Cause::InternalError => Exit::Channel(INTERNAL_ERROR.to_owned()),
            Cause::LostServer => Exit::Store("the server was lost".to_owned()),
        }
    }
}

impl Shim {
    /// Begins to end, or hurries an end that is under way.
    pub(super) fn end(&mut self, cause: Cause) {
        let now = Instant::now();
        if let Some(ending) = &mut self.ending {
            match cause {
                Cause::Kill | Cause::BrokenChannel => ending.hurry(now),
                Cause::InternalError => {
                    ending.hurry(now);
                    ending.cause = cause;
                }
                Cause::Eof { drain } => ending.drain_until = ending.drain_until.min(now + drain),
                Cause::LostServer => {
                    ending.stage = Stage::Done;
                    ending.notes.push("the server was lost".to_owned());
                }
                Cause::Shutdown { .. } | Cause::Detach | Cause::Signal(_) => {}
            }
            return;
        }
        let (drain, end_by) = match cause {
            Cause::Shutdown { timeout, .. } if !timeout.is_zero() => {
                let kept = (timeout / 2).min(Duration::from_secs(5));
                (timeout.saturating_sub(kept), Some(now + timeout))
            }
            Cause::Eof { drain } => (drain, None),
            Cause::Signal(_) => (self.options.graceful, None),
            _ => (Duration::ZERO, None),
        };
        let stop_by = drain.is_zero().then(|| now + STOP_MAX);
        let leaves_at_once = matches!(cause, Cause::Detach | Cause::LostServer);
        let stage = if leaves_at_once || !self.is_attached {
            Stage::Done
        } else {
            Stage::Pausing
        };
        let ending = Ending {
            cause,
            stage,
            drain_until: now + drain,
            end_by,
            stop_by,
            expected: None,
            notes: Vec::new(),
        };
        if stage == Stage::Pausing {
            let (lane, limit) = (self.lane.clone(), ending.stop_limit(PAUSE_MAX));
            self.calls.push(Box::pin(async move {
                Done::Step(Step::Pause, lane.pause(SHIM_PAUSE, limit).await)
            }));
            self.apply(Input::Drain);
        }
        self.ending = Some(ending);
        self.refuse_waiting();
    }

    /// Goes on with the end as far as it can; the exit, once it is done.
    pub(super) fn advance_end(&mut self) -> Option<Exit> {
        loop {
            let is_busy = self.is_busy();
            let running = self.machine.running().map(str::to_owned);
            let ending = self.ending.as_mut()?;
            let now = Instant::now();
            match ending.stage {
                Stage::Pausing | Stage::Cleaning | Stage::Succeeding | Stage::Preserving => {
                    return None;
                }
                Stage::Draining | Stage::Interrupting { .. } if !is_busy => self.clean(),
                Stage::Draining if now < ending.drain_until => return None,
                Stage::Draining => {
                    let turn = running
                        .or_else(|| ending.expected.clone())
                        .unwrap_or_default();
                    let limit = ending.stop_limit(INTERRUPT_MAX);
                    ending.stage = Stage::Interrupting { until: now + limit };
                    let lane = self.lane.clone();
                    self.calls.push(Box::pin(async move {
                        Done::Step(Step::Interrupt, lane.interrupt(&turn, limit).await)
                    }));
                }
                Stage::Interrupting { until } if now < until => return None,
                Stage::Interrupting { .. } => {
                    let note = "the turn could not be ended in time";
                    ending.notes.push(note.to_owned());
                    self.clean();
                }
                Stage::Done => return Some(ending.exit()),
            }
        }
    }

    /// Returns true while a turn runs, or is about to.
    fn is_busy(&self) -> bool {
        let expected = self
            .ending
            .as_ref()
            .and_then(|ending| ending.expected.as_ref());
        let is_expected = expected.is_some_and(|turn| !self.machine.has_ended(turn));
        self.machine.running().is_some() || is_expected || self.is_deferring
    }

    fn clean(&mut self) {
        let Some(ending) = &mut self.ending else {
            return;
        };
        ending.stage = Stage::Cleaning;
        let (lane, limit) = (self.lane.clone(), ending.stop_limit(CLEAN_MAX));
        self.calls.push(Box::pin(async move {
            Done::Step(Step::Clean, lane.clean(limit).await)
        }));
    }

    pub(super) fn step_done(&mut self, step: Step, result: Result<Value, LaneError>) {
        let Some(ending) = &mut self.ending else {
            return;
        };
        match (step, result) {
            (Step::Pause, Ok(state)) => {
                ending.expected = QueueLook::read(&state).running;
                ending.stage = Stage::Draining;
            }
            (Step::Pause, Err(error)) => {
                ending
                    .notes
                    .push(format!("the lane was not paused: {error}"));
                ending.stage = Stage::Draining;
            }
            // The end of the turn is what counts; it may have ended by itself.
            (Step::Interrupt, _) => {}
            (Step::Clean, result) => {
                if let Err(error) = result
                    && !is_nothing(&error)
                {
                    ending
                        .notes
                        .push(format!("commands may still run: {error}"));
                }
                self.succeed_or_preserve();
            }
        }
    }

    fn succeed_or_preserve(&mut self) {
        let Some(ending) = &mut self.ending else {
            return;
        };
        let is_exhausted = matches!(
            ending.cause,
            Cause::Shutdown {
                reason: ShutdownReason::ContextExhausted,
                ..
            }
        );
        if !is_exhausted {
            self.preserve_last();
            return;
        }
        ending.stage = Stage::Succeeding;
        let (lane, limit) = (self.lane.clone(), ending.stop_limit(SUCCEED_MAX));
        self.calls.push(Box::pin(async move {
            let succeeding = tokio::time::timeout(limit, lane.succeed()).await;
            let late = || LaneError::Unreachable("no answer in time".to_owned());
            Done::Succeeded {
                origin: None,
                result: succeeding.unwrap_or_else(|_| Err(late())),
            }
        }));
    }

    /// Another thread took the lane's place, or could not.
    pub(super) fn succeeded(
        &mut self,
        origin: Option<Origin>,
        result: Result<(String, QueueLook), LaneError>,
    ) {
        match (origin, result) {
            (Some(origin), Ok((thread, look))) => {
                self.lane = self.lane.of_thread(&thread);
                let lane = look.lane.clone();
                let successor = thread.clone();
                self.apply(Input::Successor { thread, lane });
                self.mark_thread();
                self.rows_seen(&look);
                let mut fields = serde_json::Map::new();
                fields.insert("thread_id".to_owned(), successor.into());
                self.answer(&origin, "Successor", Ok(fields));
            }
            (Some(origin), Err(error)) => {
                self.answer(&origin, "Successor", Err(error.into()));
            }
            (None, result) => {
                if let (Err(error), Some(ending)) = (result, &mut self.ending) {
                    ending.notes.push(format!("no successor thread: {error}"));
                }
                self.preserve_last();
            }
        }
    }

    fn preserve_last(&mut self) {
        let Some(ending) = &mut self.ending else {
            return;
        };
        if !self.options.preserves {
            ending.stage = Stage::Done;
            return;
        }
        ending.stage = Stage::Preserving;
        let limit = ending.limit(preserve::TIME_MAX);
        let reason = match ending.cause {
            Cause::Kill => "kill",
            Cause::Shutdown { reason, .. } => reason.word(),
            Cause::Signal(_) => "signal",
            _ => "disconnect",
        };
        self.preserve(PreserveFor::End, reason.to_owned(), limit);
    }

    /// Preserves uncommitted work in a call of its own.
    pub(super) fn preserve(&mut self, why: PreserveFor, reason: String, limit: Duration) {
        if !self.options.preserves && matches!(why, PreserveFor::EngineDeath) {
            return;
        }
        let wish = preserve::Wish {
            processes: self.options.processes.clone(),
            cwd: self.options.cwd.clone(),
            id: self.options.id.clone(),
            reason,
            unix_ms: (self.options.clock)(),
        };
        self.calls.push(Box::pin(async move {
            Done::Preserved {
                why,
                result: preserve::preserve(wish, limit).await,
            }
        }));
    }

    pub(super) fn preserved(
        &mut self,
        why: &PreserveFor,
        result: Result<Option<Preserved>, String>,
    ) {
        match &result {
            Ok(Some(preserved)) => {
                let event = Event::v2("Preserved")
                    .with("ref", preserved.reference.as_str())
                    .with("files", preserved.files)
                    .with("bytes", preserved.bytes)
                    .with("left_out", preserved.left_out.clone());
                self.tell(&event);
                tracing::info!(
                    reference = preserved.reference,
                    "uncommitted work is preserved"
                );
                let text = format!("uncommitted work is in {}", preserved.reference);
                self.log.write(crate::capture::Speaker::Shim, &text);
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "uncommitted work was not preserved"),
        }
        if let PreserveFor::Client(origin) = why {
            let result = result.map(|preserved| {
                let mut fields = serde_json::Map::new();
                let reference = preserved.map(|preserved| preserved.reference);
                fields.insert("ref".to_owned(), reference.into());
                fields
            });
            let result =
                result.map_err(|error| crate::lane::CommandFailure::new("preserve_failed", error));
            self.answer(origin, "Preserve", result);
            return;
        }
        if matches!(why, PreserveFor::EngineDeath) {
            return;
        }
        if let Some(ending) = &mut self.ending {
            if let Err(error) = result {
                ending
                    .notes
                    .push(format!("work was not preserved: {error}"));
            }
            ending.stage = Stage::Done;
        }
    }

    /// A turn that did not end in time has its receipt all the same.
    pub(super) fn give_up_turn(&mut self) {
        let is_left = matches!(
            self.ending.as_ref().map(Ending::cause),
            Some(Cause::Detach | Cause::LostServer)
        );
        let Some(turn) = self.machine.running().map(str::to_owned) else {
            return;
        };
        if is_left {
            // It goes on, and its end is told by the next shim.
            return;
        }
        let failure = Failure {
            kind: "interrupted".to_owned(),
            message: "the shim ended before the turn did".to_owned(),
            retry_at: None,
            is_unknown: false,
        };
        self.apply(Input::TurnEnded(Box::new(TurnEnd {
            turn,
            former_thread: None,
            row: None,
            message: None,
            attempt: 1,
            outcome: Outcome::Interrupted(failure),
            fate: Fate::Done,
            response: String::new(),
            usage: Value::Null,
            lane: None,
        })));
    }
}

/// Returns true for the answer of an engine that has no background commands.
fn is_nothing(error: &LaneError) -> bool {
    matches!(
        error.word(),
        Some("unsupportedByEngine" | "threadNotLoaded" | "notLoaded" | "threadNotFound")
    )
}
