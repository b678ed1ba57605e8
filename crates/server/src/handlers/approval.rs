//! `approval/list` and `approval/respond`: for those who follow nothing.
//!
//! The invariant here: a decision made here has the same effects as an answer to the request, and
//! the first valid one counts.

use std::sync::Arc;

use turnlane_protocol::approval::{
    Approval, ApprovalListAnswer, ApprovalListParams, ApprovalRespondParams, LIST_METHOD,
};
use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::ids::{ApprovalId, ThreadId};
use turnlane_protocol::method::Done;
use turnlane_runtime::ClientDecision;

use crate::connection::Connection;
use crate::cursors;
use crate::errors::{self, About};
use crate::rights;

/// `approval/list`
pub(crate) async fn list(
    cx: Arc<Connection>,
    params: ApprovalListParams,
) -> Result<ApprovalListAnswer, ErrorObject> {
    let thread = params.thread_id.as_deref().map(errors::thread_id);
    let thread = thread.transpose()?;
    let open = cx.shared().options.runtime.approvals(thread).await;
    let about = About {
        method: LIST_METHOD,
        thread: thread.unwrap_or_else(|| ThreadId::new(0)),
        missing: MissingThread::NotFound,
    };
    let mut open = open.map_err(|error| errors::of(&error, &about))?;
    let place = |approval: &Approval| (approval.requested_at_ms, approval.approval_id);
    open.sort_by_key(place);
    if let Some(cursor) = &params.cursor {
        let after = read(cursor).ok_or_else(|| ErrorObject::invalid_cursor(cursor))?;
        open.retain(|approval| place(approval) > after);
    }
    let limit = cursors::limit(params.limit) as usize;
    let more = open.len() > limit;
    open.truncate(limit);
    let last = open.last().map(place);
    let last = last.filter(|_| more);
    Ok(ApprovalListAnswer {
        data: open,
        next_cursor: last.map(|(at_ms, id)| format!("{at_ms}-{id}")),
    })
}

fn read(cursor: &str) -> Option<(i64, ApprovalId)> {
    let (at_ms, id) = cursor.split_once('-')?;
    Some((at_ms.parse().ok()?, id.parse().ok()?))
}

/// `approval/respond`
pub(crate) async fn respond(
    cx: Arc<Connection>,
    params: ApprovalRespondParams,
) -> Result<Done, ErrorObject> {
    let id = params.approval_id.parse::<ApprovalId>();
    let id = id.map_err(|_| ErrorObject::approval_not_found(&params.approval_id))?;
    let runtime = &cx.shared().options.runtime;
    let decided = ClientDecision {
        decision: params.decision,
        reason: None,
        caller: rights::of(&cx),
    };
    match runtime.respond(id, decided).await {
        Ok(()) => Ok(Done {}),
        Err(error) => Err(errors::of_approval(&cx, &error, id).await),
    }
}
