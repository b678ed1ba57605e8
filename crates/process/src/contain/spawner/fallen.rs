//! The end of processes that fell to the service because a keeper died, perhaps with its holders.
//!
//! Called on the spawning thread only. The invariant here: whoever is ended carries the mark of this
//! service; a host has other children, and other services have processes of their own. One look is no
//! proof that nobody is left, so a [`Fallen`] is looked after until several looks found nobody.

use std::time::Duration;

use crate::contain::{adopted, keeper};
use crate::mark::{self, Mark};

/// Looks in a row that must find nobody: a list of children that changes while it is read may lack
/// one, and a holder may still be ending.
const QUIET_LOOKS: u32 = 3;

/// How often a stop looks again.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Processes of a keeper that died, from its death until nobody is left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fallen {
    /// Looks in a row that found nobody.
    quiet: u32,
}

/// Who is left of a keeper that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Somebody,
    Nobody,
}

impl Fallen {
    /// Ends whoever there is; to be repeated until nobody is left.
    pub(super) fn end(&mut self, mark: &Mark) -> Left {
        self.quiet = if end(mark) > 0 { 0 } else { self.quiet + 1 };
        if self.quiet >= QUIET_LOOKS {
            Left::Nobody
        } else {
            Left::Somebody
        }
    }
}

/// Ends whoever there is at the stop of a service, as far as `max` suffices. Usually one look that
/// finds nobody. Blocks.
pub(super) fn end_all(mark: &Mark, max: Duration) {
    for _ in 0..max.as_millis() / LOOK_EVERY.as_millis() {
        if end(mark) == 0 {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    tracing::error!("processes of a keeper that died could not be ended");
}

/// Ends and reaps holders and orphans; how many there still were.
fn end(mark: &Mark) -> usize {
    let is_ours = |pid| mark::of(pid).is_some_and(|value| mark.is_ours(value));
    keeper::reap_fallen_holders() + adopted::end(is_ours)
}
