//! `thread/settings/update`: changes what a thread's next turns are run with, without a turn.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CollaborationMode, Personality, ReasoningSummary};
use crate::policy::{ApprovalPolicy, ApprovalsReviewer, SandboxDisagreement, SandboxPolicy};

/// The method; its answer is [`Done`](super::Done).
pub const METHOD: &str = "thread/settings/update";

/// Params of `thread/settings/update`; what is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettingsUpdateParams {
    /// The thread.
    pub thread_id: String,
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
    /// Where commands may write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::policy::SandboxChoice>")
    )]
    pub sandbox_policy: Option<SandboxPolicy>,
    /// The same under its other name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::policy::SandboxChoice>")
    )]
    pub sandbox: Option<SandboxPolicy>,
    /// A named set of permissions in place of a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard it thinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// How much of its reasoning it sums up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<ReasoningSummary>,
    /// The tone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub personality: Option<Personality>,
    /// The provider's class of service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// The way of working together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collaboration_mode: Option<CollaborationMode>,
    /// Whether the agent may call others by itself; a word or an object of Codex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multi_agent_mode: Option<Value>,
    /// Plugins to switch off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_plugin_ids: Option<Vec<String>>,
}

impl ThreadSettingsUpdateParams {
    /// The one sandbox meant by the two members that may carry it.
    pub fn chosen_sandbox(&self) -> Result<Option<&SandboxPolicy>, SandboxDisagreement> {
        SandboxPolicy::agreed(self.sandbox.as_ref(), self.sandbox_policy.as_ref())
    }
}
