//! `thread/name/set`: gives a thread a name.

use serde::{Deserialize, Serialize};

/// The method; its answer is [`Done`](super::Done).
pub const METHOD: &str = "thread/name/set";

/// Params of `thread/name/set`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadNameSetParams {
    /// The thread.
    pub thread_id: String,
    /// Its name.
    pub name: String,
}
