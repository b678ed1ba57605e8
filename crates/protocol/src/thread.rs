//! A thread: one conversation with its history and settings.
//!
//! The invariant here: a [`Thread`] that is written has all its members, null where nothing is
//! known, so that strict clients decode it in every state. Times are seconds since 1970.
//!
//! What a thread's status means for its turns is the lane's business.

mod source;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{QueuedTurnId, ThreadId, TurnId};
use crate::turn::{Turn, TurnStatus};
use crate::turn_error::ErrorKind;

pub use source::{SessionSource, SubAgentSource};

/// A thread as answers and notifications show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Thread {
    /// The thread.
    pub id: ThreadId,
    /// Root of the tree of forks it belongs to; its own id for roots.
    pub session_id: ThreadId,
    /// The first user text, shortened; empty before there is one.
    pub preview: String,
    /// Whether it is kept in memory only.
    pub ephemeral: bool,
    /// Who serves its model.
    pub model_provider: String,
    /// When it was made.
    pub created_at: i64,
    /// When it last changed.
    pub updated_at: i64,
    /// What it is doing.
    pub status: ThreadStatus,
    /// Its working directory.
    pub cwd: String,
    /// The compatibility version of the server that made it.
    pub cli_version: String,
    /// What kind of program made it.
    pub source: SessionSource,
    /// Its turns where they were asked for, else none.
    pub turns: Vec<Turn>,
    /// Reserved by Codex.
    pub project_id: Option<String>,
    /// What people call it.
    pub name: Option<String>,
    /// A file of Codex; ours have none.
    pub path: Option<String>,
    /// The thread it was forked from.
    pub forked_from_id: Option<ThreadId>,
    /// The thread whose agent made it.
    pub parent_thread_id: Option<ThreadId>,
    /// The model of its next turn.
    pub model: Option<String>,
    /// The effort of its next turn.
    pub reasoning_effort: Option<String>,
    /// The repository of its working directory.
    pub git_info: Option<GitInfo>,
    /// `paginated`: history is read in pages. Codex also has `legacy`.
    pub history_mode: Option<String>,
    /// Where its commands run, the current one first.
    pub environments: Option<Vec<ThreadEnvironment>>,
    /// What lists by recency sort by.
    pub recency_at: Option<i64>,
    /// The name of the client that made it.
    pub originator: Option<String>,
    /// Whether it takes turns.
    pub can_accept_direct_input: Option<bool>,
    /// What its maker said it is for.
    pub thread_source: Option<String>,
    /// Reserved by Codex.
    pub agent_nickname: Option<String>,
    /// Reserved by Codex.
    pub agent_role: Option<String>,
    /// Reserved by Codex.
    pub section: Option<Value>,
    /// Reserved by Codex.
    pub section_entered_at: Option<i64>,
    /// Reserved by Codex.
    pub extra: Option<Map<String, Value>>,
    /// Reserved by Codex.
    pub daybreak_enabled: Option<bool>,
    /// What runs its turns; ours.
    #[serde(default)]
    pub engine: Option<String>,
    /// The name it is found by; ours.
    #[serde(default)]
    pub binding: Option<String>,
    /// Its queue in short; ours.
    #[serde(default)]
    pub queue: Option<QueueSummary>,
    /// How its last turn stands, in lists for clients that know our fields; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_turn: Option<LastTurn>,
}

/// How a thread's last turn stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LastTurn {
    /// The turn.
    pub id: TurnId,
    /// Whether it runs, or how it ended.
    pub status: TurnStatus,
    /// When it began, in milliseconds since 1970.
    pub started_at_ms: i64,
    /// When it ended; none while it runs.
    pub completed_at_ms: Option<i64>,
    /// Why it failed, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<ErrorKind>,
}

/// What a thread is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum ThreadStatus {
    /// It is stored and nobody has opened it.
    NotLoaded,
    /// It waits for a turn.
    Idle,
    /// Its last turn failed; it takes turns all the same.
    SystemError,
    /// A turn runs.
    Active {
        /// What the turn waits for.
        active_flags: Vec<ActiveFlag>,
    },
}

/// What a running turn waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ActiveFlag {
    /// A decision.
    WaitingOnApproval,
    /// An answer to a question.
    WaitingOnUserInput,
}

/// The repository of a working directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct GitInfo {
    /// The branch.
    pub branch: Option<String>,
    /// Where it was cloned from.
    pub origin_url: Option<String>,
    /// The commit.
    pub sha: Option<String>,
}

/// A place where commands of a thread run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadEnvironment {
    /// `local` or the name of a configured exec-server.
    pub environment_id: String,
    /// The working directory there.
    pub cwd: String,
    /// Directories the agent works in there; as a param it may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_workspace_roots: Option<Vec<String>>,
}

/// A thread's queue in short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueueSummary {
    /// How many turns wait.
    pub depth: u32,
    /// Somebody has stopped it.
    pub paused: Option<QueuePaused>,
    /// It waits for a provider or a person.
    pub waiting: Option<QueueWaiting>,
    /// Its head failed and holds it.
    pub blocked: Option<QueueBlocked>,
}

/// Who has stopped a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueuePaused {
    /// `user`, `interrupt`, or what the caller said.
    pub reason: String,
    /// The client.
    pub by: Option<String>,
    /// When, in milliseconds since 1970.
    pub since_ms: i64,
}

/// What a queue waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueueWaiting {
    /// The kind of error it waits out.
    pub kind: ErrorKind,
    /// The error's text.
    pub message: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: i64,
    /// Until when; none when only a person can end it.
    pub until_ms: Option<i64>,
}

/// What holds a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueueBlocked {
    /// The failed row.
    pub queued_turn_id: QueuedTurnId,
    /// Why it failed.
    pub message: String,
}
