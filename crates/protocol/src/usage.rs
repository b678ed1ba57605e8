//! Counts of tokens: what a model call, a turn and a thread have used.
//!
//! The invariant here: a count that is not known is an absent [`TokenCounts`], never zeros.
//!
//! Nothing is added up here; engines report, the lane keeps totals.

use serde::{Deserialize, Serialize};

/// The five counts of Codex, without their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TokenCounts {
    /// Everything the model read.
    pub input_tokens: i64,
    /// The part of it that came from the provider's cache.
    pub cached_input_tokens: i64,
    /// The part of it that was written to the provider's cache.
    #[serde(default)]
    pub cache_write_input_tokens: i64,
    /// Everything the model wrote.
    pub output_tokens: i64,
    /// The part of it that was reasoning.
    pub reasoning_output_tokens: i64,
}

/// What a turn has used, and its thread up to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnUsage {
    /// The turn alone; none when its engine cannot tell.
    pub turn: Option<TokenCounts>,
    /// The thread up to the end of the turn.
    pub thread: Option<TokenCounts>,
}

/// The counts with their sum, as `thread/tokenUsage/updated` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Read and written together.
    pub total_tokens: i64,
    /// Everything the model read.
    pub input_tokens: i64,
    /// The part of it that came from the provider's cache.
    pub cached_input_tokens: i64,
    /// The part of it that was written to the provider's cache.
    #[serde(default)]
    pub cache_write_input_tokens: i64,
    /// Everything the model wrote.
    pub output_tokens: i64,
    /// The part of it that was reasoning.
    pub reasoning_output_tokens: i64,
}

impl From<TokenUsage> for TokenCounts {
    fn from(usage: TokenUsage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            cached_input_tokens: usage.cached_input_tokens,
            cache_write_input_tokens: usage.cache_write_input_tokens,
            output_tokens: usage.output_tokens,
            reasoning_output_tokens: usage.reasoning_output_tokens,
        }
    }
}

/// What a thread has used, and its last model call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadTokenUsage {
    /// The thread so far.
    pub total: TokenUsage,
    /// The last model call.
    pub last: TokenUsage,
    /// How many tokens fit into the model's context.
    pub model_context_window: Option<i64>,
}
