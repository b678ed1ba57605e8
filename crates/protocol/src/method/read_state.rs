//! `thread/readState/update`: how far a person has read.

use serde::{Deserialize, Serialize};

use crate::ids::TurnId;

/// The method.
pub const METHOD: &str = "thread/readState/update";

/// Params of `thread/readState/update`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReadStateUpdateParams {
    /// The thread.
    pub thread_id: String,
    /// The revision the caller has seen.
    pub expected_revision: String,
    /// What is to be done.
    pub operation: ReadStateOperation,
}

/// What is to be done to a read state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum ReadStateOperation {
    /// Everything is read.
    Read,
    /// Nothing is read.
    Unread,
}

/// The answer to `thread/readState/update`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReadStateUpdateAnswer {
    /// How far the thread is read now.
    pub read_state: ReadState,
}

/// How far a thread is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReadState {
    /// Changes with every change.
    pub revision: String,
    /// What is not read; none when everything is.
    pub first_unread: Option<UnreadPosition>,
}

/// Where the unread part begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum UnreadPosition {
    /// With the thread.
    ThreadStart,
    /// With a turn.
    Turn {
        /// The turn.
        turn_id: TurnId,
    },
}
