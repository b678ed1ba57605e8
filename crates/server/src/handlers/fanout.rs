//! `fanout/*`: jobs that run one template over many rows.
//!
//! The invariant here: a handler makes one call of the runtime and shows what is stored afterwards. A
//! client that may not run anything without a sandbox neither makes nor continues a job without one. A
//! path of the server is taken on local connections only, unless the operator allows more.
//!
//! The notifications are in `job_feed`; what a job does is decided by the runtime.

mod create;
mod errors;
mod export;
mod import;
mod items;
mod view;

use std::sync::Arc;
use std::time::Duration;

use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::fanout::JobItemState;
use turnlane_protocol::method::fanout as name;
use turnlane_protocol::method::{
    Done, FanoutDeleteParams, FanoutJobAnswer, FanoutJobParams, FanoutListAnswer, FanoutListParams,
    FanoutPauseParams, FanoutRetryAnswer, FanoutRetryParams, FanoutSubscribeParams,
};
use turnlane_runtime::fanout::jobs::{DeleteWork, Job, JobsQuery, PauseJob, RetryJob};

use crate::connection::Connection;
use crate::cursors;
use crate::errors::{invalid, thread_id};
use crate::job_feed::{self, Interest};
use crate::methods::Then;
use crate::rights;
use crate::settings;

pub(crate) use create::create;
pub(crate) use errors::of as refusal;
pub(crate) use export::export;
pub(crate) use import::{add_items, import, preview, seal, write};
pub(crate) use items::{list as list_items, read as read_item};
pub(crate) use view::{item as item_view, job as job_view};

/// The answer with a job.
fn answer(cx: &Connection, job: &Job) -> FanoutJobAnswer {
    FanoutJobAnswer {
        job: job_view(job, cx.shared().options.clock.now_ms()),
    }
}

/// Refuses to continue a job without a sandbox for a client that may not run anything without one, and
/// a job whose engine is not here: all its items would fail.
async fn check_rights(cx: &Connection, method: &str, job: &str) -> Result<(), ErrorObject> {
    let jobs = cx.shared().options.runtime.jobs();
    let job = jobs.read(job).await;
    let job = job.map_err(|error| refusal(method, &error))?;
    let engine = &job.settings.engine;
    if !cx.shared().options.runtime.engines().contains(engine) {
        return Err(invalid(format!("unknown engine: {engine}")));
    }
    rights::check(cx, &job.settings.thread.sandbox_policy)
}

/// A path of the server, absolute: a job outlives the directory in which the server was started. It is
/// refused to a client that is not local.
fn server_path(cx: &Connection, method: &str, path: &str) -> Result<String, ErrorObject> {
    if !cx.kind().is_local() && !cx.shared().options.fanout.server_paths {
        return Err(ErrorObject::server_path_local_only(method));
    }
    let absolute = settings::absolute(cx, path);
    absolute.map_err(|_| invalid(format!("path must be absolute: {path}")))
}

/// `fanout/read`: the job as it is stored.
pub(crate) async fn read(
    cx: Arc<Connection>,
    params: FanoutJobParams,
) -> Result<FanoutJobAnswer, ErrorObject> {
    let job = cx
        .shared()
        .options
        .runtime
        .jobs()
        .read(&params.job_id)
        .await;
    let job = job.map_err(|error| refusal(name::READ, &error))?;
    Ok(answer(&cx, &job))
}

/// `fanout/list`: jobs, the newest first.
pub(crate) async fn list(
    cx: Arc<Connection>,
    params: FanoutListParams,
) -> Result<FanoutListAnswer, ErrorObject> {
    let parent = params.parent_thread_id.as_deref().map(thread_id);
    let query = JobsQuery {
        after: params.cursor.as_deref().map(cursors::in_jobs).transpose()?,
        states: view::stored_job_states(params.states.as_deref()),
        parent: parent.transpose()?,
        limit: cursors::limit(params.limit),
    };
    let page = cx.shared().options.runtime.jobs().list(query).await;
    let page = page.map_err(|error| refusal(name::LIST, &error))?;
    let now_ms = cx.shared().options.clock.now_ms();
    Ok(FanoutListAnswer {
        data: page.jobs.iter().map(|job| job_view(job, now_ms)).collect(),
        next_cursor: page.next.as_ref().map(cursors::of_jobs),
    })
}

/// `fanout/start`: starts a job, and subscribes the client to it.
pub(crate) async fn start(
    cx: Arc<Connection>,
    params: FanoutJobParams,
) -> Result<Then<FanoutJobAnswer>, ErrorObject> {
    check_rights(&cx, name::START, &params.job_id).await?;
    // Before the start, so that a job which ends at once is told too.
    let job = cx
        .shared()
        .options
        .runtime
        .jobs()
        .read(&params.job_id)
        .await;
    let job = job.map_err(|error| refusal(name::START, &error))?;
    let id = job.row.made.id;
    job_feed::subscribe(&cx, Some(&id), Interest::Job);
    let job = cx.shared().options.runtime.jobs().start(&id).await;
    let job = job.map_err(|error| refusal(name::START, &error))?;
    Ok(Then::new(answer(&cx, &job), async move {
        job_feed::show(&cx, &id).await;
    }))
}

