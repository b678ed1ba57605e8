//! `thread/loaded/list`, `thread/unsubscribe`: which threads are open, and who follows them no more.

use serde::{Deserialize, Serialize};

use crate::ids::ThreadId;

/// Lists the threads that this process has loaded.
pub const LOADED_LIST: &str = "thread/loaded/list";
/// Ends the caller's subscription to a thread.
pub const UNSUBSCRIBE: &str = "thread/unsubscribe";

/// Params of [`LOADED_LIST`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadLoadedListParams {
    /// The last id of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The answer to [`LOADED_LIST`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadLoadedListAnswer {
    /// The ids, the smallest first.
    pub data: Vec<ThreadId>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Params of [`UNSUBSCRIBE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadUnsubscribeParams {
    /// The thread.
    pub thread_id: String,
}

/// The answer to [`UNSUBSCRIBE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadUnsubscribeAnswer {
    /// What was found.
    pub status: UnsubscribeStatus,
}

/// What an unsubscription found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum UnsubscribeStatus {
    /// A subscription, which is ended.
    Unsubscribed,
    /// A loaded thread without a subscription of the caller.
    NotSubscribed,
    /// No loaded thread of this id.
    NotLoaded,
}
