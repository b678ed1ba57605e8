//! The history of a thread: whole, as a stream, and shortened.
//!
//! The invariant here: a history of any length is read, since it comes in pages; a server without pages
//! is asked for all of it at once. Turns and items are read by one and the same rule wherever they
//! come from.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::pages::{Entries, Listing};
use super::view::{ItemEntry, ThreadView};
use super::{Thread, Threads};
use crate::call::CallOptions;
use crate::core::Core;
use crate::error::{CallError, ThreadError, map};
use crate::ids::{ThreadId, TurnId};
use crate::link::Repeat;
use crate::outcome::TurnView;
use crate::{ThreadListParams, ThreadSummary};

/// Turns and items per page.
pub(super) const PAGE: u32 = 100;
/// Turns per page where they come with all their items.
const FULL_PAGE: u32 = 25;

impl Threads {
    /// Every thread that fits, page by page as it is read; sorted by the last change unless asked
    /// otherwise, because Codex 0.166 loses rows when it sorts by the time they were made.
    pub fn list(
        &self,
        query: ThreadListParams,
    ) -> impl futures_core::Stream<Item = Result<ThreadSummary, CallError>> + Send + Unpin + use<>
    {
        let limit = query.limit;
        let listing = Listing::new("thread/list", list_params(query), limit);
        Entries::new(self.owner.clone(), listing, |thread| {
            ThreadSummary::from_json(&thread)
        })
    }
}

impl Thread {
    /// Its turns with their items, the newest first, page by page as they are read.
    pub fn turns(
        &self,
    ) -> impl futures_core::Stream<Item = Result<TurnView, CallError>> + Send + Unpin + use<> {
        let read: fn(Value) -> Option<TurnView> = |turn| TurnView::from_json(&turn);
        if let Err(closed) = self.state.check_open() {
            return Entries::failed(self.owner.clone(), closed, read);
        }
        let params = object(json!({
            "threadId": self.id(), "sortDirection": "desc", "itemsView": "full",
        }));
        let listing = Listing::new("thread/turns/list", params, Some(FULL_PAGE));
        Entries::new(self.owner.clone(), listing, read)
    }
}

/// Params of `thread/list` with the one default that we choose.
pub(super) fn list_params(mut query: ThreadListParams) -> Map<String, Value> {
    query
        .sort_key
        .get_or_insert(turnlane_protocol::method::ThreadSortKey::UpdatedAt);
    // Words, numbers and lists of words: serialising them cannot fail.
    object(serde_json::to_value(query).unwrap_or_default())
}

pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// A thread without its turns.
pub(super) async fn read(core: &Core, id: &ThreadId) -> Result<ThreadView, ThreadError> {
    read_as(core, id, false).await
}

async fn read_as(
    core: &Core,
    id: &ThreadId,
    include_turns: impl Into<Value>,
) -> Result<ThreadView, ThreadError> {
    let params = json!({"threadId": id, "includeTurns": include_turns.into()});
    core.call_as(
        "thread/read",
        &params,
        Repeat::Harmless,
        CallOptions::default(),
    )
    .await
    .map_err(|error| map::thread(id, error))
}

/// A thread with all its turns, the oldest first, and all their items.
pub(super) async fn read_with_turns(core: &Core, id: &ThreadId) -> Result<ThreadView, ThreadError> {
    let mut view = read(core, id).await?;
    match turns(core, id).await {
        Ok(turns) => view.turns = turns,
        Err(CallError::Unsupported { .. }) => view = whole(core, id, view).await?,
        Err(error) => return Err(map::thread(id, error)),
    }
    Ok(view)
}

/// All turns with their items, from the two lists.
async fn turns(core: &Core, id: &ThreadId) -> Result<Vec<TurnView>, CallError> {
    let params = json!({"threadId": id, "sortDirection": "asc", "itemsView": "notLoaded"});
    let mut pages = Listing::new("thread/turns/list", object(params), Some(PAGE));
    let mut turns = Vec::new();
    while let Some(page) = pages.next(core).await? {
        turns.extend(page.iter().filter_map(TurnView::from_json));
    }
    if turns.is_empty() {
        return Ok(turns);
    }
    // A list may show items all the same; they are in the other list too.
    for turn in &mut turns {
        turn.items.clear();
    }
    let places: HashMap<TurnId, usize> = turns
        .iter()
        .enumerate()
        .map(|(place, turn)| (turn.id.clone(), place))
        .collect();
    let params = json!({"threadId": id, "sortDirection": "asc"});
    let mut pages = Listing::new("thread/items/list", object(params), Some(PAGE));
    while let Some(page) = pages.next(core).await? {
        for entry in page.iter().filter_map(ItemEntry::from_json) {
            // Items of a turn that began in between are left for the next reading.
            if let Some(turn) = places.get(&entry.turn).and_then(|&at| turns.get_mut(at)) {
                turn.items.push(entry.item);
            }
        }
    }
    Ok(turns)
}

/// The whole thread in one answer, of a server that has no pages.
async fn whole(core: &Core, id: &ThreadId, empty: ThreadView) -> Result<ThreadView, ThreadError> {
    match read_as(core, id, true).await {
        Err(ThreadError::Call(error)) if map::is_no_turns_yet(&error) => Ok(empty),
        view => view,
    }
}

/// Takes the last turns out of the history.
pub(super) async fn rollback(
    core: &Core,
    id: &ThreadId,
    num_turns: u32,
) -> Result<ThreadView, ThreadError> {
    if num_turns == 0 {
        return Err(ThreadError::Call(CallError::InvalidArgument {
            what: "numTurns",
            reason: "numTurns must be at least 1".to_owned(),
        }));
    }
    let refused = |error| map::thread(id, error);
    let params = object(json!({"threadId": id, "sortDirection": "desc"}));
    let mut pages = Listing::new("thread/turns/list", params, Some(num_turns));
    let mut have = 0;
    let mut oldest = None;
    while have < num_turns
        && let Some(page) = pages.next(core).await.map_err(refused)?
    {
        for turn in page.iter().filter_map(TurnView::from_json) {
            if have < num_turns {
                have += 1;
                oldest = Some(turn.id);
            }
        }
    }
    let Some(oldest) = oldest.filter(|_| have == num_turns) else {
        return Err(ThreadError::NotEnoughTurns { have });
    };
    let params = json!({"threadId": id, "beforeTurnId": oldest});
    core.call_as(
        "thread/revert",
        &params,
        Repeat::Never,
        CallOptions::default(),
    )
    .await
    .map_err(refused)
}
