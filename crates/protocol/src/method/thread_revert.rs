//! `thread/revert`, `thread/rollback`, `thread/compact/start`: makes a thread's history shorter.

use serde::{Deserialize, Serialize};

use crate::thread::Thread;

/// Takes a turn and all later ones out of the history.
pub const REVERT: &str = "thread/revert";
/// Takes the last turns out of the history; what earlier clients know.
pub const ROLLBACK: &str = "thread/rollback";
/// Sums the history up for the model; its answer is [`Done`](super::Done).
pub const COMPACT_START: &str = "thread/compact/start";

/// Params of [`REVERT`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadRevertParams {
    /// The thread.
    pub thread_id: String,
    /// The first turn that goes.
    pub before_turn_id: String,
}

/// The answer to [`REVERT`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadRevertAnswer {
    /// The thread, without turns.
    pub thread: Thread,
    /// Where older turns begin.
    pub turns_backwards_cursor: Option<String>,
    /// Where older items begin.
    pub items_backwards_cursor: Option<String>,
}

/// Params of [`ROLLBACK`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadRollbackParams {
    /// The thread.
    pub thread_id: String,
    /// How many of the last turns go.
    pub num_turns: u32,
}

/// The answer to [`ROLLBACK`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadRollbackAnswer {
    /// The thread with its turns.
    pub thread: Thread,
}

/// Params of [`COMPACT_START`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadCompactStartParams {
    /// The thread.
    pub thread_id: String,
}
