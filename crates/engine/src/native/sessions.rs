//! Commands that go on running: sessions of a thread, by number.
//!
//! The invariant here: a session belongs to a thread, outlives the turn that started it, and is ended
//! with all its descendants when the thread is unloaded or the engine goes. At most 64 run per thread.

/// The sessions of one thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadSessions {}
