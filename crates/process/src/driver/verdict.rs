//! How a leader's end is told: code, signal and reason, by one rule for pipes and terminals.

use std::time::Duration;

use super::ending::Ending;
use super::shared::Orders;
use crate::contain::{Ended, How};
use crate::status::{ExitStatus, Reason, Rusage};

/// The code of a leader that ran too long.
const TIMED_OUT: i32 = 124;

/// The end of a leader nobody could wait for.
pub(super) const LOST: ExitStatus = ExitStatus {
    code: -1,
    signal: None,
    reason: Reason::Lost,
    rusage: Rusage {
        user: Duration::ZERO,
        system: Duration::ZERO,
        max_resident_bytes: 0,
    },
};

/// What the kernel told, and what was done here, as a status.
pub(super) fn of(ended: Ended, orders: &Orders, ending: &Ending) -> ExitStatus {
    let (code, signal, reason) = match ended.how {
        How::Lost => (LOST.code, LOST.signal, LOST.reason),
        How::Code(code) => (code & 0xff, None, Reason::Exited),
        // An owner who sent the signal wanted the end.
        How::Signal(signal) if orders.is_end_asked || orders.signals & (1 << signal) != 0 => {
            (128 + signal, Some(signal), Reason::Terminated)
        }
        How::Signal(signal) => (128 + signal, Some(signal), Reason::Signaled),
    };
    let rusage = ended.rusage;
    if ending.timed_out() && reason != Reason::Lost {
        return ExitStatus {
            code: TIMED_OUT,
            signal: signal.or(ending.last_signal()),
            reason: Reason::Timeout,
            rusage,
        };
    }
    ExitStatus {
        code,
        signal,
        reason,
        rusage,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::super::shared::Order;
    use super::*;

    fn told(how: How, orders: &Orders, ending: &Ending) -> (i32, Option<i32>, Reason) {
        let rusage = Rusage::default();
        let status = of(Ended { how, rusage }, orders, ending);
        (status.code, status.signal, status.reason)
    }

    #[tokio::test(start_paused = true)]
    async fn every_end_has_one_code_signal_and_reason() {
        let untouched = Orders::default();
        let asked = Orders {
            is_end_asked: true,
            ..Orders::default()
        };
        let signalled = Orders {
            signals: 1 << 15,
            ..Orders::default()
        };
        let free = Ending::new(None);
        let mut late = Ending::new(None);
        late.order(Order::Timeout, Instant::now());

        let table = [
            (
                How::Code(300),
                &untouched,
                &free,
                (44, None, Reason::Exited),
            ),
            (How::Code(0), &asked, &free, (0, None, Reason::Exited)),
            (
                How::Signal(11),
                &untouched,
                &free,
                (139, Some(11), Reason::Signaled),
            ),
            (
                How::Signal(9),
                &asked,
                &free,
                (137, Some(9), Reason::Terminated),
            ),
            (
                How::Signal(15),
                &signalled,
                &free,
                (143, Some(15), Reason::Terminated),
            ),
            (
                How::Signal(9),
                &signalled,
                &free,
                (137, Some(9), Reason::Signaled),
            ),
            (
                How::Signal(9),
                &untouched,
                &late,
                (124, Some(9), Reason::Timeout),
            ),
            (
                How::Code(5),
                &untouched,
                &late,
                (124, Some(15), Reason::Timeout),
            ),
            (How::Lost, &asked, &late, (-1, None, Reason::Lost)),
        ];
        for (how, orders, ending, expected) in table {
            assert_eq!(told(how, orders, ending), expected, "{how:?}");
        }
    }
}
