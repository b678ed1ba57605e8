//! When an agent asks, and whom.

use serde::{Deserialize, Serialize};

/// When an agent must ask before it acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalPolicy {
    /// Before everything but commands known to be harmless.
    Untrusted,
    /// When the model asks to leave the sandbox. `on-failure`, which earlier clients send, is read
    /// as this and echoed as this.
    #[serde(alias = "on-failure")]
    OnRequest,
    /// Never: what the sandbox refuses stays refused.
    Never,
    /// One switch per kind of question.
    Granular(GranularApproval),
}

/// Which kinds of questions are asked; the others are declined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "five independent switches of the protocol"
)]
pub struct GranularApproval {
    /// Questions of MCP servers.
    pub mcp_elicitations: bool,
    /// Questions caused by rules about commands.
    pub rules: bool,
    /// Leaving the sandbox.
    pub sandbox_approval: bool,
    /// More permissions for the rest of the turn.
    #[serde(default)]
    pub request_permissions: bool,
    /// Use of a skill.
    #[serde(default)]
    pub skill_approval: bool,
}

/// The reviewer of approvals. Turnlane has no reviewer model: under [`ApprovalsReviewer::AutoReview`]
/// no client is asked, and everything that needs an approval is declined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ApprovalsReviewer {
    /// The clients of the thread.
    #[default]
    User,
    /// A second model. `guardian_subagent`, its former name, is read as this and echoed as this.
    #[serde(alias = "guardian_subagent")]
    AutoReview,
}

/// What callers may send where an approval policy is wanted; only for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
pub enum ApprovalPolicyChoice {
    /// The words and shapes of today.
    Policy(ApprovalPolicy),
    /// The word of earlier clients.
    Former(FormerApprovalPolicy),
}

/// The word of earlier clients; only for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(rename_all = "kebab-case")]
pub enum FormerApprovalPolicy {
    /// Read as `on-request`.
    OnFailure,
}
