//! `thread/start`: makes a thread. Its answer is also that of `thread/fork`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Overrides;
use crate::ids::ThreadId;
use crate::policy::{ApprovalPolicy, ApprovalsReviewer, SandboxPolicy};
use crate::thread::{Thread, ThreadEnvironment};

/// The method.
pub const METHOD: &str = "thread/start";

/// The only `multiAgentMode` we write: agents call others when they are told to.
pub const MULTI_AGENT_MODE: &str = "explicitRequestOnly";

/// Params of `thread/start`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadStartParams {
    /// What its turns are run with.
    #[serde(flatten)]
    pub overrides: Overrides,
    /// Keep it in memory only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<bool>,
    /// Where its commands run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environments: Option<Vec<ThreadEnvironment>>,
    /// Tools that the calling connection serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_tools: Option<Vec<Map<String, Value>>>,
    /// What the thread is for, in the caller's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_source: Option<String>,
    /// Why a terminal UI starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_start_source: Option<StartSource>,
    /// The caller's name towards the model provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// What runs its turns; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The name it is to be found by; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    /// The thread whose binding and waiting turns it takes over; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<String>,
    /// The same key again makes no second thread: the first one is answered, with `existing`; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// How many turns may wait; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_max_depth: Option<u32>,
}

/// Why a terminal UI starts a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum StartSource {
    /// It was started itself.
    Startup,
    /// Its user cleared the conversation.
    Clear,
}

/// The answer to `thread/start` and `thread/fork`: the values in effect, never an echo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StartAnswer {
    /// The thread.
    pub thread: Thread,
    /// Its model.
    pub model: String,
    /// Who serves it.
    pub model_provider: String,
    /// Its working directory.
    pub cwd: String,
    /// When the agent asks.
    pub approval_policy: ApprovalPolicy,
    /// Whom it asks.
    pub approvals_reviewer: ApprovalsReviewer,
    /// Where commands may write.
    pub sandbox: SandboxPolicy,
    /// The provider's class of service.
    pub service_tier: Option<String>,
    /// How hard the model thinks.
    pub reasoning_effort: Option<String>,
    /// Files with instructions that are in effect.
    #[serde(default)]
    pub instruction_sources: Vec<String>,
    /// Directories the agent works in.
    #[serde(default)]
    pub runtime_workspace_roots: Vec<String>,
    /// A named set of permissions in use.
    pub active_permission_profile: Option<Value>,
    /// Plugins that are switched off.
    #[serde(default)]
    pub disabled_plugin_ids: Vec<String>,
    /// [`MULTI_AGENT_MODE`]; Codex has other words and shapes.
    pub multi_agent_mode: Option<Value>,
    /// True when the binding or the key led to a thread that was there before; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing: Option<bool>,
    /// Whether its engine could run a turn now; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_status: Option<EngineStatus>,
}

impl StartAnswer {
    /// The thread that was started.
    pub fn thread_id(&self) -> ThreadId {
        self.thread.id
    }
}

/// Whether an engine could run a turn now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EngineStatus {
    /// It could.
    pub ok: bool,
    /// Why it could not.
    pub reason: Option<String>,
}
