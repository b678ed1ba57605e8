//! The one place of this crate that asks what time it is.
//!
//! Only what is shown to others needs it: hooks and servers that ask. Timers use tokio's clock, which
//! tests can pause.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, by the wall clock.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock that everybody else is given"
)]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// Whole seconds since 1970 in UTC; 0 before.
pub(crate) fn unix_seconds() -> i64 {
    let since = now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}
