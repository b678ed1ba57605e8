//! `thread/fork`: makes a thread that begins with another one's history.

use serde::{Deserialize, Serialize};

use super::Overrides;
use super::thread_resume::is_false;

/// The method.
pub const METHOD: &str = "thread/fork";

/// Params of `thread/fork`; its answer is [`StartAnswer`](super::StartAnswer).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadForkParams {
    /// The thread whose history is taken.
    pub thread_id: String,
    /// What the new thread's turns are run with.
    #[serde(flatten)]
    pub overrides: Overrides,
    /// The last turn that is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_turn_id: Option<String>,
    /// The first turn that is not; excludes `last_turn_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_turn_id: Option<String>,
    /// Keep the new thread in memory only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ephemeral: bool,
    /// Answer without turns.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclude_turns: bool,
    /// What the new thread is for, in the caller's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_source: Option<String>,
}
