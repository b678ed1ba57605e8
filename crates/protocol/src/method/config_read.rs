//! `config/read`, `configRequirements/read`: what is configured, and what an operator demands.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::thread_resume::is_false;

/// Shows the configuration in effect, without secrets.
pub const READ: &str = "config/read";
/// Shows what an operator demands; nothing with us.
pub const REQUIREMENTS_READ: &str = "configRequirements/read";

/// The keys that are always in the answer, null where nothing is configured: strict clients of
/// Codex decode them.
pub const SHARED_KEYS: &[&str] = &[
    "analytics",
    "approval_policy",
    "approvals_reviewer",
    "apps",
    "browser_use",
    "compact_prompt",
    "computer_use",
    "desktop",
    "developer_instructions",
    "forced_chatgpt_workspace_id",
    "forced_login_method",
    "instructions",
    "model",
    "model_auto_compact_token_limit",
    "model_auto_compact_token_limit_scope",
    "model_context_window",
    "model_provider",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "model_verbosity",
    "review_model",
    "sandbox_mode",
    "sandbox_workspace_write",
    "service_tier",
    "tools",
    "web_search",
];

/// Params of [`READ`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConfigReadParams {
    /// The directory whose project's configuration is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Also show where values come from.
    #[serde(default, skip_serializing_if = "is_false")]
    pub include_layers: bool,
}

/// The answer to [`READ`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfigReadAnswer {
    /// The values in effect; at least [`SHARED_KEYS`].
    pub config: Map<String, Value>,
    /// Where each value comes from.
    pub origins: Map<String, Value>,
    /// The files and flags it was made of.
    pub layers: Option<Vec<Value>>,
}

/// The answer to [`REQUIREMENTS_READ`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConfigRequirementsReadAnswer {
    /// What an operator demands.
    pub requirements: Option<Map<String, Value>>,
    /// Codex only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supports_independent_speed_modes: Option<bool>,
}
