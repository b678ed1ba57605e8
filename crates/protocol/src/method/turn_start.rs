//! `turn/start`: gives a thread something to do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CollaborationMode, Personality, ReasoningSummary};
use crate::input::UserInput;
use crate::policy::{ApprovalPolicy, ApprovalsReviewer, SandboxDisagreement, SandboxPolicy};
use crate::queue::QueuedTurn;
use crate::thread::ThreadEnvironment;
use crate::turn::Turn;

/// The method.
pub const METHOD: &str = "turn/start";

/// Params of `turn/start`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnStartParams {
    /// The thread.
    pub thread_id: String,
    /// What is said to the agent; may be empty.
    pub input: Vec<UserInput>,
    /// The client's own id for the message; stands in its item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_user_message_id: Option<String>,
    /// The working directory, for this turn and later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Directories the agent works in, for this turn and later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_workspace_roots: Option<Vec<String>>,
    /// When the agent asks, for this turn and later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::policy::ApprovalPolicyChoice>")
    )]
    pub approval_policy: Option<ApprovalPolicy>,
    /// Whom it asks, for this turn and later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    /// Where commands may write, for this turn and later ones; the name Codex uses here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::policy::SandboxChoice>")
    )]
    pub sandbox_policy: Option<SandboxPolicy>,
    /// The same under the name it has at `thread/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::policy::SandboxChoice>")
    )]
    pub sandbox: Option<SandboxPolicy>,
    /// A named set of permissions in place of a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// The model, for this turn and later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard it thinks, for this turn and later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// How much of its reasoning it sums up, for this turn and later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<ReasoningSummary>,
    /// The tone, for this turn and later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub personality: Option<Personality>,
    /// The provider's class of service, for this turn and later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// The provider's class of service, for this turn only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier_for_turn: Option<String>,
    /// The way of working together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collaboration_mode: Option<CollaborationMode>,
    /// A JSON Schema for the answer of this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Where commands of this turn run; empty means no commands and no files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environments: Option<Vec<ThreadEnvironment>>,
    /// Sent to the model provider with this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responsesapi_client_metadata: Option<BTreeMap<String, String>>,
    /// Text for the model besides the input, by its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_context: Option<BTreeMap<String, AdditionalContext>>,
    /// What caused the turn, in the caller's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_trigger: Option<String>,
    /// The turn on whose behalf this one is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_turn_id: Option<String>,
    /// The first turn of that chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_turn_id: Option<String>,
    /// Output of a function in place of a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_output: Option<Map<String, Value>>,
    /// Plugins to switch off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_plugin_ids: Option<Vec<String>>,
    /// What to do when a turn runs; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_busy: Option<WhenBusy>,
    /// The same key again starts nothing; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// With whom the turn goes while it waits; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_to: Option<BoundTo>,
    /// How long the turn may take from its acceptance; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Refuse the turn rather than run it without a sandbox; ours. The server sets it for clients
    /// that may not run anything unconfined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_sandbox: Option<bool>,
}

impl TurnStartParams {
    /// The one sandbox meant by the two members that may carry it.
    pub fn chosen_sandbox(&self) -> Result<Option<&SandboxPolicy>, SandboxDisagreement> {
        SandboxPolicy::agreed(self.sandbox.as_ref(), self.sandbox_policy.as_ref())
    }

    /// Returns true if the turn may run only in a sandbox.
    pub fn requires_sandbox(&self) -> bool {
        self.require_sandbox == Some(true)
    }
}

/// What `turn/start` does when a turn runs; without it, it steers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum WhenBusy {
    /// Wait in the queue.
    Queue,
    /// Refuse.
    Reject,
}

/// With whom a waiting turn goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum BoundTo {
    /// With the connection that asked for it.
    Connection,
}

/// Text for the model besides the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdditionalContext {
    /// Whether the model should trust it.
    pub kind: AdditionalContextKind,
    /// The text.
    pub value: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Whether the model should trust a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum AdditionalContextKind {
    /// It should not.
    Untrusted,
    /// It comes from the client itself.
    Application,
}

/// The answer to `turn/start`: turn and message are on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnStartAnswer {
    /// The turn: a new one, the one that was steered, or one that waits.
    pub turn: Turn,
    /// The row of a turn that waits; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_turn: Option<Box<QueuedTurn>>,
}
