//! Items that are words: messages, reasoning, plans, prompts of hooks, reviews.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Extra;
use crate::input::UserInput;

/// What a person or program said to the agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    /// What was said.
    pub content: Vec<UserInput>,
    /// The client's own id for it.
    pub client_id: Option<String>,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What the agent said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentMessage {
    /// The words so far.
    pub text: String,
    /// Which part of the answer it is.
    pub phase: Option<MessagePhase>,
    /// Passed through from other engines.
    pub memory_citation: Option<Value>,
    /// Passed through from other engines.
    pub delivery: Option<Value>,
    /// Passed through from other engines.
    pub questions: Option<Value>,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Which part of an answer a message is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MessagePhase {
    /// A remark on the way.
    Commentary,
    /// A part of the answer.
    PartialAnswer,
    /// The answer.
    FinalAnswer,
    /// A word of another engine, kept as it came.
    #[serde(untagged)]
    Unlisted(String),
}

/// What the model thought, as far as its provider shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reasoning {
    /// Summaries, one per part.
    #[serde(default)]
    pub summary: Vec<String>,
    /// The thoughts themselves, one per part.
    #[serde(default)]
    pub content: Vec<String>,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A plan the agent wrote.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// The plan.
    pub text: String,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Text that hooks gave to the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HookPrompt {
    /// One part per run of a hook.
    pub fragments: Vec<HookPromptFragment>,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What one run of a hook gave to the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HookPromptFragment {
    /// The run.
    pub hook_run_id: String,
    /// Its text.
    pub text: String,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The beginning or end of a review.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Review {
    /// What is reviewed, or what came out.
    pub review: String,
    /// Members we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}
