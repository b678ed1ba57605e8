//! `turn/interrupt`: stops the turn that runs.

use serde::{Deserialize, Serialize};

/// The method.
pub const METHOD: &str = "turn/interrupt";

/// Params of `turn/interrupt`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnInterruptParams {
    /// The thread.
    pub thread_id: String,
    /// The turn; empty means whatever runs.
    pub turn_id: String,
    /// What the queue does afterwards; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueAfterInterrupt>,
}

/// What a queue does after an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum QueueAfterInterrupt {
    /// It stops until somebody resumes it.
    Pause,
    /// The next turn starts.
    Continue,
}

/// The answer to `turn/interrupt`: the turn has ended in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnInterruptAnswer {}
