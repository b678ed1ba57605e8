//! A turn: one unit of work on a thread.
//!
//! The invariant here: a [`Turn`] that is written has all its members, null where nothing is known,
//! so that strict clients decode it in every state.
//!
//! How a turn comes to its end is the lane's business; why it failed is in [`crate::turn_error`].

use serde::{Deserialize, Serialize};

use crate::ids::{QueuedTurnId, TurnId};
use crate::item::ThreadItem;
use crate::turn_error::TurnError;
use crate::usage::TurnUsage;

/// A turn as answers and notifications show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// The turn.
    pub id: TurnId,
    /// First turn of the chain of work this one belongs to; its own id when it began the chain.
    pub root_turn_id: Option<TurnId>,
    /// As many of its items as `items_view` says.
    pub items: Vec<ThreadItem>,
    /// How many items are shown.
    #[serde(default)]
    pub items_view: ItemsView,
    /// Where it stands.
    pub status: TurnStatus,
    /// Why it failed, or was cut off.
    pub error: Option<TurnError>,
    /// Seconds since 1970.
    pub started_at: Option<i64>,
    /// Seconds since 1970.
    pub completed_at: Option<i64>,
    /// From start to end.
    pub duration_ms: Option<i64>,
    /// The row it waited in; ours.
    #[serde(default)]
    pub queued_turn_id: Option<QueuedTurnId>,
    /// Which try of its row it is, from 1; ours.
    #[serde(default)]
    pub attempt: Option<u32>,
    /// Who asked for it; ours.
    #[serde(default)]
    pub source: Option<TurnSource>,
    /// What it has used, set at its end; ours.
    #[serde(default)]
    pub usage: Option<TurnUsage>,
}

impl Turn {
    /// A turn that is accepted and has not begun: what `turn/start` answers.
    pub fn accepted(id: TurnId) -> Self {
        Self {
            id,
            root_turn_id: Some(id),
            items: Vec::new(),
            items_view: ItemsView::NotLoaded,
            status: TurnStatus::InProgress,
            error: None,
            started_at: None,
            completed_at: None,
            duration_ms: None,
            queued_turn_id: None,
            attempt: None,
            source: None,
            usage: None,
        }
    }
}

/// Where a turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum TurnStatus {
    /// Accepted and not ended.
    InProgress,
    /// Ended by itself.
    Completed,
    /// Stopped by somebody, or by the end of its process.
    Interrupted,
    /// Ended by an error.
    Failed,
}

impl TurnStatus {
    /// Whether nothing more will happen to the turn.
    pub fn is_final(self) -> bool {
        self != Self::InProgress
    }
}

/// How many of a turn's items are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ItemsView {
    /// None.
    NotLoaded,
    /// The ones a list would show.
    Summary,
    /// All.
    #[default]
    Full,
}

/// Who asked for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum TurnSource {
    /// `turn/start`.
    Direct,
    /// `thread/queue/add`.
    Queue,
    /// A schedule.
    Schedule,
    /// A row of a fan-out job.
    Fanout,
    /// The orchestrator's lane.
    Shim,
}
