//! Workers that are killed, at any moment and at every named point, and what their successors find.
//!
//! Owned here: the child that serves a database and can be killed ([`child`]), the parent's end of
//! it ([`serving`]), the log of what engines were asked to do ([`log`]), and two tests: one crash
//! point at a time on one lane ([`points`]), and many kills under load on twenty ([`kills`]). The
//! invariant: what the parent counts as acknowledged was printed by the child after its answer, and
//! what counts as a model call was logged before the engine's first step.
//!
//! Several workers at the same time are in the neighbour `processes`.

pub(crate) mod child;
mod kills;
pub(crate) mod log;
mod points;
pub(crate) mod serving;
