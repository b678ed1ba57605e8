//! `turn/steer`: says something to the turn that runs.

use serde::{Deserialize, Serialize};

use crate::ids::TurnId;
use crate::input::UserInput;

/// The method.
pub const METHOD: &str = "turn/steer";

/// Params of `turn/steer`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnSteerParams {
    /// The thread.
    pub thread_id: String,
    /// The turn the caller believes to run.
    pub expected_turn_id: String,
    /// What is said; not empty.
    pub input: Vec<UserInput>,
    /// The client's own id for the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_user_message_id: Option<String>,
}

/// The answer to `turn/steer`: the message is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnSteerAnswer {
    /// The turn that was steered.
    pub turn_id: TurnId,
}
