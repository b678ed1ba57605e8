//! `thread/resume`: opens a thread and follows it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CollaborationMode, Overrides, SortDirection, StartAnswer};
use crate::turn::{ItemsView, Turn};

/// The method.
pub const METHOD: &str = "thread/resume";

/// Params of `thread/resume`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadResumeParams {
    /// The thread.
    pub thread_id: String,
    /// What its next turns are run with.
    #[serde(flatten)]
    pub overrides: Overrides,
    /// The same in the place where earlier clients put it; the flat members win.
    #[serde(default, rename = "overrides", skip_serializing_if = "Option::is_none")]
    pub nested_overrides: Option<Box<Overrides>>,
    /// Answer without turns.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclude_turns: bool,
    /// Answer with a page of turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_turns_page: Option<InitialTurnsPageParams>,
    /// The last event the caller has seen; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_seq: Option<u64>,
    /// The epoch that `since_seq` belongs to; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
    /// Not supported; read so that it can be refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Value>,
    /// Not supported; read so that it can be refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Value>,
}

impl ThreadResumeParams {
    /// What the caller chose, wherever it was put.
    pub fn effective_overrides(&self) -> Overrides {
        match &self.nested_overrides {
            Some(nested) => self.overrides.clone().or(Overrides::clone(nested)),
            None => self.overrides.clone(),
        }
    }
}

/// Which page of turns the answer carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InitialTurnsPageParams {
    /// How many turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// From which end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort_direction: Option<SortDirection>,
    /// With how many items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items_view: Option<ItemsView>,
}

/// The answer to `thread/resume`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadResumeAnswer {
    /// The thread and the values in effect.
    #[serde(flatten)]
    pub start: StartAnswer,
    /// The way of working together.
    pub collaboration_mode: Option<CollaborationMode>,
    /// The page that was asked for.
    pub initial_turns_page: Option<TurnsPage>,
    /// Where older turns begin.
    pub turns_backwards_cursor: Option<String>,
    /// Where older items begin.
    pub items_backwards_cursor: Option<String>,
    /// Where live events go on; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<EventsPosition>,
}

/// A page of turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnsPage {
    /// The turns.
    pub data: Vec<Turn>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
    /// Where the opposite direction begins.
    pub backwards_cursor: Option<String>,
}

/// Where the live events of a thread go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventsPosition {
    /// Changes whenever the thread is loaded anew and numbers start again.
    pub epoch: String,
    /// The number of the last event before the live ones.
    pub seq: u64,
    /// `snapshot` when missed events could not be replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape serde calls")]
pub(super) fn is_false(value: &bool) -> bool {
    !value
}
