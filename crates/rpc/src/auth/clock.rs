//! The one place of this crate that asks what time it is.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time to those who check when a token ends; the system's unless a test says otherwise.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(Arc::new(system_seconds))
    }

    /// A clock that returns what `unix_seconds` returns.
    pub fn new(unix_seconds: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(unix_seconds))
    }

    /// Seconds since 1970 in UTC.
    pub fn unix_seconds(&self) -> i64 {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock that everybody else is given"
)]
fn system_seconds() -> i64 {
    // Before 1970 every token is from the future, which refuses it: the safe side.
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
        })
}
