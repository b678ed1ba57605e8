//! What the patches of one turn changed together, as one unified diff.
//!
//! The invariant here: the diff compares each file as it was before the turn's first patch with what
//! the last one made of it, and is told only when it changed.

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TurnDiff {}
