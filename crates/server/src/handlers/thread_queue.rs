//! `thread/queue/*`: the turns that wait in a thread's lane.
//!
//! The invariant here: a call is submitted in the order it came and answered by the lane, before
//! anybody is told what it caused. Both dialects end in the same calls; only words of refusals follow
//! the one that the caller speaks. A text that is no id is the id of no row.
//!
//! What becomes of rows is decided by the runtime; what an add must look like, in `add`.

mod add;
mod attachments;
mod call;
mod update;

use std::collections::HashMap;
use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, QueueDialect};
use turnlane_protocol::ids::QueuedTurnId;
use turnlane_protocol::method::thread_queue::{
    ADD, DELETE, LIST, MOVE, PAUSE, REORDER, RESUME, RETRY, START,
};
use turnlane_protocol::method::{
    QueuedTurnAnswer, ThreadQueueAddParams, ThreadQueueDeleteAnswer, ThreadQueueDeleteParams,
    ThreadQueueListAnswer, ThreadQueueListParams, ThreadQueueMoveParams, ThreadQueuePauseParams,
    ThreadQueueReorderAnswer, ThreadQueueReorderParams, ThreadQueueResumeParams,
    ThreadQueueRetryParams, ThreadQueueStartAnswer, ThreadQueueStartParams,
    ThreadQueueUpdateAnswer, ThreadQueueUpdateParams,
};
use turnlane_protocol::turn::Turn;
use turnlane_rpc::Responder;
use turnlane_runtime::store::lane::LaneView;
use turnlane_runtime::store::queue::{Appended, MoveTo, QueueFrom, QueueQuery, Row};
use turnlane_runtime::{Error, Reply, StartAnswer};

use self::call::{Call, about, call, call_for_row, check_thread, missing};
use crate::connection::Connection;
use crate::cursors;
use crate::errors;
use crate::subscriptions::{join_and_start_row, leave};
use crate::view;

pub(crate) use attachments::Swept;
pub use attachments::{of_thread, remove_of_thread, still_of_thread};

/// How much of what rows hold is in one page; the rest is on the next one.
const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// `thread/queue/add`
pub(crate) async fn add(cx: Arc<Connection>, params: ThreadQueueAddParams, responder: Responder) {
    let added = async {
        let mut wanted = add::Wanted::read(params)?;
        let about = about(ADD, &wanted.thread)?;
        let dialect = wanted.dialect;
        wanted.meant_for(about.thread)?;
        let checked = wanted.check(&cx);
        if checked.is_err() || wanted.names_files() {
            check_thread(&cx, &about, dialect).await?;
        }
        checked?;
        wanted.check_rights(&cx, about.thread).await?;
        let add = wanted.into_row(&cx, about.thread).await?;
        Ok((about, dialect, add))
    };
    let (about, dialect, add) = match added.await {
        Ok(added) => added,
        Err(error) => return responder.error(&error),
    };
    let copied = add.id;
    let shared = Arc::clone(cx.shared());
    let call = Call {
        cx,
        about,
        dialect,
        spelled: HashMap::new(),
        responder,
    };
    let runtime = call.runtime();
    let reply = Reply::new(move |added: Result<Appended, Error>| {
        if let (Some(row), Ok(Appended::Repeated(_)) | Err(_)) = (copied, &added) {
            // The row that is there has its own copies, or there is none.
            attachments::forget(&shared, row);
        }
        match added {
            Ok(added) => call.responder.result(&add::shown(&added)),
            Err(error) => call.refuse(error),
        }
    });
    runtime.add_with(about.thread, add, reply).await;
}

