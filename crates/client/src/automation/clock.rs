//! The wall clock of automation, passed in.
//!
//! The invariant here: the wall clock decides what is due, a timer only sleeps. Timers stand still
//! while a machine is suspended and do not notice when somebody sets the clock, so nobody sleeps
//! longer than [`LOOK_AGAIN`] before the wall clock is read again.
//!
//! It does not watch for suspends: no portable signal exists without `unsafe`, and looking again is
//! enough.

use std::time::{Duration, SystemTime};

use crate::review::BoxFuture;

/// How long a wait goes without a look at the wall clock.
pub(super) const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// Says what time it is, and waits.
pub trait Clock: Send + Sync + 'static {
    /// The time on the wall; may jump either way.
    fn now(&self) -> SystemTime;

    /// Waits for `due`, or for a shorter while: who waits looks at [`Clock::now`] again after it.
    ///
    /// It must not outlast a jump of the wall clock over `due` by more than a minute, nor return at
    /// once for ever. Dropping the future ends the wait.
    fn wait(&self, due: SystemTime) -> BoxFuture<'static, ()>;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        crate::clock::now()
    }

    fn wait(&self, due: SystemTime) -> BoxFuture<'static, ()> {
        let nap = nap(self.now(), due);
        Box::pin(tokio::time::sleep(nap))
    }
}

/// How long to sleep before the wall clock is looked at again.
pub(super) fn nap(now: SystemTime, due: SystemTime) -> Duration {
    // An error means that the due time has passed.
    due.duration_since(now).unwrap_or_default().min(LOOK_AGAIN)
}
