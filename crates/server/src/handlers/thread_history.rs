//! Histories: `thread/turns/list`, `thread/items/list`, `thread/items/read`, and whole ones.
//!
//! The invariant here: pages are ranges of the numbers that turns and items have in their thread, so
//! nothing is hidden or repeated by what happens between two pages; a whole history that does not fit
//! into one message is refused before it is made.

use std::collections::HashMap;
use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::method::thread_pages::{ITEMS_LIST, ITEMS_READ, TURNS_LIST};
use turnlane_protocol::method::{
    ItemEntry, ItemsAnchor, ItemsCursor, ThreadItemsListAnswer, ThreadItemsListParams,
    ThreadItemsReadAnswer, ThreadItemsReadParams, ThreadTurnsListParams, TurnsPage,
};
use turnlane_protocol::turn::{ItemsView, Turn};
use turnlane_rpc::FRAME_BYTES_MAX;
use turnlane_runtime::store::thread::Direction;
use turnlane_runtime::store::turn::{ItemQuery, ItemRow, TurnQuery, TurnRow};
use turnlane_runtime::store::{Store, StoreError, ThreadId as StoredThread};

use crate::connection::Connection;
use crate::cursors::{self, From, Numbered};
use crate::errors::{self, About};
use crate::view;

/// How many rows are read at once where all are wanted.
const CHUNK: u32 = 1_000;

/// What an item costs in an answer beyond its text, at least.
const ITEM_BYTES: usize = 2;

/// What a turn costs in an answer beyond its items, about.
const TURN_BYTES: usize = 400;

/// `thread/turns/list`
pub(crate) async fn turns_list(
    cx: Arc<Connection>,
    params: ThreadTurnsListParams,
) -> Result<TurnsPage, ErrorObject> {
    let about = about(TURNS_LIST, &params.thread_id)?;
    super::stored(&cx, &about).await?;
    let view = params.items_view.unwrap_or(ItemsView::Summary);
    if let Some(turn) = &params.turn_id {
        return one_turn(&cx, &about, turn, view).await;
    }
    let direction = cursors::direction(params.sort_direction, Direction::Descending);
    let after = match &params.cursor {
        Some(cursor) => Some(cursors::in_numbered(cursor, Numbered::Turns, direction)?),
        None => None,
    };
    let page = Page {
        after,
        direction,
        limit: cursors::limit(params.limit),
        view,
    };
    turns(&cx, &about, page).await
}

/// A page that has one turn, whatever its age.
async fn one_turn(
    cx: &Connection,
    about: &About,
    turn: &str,
    view: ItemsView,
) -> Result<TurnsPage, ErrorObject> {
    let store = cx.shared().options.runtime.store_of(about.thread);
    let row = turn_row(store.as_ref(), about, turn).await?;
    let thread = about.thread.as_uuid().into();
    let items = items_of(store.as_ref(), thread, std::slice::from_ref(&row), view).await;
    let mut items = items.map_err(|error| errors::of_store(&error, about))?;
    let items = items.remove(&row.ord).unwrap_or_default();
    Ok(TurnsPage {
        data: vec![view::turn(&row, items, view)],
        next_cursor: None,
        backwards_cursor: None,
    })
}

/// Which turns, and how much of them.
pub(crate) struct Page {
    pub(crate) after: Option<i64>,
    pub(crate) direction: Direction,
    pub(crate) limit: u32,
    pub(crate) view: ItemsView,
}

/// A page of turns.
pub(crate) async fn turns(
    cx: &Connection,
    about: &About,
    page: Page,
) -> Result<TurnsPage, ErrorObject> {
    let store = cx.shared().options.runtime.store_of(about.thread);
    let thread = about.thread.as_uuid().into();
    let read = async {
        let found = store
            .turns(TurnQuery {
                thread,
                after_ord: page.after,
                direction: page.direction,
                limit: page.limit,
            })
            .await?;
        let items = items_of(store.as_ref(), thread, &found.rows, page.view).await?;
        Ok((found, items))
    };
    let (found, mut items) = read
        .await
        .map_err(|error: StoreError| errors::of_store(&error, about))?;
    let (list, direction) = (Numbered::Turns, page.direction);
    let first = found.rows.first();
    Ok(TurnsPage {
        next_cursor: found
            .next
            .map(|ord| cursors::of_numbered(list, direction, From::After, ord)),
        backwards_cursor: first
            .map(|row| cursors::of_numbered(list, cursors::opposite(direction), From::At, row.ord)),
        data: found
            .rows
            .iter()
            .map(|row| view::turn(row, items.remove(&row.ord).unwrap_or_default(), page.view))
            .collect(),
    })
}

type ItemsByTurn = HashMap<i64, Vec<ThreadItem>>;

