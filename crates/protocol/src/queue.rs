//! The queue of a thread as clients see it: rows that wait, and what holds them.
//!
//! The invariant here: one row object satisfies both dialects, Codex's (`id`, `input`,
//! `clientUserMessageId`) and ours (everything), so whoever decodes strictly finds what it knows.
//!
//! What happens to rows, and when, is decided by the runtime.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{QueuedTurnId, TurnId};
use crate::thread::QueueSummary;
use crate::turn_error::TurnError;

/// A turn that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueuedTurn {
    /// The row.
    pub id: QueuedTurnId,
    /// Whether it waits or has failed.
    pub status: QueuedTurnStatus,
    /// What it is started with, as it was stored; null when that cannot be read any more.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::method::TurnStartParams>")
    )]
    pub turn_start_params: Value,
    /// What is said to the agent.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::input::UserInput>"))]
    pub input: Vec<Value>,
    /// The client's id of the message, or the row's.
    pub client_user_message_id: String,
    /// The turn it becomes when it runs.
    pub turn_id: TurnId,
    /// The turn it last was, once it has come back.
    pub last_turn_id: Option<TurnId>,
    /// How many rows stand in front of it.
    pub position: u32,
    /// How often it was taken out to be run.
    pub attempts: u32,
    /// Not run before, in milliseconds since 1970.
    pub not_before_ms: Option<i64>,
    /// Who added it.
    pub source: String,
    /// When it was added, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When it last changed.
    pub updated_at_ms: i64,
}

/// Whether a row waits or has failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum QueuedTurnStatus {
    /// It waits.
    Pending,
    /// It could not be run; at the head it holds the queue.
    Failed {
        /// Why.
        error: Box<TurnError>,
    },
}

/// What holds a queue, and how much waits in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueueState {
    /// Depth, pause, wait and failed head.
    #[serde(flatten)]
    pub summary: QueueSummary,
    /// What runs, or is about to.
    pub running: Option<QueueRunning>,
    /// Counts the changes of what is visible of the queue.
    pub revision: i64,
}

/// What occupies a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueueRunning {
    /// Its row.
    pub queued_turn_id: Option<QueuedTurnId>,
    /// The turn.
    pub turn_id: TurnId,
}
