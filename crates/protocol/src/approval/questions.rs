//! Requests of the server that are not answered with a decision: permissions, questions, tools.
//!
//! The invariant here: what an engine asks is passed on without loss; what a client answers is read
//! strictly, so that an answer that does not fit grants nothing.
//!
//! Who is asked and for how long is the server's business.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{ItemId, ThreadId, TurnId};
use crate::item::Extra;

/// Params of [`PERMISSIONS_METHOD`](super::PERMISSIONS_METHOD).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PermissionsApprovalParams {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
    /// The item that needs them.
    pub item_id: ItemId,
    /// When the question arose.
    pub started_at_ms: i64,
    /// Where they would hold.
    pub environment_id: Option<String>,
    /// The directory that relative paths are meant from.
    pub cwd: String,
    /// What is wanted, as Codex writes it.
    pub permissions: Map<String, Value>,
    /// Why the agent asks.
    pub reason: Option<String>,
    /// The approval; an [`ApprovalId`](crate::ids::ApprovalId) when it is ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// When it is declined if nobody answers; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
    /// Members of other engines.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The answer to [`PERMISSIONS_METHOD`](super::PERMISSIONS_METHOD); nothing granted is a no. A member
/// that we do not know might limit the grant, so an answer with one is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionsApprovalAnswer {
    /// What is granted, as Codex writes it.
    pub permissions: Map<String, Value>,
    /// For how long.
    #[serde(default)]
    pub scope: GrantScope,
    /// Reserved by Codex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict_auto_review: Option<bool>,
}

/// For how long a permission is granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum GrantScope {
    /// For the turn.
    #[default]
    Turn,
    /// While the thread is loaded.
    Session,
}

/// Params of [`USER_INPUT_METHOD`](super::USER_INPUT_METHOD).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UserInputParams {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
    /// The item that asks.
    pub item_id: ItemId,
    /// What is asked.
    pub questions: Vec<UserInputQuestion>,
    /// Whether the turn waits for the answer.
    #[serde(default)]
    pub is_blocking: bool,
    /// After which time it goes on without one.
    pub auto_resolution_ms: Option<u64>,
    /// Members of other engines.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A question of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UserInputQuestion {
    /// What its answer is found by.
    pub id: String,
    /// A word or two.
    pub header: String,
    /// The question.
    pub question: String,
    /// Whether something else than the options may be answered.
    #[serde(default)]
    pub is_other: bool,
    /// Whether the answer is not to be shown.
    #[serde(default)]
    pub is_secret: bool,
    /// What may be chosen.
    pub options: Option<Vec<UserInputOption>>,
}

/// An answer that may be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UserInputOption {
    /// The answer.
    pub label: String,
    /// What it means.
    pub description: String,
}

/// The answer to [`USER_INPUT_METHOD`](super::USER_INPUT_METHOD).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UserInputAnswers {
    /// By the question's id.
    pub answers: BTreeMap<String, UserInputAnswer>,
}

/// What a person answered to one question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UserInputAnswer {
    /// The labels that were chosen, or free text.
    pub answers: Vec<String>,
}

/// Params of [`TOOL_CALL_METHOD`](super::TOOL_CALL_METHOD).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DynamicToolCallParams {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
    /// The model's name for the call.
    pub call_id: String,
    /// The tool's family.
    pub namespace: Option<String>,
    /// The tool.
    pub tool: String,
    /// What the model called it with.
    pub arguments: Value,
}

/// The answer to [`TOOL_CALL_METHOD`](super::TOOL_CALL_METHOD).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DynamicToolCallAnswer {
    /// What the model is given.
    pub content_items: Vec<ContentItem>,
    /// Whether it worked.
    pub success: bool,
}

/// A part of what a tool gives back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum ContentItem {
    /// Words.
    InputText {
        /// The words.
        text: String,
    },
    /// A picture.
    InputImage {
        /// A `data:` URL.
        image_url: String,
    },
    /// Sound.
    InputAudio {
        /// A `data:` URL.
        audio_url: String,
    },
}
