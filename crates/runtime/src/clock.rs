//! The wall clock, passed in.
//!
//! The invariant here: nothing durable depends on a clock being right. It orders nothing and owns
//! nothing; it says when something is due and what people read. Timers are tokio's and do not
//! jump.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Says what time it is.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> i64;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place of the runtime that reads the system's clock"
    )]
    fn now_ms(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // A clock before 1970 is wrong by so much that 0 is no worse.
        since.map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
    }
}

/// A clock that somebody sets, for tests and replays; clones are one clock.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that stands at this time.
    pub fn at(now_ms: i64) -> Self {
        Self(Arc::new(AtomicI64::new(now_ms)))
    }

    /// Makes it jump, either way.
    pub fn jump(&self, by_ms: i64) {
        self.0.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}
