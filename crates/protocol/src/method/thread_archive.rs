//! `thread/archive`, `thread/unarchive`, `thread/delete`: puts a thread away, takes it back, removes
//! it.

use serde::{Deserialize, Serialize};

use crate::thread::Thread;

/// Puts a thread away; its answer is [`Done`](super::Done).
pub const ARCHIVE: &str = "thread/archive";
/// Takes a thread back.
pub const UNARCHIVE: &str = "thread/unarchive";
/// Removes a thread with its history; its answer is [`Done`](super::Done).
pub const DELETE: &str = "thread/delete";

/// Params of [`ARCHIVE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadArchiveParams {
    /// The thread.
    pub thread_id: String,
}

/// Params of [`UNARCHIVE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadUnarchiveParams {
    /// The thread.
    pub thread_id: String,
}

/// The answer to [`UNARCHIVE`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadUnarchiveAnswer {
    /// The thread, without turns.
    pub thread: Thread,
}

/// Params of [`DELETE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadDeleteParams {
    /// The thread.
    pub thread_id: String,
}
