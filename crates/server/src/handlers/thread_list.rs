//! `thread/list`: finds threads, page by page.
//!
//! The invariant here: a page is a range of (value of the sort key, id); rows that come or go between
//! two pages hide and repeat no other.

use std::collections::HashMap;
use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::method::thread_list::METHOD;
use turnlane_protocol::method::{
    ThreadListAnswer, ThreadListParams, ThreadSortKey, ThreadSourceKind,
};
use turnlane_protocol::thread::Thread;
use turnlane_runtime::store::thread::{
    Direction, Page, ThreadPlace, ThreadQuery, ThreadRow, ThreadSort,
};
use turnlane_runtime::store::turn::TurnQuery;
use turnlane_runtime::store::{StoreError, ThreadId as StoredThread};

use crate::connection::Connection;
use crate::cursors::{self, From};
use crate::errors::{self, About};
use crate::view::{self, Seen};

/// The kind of thread that is listed only when it is asked for: work of fan-out jobs.
const FAN_OUT: &str = "subAgentOther";

/// `thread/list`
pub(crate) async fn list(
    cx: Arc<Connection>,
    params: ThreadListParams,
) -> Result<ThreadListAnswer, ErrorObject> {
    let key = params.sort_key.unwrap_or_default();
    let direction = cursors::direction(params.sort_direction, Direction::Descending);
    let query = query(&params, key, direction)?;
    if params.section_id.is_some() {
        return Ok(answer(Vec::new(), None, None));
    }
    let runtime = &cx.shared().options.runtime;
    let store = runtime.store();
    let read = async {
        let page = store.threads(query).await?;
        let ids = page.rows.iter().map(|row| row.id).collect();
        // Submitted together, so that a page costs one wait. Only clients that read them pay for them.
        let last: Vec<_> = if cx.knows_turnlane() {
            let of = |row: &ThreadRow| (row.id, store.turns(last_turn_of(row.id)));
            page.rows.iter().map(of).collect()
        } else {
            Vec::new()
        };
        let lanes = store.lanes(ids).await?;
        let mut turns = HashMap::new();
        for (thread, found) in last {
            turns.extend(found.await?.rows.pop().map(|turn| (thread, turn)));
        }
        Ok((page, lanes, turns))
    };
    let about = About {
        method: METHOD,
        thread: ThreadId::new(0),
        missing: MissingThread::NotFound,
    };
    let (page, lanes, turns) = read
        .await
        .map_err(|error: StoreError| errors::of_store(&error, &about))?;
    let Page { rows, next } = page;
    let lanes: HashMap<_, _> = lanes.iter().map(|lane| (lane.thread, lane)).collect();
    let ids: Vec<_> = rows.iter().map(|row| view::thread_id(row.id)).collect();
    let mut data = Vec::with_capacity(rows.len());
    for (row, status) in rows.iter().zip(runtime.statuses(&ids)) {
        let seen = Seen {
            status,
            lane: lanes.get(&row.id).copied(),
            ephemeral: false,
        };
        // One thread that cannot be read does not hide the others.
        data.extend(view::thread(row, seen).ok().map(|mut thread| {
            view::shorten(&mut thread);
            thread.last_turn = turns.get(&row.id).map(view::last_turn);
            thread
        }));
    }
    let next = next.map(|place| cursors::of_threads(key, direction, From::After, place));
    let back = rows.first().map(|row| {
        let place = place(row, key);
        cursors::of_threads(key, cursors::opposite(direction), From::At, place)
    });
    Ok(answer(data, next, back))
}

fn last_turn_of(thread: StoredThread) -> TurnQuery {
    TurnQuery {
        thread,
        after_ord: None,
        direction: Direction::Descending,
        limit: 1,
    }
}

fn answer(data: Vec<Thread>, next: Option<String>, back: Option<String>) -> ThreadListAnswer {
    ThreadListAnswer {
        data,
        next_cursor: next,
        backwards_cursor: back,
        read_states: Some(serde_json::Map::new()),
    }
}

fn query(
    params: &ThreadListParams,
    key: ThreadSortKey,
    direction: Direction,
) -> Result<ThreadQuery, ErrorObject> {
    let from = match &params.cursor {
        Some(cursor) => Some(cursors::in_threads(cursor, key, direction)?),
        None => None,
    };
    let id = |text: &String| errors::thread_id(text).map(|id| id.as_uuid().into());
    let ids = |texts: &[String]| texts.iter().map(id).collect::<Result<Vec<_>, _>>();
    let kinds = params.source_kinds.as_deref().unwrap_or_default();
    let sources: Vec<String> = {
        let words = kinds.iter().copied().flat_map(words);
        words.map(|word| (*word).to_owned()).collect()
    };
    let not_sources = if sources.iter().any(|word| word == FAN_OUT) {
        Vec::new()
    } else {
        vec![FAN_OUT.to_owned()]
    };
    Ok(ThreadQuery {
        archived: params.archived.unwrap_or(false),
        sources,
        not_sources,
        excluded: ids(params.excluded_thread_ids.as_deref().unwrap_or_default())?,
        providers: params.model_providers.clone().unwrap_or_default(),
        cwds: params
            .cwd
            .as_ref()
            .map(|cwd| cwd.paths().to_vec())
            .unwrap_or_default(),
        parent: params.parent_thread_id.as_ref().map(id).transpose()?,
        search: params.search_term.clone().filter(|term| !term.is_empty()),
        sort: match key {
            ThreadSortKey::CreatedAt | ThreadSortKey::SectionPosition => ThreadSort::Created,
            ThreadSortKey::UpdatedAt => ThreadSort::Updated,
            ThreadSortKey::RecencyAt => ThreadSort::Recency,
        },
        direction,
        after: from.and_then(|(from, place)| (from == From::After).then_some(place)),
        at: from.and_then(|(from, place)| (from == From::At).then_some(place)),
        limit: cursors::limit(params.limit),
    })
}

fn place(row: &ThreadRow, key: ThreadSortKey) -> ThreadPlace {
    ThreadPlace {
        key_ms: match key {
            ThreadSortKey::CreatedAt | ThreadSortKey::SectionPosition => row.created_ms,
            ThreadSortKey::UpdatedAt => row.updated_ms,
            ThreadSortKey::RecencyAt => row.recency_ms,
        },
        thread: row.id,
    }
}

/// The words under which the store knows a kind of program.
fn words(kind: ThreadSourceKind) -> &'static [&'static str] {
    match kind {
        ThreadSourceKind::Cli => &["cli"],
        // Codex's own server calls the threads of all its clients this, and its terminal UI asks
        // for it when somebody picks a thread to go on with.
        ThreadSourceKind::VsCode => &["vscode", "appServer", "custom"],
        ThreadSourceKind::Exec => &["exec"],
        ThreadSourceKind::AppServer => &["appServer", "custom"],
        ThreadSourceKind::SubAgent => &["subAgentReview", "subAgentCompact", "subAgentThreadSpawn"],
        ThreadSourceKind::SubAgentReview => &["subAgentReview"],
        ThreadSourceKind::SubAgentCompact => &["subAgentCompact"],
        ThreadSourceKind::SubAgentThreadSpawn => &["subAgentThreadSpawn"],
        ThreadSourceKind::SubAgentOther => &[FAN_OUT],
        ThreadSourceKind::Unknown => &["unknown"],
    }
}
