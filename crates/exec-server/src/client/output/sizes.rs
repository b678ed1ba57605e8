//! How much went by while nobody took it, so that what is missing later can be counted exactly.
//!
//! A log of sizes from the first number that was not queued. It is bounded: when it is full,
//! neighbours are joined. The invariant: every run of the log is known exactly as a whole; who loses
//! a part of a run loses all of it, and so a count is never a guess.

use std::collections::VecDeque;

/// Runs before neighbours are joined.
const RUNS_MAX: usize = 2048;

/// The sizes of consecutive events.
#[derive(Debug, Default)]
pub(in crate::client) struct Sizes {
    runs: VecDeque<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    events: u64,
    bytes: u64,
    /// An exit or a close, which is never lost and never joined.
    is_mark: bool,
}

/// What is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::client) struct Missing {
    pub(in crate::client) events: u64,
    pub(in crate::client) bytes: u64,
}

impl Sizes {
    /// One more piece of output, or several that are already known to be lost.
    pub(in crate::client) fn push(&mut self, passed: Missing) {
        self.runs.push_back(Run {
            events: passed.events,
            bytes: passed.bytes,
            is_mark: false,
        });
        if self.runs.len() > RUNS_MAX {
            self.join();
        }
    }

    /// An exit or a close.
    pub(in crate::client) fn push_mark(&mut self) {
        self.runs.push_back(Run {
            events: 1,
            bytes: 0,
            is_mark: true,
        });
    }

    /// The first event of the log was got after all, `bytes` long.
    pub(in crate::client) fn got(&mut self, bytes: u64) {
        let Some(first) = self.runs.front_mut() else {
            return;
        };
        first.events -= 1;
        first.bytes = first.bytes.saturating_sub(bytes);
        if first.events == 0 {
            self.runs.pop_front();
        }
    }

    /// At least the first `events` are lost: how many really, with their bytes. Ends before a mark.
    pub(in crate::client) fn lose(&mut self, events: u64) -> Missing {
        let mut missing = Missing::default();
        while missing.events < events {
            let Some(run) = self.runs.pop_front_if(|run| !run.is_mark) else {
                break;
            };
            missing.events += run.events;
            missing.bytes += run.bytes;
        }
        missing
    }

    fn join(&mut self) {
        let mut joined: VecDeque<Run> = VecDeque::with_capacity(RUNS_MAX);
        let mut can_grow = false;
        for run in self.runs.drain(..) {
            match joined.back_mut() {
                Some(last) if can_grow && !last.is_mark && !run.is_mark => {
                    last.events += run.events;
                    last.bytes += run.bytes;
                    can_grow = false;
                }
                _ => {
                    joined.push_back(run);
                    can_grow = true;
                }
            }
        }
        self.runs = joined;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(bytes: u64) -> Missing {
        Missing { events: 1, bytes }
    }

    #[test]
    fn what_is_got_and_what_is_lost_adds_up() {
        let mut sizes = Sizes::default();
        for bytes in 1..=10 {
            sizes.push(one(bytes));
        }
        sizes.got(1);
        assert_eq!(
            sizes.lose(2),
            Missing {
                events: 2,
                bytes: 5
            }
        );
        sizes.got(4);
        assert_eq!(sizes.lose(100).bytes, 5 + 6 + 7 + 8 + 9 + 10);
    }

    #[test]
    fn a_full_log_loses_whole_runs_and_stays_exact() {
        let mut sizes = Sizes::default();
        for bytes in 0..10_000 {
            sizes.push(one(bytes));
        }
        assert!(sizes.runs.len() <= RUNS_MAX);
        let missing = sizes.lose(1001);
        assert!(missing.events >= 1001);
        assert_eq!(missing.bytes, (0..missing.events).sum::<u64>());
    }

    #[test]
    fn a_mark_is_not_lost() {
        let mut sizes = Sizes::default();
        sizes.push(one(5));
        sizes.push_mark();
        sizes.push(one(7));
        assert_eq!(sizes.lose(3), one(5));
        sizes.got(0);
        assert_eq!(sizes.lose(1), one(7));
    }
}
