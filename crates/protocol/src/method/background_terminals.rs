//! `thread/backgroundTerminals/*`: commands of a thread that outlived their turn.

use serde::{Deserialize, Serialize};

use crate::ids::ItemId;

/// Lists them.
pub const LIST: &str = "thread/backgroundTerminals/list";
/// Ends one with its descendants.
pub const TERMINATE: &str = "thread/backgroundTerminals/terminate";
/// Ends all with their descendants; its answer is [`Done`](super::Done).
pub const CLEAN: &str = "thread/backgroundTerminals/clean";

/// Params of [`LIST`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BackgroundTerminalsListParams {
    /// The thread.
    pub thread_id: String,
    /// Where the page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The answer to [`LIST`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BackgroundTerminalsListAnswer {
    /// What runs.
    pub data: Vec<BackgroundTerminal>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// A command that outlived its turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BackgroundTerminal {
    /// The item that started it.
    pub item_id: ItemId,
    /// Its name towards the model and in [`TERMINATE`].
    pub process_id: String,
    /// The command line.
    pub command: String,
    /// Its directory.
    pub cwd: String,
    /// Its number in the operating system, where it runs on this machine.
    pub os_pid: Option<u32>,
    /// The share of one processor it uses, where that is measured.
    pub cpu_percent: Option<f64>,
    /// The memory it holds, where that is measured.
    pub rss_kb: Option<u64>,
}

/// Params of [`TERMINATE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BackgroundTerminalsTerminateParams {
    /// The thread.
    pub thread_id: String,
    /// The command.
    pub process_id: String,
}

/// The answer to [`TERMINATE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BackgroundTerminalsTerminateAnswer {
    /// Whether there was one to end.
    pub terminated: bool,
}

/// Params of [`CLEAN`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BackgroundTerminalsCleanParams {
    /// The thread.
    pub thread_id: String,
}
