//! The lane of a thread: one turn at a time, in order, from one durable queue.
//!
//! The rules are pure and stand in [`state`] (what happens next), [`fate`] (what becomes of a row
//! whose turn has ended), [`recovery`] (what a dead worker left) and [`accept`] (from a row to its
//! turn).

pub(crate) mod accept;
pub mod event;
pub(crate) mod fate;
pub(crate) mod recovery;
pub(crate) mod rows;
pub mod state;
