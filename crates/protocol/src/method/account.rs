//! `account/*`: who pays for the model. We have no accounts of our own: a key is all there is.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::thread_resume::is_false;

/// Shows whose key is used.
pub const READ: &str = "account/read";
/// Shows how much may still be used.
pub const RATE_LIMITS_READ: &str = "account/rateLimits/read";
/// Asked by the terminal UI before it starts.
pub const CHECK_GOV_CLOUD: &str = "account/bedrock/checkGovCloudRequirements";

/// Params of [`READ`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AccountReadParams {
    /// Renew a token first; without effect here.
    #[serde(default, skip_serializing_if = "is_false")]
    pub refresh_token: bool,
}

/// The answer to [`READ`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AccountReadAnswer {
    /// Whose key is used; none without one.
    pub account: Option<Account>,
    /// Whether a person has to log in first; never with us.
    pub requires_openai_auth: bool,
    /// Reserved by Codex.
    pub workspace_routing: Option<Value>,
}

/// Whose key is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Account {
    /// The holder of an API key.
    ApiKey,
    /// Another kind of account, of another server; kept as it came.
    #[serde(untagged)]
    Unlisted(Map<String, Value>),
}

/// The answer to [`RATE_LIMITS_READ`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RateLimitsReadAnswer {
    /// What the provider last said, as Codex writes it; empty when it said nothing.
    pub rate_limits: Map<String, Value>,
    /// The same by the provider's name for each limit.
    pub rate_limits_by_limit_id: Option<Map<String, Value>>,
}

/// The answer to [`CHECK_GOV_CLOUD`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct GovCloudAnswer {
    /// Whether the provider is such a cloud.
    pub is_gov_cloud: bool,
    /// Whether the UI should say so.
    pub should_warn: bool,
}
