//! Turns in the history of a thread: how one is found again, and what it has produced.
//!
//! The invariant here: that there is no such turn is said by the server and never concluded from an
//! answer that is none. One that refuses says that it does not have the turn, which is what [`None`]
//! means; one that could not read its store has said nothing. One that has no pages is asked for the
//! whole thread. That there is no history at all is an error in [`find_told`] only.

use std::time::Duration;

use serde_json::{Map, Value, json};
use turnlane_protocol::error::INTERNAL_ERROR;

use super::gather::{self, Author};
use crate::call::CallOptions;
use crate::core::Core;
use crate::error::{CallError, RpcError, TransportError, TurnError};
use crate::event::{Item, item_from_json};
use crate::ids::{ThreadId, TurnId};
use crate::link::Repeat;
use crate::outcome::{TurnStatus, TurnView};

/// Turns and items per page.
const PAGE: u32 = 100;
/// Where a server that never ends is left.
const PAGES_MAX: usize = 100_000;

/// How often those who wait look when nothing is told.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How soon they look again when the last look told nothing.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How often in a row a server may be unable to tell before whoever waits is told so.
const TROUBLES_MAX: u32 = 5;

/// How long somebody who waits bears a server that cannot tell.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    troubles: u32,
}

impl Patience {
    /// The server has told something.
    pub(crate) fn restore(&mut self) {
        self.troubles = 0;
    }

    /// Whether to look again after this error; after a lost connection always, since the next one
    /// says more.
    pub(crate) fn bears(&mut self, error: &TurnError) -> bool {
        let TurnError::Call(error) = error else {
            return false;
        };
        match error {
            CallError::Transport(TransportError::Closed { .. }) => true,
            CallError::Overloaded { .. } => self.bears_one_more(),
            CallError::Rpc(error) if is_unable(error) => self.bears_one_more(),
            _ => false,
        }
    }

    fn bears_one_more(&mut self) -> bool {
        self.troubles += 1;
        self.troubles < TROUBLES_MAX
    }

    /// When to look again although nothing is told.
    pub(crate) fn next_look(&self) -> Duration {
        if self.troubles > 0 {
            LOOK_AGAIN
        } else {
            LOOK_EVERY
        }
    }
}

/// Whether a server did not refuse but could not answer: it is stopping, or its store is in trouble.
fn is_unable(error: &RpcError) -> bool {
    error.code == INTERNAL_ERROR
}

/// Whether an answer says that there is no such history. Codex says it with all kinds of errors.
fn says_none(core: &Core, error: &RpcError) -> bool {
    !core.is_turnlane() || !is_unable(error)
}

/// The newest turn that is `wanted`; none also where there is no history to look at.
pub(crate) async fn find(
    core: &Core,
    thread: &ThreadId,
    wanted: impl Fn(&TurnView) -> bool + Send,
) -> Result<Option<TurnView>, CallError> {
    match find_told(core, thread, wanted).await {
        Err(CallError::Unsupported { .. }) => Ok(None),
        found => found,
    }
}

/// The same for those who have nothing else to go by: no history is an error.
pub(super) async fn find_told(
    core: &Core,
    thread: &ThreadId,
    wanted: impl Fn(&TurnView) -> bool + Send,
) -> Result<Option<TurnView>, CallError> {
    let params = json!({"threadId": thread, "sortDirection": "desc", "itemsView": "summary"});
    let mut pages = Pages::new("thread/turns/list", params);
    loop {
        let turns = match pages.next(core).await {
            Ok(Some(turns)) => turns,
            Ok(None) => return Ok(None),
            Err(CallError::Rpc(error)) if says_none(core, &error) => return Ok(None),
            Err(CallError::Unsupported { .. }) => return find_whole(core, thread, wanted).await,
            Err(error) => return Err(error),
        };
        let mut views = turns.iter().filter_map(TurnView::from_json);
        if let Some(found) = views.find(|view| wanted(view)) {
            return Ok(Some(found));
        }
    }
}

