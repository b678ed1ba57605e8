//! What is counted for those who watch over a store: lanes by what they do, and how long syncs take.
//!
//! The invariant here: numbers only. Nothing decides anything by them; each is true for the moment it
//! was read at, and no two belong to the same one unless they come in one [`Census`].
//!
//! How they look on a wire is the server's business.

use std::time::Duration;

/// How many kinds of waits a census tells apart; more do not exist in practice.
pub(crate) const WAIT_KINDS_MAX: u32 = 64;

/// The lanes of a store by what they do, in one picture. A lane is counted once, by the first line
/// that fits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// A row of theirs is claimed or runs.
    pub running: u64,
    /// Somebody has stopped them.
    pub paused: u64,
    /// They wait for a provider or a person.
    pub waiting: u64,
    /// Nothing waits.
    pub idle: u64,
    /// Rows wait behind one that failed.
    pub held: u64,
    /// They have something to claim, now or later.
    pub queued: u64,
    /// How many rows wait in all of them, failed ones included.
    pub rows: u64,
    /// The lanes in `waiting` by the kind of error they wait out, at most 64.
    pub waiting_by_kind: Vec<(String, u64)>,
}

/// How long something took, counted by upper bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Upper bounds, growing, with how many took no longer than that and longer than the one before.
    pub buckets: Vec<(Duration, u64)>,
    /// How many there were, also above the last bound.
    pub count: u64,
    /// How long all of them took.
    pub sum: Duration,
}