/// `thread/queue/list`
pub(crate) async fn list(
    cx: Arc<Connection>,
    params: ThreadQueueListParams,
) -> Result<ThreadQueueListAnswer, ErrorObject> {
    let about = about(LIST, &params.thread_id)?;
    let query = QueueQuery {
        thread: about.thread.as_uuid().into(),
        from: match params.cursor.as_deref() {
            None => QueueFrom::Head,
            Some(cursor) => cursors::read_queue(cursor)?,
        },
        limit: cursors::limit(params.limit),
    };
    let page = cx.shared().options.runtime.queue(query).await;
    let mut page = page.map_err(|error| match error {
        Error::Ephemeral => {
            let id = about.thread.to_string();
            ErrorObject::ephemeral_queue(QueueDialect::Submissions, &id)
        }
        error => errors::of(&error, &about),
    })?;
    if page.lane.archived {
        return Err(ErrorObject::archived(&about.thread.to_string()));
    }
    let mut bytes = 0;
    let mut fits = |row: &Row| {
        bytes += row.params.as_str().len();
        bytes <= PAGE_BYTES_MAX
    };
    // A row that is too long alone is shown alone.
    let fitting = page.rows.iter().take_while(|row| fits(row)).count().max(1);
    if fitting < page.rows.len() {
        page.rows.truncate(fitting);
        page.next = page.rows.last().and_then(|row| row.position);
    }
    Ok(ThreadQueueListAnswer {
        data: page.rows.iter().map(view::queued_turn).collect(),
        next_cursor: page.next.map(cursors::of_queue),
        state: view::queue_state(&page.lane),
    })
}

/// `thread/queue/update`
pub(crate) async fn update(
    cx: Arc<Connection>,
    params: ThreadQueueUpdateParams,
    responder: Responder,
) {
    let update::Changed {
        about,
        spelled,
        row,
        change,
    } = match update::read(&cx, params).await {
        Ok(changed) => changed,
        Err(error) => return responder.error(&error),
    };
    let call = Call {
        cx,
        about,
        dialect: QueueDialect::Submissions,
        spelled: HashMap::from([(row.as_uuid().into(), spelled)]),
        responder,
    };
    let runtime = call.runtime();
    let reply = call.reply(|row: Row| {
        let queued_turn = view::queued_turn(&row);
        ThreadQueueUpdateAnswer {
            queued_submission: queued_turn.clone(),
            queued_turn,
        }
    });
    runtime.update_with(about.thread, row, change, reply).await;
}

/// `thread/queue/delete`
pub(crate) async fn delete(
    cx: Arc<Connection>,
    params: ThreadQueueDeleteParams,
    responder: Responder,
) {
    let called = call_for_row(cx, DELETE, &params.thread_id, &params.row, responder);
    let Some((call, row)) = called else {
        return;
    };
    let (runtime, thread) = (call.runtime(), call.about.thread);
    let shared = Arc::clone(call.cx.shared());
    let reply = call.reply(move |deleted| {
        if deleted {
            attachments::forget(&shared, row);
        }
        ThreadQueueDeleteAnswer { deleted }
    });
    runtime.delete_with(thread, row, reply).await;
}

/// `thread/queue/reorder`
pub(crate) async fn reorder(
    cx: Arc<Connection>,
    params: ThreadQueueReorderParams,
    responder: Responder,
) {
    let (dialect, rows) = match (params.queued_turn_ids, params.queued_submission_ids) {
        (Some(rows), _) => (QueueDialect::Turns, rows),
        (None, Some(rows)) => (QueueDialect::Submissions, rows),
        (None, None) => return responder.error(&missing("queuedTurnIds")),
    };
    let Some(call) = call(cx, REORDER, &params.thread_id, dialect, responder) else {
        return;
    };
    let read = |text: &String| text.parse().unwrap_or_else(|_| QueuedTurnId::new(0));
    let rows = rows.iter().map(read).collect();
    let (runtime, thread) = (call.runtime(), call.about.thread);
    let reply = call.reply(|rows: Vec<Row>| ThreadQueueReorderAnswer {
        queued_turns: rows.iter().map(view::queued_turn).collect(),
    });
    runtime.reorder_with(thread, rows, reply).await;
}

