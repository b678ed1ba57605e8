//! `thread/read`: shows a thread without opening it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::thread_resume::is_false;
use crate::thread::Thread;

/// The method.
pub const METHOD: &str = "thread/read";

/// Params of `thread/read`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadReadParams {
    /// The thread.
    pub thread_id: String,
    /// Answer with turns.
    #[serde(default, skip_serializing_if = "is_false")]
    pub include_turns: bool,
}

/// The answer to `thread/read`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadReadAnswer {
    /// The thread.
    pub thread: Thread,
    /// What has been read by people; Codex only.
    pub read_state: Option<Value>,
}
