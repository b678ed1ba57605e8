//! What happened to a thread.

use serde::{Deserialize, Serialize};

use crate::ids::{ThreadId, TurnId};
use crate::method::{ReadState, ThreadGoal, ThreadSettings};
use crate::queue::{QueueState, QueuedTurn};
use crate::thread::{Thread, ThreadStatus};
use crate::usage::ThreadTokenUsage;

/// There is a new thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadStarted {
    /// The thread.
    pub thread: Box<Thread>,
}

/// A thread does something else than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadStatusChanged {
    /// The thread.
    pub thread_id: ThreadId,
    /// What it does.
    pub status: ThreadStatus,
}

/// A thread has another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadNameUpdated {
    /// The thread.
    pub thread_id: ThreadId,
    /// Its name.
    pub thread_name: Option<String>,
}

/// The next turn of a thread will be run with other settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettingsUpdated {
    /// The thread.
    pub thread_id: ThreadId,
    /// All its settings.
    pub thread_settings: Box<ThreadSettings>,
}

/// Another turn waits in a thread's queue, or something else holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueChanged {
    /// The thread; all that Codex says.
    pub thread_id: ThreadId,
    /// The first of the rows that wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_turns: Option<Vec<QueuedTurn>>,
    /// Whether there are more than are shown here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// What holds the queue.
    #[serde(flatten)]
    pub state: Option<QueueState>,
}

/// A thread has used more tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadTokenUsageUpdated {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn that used them.
    pub turn_id: TurnId,
    /// What has been used.
    pub token_usage: ThreadTokenUsage,
}

/// A thread was put away, taken back, unloaded, shortened or removed; the method says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadMoved {
    /// The thread.
    pub thread_id: ThreadId,
}

/// A thread is read to another place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadReadStateChanged {
    /// The thread.
    pub thread_id: ThreadId,
    /// How far it is read.
    pub read_state: ReadState,
}

/// A thread has another goal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoalUpdated {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn that changed it.
    pub turn_id: Option<TurnId>,
    /// The goal.
    pub goal: ThreadGoal,
}
