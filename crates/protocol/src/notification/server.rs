//! What happened to requests, approvals, hooks and the connection itself.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::approval::{Approval, OfferedDecision};
use crate::envelope::RequestId;
use crate::ids::{ThreadId, TurnId};

/// A request of the server needs no answer any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerRequestResolved {
    /// The thread it was about.
    pub thread_id: ThreadId,
    /// The request.
    pub request_id: RequestId,
}

/// Something a person should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    /// The thread it is about.
    pub thread_id: Option<ThreadId>,
    /// The text.
    pub message: String,
}

/// A hook runs or has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HookRunChanged {
    /// The thread, where there is one yet.
    pub thread_id: Option<ThreadId>,
    /// The turn, where there is one.
    pub turn_id: Option<TurnId>,
    /// The run.
    pub run: Map<String, Value>,
}

/// The model provider said how much may still be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RateLimitsUpdated {
    /// What the provider said, as Codex writes it.
    pub rate_limits: Map<String, Value>,
}

/// An approval was asked for or decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalChanged {
    /// Which of the two.
    pub change: ApprovalChange,
    /// The approval.
    pub approval: Box<Approval>,
    /// What was decided.
    pub decision: Option<OfferedDecision>,
    /// Who decided.
    pub by: Option<Decider>,
    /// Why.
    pub reason: Option<String>,
}

/// What happened to an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ApprovalChange {
    /// It was asked for.
    Requested,
    /// It was decided.
    Resolved,
}

/// Who decided an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Decider {
    /// A client.
    Client,
    /// A hook.
    Hook,
    /// The policy in effect.
    Policy,
    /// Nobody answered in time.
    Timeout,
    /// The turn was stopped.
    Interrupt,
}

/// Deltas were left out because the client read too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConnectionLagged {
    /// The thread whose deltas are missing.
    pub thread_id: ThreadId,
    /// How many.
    pub missed: u64,
}