/// The newest turn that is `wanted`, of a server without pages.
async fn find_whole(
    core: &Core,
    thread: &ThreadId,
    wanted: impl Fn(&TurnView) -> bool + Send,
) -> Result<Option<TurnView>, CallError> {
    let params = json!({"threadId": thread, "includeTurns": true});
    let options = CallOptions::default();
    let answer: Value = match core
        .call_as("thread/read", &params, Repeat::Harmless, options)
        .await
    {
        Ok(answer) => answer,
        Err(CallError::Rpc(error)) if says_none(core, &error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let turns = answer.pointer("/thread/turns").and_then(Value::as_array);
    let views = turns.into_iter().flatten().rev();
    Ok(views
        .filter_map(TurnView::from_json)
        .find(|view| wanted(view)))
}

/// A turn by its id.
pub(crate) async fn by_id(
    core: &Core,
    thread: &ThreadId,
    turn: &TurnId,
) -> Result<Option<TurnView>, CallError> {
    find(core, thread, |view| view.id == *turn).await
}

/// A turn by the id of its first message.
pub(crate) async fn by_client_id(
    core: &Core,
    thread: &ThreadId,
    client_id: &str,
) -> Result<Option<TurnView>, CallError> {
    find(core, thread, |view| {
        first_client_id(view).as_deref() == Some(client_id)
    })
    .await
}

/// The turn that runs, if one does.
pub(crate) async fn running(core: &Core, thread: &ThreadId) -> Result<Option<TurnView>, CallError> {
    let params = json!({"threadId": thread, "sortDirection": "desc", "itemsView": "summary"});
    let mut pages = Pages::new("thread/turns/list", params);
    pages.limit = 1;
    match pages.next(core).await {
        Ok(turns) => Ok(turns
            .iter()
            .flatten()
            .filter_map(TurnView::from_json)
            .find(|view| view.status == TurnStatus::InProgress)),
        Err(CallError::Rpc(_) | CallError::Unsupported { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether nothing more will happen to a turn, also when its status is a word we do not know.
pub(crate) fn has_ended(view: &TurnView) -> bool {
    match &view.status {
        TurnStatus::Unknown(_) => view.completed_at.is_some(),
        status => status.is_final(),
    }
}

/// A turn that came to its end before it began.
pub(crate) fn never_begun(turn: &TurnId, status: TurnStatus) -> TurnView {
    TurnView {
        id: turn.clone(),
        status,
        items: Vec::new(),
        error: None,
        usage: None,
        started_at: None,
        completed_at: None,
        duration: None,
        queued_turn: None,
        attempt: None,
    }
}

/// The id in the first message of a turn.
pub(crate) fn first_client_id(view: &TurnView) -> Option<String> {
    match view.items.iter().find_map(gather::author)? {
        Author::Named(id) => Some(id),
        Author::Unnamed => None,
    }
}

/// Everything a turn has produced; none when the server cannot tell.
pub(crate) async fn items(core: &Core, thread: &ThreadId, turn: &TurnId) -> Option<Vec<Item>> {
    let params = json!({"threadId": thread, "turnId": turn});
    let mut pages = Pages::new("thread/items/list", params);
    let mut items = Vec::new();
    while let Some(entries) = pages.next(core).await.ok()? {
        let of_turn = entries.into_iter().filter(|entry| {
            let of = entry.get("turnId").and_then(Value::as_str);
            of.is_none_or(|of| of == turn.as_str())
        });
        items.extend(of_turn.filter_map(|mut entry| {
            let item = entry.get_mut("item").map(Value::take).unwrap_or(entry);
            item_from_json(&item)
        }));
    }
    Some(items)
}

/// The pages of a list.
#[derive(Debug)]
pub(crate) struct Pages {
    method: &'static str,
    params: Map<String, Value>,
    pub(crate) limit: u32,
    /// Where the next page begins; none after the last one.
    cursor: Option<Value>,
    left: usize,
}

impl Pages {
    /// The pages of `method`; `params` is an object.
    pub(crate) fn new(method: &'static str, params: Value) -> Self {
        let params = match params {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        Self {
            method,
            params,
            limit: PAGE,
            cursor: Some(Value::Null),
            left: PAGES_MAX,
        }
    }

    /// The next page; none after the last one.
    pub(crate) async fn next(&mut self, core: &Core) -> Result<Option<Vec<Value>>, CallError> {
        Ok(self.next_with_state(core).await?.map(|(rows, _)| rows))
    }

    /// The next page and what the answer says besides.
    pub(crate) async fn next_with_state(
        &mut self,
        core: &Core,
    ) -> Result<Option<(Vec<Value>, Map<String, Value>)>, CallError> {
        let Some(cursor) = self.cursor.take() else {
            return Ok(None);
        };
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.params.insert("limit".to_owned(), json!(self.limit));
        if !cursor.is_null() {
            self.params.insert("cursor".to_owned(), cursor.clone());
        }
        let options = CallOptions::default();
        let mut answer: Map<String, Value> = core
            .call_as(self.method, &self.params, Repeat::Harmless, options)
            .await?;
        let rows = match answer.remove("data") {
            Some(Value::Array(rows)) => rows,
            _ => Vec::new(),
        };
        // The same place again would never end.
        self.cursor = answer
            .remove("nextCursor")
            .filter(|next| !next.is_null() && *next != cursor && !rows.is_empty());
        Ok(Some((rows, answer)))
    }
}
