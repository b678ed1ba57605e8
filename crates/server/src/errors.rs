//! From what the runtime refuses to what a caller is told.
//!
//! The invariant here: every refusal of the runtime and its store has its error; the texts and codes
//! themselves stand in the protocol. The same mistake has the same word everywhere; only the text
//! follows the habits of Codex, where it depends on the method.

use std::sync::Arc;

use serde_json::json;
use turnlane_protocol::error::{
    ErrorObject, INVALID_REQUEST, MissingThread, Owner, Reason, UnsteerableTurn,
};
use turnlane_protocol::ids::{ApprovalId, ThreadId, TurnId};
use turnlane_rpc::Responder;
use turnlane_runtime::store::{StoreError, WorkerId};
use turnlane_runtime::{Error, NotSteerable};

use crate::connection::Connection;
use crate::view;

/// When a refused caller may try again.
const RETRY_AFTER_MS: u64 = 250;

/// The reason why an accept of a client without the rights does not count.
pub(crate) const ESCALATES: &str = "an accept would let the agent act without a sandbox";

/// What a refused call was about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    /// The method, as callers know it.
    pub(crate) method: &'static str,
    /// The thread.
    pub(crate) thread: ThreadId,
    /// How the method calls a thread that is not there.
    pub(crate) missing: MissingThread,
}

/// Params that do not go together, or that we do not take.
pub(crate) fn invalid(message: impl Into<String>) -> ErrorObject {
    ErrorObject::new(INVALID_REQUEST, Reason::InvalidParams, message)
}

/// The thread that params name.
pub(crate) fn thread_id(text: &str) -> Result<ThreadId, ErrorObject> {
    let id = text.parse::<ThreadId>();
    id.map_err(|why| ErrorObject::invalid_thread_id(&why))
}

/// The turn that params name; a text that is no id names no turn.
pub(crate) fn turn_id(text: &str) -> Result<TurnId, ErrorObject> {
    let id = text.parse::<TurnId>();
    id.map_err(|_| ErrorObject::turn_not_found(text))
}

/// What a call about an approval was refused with.
pub(crate) async fn of_approval(cx: &Connection, error: &Error, id: ApprovalId) -> ErrorObject {
    let id = id.to_string();
    match error {
        Error::ApprovalNotFound => ErrorObject::approval_not_found(&id),
        Error::ApprovalResolved { decision, by } => {
            ErrorObject::approval_resolved(&id, json!(decision), json!(by))
        }
        Error::Store(StoreError::OwnedElsewhere { thread, worker }) => {
            told_owner(cx, *worker, ThreadId::from_uuid(thread.as_uuid())).await
        }
        Error::DecisionNotOffered => ErrorObject::decision_not_offered(&id),
        Error::Unconfined => ErrorObject::unconfined_denied(ESCALATES),
        Error::Overloaded => ErrorObject::overloaded(RETRY_AFTER_MS),
        other => failed("approval/respond", other),
    }
}

/// Answers a refused call, with what has to be looked up: who owns the thread elsewhere, whether a
/// turn runs there, and whether a lane was lost because there is no such thread.
///
/// Never waits: what has to be looked up is looked up by a task of its own.
pub(crate) fn refuse(cx: &Arc<Connection>, responder: Responder, error: Error, about: &About) {
    if !needs_a_look(&error) {
        return responder.error(&of(&error, about));
    }
    let (cx, about) = (Arc::clone(cx), *about);
    tokio::spawn(async move { responder.error(&explained(&cx, &error, &about).await) });
}

/// As [`of`], with what has to be looked up.
pub(crate) async fn explained(cx: &Connection, error: &Error, about: &About) -> ErrorObject {
    match error {
        Error::Store(StoreError::OwnedElsewhere { worker, .. }) => {
            told_owner(cx, *worker, about.thread).await
        }
        Error::Lost => {
            let store = cx.shared().options.runtime.store_of(about.thread);
            let lane = store.look(about.thread.as_uuid().into()).await;
            let owner = match lane {
                Err(StoreError::ThreadNotFound(_)) => return missing(about),
                Ok(lane) => lane.owner.filter(|owner| *owner != store.worker()),
                Err(_) => None,
            };
            match owner {
                Some(owner) => told_owner(cx, owner, about.thread).await,
                None => of(error, about),
            }
        }
        // Nothing runs here, which is no answer when it runs elsewhere.
        Error::NoTurnToSteer | Error::NoTurnToInterrupt => match busy_elsewhere(cx, about).await {
            Some(refusal) => refusal,
            None => of(error, about),
        },
        error => of(error, about),
    }
}

/// The refusal of a call about the running turn when it is another worker that runs it.
pub(crate) async fn busy_elsewhere(cx: &Connection, about: &About) -> Option<ErrorObject> {
    let store = cx.shared().options.runtime.store_of(about.thread);
    let lane = store.look(about.thread.as_uuid().into()).await.ok()?;
    let owner = lane.owner.filter(|owner| *owner != store.worker())?;
    match lane.active {
        Some(_) => Some(told_owner(cx, owner, about.thread).await),
        None => None,
    }
}

