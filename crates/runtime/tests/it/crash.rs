//! Workers that are killed, at any moment and at every named point, and what their successors find.
//!
//! Owned here: the child that serves a database and can be killed ([`child`]), the parent's end of
//! it ([`serving`]), a double of an engine that is another program ([`foreign`]), the log of what
//! engines were asked to do ([`log`]), and three tests: one crash point at a time on one lane
//! ([`points`]), many kills under load on twenty ([`kills`]), and deaths while a thread takes over from
//! another ([`successors`]). The invariant: what the parent counts as acknowledged was printed by the
//! child after its answer, and
//! what counts as a model call was logged before the engine's first step.
//!
//! Several workers at the same time are in the neighbour `processes`.

pub(crate) mod child;
pub(crate) mod foreign;
mod kills;
pub(crate) mod log;
mod points;
pub(crate) mod serving;
mod successors;
