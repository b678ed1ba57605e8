//! `thread/revert`, `thread/rollback`, `thread/compact/start`: histories made shorter.
//!
//! The invariant here: the answer shows what is left and leaves before anybody is told. What is left
//! is known before anything goes, since a lane that is busy refuses, and so does an engine that cannot.

use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::method::thread_revert::{COMPACT_START, REVERT, ROLLBACK};
use turnlane_protocol::method::{
    Done, ThreadCompactStartParams, ThreadRevertAnswer, ThreadRevertParams, ThreadRollbackAnswer,
    ThreadRollbackParams,
};
use turnlane_protocol::thread::{QueueSummary, Thread, ThreadStatus};
use turnlane_protocol::turn::Turn;
use turnlane_rpc::Responder;
use turnlane_runtime::store::StoreError;
use turnlane_runtime::store::thread::ThreadRow;
use turnlane_runtime::{Ability, Error, Reply, RevertTo};

use super::thread_history::{self, Newest};
use crate::connection::Connection;
use crate::errors::{self, About};
use crate::view::{self, Seen};

/// `thread/revert`
pub(crate) async fn revert(cx: Arc<Connection>, params: ThreadRevertParams, responder: Responder) {
    let (about, left, to, queue) = match before_revert(&cx, &params).await {
        Ok(known) => known,
        Err(error) => return responder.error(&error),
    };
    let named = params.before_turn_id;
    let runtime = cx.shared().options.runtime.clone();
    let reply = Reply::new(move |row: Result<ThreadRow, Error>| match row {
        Ok(row) => {
            let thread = shortened(&row, queue, Vec::new());
            responder.respond(thread.map(|thread| ThreadRevertAnswer {
                thread,
                turns_backwards_cursor: left.turns_cursor,
                items_backwards_cursor: left.items_cursor,
            }));
        }
        Err(Error::Store(StoreError::TurnNotFound)) => {
            responder.error(&ErrorObject::turn_not_found(&named));
        }
        Err(error) => errors::refuse(&cx, responder, error, &about),
    });
    runtime.revert_with(about.thread, to, reply).await;
}

async fn before_revert(
    cx: &Connection,
    params: &ThreadRevertParams,
) -> Result<(About, Newest, RevertTo, QueueSummary), ErrorObject> {
    let about = about(REVERT, &params.thread_id)?;
    let row = super::stored(cx, &about).await?;
    check(cx, &about, &row, Ability::Revert)?;
    let store = cx.shared().options.runtime.store_of(about.thread);
    let turn = thread_history::turn_row(store.as_ref(), &about, &params.before_turn_id).await?;
    let left = thread_history::newest(cx, &about, Some(turn.ord)).await?;
    let to = RevertTo::Before(view::turn_id(turn.id));
    Ok((about, left, to, queue(cx, &about).await))
}

/// `thread/rollback`
pub(crate) async fn rollback(
    cx: Arc<Connection>,
    params: ThreadRollbackParams,
    responder: Responder,
) {
    let (about, left, queue) = match before_rollback(&cx, &params).await {
        Ok(known) => known,
        Err(error) => return responder.error(&error),
    };
    let runtime = cx.shared().options.runtime.clone();
    let reply = Reply::new(move |row: Result<ThreadRow, Error>| match row {
        Ok(row) => {
            let thread = shortened(&row, queue, left);
            responder.respond(thread.map(|thread| ThreadRollbackAnswer { thread }));
        }
        Err(error) => errors::refuse(&cx, responder, error, &about),
    });
    let to = RevertTo::Last(params.num_turns);
    runtime.revert_with(about.thread, to, reply).await;
}

async fn before_rollback(
    cx: &Connection,
    params: &ThreadRollbackParams,
) -> Result<(About, Vec<Turn>, QueueSummary), ErrorObject> {
    let about = about(ROLLBACK, &params.thread_id)?;
    if params.num_turns == 0 {
        return Err(ErrorObject::too_few_turns());
    }
    let row = super::stored(cx, &about).await?;
    check(cx, &about, &row, Ability::Revert)?;
    let mut left = thread_history::all(cx, &about).await?;
    let gone = usize::try_from(params.num_turns).unwrap_or(usize::MAX);
    left.truncate(left.len().saturating_sub(gone));
    Ok((about, left, queue(cx, &about).await))
}

async fn queue(cx: &Connection, about: &About) -> QueueSummary {
    let store = cx.shared().options.runtime.store_of(about.thread);
    let lane = store.look(about.thread.as_uuid().into()).await;
    lane.as_ref().map(view::queue).unwrap_or_default()
}

fn shortened(
    row: &ThreadRow,
    queue: QueueSummary,
    turns: Vec<Turn>,
) -> Result<Thread, ErrorObject> {
    let seen = Seen {
        status: ThreadStatus::Idle,
        lane: None,
        ephemeral: false,
    };
    let thread = view::thread(row, seen)?;
    Ok(Thread {
        turns,
        queue: Some(queue),
        ..thread
    })
}

/// `thread/compact/start`
pub(crate) async fn compact_start(
    cx: Arc<Connection>,
    params: ThreadCompactStartParams,
    responder: Responder,
) {
    let about = match before_compact(&cx, &params).await {
        Ok(about) => about,
        Err(error) => return responder.error(&error),
    };
    let runtime = cx.shared().options.runtime.clone();
    let reply = Reply::new(move |begun: Result<_, Error>| match begun {
        Ok(_turn) => responder.result(&Done {}),
        Err(error) => errors::refuse(&cx, responder, error, &about),
    });
    runtime.compact_with(about.thread, reply).await;
}

async fn before_compact(
    cx: &Connection,
    params: &ThreadCompactStartParams,
) -> Result<About, ErrorObject> {
    let about = about(COMPACT_START, &params.thread_id)?;
    let row = super::stored(cx, &about).await?;
    check(cx, &about, &row, Ability::Compact)?;
    Ok(about)
}

/// Refuses what the engine of the thread cannot do, before anything changes.
fn check(
    cx: &Connection,
    about: &About,
    row: &ThreadRow,
    ability: Ability,
) -> Result<(), ErrorObject> {
    if cx.shared().options.runtime.supports(&row.engine, ability) {
        return Ok(());
    }
    let engine = row.engine.clone();
    Err(errors::of(&Error::Unsupported { engine }, about))
}

fn about(method: &'static str, thread: &str) -> Result<About, ErrorObject> {
    Ok(About {
        method,
        thread: errors::thread_id(thread)?,
        missing: MissingThread::NotFound,
    })
}