fn needs_a_look(error: &Error) -> bool {
    matches!(
        error,
        Error::Lost
            | Error::NoTurnToSteer
            | Error::NoTurnToInterrupt
            | Error::Store(StoreError::OwnedElsewhere { .. })
    )
}

async fn told_owner(cx: &Connection, worker: WorkerId, thread: ThreadId) -> ErrorObject {
    let row = cx.shared().options.runtime.store().worker_row(worker).await;
    // One that cannot be found any more is named all the same.
    let owner = match row {
        Ok(Some(row)) => Owner {
            id: worker.to_string(),
            pid: Some(row.pid),
            host: Some(row.host),
            endpoint: row.endpoint,
        },
        Ok(None) | Err(_) => owner(Some(worker)),
    };
    ErrorObject::owned_elsewhere(&thread.to_string(), &owner)
}

fn owner(worker: Option<WorkerId>) -> Owner {
    Owner {
        id: worker.map(|worker| worker.to_string()).unwrap_or_default(),
        pid: None,
        host: None,
        endpoint: None,
    }
}

/// Our own failure; the cause goes to the log.
fn failed(method: &str, error: &dyn std::error::Error) -> ErrorObject {
    tracing::error!(%error, method, "a call failed");
    ErrorObject::internal(format!("{method} failed: {error}"))
}

/// What a call of the runtime was refused with.
pub(crate) fn of(error: &Error, about: &About) -> ErrorObject {
    match error {
        Error::Busy { turn } => {
            let turn = turn.map(|turn| turn.to_string());
            ErrorObject::busy(turn.as_deref())
        }
        Error::NoTurnToSteer => ErrorObject::nothing_to_steer(),
        Error::NoTurnToInterrupt => ErrorObject::nothing_to_interrupt(),
        Error::TurnQueued => ErrorObject::turn_is_queued(),
        Error::NotSteerable { why } => ErrorObject::not_steerable(match why {
            NotSteerable::Compact => UnsteerableTurn::Compact,
            NotSteerable::Engine => UnsteerableTurn::Engine,
        }),
        Error::Unconfined => {
            ErrorObject::unconfined_denied("the running turn or the thread has no sandbox")
        }
        Error::CannotStart(why) => ErrorObject::internal(why.clone()),
        Error::InvalidParams(why) => invalid(why.clone()),
        Error::Unsupported { engine } => ErrorObject::unsupported_by_engine(engine, about.method),
        Error::Lost => owned_elsewhere(about, None),
        Error::Closing => missing(about),
        Error::Overloaded => ErrorObject::overloaded(RETRY_AFTER_MS),
        Error::Stopping => ErrorObject::internal("the server stops"),
        Error::Store(error) => of_store(error, about),
        other => failed(about.method, other),
    }
}

/// The thread is not there.
pub(crate) fn missing(about: &About) -> ErrorObject {
    ErrorObject::thread_not_found(about.missing, &about.thread.to_string())
}

fn owned_elsewhere(about: &About, worker: Option<WorkerId>) -> ErrorObject {
    ErrorObject::owned_elsewhere(&about.thread.to_string(), &owner(worker))
}

/// What the store refused a call with.
pub(crate) fn of_store(error: &StoreError, about: &About) -> ErrorObject {
    match error {
        StoreError::ThreadNotFound(_) | StoreError::NotArchived(_) => missing(about),
        StoreError::Archived(id) => ErrorObject::archived(&id.to_string()),
        StoreError::NameInUse { name, thread } => {
            ErrorObject::name_in_use(name, &thread.to_string())
        }
        StoreError::BindingTaken { key, .. } => ErrorObject::binding_in_use(key),
        StoreError::BindingNotHeld { thread, key } => {
            ErrorObject::binding_not_held(&thread.to_string(), key)
        }
        StoreError::TurnInProgress(turn) => ErrorObject::turn_in_progress(&turn.to_string()),
        StoreError::Busy(_) => ErrorObject::busy(None),
        StoreError::OwnedElsewhere { worker, .. } => owned_elsewhere(about, Some(*worker)),
        StoreError::Fenced => owned_elsewhere(about, None),
        StoreError::KeyTaken { key } => ErrorObject::idempotency_conflict(key),
        StoreError::RowNotFound(row) => ErrorObject::queued_turn_not_found(&row.to_string()),
        StoreError::RowNotFailed(row) => ErrorObject::queued_turn_not_failed(&row.to_string()),
        StoreError::QueueEmpty => ErrorObject::queue_empty(),
        StoreError::HeadFailed { row, failure } => {
            let why = view::failure_message(failure);
            ErrorObject::head_failed(&row.to_string(), &why)
        }
        StoreError::QueueFull { max_depth } => ErrorObject::queue_full(u64::from(*max_depth)),
        StoreError::DiskFull { source } => ErrorObject::disk_full(&source.to_string()),
        StoreError::NotWritable { path, source } => {
            ErrorObject::not_writable(&path.display().to_string(), &source.to_string())
        }
        StoreError::Locked { holder, .. } => {
            let (pid, program) = (holder.pid, holder.program.as_deref());
            ErrorObject::database_locked(&holder.to_string(), pid, program)
        }
        StoreError::Overloaded => ErrorObject::overloaded(RETRY_AFTER_MS),
        other => failed(about.method, other),
    }
}
