//! Named points at which a test lets the process die.
//!
//! The invariant here: without the feature `crash-points` a point is nothing at all. With it, the
//! process that reaches the point named by `TURNLANE_CRASH_AT` ends by `SIGKILL`, as it would when
//! the system ends it: nothing is flushed, no destructor runs.
//!
//! `TURNLANE_CRASH_AT=name` means the first time that point is reached, `name:3` the third. What
//! must be true afterwards is decided by the tests, which look at the store after a restart.

/// Ends the process here if a test asked for it.
#[cfg(not(feature = "crash-points"))]
#[inline]
pub fn point(_name: &str) {}

/// Ends the process here if a test asked for it.
#[cfg(feature = "crash-points")]
pub fn point(name: &str) {
    armed::reached(name);
}

/// The point of one operation beside the commit it is part of.
///
/// Its name is what the operation does, with dashes: `claim-a-turn:before-commit`.
#[cfg(not(feature = "crash-points"))]
#[inline]
pub(crate) fn operation(_doing: &str, _side: &str) {}

/// The point of one operation beside the commit it is part of.
///
/// Its name is what the operation does, with dashes: `claim-a-turn:before-commit`. An operation of
/// fan-out jobs has the name of its verb: `fanout:claim:before-commit`.
#[cfg(feature = "crash-points")]
pub(crate) fn operation(doing: &str, side: &str) {
    match doing.split_once(' ') {
        Some((verb, rest)) if rest.contains("fan-out") => {
            point(&format!("fanout:{verb}:{side}"));
        }
        _ => point(&format!("{}:{side}", doing.replace(' ', "-"))),
    }
}

#[cfg(feature = "crash-points")]
mod armed {
    //! What a test asked for, read once.
    //!
    //! The invariant here: each arrival at the point is counted once, whichever thread comes by.

    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The variable that names the point.
    const VARIABLE: &str = "TURNLANE_CRASH_AT";

    /// A point, and how many arrivals at it are survived.
    #[derive(Debug, PartialEq, Eq)]
    struct Wanted {
        name: String,
        nth: u32,
    }

    impl Wanted {
        fn parse(text: &str) -> Self {
            let counted = text
                .rsplit_once(':')
                .and_then(|(name, nth)| Some((name, nth.parse().ok()?)));
            let (name, nth) = counted.unwrap_or((text, 1));
            Self {
                name: name.to_owned(),
                nth,
            }
        }
    }

    static WANTED: OnceLock<Option<Wanted>> = OnceLock::new();
    static ARRIVALS: AtomicU32 = AtomicU32::new(0);

    pub(super) fn reached(name: &str) {
        let wanted = WANTED.get_or_init(|| std::env::var(VARIABLE).ok().map(|v| Wanted::parse(&v)));
        let Some(wanted) = wanted.as_ref().filter(|wanted| wanted.name == name) else {
            return;
        };
        if ARRIVALS.fetch_add(1, Ordering::SeqCst) + 1 == wanted.nth {
            let me = rustix::process::getpid();
            // Cannot fail for the own process; if it did, the test would see a process that lives.
            let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
            // The signal may reach another thread first; nothing may happen here any more.
            loop {
                std::thread::park();
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_point_may_carry_the_number_of_the_arrival() {
            let wanted = |name: &str, nth| Wanted {
                name: name.to_owned(),
                nth,
            };
            assert_eq!(Wanted::parse("commit:before"), wanted("commit:before", 1));
            assert_eq!(Wanted::parse("commit:before:3"), wanted("commit:before", 3));
            assert_eq!(Wanted::parse("sent"), wanted("sent", 1));
        }
    }
}
