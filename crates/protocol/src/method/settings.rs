//! Settings that several methods share: what a thread's turns are run with.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::policy::{ApprovalPolicy, ApprovalsReviewer, SandboxDisagreement, SandboxPolicy};

/// What a caller may choose for a thread at start, resume and fork.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Overrides {
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Who serves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
    /// The working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// When the agent asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::policy::ApprovalPolicyChoice>")
    )]
    pub approval_policy: Option<ApprovalPolicy>,
    /// Whom it asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    /// Where commands may write; the name Codex uses here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::policy::SandboxChoice>")
    )]
    pub sandbox: Option<SandboxPolicy>,
    /// Where commands may write; the name earlier clients use here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::policy::SandboxChoice>")
    )]
    pub sandbox_policy: Option<SandboxPolicy>,
    /// A named set of permissions in place of a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// Keys of the shared configuration, below the members beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    /// What the model is told before everything else, in place of the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<String>,
    /// What the model is told besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
    /// The tone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub personality: Option<Personality>,
    /// The provider's class of service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// Directories the agent works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_workspace_roots: Option<Vec<String>>,
}

impl Overrides {
    /// The one sandbox meant by the two members that may carry it.
    pub fn chosen_sandbox(&self) -> Result<Option<&SandboxPolicy>, SandboxDisagreement> {
        SandboxPolicy::agreed(self.sandbox.as_ref(), self.sandbox_policy.as_ref())
    }

    /// These settings, and `fallback` where they are silent.
    ///
    /// The members for the sandbox go together: a sandbox or a profile chosen here hides the
    /// fallback's under every name, so that they cannot disagree by accident.
    #[must_use]
    pub fn or(self, fallback: Self) -> Self {
        let chosen = (self.sandbox, self.sandbox_policy, self.permissions);
        let (sandbox, sandbox_policy, permissions) = match chosen {
            (None, None, None) => (
                fallback.sandbox,
                fallback.sandbox_policy,
                fallback.permissions,
            ),
            chosen => chosen,
        };
        Self {
            model: self.model.or(fallback.model),
            model_provider: self.model_provider.or(fallback.model_provider),
            cwd: self.cwd.or(fallback.cwd),
            approval_policy: self.approval_policy.or(fallback.approval_policy),
            approvals_reviewer: self.approvals_reviewer.or(fallback.approvals_reviewer),
            sandbox,
            sandbox_policy,
            permissions,
            config: self.config.or(fallback.config),
            base_instructions: self.base_instructions.or(fallback.base_instructions),
            developer_instructions: self
                .developer_instructions
                .or(fallback.developer_instructions),
            personality: self.personality.or(fallback.personality),
            service_tier: self.service_tier.or(fallback.service_tier),
            runtime_workspace_roots: self
                .runtime_workspace_roots
                .or(fallback.runtime_workspace_roots),
        }
    }
}

/// The tone of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Personality {
    /// The model's own.
    None,
    /// Warm.
    Friendly,
    /// Short.
    Pragmatic,
}

/// How much of its reasoning a model sums up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ReasoningSummary {
    /// The model chooses.
    Auto,
    /// Little.
    Concise,
    /// Much.
    Detailed,
    /// Nothing.
    None,
}

/// A way of working together, with what it is run with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollaborationMode {
    /// Which one.
    pub mode: ModeKind,
    /// What it is run with.
    pub settings: CollaborationSettings,
}

/// A way of working together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ModeKind {
    /// The agent plans and changes nothing.
    Plan,
    /// The agent works.
    Default,
}

/// What a way of working together is run with; written in snake case, as Codex does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollaborationSettings {
    /// The model.
    pub model: String,
    /// How hard it thinks.
    pub reasoning_effort: Option<String>,
    /// What it is told besides.
    pub developer_instructions: Option<String>,
}

/// What the next turn of a thread will be run with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettings {
    /// The working directory.
    pub cwd: String,
    /// When the agent asks.
    pub approval_policy: ApprovalPolicy,
    /// Whom it asks.
    pub approvals_reviewer: ApprovalsReviewer,
    /// Where commands may write.
    pub sandbox_policy: SandboxPolicy,
    /// A named set of permissions in use.
    pub active_permission_profile: Option<Value>,
    /// The model.
    pub model: String,
    /// Who serves it.
    pub model_provider: String,
    /// The provider's class of service.
    pub service_tier: Option<String>,
    /// How hard the model thinks.
    pub effort: Option<String>,
    /// How much of its reasoning it sums up.
    pub summary: Option<ReasoningSummary>,
    /// The way of working together.
    pub collaboration_mode: CollaborationMode,
    /// Whether the agent may call others by itself; a word or an object of Codex.
    pub multi_agent_mode: Option<Value>,
    /// The tone.
    pub personality: Option<Personality>,
    /// Plugins that are switched off.
    #[serde(default)]
    pub disabled_plugin_ids: Vec<String>,
}
