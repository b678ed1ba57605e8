//! `thread/loaded/list` and `thread/unsubscribe`.
//!
//! The invariant here: both speak of this process only, and neither loads anything.

use std::sync::Arc;

use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::method::{
    ThreadLoadedListAnswer, ThreadLoadedListParams, ThreadUnsubscribeAnswer,
    ThreadUnsubscribeParams, UnsubscribeStatus,
};
use turnlane_protocol::thread::ThreadStatus;

use crate::connection::Connection;
use crate::cursors;
use crate::subscriptions::leave;

/// `thread/loaded/list`
pub(crate) async fn list(
    cx: Arc<Connection>,
    params: ThreadLoadedListParams,
) -> Result<ThreadLoadedListAnswer, ErrorObject> {
    let after = match &params.cursor {
        Some(cursor) => {
            let id = cursor.parse::<ThreadId>();
            Some(id.map_err(|_| ErrorObject::invalid_cursor(cursor))?)
        }
        None => None,
    };
    let limit = cursors::limit(params.limit) as usize;
    let runtime = &cx.shared().options.runtime;
    let mut data = runtime.loaded_threads(after, limit + 1);
    let more = data.len() > limit;
    data.truncate(limit);
    let last = data.last().map(ThreadId::to_string);
    Ok(ThreadLoadedListAnswer {
        next_cursor: last.filter(|_| more),
        data,
    })
}

/// `thread/unsubscribe`
pub(crate) async fn unsubscribe(
    cx: Arc<Connection>,
    params: ThreadUnsubscribeParams,
) -> Result<ThreadUnsubscribeAnswer, ErrorObject> {
    let thread = crate::errors::thread_id(&params.thread_id)?;
    let status = cx.shared().options.runtime.status(thread);
    let status = if leave(&cx, thread).await {
        UnsubscribeStatus::Unsubscribed
    } else if status == ThreadStatus::NotLoaded {
        UnsubscribeStatus::NotLoaded
    } else {
        UnsubscribeStatus::NotSubscribed
    };
    Ok(ThreadUnsubscribeAnswer { status })
}
