//! `thread/list`: finds threads, page by page.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::thread::Thread;

/// The method.
pub const METHOD: &str = "thread/list";

/// Params of `thread/list`; every one narrows or orders the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadListParams {
    /// Where the page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// What they are sorted by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort_key: Option<ThreadSortKey>,
    /// From which end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort_direction: Option<SortDirection>,
    /// Archived ones instead of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    /// Only those of these working directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<CwdFilter>,
    /// Only those with this in name or preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search_term: Option<String>,
    /// Only those made by such programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_kinds: Option<Vec<ThreadSourceKind>>,
    /// Only those of these providers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_providers: Option<Vec<String>>,
    /// Only those made by the agent of this thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_thread_id: Option<String>,
    /// None of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded_thread_ids: Option<Vec<String>>,
    /// Given: an empty page, since we have no sections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_id: Option<String>,
}

/// One working directory or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "a path or a list of paths")]
pub enum CwdFilter {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl CwdFilter {
    /// The directories.
    pub fn paths(&self) -> &[String] {
        match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::Many(paths) => paths,
        }
    }
}

/// What threads are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThreadSortKey {
    /// When they were made.
    #[default]
    CreatedAt,
    /// When they last changed.
    UpdatedAt,
    /// When somebody last worked with them.
    RecencyAt,
    /// Reserved by Codex.
    SectionPosition,
}

/// From which end a list is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum SortDirection {
    /// The smallest or oldest first.
    Asc,
    /// The largest or newest first.
    Desc,
}

/// What kind of program made a thread, as a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ThreadSourceKind {
    /// A terminal UI.
    Cli,
    /// An editor.
    #[serde(rename = "vscode")]
    VsCode,
    /// A run without a person.
    Exec,
    /// A client of this protocol.
    AppServer,
    /// Any work done for another thread.
    SubAgent,
    /// A review.
    SubAgentReview,
    /// A compaction.
    SubAgentCompact,
    /// An agent called by an agent.
    SubAgentThreadSpawn,
    /// Other work done for another thread; fan-out items are listed by it.
    SubAgentOther,
    /// Nothing is known.
    Unknown,
}

/// The answer to `thread/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadListAnswer {
    /// The threads, without turns.
    pub data: Vec<Thread>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
    /// Where the opposite direction begins.
    pub backwards_cursor: Option<String>,
    /// What has been read by people; Codex only.
    pub read_states: Option<Map<String, Value>>,
}