/// `thread/queue/start`
pub(crate) async fn start(
    cx: Arc<Connection>,
    params: ThreadQueueStartParams,
    responder: Responder,
) {
    let dialect = QueueDialect::Submissions;
    let Some(mut call) = call(cx, START, &params.thread_id, dialect, responder) else {
        return;
    };
    let row = params.row.id().map(|row| call.row(row));
    let (runtime, thread, cx) = (call.runtime(), call.about.thread, Arc::clone(&call.cx));
    if runtime.is_ephemeral(thread) {
        return call.refuse(Error::Ephemeral);
    }
    if cx.followed().has(thread) {
        let reply = Reply::new(move |answer| match answer {
            Ok(answer) => call.responder.result(&begun(&answer)),
            Err(error) => call.refuse(error),
        });
        return runtime.start_row_with(thread, row, reply).await;
    }
    let (joined, started) = join_and_start_row(&cx, thread, row).await;
    match started {
        Ok(answer) => {
            call.responder.result(&begun(&answer));
            if let Ok(joined) = joined {
                joined.go_on();
            }
        }
        Err(error) => {
            call.refuse(error);
            // Whoever was refused follows no more than before.
            leave(&cx, thread).await;
        }
    }
}

fn begun(answer: &StartAnswer) -> ThreadQueueStartAnswer {
    let turn = match answer {
        StartAnswer::Begun(turn) => Turn {
            queued_turn_id: turn.row.map(view::row_id),
            attempt: Some(turn.attempt),
            ..Turn::accepted(view::turn_id(turn.id))
        },
        // A row is never given to another turn; these are for `turn/start`.
        StartAnswer::Steered(turn) => Turn::accepted(*turn),
        StartAnswer::Queued(row) => Turn::accepted(view::turn_id(row.turn)),
        StartAnswer::Repeated(repeated) => Turn::accepted(view::turn_id(repeated.row.turn)),
    };
    ThreadQueueStartAnswer { turn }
}

/// `thread/queue/retry`
pub(crate) async fn retry(
    cx: Arc<Connection>,
    params: ThreadQueueRetryParams,
    responder: Responder,
) {
    let dialect = QueueDialect::Turns;
    let Some(mut call) = call(cx, RETRY, &params.thread_id, dialect, responder) else {
        return;
    };
    let row = params.row.id().map(|row| call.row(row));
    let (runtime, thread) = (call.runtime(), call.about.thread);
    runtime
        .retry_with(thread, row, call.reply(|row: Row| one(&row)))
        .await;
}

/// `thread/queue/move`
pub(crate) async fn move_row(
    cx: Arc<Connection>,
    params: ThreadQueueMoveParams,
    responder: Responder,
) {
    let called = call_for_row(cx, MOVE, &params.thread_id, &params.row, responder);
    let Some((mut call, row)) = called else {
        return;
    };
    let to = match (params.before_id, params.after_id, params.position) {
        (Some(other), None, None) => MoveTo::Before(call.row(&other).as_uuid().into()),
        (None, Some(other), None) => MoveTo::After(call.row(&other).as_uuid().into()),
        (None, None, Some(index)) => MoveTo::Index(index),
        _ => return call.responder.error(&ErrorObject::unclear_move()),
    };
    let (runtime, thread) = (call.runtime(), call.about.thread);
    runtime
        .move_row_with(thread, row, to, call.reply(|row: Row| one(&row)))
        .await;
}

fn one(row: &Row) -> QueuedTurnAnswer {
    QueuedTurnAnswer {
        queued_turn: view::queued_turn(row),
    }
}

/// `thread/queue/pause`
pub(crate) async fn pause(
    cx: Arc<Connection>,
    params: ThreadQueuePauseParams,
    responder: Responder,
) {
    let by = cx.client_name().map(str::to_owned);
    let dialect = QueueDialect::Turns;
    let Some(call) = call(cx, PAUSE, &params.thread_id, dialect, responder) else {
        return;
    };
    let (runtime, thread) = (call.runtime(), call.about.thread);
    let reply = call.reply(|lane: LaneView| view::queue_state(&lane));
    runtime.pause_with(thread, params.reason, by, reply).await;
}

/// `thread/queue/resume`
pub(crate) async fn resume(
    cx: Arc<Connection>,
    params: ThreadQueueResumeParams,
    responder: Responder,
) {
    let dialect = QueueDialect::Turns;
    let Some(call) = call(cx, RESUME, &params.thread_id, dialect, responder) else {
        return;
    };
    let (runtime, thread) = (call.runtime(), call.about.thread);
    let reply = call.reply(|lane: LaneView| view::queue_state(&lane));
    match params.reason {
        None => runtime.resume_with(thread, reply).await,
        Some(reason) => runtime.end_pause_with(thread, reason, reply).await,
    }
}