async fn items_of(
    store: &dyn Store,
    thread: StoredThread,
    turns: &[TurnRow],
    view: ItemsView,
) -> Result<ItemsByTurn, StoreError> {
    let mut items = ItemsByTurn::new();
    let mut add = |rows: &[ItemRow]| {
        for row in rows {
            items
                .entry(row.turn_ord)
                .or_default()
                .extend(view::item(row));
        }
    };
    match view {
        ItemsView::NotLoaded => {}
        ItemsView::Summary => {
            let ords = turns.iter().map(|turn| turn.ord).collect();
            add(&store.summaries(thread, ords).await?);
        }
        ItemsView::Full => {
            for turn in turns {
                let mut after_ord = None;
                loop {
                    let query = ItemQuery {
                        thread,
                        turn_ord: Some(turn.ord),
                        after_ord,
                        direction: Direction::Ascending,
                        limit: CHUNK,
                    };
                    let page = store.items(query).await?;
                    add(&page.rows);
                    after_ord = page.next;
                    if after_ord.is_none() {
                        break;
                    }
                }
            }
        }
    }
    Ok(items)
}

/// All turns of a thread with all their items, oldest first; an error when they do not fit into one
/// message.
pub(crate) async fn all(cx: &Connection, about: &About) -> Result<Vec<Turn>, ErrorObject> {
    let store = cx.shared().options.runtime.store_of(about.thread);
    let whole = whole(store.as_ref(), about.thread.as_uuid().into()).await;
    let whole = whole.map_err(|error| errors::of_store(&error, about))?;
    if whole.bytes > FRAME_BYTES_MAX {
        return Err(ErrorObject::history_too_large(whole.bytes));
    }
    let mut items = whole.items;
    let shown = |row: &TurnRow| {
        let items = items.remove(&row.ord).unwrap_or_default();
        view::turn(row, items, ItemsView::Full)
    };
    Ok(whole.turns.iter().map(shown).collect())
}

struct Whole {
    turns: Vec<TurnRow>,
    items: ItemsByTurn,
    /// About how long the answer is.
    bytes: usize,
}

async fn whole(store: &dyn Store, thread: StoredThread) -> Result<Whole, StoreError> {
    let mut whole = Whole {
        turns: Vec::new(),
        items: ItemsByTurn::new(),
        bytes: 0,
    };
    let mut after_ord = None;
    loop {
        let query = TurnQuery {
            thread,
            after_ord,
            direction: Direction::Ascending,
            limit: CHUNK,
        };
        let page = store.turns(query).await?;
        whole.bytes += page.rows.len() * TURN_BYTES;
        whole.turns.extend(page.rows);
        after_ord = page.next;
        if after_ord.is_none() {
            break;
        }
    }
    loop {
        let query = ItemQuery {
            thread,
            turn_ord: None,
            after_ord,
            direction: Direction::Ascending,
            limit: CHUNK,
        };
        let page = store.items(query).await?;
        for row in &page.rows {
            whole.bytes += row.body.as_str().len() + ITEM_BYTES;
            // What cannot be answered is counted and not kept.
            if whole.bytes <= FRAME_BYTES_MAX {
                let items = whole.items.entry(row.turn_ord).or_default();
                items.extend(view::item(row));
            }
        }
        after_ord = page.next;
        if after_ord.is_none() {
            return Ok(whole);
        }
    }
}

/// Where older turns and items begin, and the newest turn.
#[derive(Default)]
pub(crate) struct Newest {
    pub(crate) turn: Option<TurnId>,
    pub(crate) turns_cursor: Option<String>,
    pub(crate) items_cursor: Option<String>,
}

/// Looks for the newest turn and item before the turn with this number, or of all.
pub(crate) async fn newest(
    cx: &Connection,
    about: &About,
    before: Option<i64>,
) -> Result<Newest, ErrorObject> {
    let store = cx.shared().options.runtime.store_of(about.thread);
    let thread = about.thread.as_uuid().into();
    let (direction, down) = (Direction::Descending, Direction::Descending);
    let read = async {
        let turns = store
            .turns(TurnQuery {
                thread,
                after_ord: before,
                direction,
                limit: 1,
            })
            .await?;
        let Some(turn) = turns.rows.into_iter().next() else {
            return Ok(Newest::default());
        };
        let items = store
            .items(ItemQuery {
                thread,
                turn_ord: before.is_some().then_some(turn.ord),
                after_ord: None,
                direction,
                limit: 1,
            })
            .await?;
        let cursor = |list, ord| cursors::of_numbered(list, down, From::At, ord);
        let item = items.rows.first();
        Ok(Newest {
            turn: Some(view::turn_id(turn.id)),
            turns_cursor: Some(cursor(Numbered::Turns, turn.ord)),
            items_cursor: item.map(|item| cursor(Numbered::Items, item.ord)),
        })
    };
    read.await
        .map_err(|error: StoreError| errors::of_store(&error, about))
}