/// `fanout/pause`: stops the start of further items.
pub(crate) async fn pause(
    cx: Arc<Connection>,
    params: FanoutPauseParams,
) -> Result<FanoutJobAnswer, ErrorObject> {
    let how = if params.now {
        PauseJob::Now {
            grace: params.grace_ms.map(Duration::from_millis),
        }
    } else {
        PauseJob::Drain
    };
    let jobs = cx.shared().options.runtime.jobs();
    let job = jobs.pause(&params.job_id, how).await;
    let job = job.map_err(|error| refusal(name::PAUSE, &error))?;
    Ok(answer(&cx, &job))
}

/// `fanout/resume`: ends a pause, for the owner that this server gives to jobs.
pub(crate) async fn resume(
    cx: Arc<Connection>,
    params: FanoutJobParams,
) -> Result<FanoutJobAnswer, ErrorObject> {
    check_rights(&cx, name::RESUME, &params.job_id).await?;
    let options = &cx.shared().options;
    let jobs = options.runtime.jobs();
    let job = jobs.resume(&params.job_id, options.fanout.owner).await;
    let job = job.map_err(|error| refusal(name::RESUME, &error))?;
    Ok(answer(&cx, &job))
}

/// `fanout/cancel`: ends a job.
pub(crate) async fn cancel(
    cx: Arc<Connection>,
    params: FanoutJobParams,
) -> Result<FanoutJobAnswer, ErrorObject> {
    let jobs = cx.shared().options.runtime.jobs();
    let job = jobs.cancel(&params.job_id).await;
    let job = job.map_err(|error| refusal(name::CANCEL, &error))?;
    Ok(answer(&cx, &job))
}

/// `fanout/retry`: makes failed and cancelled items pending again.
pub(crate) async fn retry(
    cx: Arc<Connection>,
    params: FanoutRetryParams,
) -> Result<FanoutRetryAnswer, ErrorObject> {
    check_rights(&cx, name::RETRY, &params.job_id).await?;
    let states = params.states.unwrap_or_default();
    let allowed = [JobItemState::Failed, JobItemState::Cancelled];
    if states.iter().any(|state| !allowed.contains(state)) {
        return Err(invalid("states may name failed and cancelled"));
    }
    let retry = RetryJob {
        states: view::stored_item_states(Some(&states)),
        item_ids: params.item_ids.unwrap_or_default(),
        instruction: params.instruction,
    };
    let jobs = cx.shared().options.runtime.jobs();
    let retried = jobs.retry(&params.job_id, retry).await;
    let (job, retried) = retried.map_err(|error| refusal(name::RETRY, &error))?;
    Ok(FanoutRetryAnswer {
        job: answer(&cx, &job).job,
        retried,
    })
}

/// `fanout/delete`: deletes a job that does not run, with its worktrees. Trees that have work in them
/// refuse it, unless the client forces it.
pub(crate) async fn delete(
    cx: Arc<Connection>,
    params: FanoutDeleteParams,
) -> Result<Done, ErrorObject> {
    let work = if params.force {
        DeleteWork::Allow
    } else {
        DeleteWork::Refuse
    };
    let jobs = cx.shared().options.runtime.jobs();
    let deleted = jobs.delete(&params.job_id, work).await;
    deleted.map_err(|error| refusal(name::DELETE, &error))?;
    Ok(Done {})
}

/// `fanout/subscribe`: begins the notifications about one job or all jobs. A job that has ended is told
/// at once, behind the answer.
pub(crate) async fn subscribe(
    cx: Arc<Connection>,
    params: FanoutSubscribeParams,
) -> Result<Then<Done>, ErrorObject> {
    let interest = if params.items {
        Interest::Items
    } else {
        Interest::Job
    };
    let Some(job) = params.job_id else {
        job_feed::subscribe(&cx, None, interest);
        return Ok(Then::new(Done {}, async {}));
    };
    let job = cx.shared().options.runtime.jobs().read(&job).await;
    let job = job.map_err(|error| refusal(name::SUBSCRIBE, &error))?;
    let id = job.row.made.id;
    job_feed::subscribe(&cx, Some(&id), interest);
    Ok(Then::new(Done {}, async move {
        job_feed::show(&cx, &id).await;
    }))
}

/// `fanout/unsubscribe`: ends the notifications about one job, or all of them.
pub(crate) async fn unsubscribe(
    cx: Arc<Connection>,
    params: FanoutSubscribeParams,
) -> Result<Done, ErrorObject> {
    cx.job_subscriptions().remove(params.job_id.as_deref());
    Ok(Done {})
}
