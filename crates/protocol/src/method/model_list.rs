//! `model/list`: the models a caller can choose from.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The method.
pub const METHOD: &str = "model/list";

/// Params of `model/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelListParams {
    /// Where the page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Also those that are not offered to people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_hidden: Option<bool>,
}

/// The answer to `model/list`; never empty when it comes from us.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelListAnswer {
    /// The models, the default one first.
    pub data: Vec<Model>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// Its name in this list.
    pub id: String,
    /// Its name towards the provider.
    pub model: String,
    /// Its name towards people.
    pub display_name: String,
    /// What it is good for.
    pub description: String,
    /// Whether people are not shown it.
    pub hidden: bool,
    /// Whether threads use it that choose none.
    pub is_default: bool,
    /// How hard it can think.
    pub supported_reasoning_efforts: Vec<ReasoningEffortOption>,
    /// How hard it thinks when nobody chooses.
    pub default_reasoning_effort: String,
    /// What it can be given.
    #[serde(default)]
    pub input_modalities: Vec<InputModality>,
    /// Whether its tone can be chosen.
    #[serde(default)]
    pub supports_personality: bool,
    /// Classes of service; Codex only.
    #[serde(default)]
    pub service_tiers: Vec<Value>,
    /// Classes of service by their older name; Codex only.
    #[serde(default)]
    pub additional_speed_tiers: Vec<String>,
    /// Reserved by Codex.
    pub upgrade: Option<String>,
    /// Reserved by Codex.
    pub upgrade_info: Option<Value>,
    /// Reserved by Codex.
    pub availability_nux: Option<Value>,
    /// Reserved by Codex.
    pub default_service_tier: Option<String>,
    /// Reserved by Codex.
    pub model_specialty: Option<String>,
    /// Reserved by Codex.
    pub available_access_programs: Option<Value>,
    /// Reserved by Codex.
    pub multi_agent_version: Option<String>,
}

/// One way a model can think.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReasoningEffortOption {
    /// The word for it.
    pub reasoning_effort: String,
    /// What it means.
    pub description: String,
}

/// What a model can be given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum InputModality {
    /// Text.
    Text,
    /// Pictures.
    Image,
    /// Sound.
    Audio,
    /// A word of another server, kept as it came.
    #[serde(untagged)]
    Unlisted(String),
}
