//! `thread/backgroundTerminals/*`: commands that outlived their turn.
//!
//! The invariant here: what is listed runs, and what is ended is ended with its descendants when the
//! answer leaves.

use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::method::background_terminals::{CLEAN, LIST, TERMINATE};
use turnlane_protocol::method::{
    BackgroundTerminal, BackgroundTerminalsCleanParams, BackgroundTerminalsListAnswer,
    BackgroundTerminalsListParams, BackgroundTerminalsTerminateAnswer,
    BackgroundTerminalsTerminateParams, Done,
};

use crate::connection::Connection;
use crate::cursors;
use crate::errors::{self, About};

/// `thread/backgroundTerminals/list`
pub(crate) async fn list(
    cx: Arc<Connection>,
    params: BackgroundTerminalsListParams,
) -> Result<BackgroundTerminalsListAnswer, ErrorObject> {
    let thread = known(&cx, LIST, &params.thread_id).await?;
    let mut running = cx.shared().options.runtime.background(thread).await;
    // Names are numbers that grow; the cursor is the last one.
    let key = |id: &str| (id.len(), id.to_owned());
    running.sort_by_key(|terminal| key(&terminal.process_id));
    if let Some(cursor) = &params.cursor {
        running.retain(|terminal| key(&terminal.process_id) > key(cursor));
    }
    let limit = cursors::limit(params.limit) as usize;
    let more = running.len() > limit;
    running.truncate(limit);
    let last = running.last().map(|terminal| terminal.process_id.clone());
    Ok(BackgroundTerminalsListAnswer {
        next_cursor: last.filter(|_| more),
        data: running
            .into_iter()
            .map(|terminal| BackgroundTerminal {
                item_id: terminal.item_id,
                process_id: terminal.process_id,
                command: terminal.command,
                cwd: terminal.cwd,
                os_pid: None,
                cpu_percent: None,
                rss_kb: None,
            })
            .collect(),
    })
}

/// `thread/backgroundTerminals/terminate`
pub(crate) async fn terminate(
    cx: Arc<Connection>,
    params: BackgroundTerminalsTerminateParams,
) -> Result<BackgroundTerminalsTerminateAnswer, ErrorObject> {
    let thread = known(&cx, TERMINATE, &params.thread_id).await?;
    let runtime = &cx.shared().options.runtime;
    let ended = runtime.end_background(thread, Some(params.process_id));
    Ok(BackgroundTerminalsTerminateAnswer {
        terminated: ended.await > 0,
    })
}

/// `thread/backgroundTerminals/clean`
pub(crate) async fn clean(
    cx: Arc<Connection>,
    params: BackgroundTerminalsCleanParams,
) -> Result<Done, ErrorObject> {
    let thread = known(&cx, CLEAN, &params.thread_id).await?;
    cx.shared()
        .options
        .runtime
        .end_background(thread, None)
        .await;
    Ok(Done {})
}

async fn known(
    cx: &Connection,
    method: &'static str,
    thread: &str,
) -> Result<ThreadId, ErrorObject> {
    let about = About {
        method,
        thread: errors::thread_id(thread)?,
        missing: MissingThread::NotFound,
    };
    super::stored(cx, &about).await?;
    Ok(about.thread)
}