/// `thread/items/list`
pub(crate) async fn items_list(
    cx: Arc<Connection>,
    params: ThreadItemsListParams,
) -> Result<ThreadItemsListAnswer, ErrorObject> {
    let about = about(ITEMS_LIST, &params.thread_id)?;
    super::stored(&cx, &about).await?;
    let store = cx.shared().options.runtime.store_of(about.thread);
    let thread = about.thread.as_uuid().into();
    let of_store = |error| errors::of_store(&error, &about);
    let direction = cursors::direction(params.sort_direction, Direction::Ascending);
    let turn_ord = match &params.turn_id {
        Some(turn) => Some(turn_row(store.as_ref(), &about, turn).await?.ord),
        None => None,
    };
    let after_ord = match &params.cursor {
        None => None,
        Some(ItemsCursor::Page(cursor)) => {
            Some(cursors::in_numbered(cursor, Numbered::Items, direction)?)
        }
        // As in Codex, the page begins behind the item that is named.
        Some(ItemsCursor::Anchor(ItemsAnchor::Item { item_id })) => {
            let item = store
                .item(thread, item_id.clone())
                .await
                .map_err(of_store)?;
            let item = item.ok_or_else(|| ErrorObject::invalid_cursor(item_id))?;
            Some(item.ord)
        }
    };
    let query = ItemQuery {
        thread,
        turn_ord,
        after_ord,
        direction,
        limit: cursors::limit(params.limit),
    };
    let page = store.items(query).await.map_err(of_store)?;
    let turns = turn_names(store.as_ref(), thread, &page.rows)
        .await
        .map_err(of_store)?;
    let list = Numbered::Items;
    let first = page.rows.first();
    Ok(ThreadItemsListAnswer {
        next_cursor: page
            .next
            .map(|ord| cursors::of_numbered(list, direction, From::After, ord)),
        backwards_cursor: first
            .map(|row| cursors::of_numbered(list, cursors::opposite(direction), From::At, row.ord)),
        data: page
            .rows
            .iter()
            .filter_map(|row| entry(row, &turns))
            .collect(),
    })
}

/// `thread/items/read`
pub(crate) async fn items_read(
    cx: Arc<Connection>,
    params: ThreadItemsReadParams,
) -> Result<ThreadItemsReadAnswer, ErrorObject> {
    let about = about(ITEMS_READ, &params.thread_id)?;
    super::stored(&cx, &about).await?;
    let store = cx.shared().options.runtime.store_of(about.thread);
    let turn = turn_row(store.as_ref(), &about, &params.turn_id).await?;
    let turns = HashMap::from([(turn.ord, view::turn_id(turn.id))]);
    let mut data = Vec::new();
    for id in params.item_ids {
        let item = store.item(about.thread.as_uuid().into(), id).await;
        let item = item.map_err(|error| errors::of_store(&error, &about))?;
        data.extend(item.and_then(|row| entry(&row, &turns)));
    }
    Ok(ThreadItemsReadAnswer { data })
}

/// The turn that params name.
pub(crate) async fn turn_row(
    store: &dyn Store,
    about: &About,
    turn: &str,
) -> Result<TurnRow, ErrorObject> {
    let id = errors::turn_id(turn)?;
    let row = store.turn(about.thread.as_uuid().into(), id.as_uuid().into());
    let row = row.await.map_err(|error| errors::of_store(&error, about))?;
    row.ok_or_else(|| ErrorObject::turn_not_found(turn))
}

/// The ids of the turns that these items belong to, by number.
async fn turn_names(
    store: &dyn Store,
    thread: StoredThread,
    items: &[ItemRow],
) -> Result<HashMap<i64, TurnId>, StoreError> {
    let mut names = HashMap::new();
    let ords = items.iter().map(|item| item.turn_ord);
    let (Some(first), Some(last)) = (ords.clone().min(), ords.max()) else {
        return Ok(names);
    };
    let mut after_ord = Some(first - 1);
    while let Some(after) = after_ord.filter(|after| *after < last) {
        let query = TurnQuery {
            thread,
            after_ord: Some(after),
            direction: Direction::Ascending,
            limit: CHUNK,
        };
        let page = store.turns(query).await?;
        names.extend(page.rows.iter().map(|row| (row.ord, view::turn_id(row.id))));
        after_ord = page.next;
    }
    Ok(names)
}

fn entry(row: &ItemRow, turns: &HashMap<i64, TurnId>) -> Option<ItemEntry> {
    Some(ItemEntry {
        turn_id: *turns.get(&row.turn_ord)?,
        item: view::item(row)?,
        started_at_ms: Some(row.started_ms),
        completed_at_ms: Some(row.completed_ms),
    })
}

fn about(method: &'static str, thread: &str) -> Result<About, ErrorObject> {
    let thread: ThreadId = errors::thread_id(thread)?;
    Ok(About {
        method,
        thread,
        missing: MissingThread::NotLoaded,
    })
}
