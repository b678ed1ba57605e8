//! The lane of a thread: one turn at a time, in order, from one durable queue.
//!
//! The rules are pure and stand in [`state`] (what happens next), `fate` (what becomes of a row
//! whose turn has ended), `recovery` (what a dead worker left, with the
//! questions to engines in `reconcile`) and `accept` (from a row to its
//! turn). The doing is in `actor`, one task per loaded lane, with the running turn in `turn` and
//! those who listen in `subscribers`; what others see of it without asking is its `face`.

pub(crate) mod accept;
pub(crate) mod actor;
mod approvals;
pub(crate) mod close;
pub(crate) mod command;
pub mod event;
pub(crate) mod face;
pub(crate) mod fate;
mod hold;
mod items;
mod past;
pub(crate) mod reconcile;
pub(crate) mod recovery;
mod request;
pub(crate) mod rights;
pub(crate) mod ring;
pub(crate) mod rows;
pub mod state;
pub(crate) mod subscribers;
mod turn;
