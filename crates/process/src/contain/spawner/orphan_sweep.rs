//! The end of processes that fell to the service because a keeper died, perhaps with its holders.
//!
//! Called on the spawning thread only. The invariant here: every process that is killed carries the
//! mark of this service, since a host has other children and other services have processes of their
//! own. One look is no proof that none is left, so an [`OrphanSweep`] goes on until several looks in a
//! row found none. What a living keeper adopts is swept by the keeper.

use std::time::Duration;

use crate::contain::{adopted, keeper};
use crate::mark::{self, Mark};

/// Looks in a row that must find no process: a list of children that changes while it is read may lack
/// one, and a holder may still be ending.
const QUIET_LOOKS: u32 = 3;

/// Pause between two looks of a stop.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A sweep that begins with the death of a keeper.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OrphanSweep {
    /// Looks in a row that found no process.
    quiet: u32,
}

impl OrphanSweep {
    /// Kills and reaps the orphans there are, and says whether the sweep is over; if not, to be called
    /// again after a while.
    pub(super) fn is_done(&mut self, mark: &Mark) -> bool {
        self.quiet = if end(mark) > 0 { 0 } else { self.quiet + 1 };
        self.quiet >= QUIET_LOOKS
    }
}

/// Kills and reaps the orphans there are when a service stops, as far as `max` suffices. Usually one
/// look that finds none. Blocks.
pub(super) fn end_all(mark: &Mark, max: Duration) {
    for _ in 0..max.as_millis() / LOOK_EVERY.as_millis() {
        if end(mark) == 0 {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    tracing::error!("processes of a keeper that died could not be ended");
}

/// Kills and reaps holders and orphans; how many there still were.
fn end(mark: &Mark) -> usize {
    let is_ours = |pid| mark::of(pid).is_some_and(|value| mark.is_ours(value));
    keeper::reap_fallen_holders() + adopted::end(is_ours)
}
