//! The rules of automation: pure, from what is known to what happens next.
//!
//! The invariant here: no rule waits, sends or reads a clock; the order of the checks is the contract.
//! The words of the errors are fixed, since programs match them.
//!
//! Who waits and runs is `rounds.rs`.

use std::time::{Duration, SystemTime};

use turnlane_protocol::schedule::{Grid, next_on_grid};

use super::AutomationSpec;
use super::runner::Wish;

pub(super) const ZERO_INTERVAL: &str = "automation interval must be greater than zero";
pub(super) const SESSION_CLOSED: &str = "session is closed";
pub(super) const OVERFLOWED: &str = "automation schedule overflowed next due timestamp";
pub(super) const PANICKED: &str = "automation task panicked";
pub(super) const NO_DUE_TIME: &str = "automation status invariant violated: missing next due time";
pub(super) const NO_RUNTIME: &str = "automation must be spawned inside a tokio runtime";
pub(super) const RUNTIME_ENDED: &str = "the tokio runtime of the automation ended";

/// How an automation ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Stopped,
    Failed(String),
}

impl End {
    pub(super) fn failed(why: &str) -> Self {
        Self::Failed(why.to_owned())
    }
}

/// What happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Wait for this and run.
    Due(SystemTime),
    End(End),
}

/// The state at spawn; `gone` says why the thread takes no turns, if it does not.
pub(super) fn at_spawn(spec: &AutomationSpec, now: SystemTime, gone: Option<String>) -> Verdict {
    let due = spec.start_at.map_or(now, |start| start.max(now));
    if spec.every.is_zero() {
        return Verdict::End(End::failed(ZERO_INTERVAL));
    }
    if let Some(why) = gone {
        return Verdict::End(End::Failed(why));
    }
    if spec.max_runs == Some(0) || is_past_stop(spec, due, now) {
        return Verdict::End(End::Stopped);
    }
    Verdict::Due(due)
}

/// Why the run due at `due` is not started, if it is not.
pub(super) fn before_run(spec: &AutomationSpec, due: SystemTime, seen: Seen) -> Option<End> {
    if seen.wish > Wish::GoOn {
        return Some(End::Stopped);
    }
    if let Some(why) = seen.gone {
        return Some(End::Failed(why));
    }
    is_past_stop(spec, due, seen.now).then_some(End::Stopped)
}

/// What is looked at before a run.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) now: SystemTime,
    pub(super) wish: Wish,
    /// Why the thread takes no turns, if it does not.
    pub(super) gone: Option<String>,
}

/// A run that succeeded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Success {
    pub(super) due: SystemTime,
    pub(super) finished: SystemTime,
    /// How many there were, this one included.
    pub(super) runs_completed: u32,
}

/// What follows a run that succeeded.
pub(super) fn after_success(spec: &AutomationSpec, run: Success, wish: Wish) -> Verdict {
    if spec.max_runs.is_some_and(|max| run.runs_completed >= max) {
        return Verdict::End(End::Stopped);
    }
    let Some(next) = next_due(run.due, spec.every, run.finished) else {
        return Verdict::End(End::failed(OVERFLOWED));
    };
    if spec.stop_at.is_some_and(|stop| next >= stop) || wish > Wish::GoOn {
        return Verdict::End(End::Stopped);
    }
    Verdict::Due(next)
}

fn is_past_stop(spec: &AutomationSpec, due: SystemTime, now: SystemTime) -> bool {
    spec.stop_at.is_some_and(|stop| due >= stop || now >= stop)
}

/// The first point of the grid of `due` that is later than `finished`; none when no clock shows it.
pub(super) fn next_due(
    due: SystemTime,
    every: Duration,
    finished: SystemTime,
) -> Option<SystemTime> {
    // Counted from the due time, so that it does not matter on which side of 1970 a clock stands. A
    // run that ends before it was due (the clock was set back) has taken no time.
    let took = finished.duration_since(due).unwrap_or_default();
    let grid = Grid {
        due_ns: 0,
        every_ns: every.as_nanos(),
    };
    due.checked_add(from_nanos(next_on_grid(grid, took.as_nanos())?)?)
}

fn from_nanos(nanos: u128) -> Option<Duration> {
    const PER_SECOND: u128 = 1_000_000_000;
    let seconds = u64::try_from(nanos / PER_SECOND).ok()?;
    let rest = u32::try_from(nanos % PER_SECOND).ok()?;
    Some(Duration::new(seconds, rest))
}
