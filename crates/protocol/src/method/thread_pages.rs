//! `thread/turns/list`, `thread/items/list`, `thread/items/read`: a thread's history, page by page.

use serde::{Deserialize, Serialize};

use super::SortDirection;
use crate::ids::TurnId;
use crate::item::ThreadItem;
use crate::turn::ItemsView;

/// Shows turns; its answer is a [`TurnsPage`](super::TurnsPage).
pub const TURNS_LIST: &str = "thread/turns/list";
/// Shows items across turns.
pub const ITEMS_LIST: &str = "thread/items/list";
/// Shows single items of a turn.
pub const ITEMS_READ: &str = "thread/items/read";

/// Params of [`TURNS_LIST`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadTurnsListParams {
    /// The thread.
    pub thread_id: String,
    /// Only this turn; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// Where the page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// From which end; the newest first when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort_direction: Option<SortDirection>,
    /// With how many items; a summary when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items_view: Option<ItemsView>,
}

/// Params of [`ITEMS_LIST`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadItemsListParams {
    /// The thread.
    pub thread_id: String,
    /// Only items of this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// Where the page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<ItemsCursor>,
    /// How many items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// From which end; the oldest first when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort_direction: Option<SortDirection>,
}

/// Where a page of items begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    untagged,
    expecting = "a cursor or an object with `type` \"item\" and an `itemId`"
)]
pub enum ItemsCursor {
    /// Where another page said.
    Page(String),
    /// At an item.
    Anchor(ItemsAnchor),
}

/// A place in a history that the caller names by what stands there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum ItemsAnchor {
    /// This item, which is the page's first.
    Item {
        /// The item.
        item_id: String,
    },
}

/// The answer to [`ITEMS_LIST`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadItemsListAnswer {
    /// The items.
    pub data: Vec<ItemEntry>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
    /// Where the opposite direction begins.
    pub backwards_cursor: Option<String>,
}

/// An item with its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ItemEntry {
    /// Its turn.
    pub turn_id: TurnId,
    /// The item.
    pub item: ThreadItem,
    /// When it began.
    pub started_at_ms: Option<i64>,
    /// When it ended.
    pub completed_at_ms: Option<i64>,
}

/// Params of [`ITEMS_READ`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadItemsReadParams {
    /// The thread.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
    /// The items.
    pub item_ids: Vec<String>,
}

/// The answer to [`ITEMS_READ`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadItemsReadAnswer {
    /// Those that exist.
    pub data: Vec<ItemEntry>,
}
