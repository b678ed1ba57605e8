//! How a process is ended, step by step, and what is waited for when.
//!
//! Plain state with deadlines; the driver says what time it is and carries out what is said here. An
//! end only ever gets harder: from free over interrupt and terminate to forced. Whoever forces has
//! killed already; this only remembers it.

use std::time::Duration;

use tokio::time::Instant;

use super::shared::Order;
use crate::spec::Signal;

/// SIGTERM to SIGKILL when a timeout passes.
const TIMEOUT_TERM: Duration = Duration::from_millis(500);

/// How long a stream that somebody else holds may stay open after an end.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// How long a killed member may stay before that is reported.
const KILL_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nobody wants an end, or it is done.
    Free,
    /// SIGINT was sent.
    Interrupted { until: Instant, term: Duration },
    /// SIGTERM was sent.
    Terminated { until: Instant },
    /// SIGKILL was sent.
    Forced,
}

/// What the driver must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// SIGINT to the group.
    Interrupt,
    /// SIGTERM to every member.
    Terminate,
    /// SIGKILL to every member.
    Kill,
    /// Say who could not be killed.
    ReportUnkillable,
    /// Close streams that somebody outside still holds.
    GiveUpStreams,
}

/// A wait that is too long to be told is a very long one.
fn after(now: Instant, wait: Duration) -> Instant {
    const FAR: Duration = Duration::from_hours(24 * 365);
    now.checked_add(wait).unwrap_or(now + FAR)
}

#[derive(Debug)]
pub(super) struct Ending {
    phase: Phase,
    timeout: Option<Instant>,
    is_timeout: bool,
    last_signal: Option<i32>,
    /// When streams are given up.
    drain_until: Option<Instant>,
    /// When members that are still there are reported.
    check_at: Option<Instant>,
}

impl Ending {
    pub(super) fn new(timeout: Option<Instant>) -> Self {
        Self {
            phase: Phase::Free,
            timeout,
            is_timeout: false,
            last_signal: None,
            drain_until: None,
            check_at: None,
        }
    }

    /// Whether an end is under way.
    pub(super) fn is_active(&self) -> bool {
        self.phase != Phase::Free
    }

    /// Whether streams are read to their end whatever the window says.
    pub(super) fn is_draining(&self) -> bool {
        self.drain_until.is_some()
    }

    /// Whether the leader ran too long.
    pub(super) fn timed_out(&self) -> bool {
        self.is_timeout
    }

    /// The last signal that was sent by an end.
    pub(super) fn last_signal(&self) -> Option<i32> {
        self.last_signal
    }

    /// Takes an order; what to do at once.
    pub(super) fn order(&mut self, order: Order, now: Instant) -> Option<Act> {
        match order {
            Order::Forced => {
                self.forced(now);
                None
            }
            Order::Timeout => self.time_out(now),
            Order::Graceful { interrupt, term } if self.phase == Phase::Free => {
                if interrupt.is_zero() {
                    return Some(self.terminate(now, term));
                }
                self.last_signal = Some(Signal::Interrupt.number());
                self.phase = Phase::Interrupted {
                    until: after(now, interrupt),
                    term,
                };
                Some(Act::Interrupt)
            }
            Order::Graceful { .. } => None,
        }
    }

    fn time_out(&mut self, now: Instant) -> Option<Act> {
        self.timeout = None;
        if self.phase != Phase::Free {
            return None;
        }
        self.is_timeout = true;
        Some(self.terminate(now, TIMEOUT_TERM))
    }

    fn terminate(&mut self, now: Instant, term: Duration) -> Act {
        self.last_signal = Some(Signal::Terminate.number());
        self.phase = Phase::Terminated {
            until: after(now, term),
        };
        Act::Terminate
    }

    /// Everything was killed.
    pub(super) fn forced(&mut self, now: Instant) {
        self.last_signal = Some(Signal::Kill.number());
        self.phase = Phase::Forced;
        self.check_at = Some(now + KILL_MAX);
    }

