//! What happened to a turn.

use serde::{Deserialize, Serialize};

use crate::ids::{ThreadId, TurnId};
use crate::turn::Turn;
use crate::turn_error::TurnError;

/// A turn runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnStarted {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn: Box<Turn>,
}

/// A turn has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnCompleted {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn: Box<Turn>,
    /// Whether the answer fits the schema that was asked for; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_valid: Option<bool>,
}

/// A model call failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnFailing {
    /// Why.
    pub error: Box<TurnError>,
    /// Whether the turn goes on with another try.
    pub will_retry: bool,
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
}

/// The agent's plan is another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnPlanUpdated {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
    /// Why it is another one.
    pub explanation: Option<String>,
    /// The whole plan.
    pub plan: Vec<PlanStep>,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanStep {
    /// What is to be done.
    pub step: String,
    /// How far it is.
    pub status: PlanStepStatus,
}

/// How far a step is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum PlanStepStatus {
    /// Not begun.
    Pending,
    /// Begun.
    InProgress,
    /// Done.
    Completed,
    /// A word of another engine, kept as it came.
    #[serde(untagged)]
    Unlisted(String),
}

/// The files differ otherwise from the beginning of the turn than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnDiffUpdated {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
    /// A unified diff of everything the turn changed.
    pub diff: String,
}