    /// What is due now, if anything. Asked again until it says nothing.
    pub(super) fn due(&mut self, now: Instant) -> Option<Act> {
        if self.timeout.is_some_and(|at| at <= now)
            && let Some(act) = self.time_out(now)
        {
            return Some(act);
        }
        match self.phase {
            Phase::Interrupted { until, term } if until <= now => {
                return Some(self.terminate(now, term));
            }
            Phase::Terminated { until } if until <= now => {
                self.forced(now);
                return Some(Act::Kill);
            }
            Phase::Interrupted { .. } | Phase::Terminated { .. } | Phase::Free | Phase::Forced => {}
        }
        if self.drain_until.is_some_and(|at| at <= now) {
            self.drain_until = None;
            return Some(Act::GiveUpStreams);
        }
        if self.check_at.is_some_and(|at| at <= now) {
            self.check_at = None;
            return Some(Act::ReportUnkillable);
        }
        None
    }

    /// The leader exited: it cannot run too long any more.
    pub(super) fn exited(&mut self, now: Instant) {
        self.timeout = None;
        if self.phase == Phase::Forced {
            self.drain_until = Some(now + DRAIN_MAX);
        }
    }

    /// The leader had exited and then everything was killed.
    pub(super) fn forced_after_exit(&mut self, now: Instant) {
        self.drain_until.get_or_insert(now + DRAIN_MAX);
    }

    /// Nobody is left.
    pub(super) fn emptied(&mut self, now: Instant) {
        if self.phase != Phase::Free {
            self.phase = Phase::Free;
            self.drain_until.get_or_insert(now + DRAIN_MAX);
        }
        self.check_at = None;
    }

    /// Every stream ended.
    pub(super) fn closed(&mut self) {
        self.drain_until = None;
    }

    /// When to ask again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Interrupted { until, .. } | Phase::Terminated { until } => Some(until),
            Phase::Free | Phase::Forced => None,
        };
        let all = [self.timeout, phase, self.drain_until, self.check_at];
        all.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn graceful(interrupt: u32, term: u32) -> Order {
        Order::Graceful {
            interrupt: SECOND * interrupt,
            term: SECOND * term,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_graceful_end_gets_harder_with_time() {
        let start = Instant::now();
        let mut ending = Ending::new(None);
        assert_eq!(ending.order(graceful(1, 2), start), Some(Act::Interrupt));
        assert_eq!(ending.deadline(), Some(start + SECOND));
        assert_eq!(ending.due(start), None);
        assert_eq!(ending.due(start + SECOND), Some(Act::Terminate));
        assert_eq!(ending.order(graceful(9, 9), start), None);
        assert_eq!(ending.due(start + 3 * SECOND), Some(Act::Kill));
        assert_eq!(ending.due(start + 3 * SECOND), None);
        ending.exited(start + 3 * SECOND);
        assert!(ending.is_draining());
        assert_eq!(ending.due(start + 5 * SECOND), Some(Act::GiveUpStreams));
        assert_eq!(ending.due(start + 8 * SECOND), Some(Act::ReportUnkillable));
        assert_eq!(ending.deadline(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_is_done_early_waits_for_streams_only() {
        let start = Instant::now();
        let mut ending = Ending::new(None);
        assert_eq!(ending.order(graceful(0, 2), start), Some(Act::Terminate));
        ending.exited(start);
        ending.emptied(start);
        assert!(!ending.is_active());
        ending.closed();
        assert_eq!(ending.deadline(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_forced_end_overrides_and_a_timeout_after_it_means_nothing() {
        let start = Instant::now();
        let mut ending = Ending::new(Some(start + SECOND));
        assert_eq!(ending.order(graceful(5, 5), start), Some(Act::Interrupt));
        assert_eq!(ending.order(Order::Forced, start), None);
        assert_eq!(ending.due(start + SECOND), None);
        assert!(!ending.timed_out());
        assert_eq!(ending.due(start + 4 * SECOND), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeout_terminates_and_soon_kills() {
        let start = Instant::now();
        let mut ending = Ending::new(Some(start + SECOND));
        assert_eq!(ending.deadline(), Some(start + SECOND));
        assert_eq!(ending.due(start + SECOND), Some(Act::Terminate));
        assert_eq!((ending.timed_out(), ending.last_signal()), (true, Some(15)));
        let kill_at = start + SECOND + TIMEOUT_TERM;
        assert_eq!(ending.deadline(), Some(kill_at));
        assert_eq!(ending.due(kill_at), Some(Act::Kill));
        assert_eq!((ending.timed_out(), ending.last_signal()), (true, Some(9)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_exited_cannot_run_too_long() {
        let start = Instant::now();
        let mut ending = Ending::new(Some(start + SECOND));
        ending.exited(start);
        assert_eq!(ending.deadline(), None);
        assert_eq!(ending.due(start + SECOND), None);
    }
}
