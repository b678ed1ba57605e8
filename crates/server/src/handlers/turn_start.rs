//! `turn/start`: gives a thread something to do.
//!
//! The invariant here: the answer means that turn and message are on disk, and leaves before anything
//! about the turn is told; the caller follows the thread from then on. Whatever could never be run is
//! refused here.

use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::input;
use turnlane_protocol::method::turn_start::METHOD;
use turnlane_protocol::method::{BoundTo, TurnStartAnswer, TurnStartParams, WhenBusy};
use turnlane_protocol::output_schema::check_schema;
use turnlane_protocol::turn::{ItemsView, Turn};
use turnlane_rpc::Responder;
use turnlane_runtime::store::StoreError;
use turnlane_runtime::store::queue::Row;
use turnlane_runtime::{Bound, Error, Reply, StartAnswer, StartHow, StartRequest};

use super::thread_start::check_environments;
use crate::connection::Connection;
use crate::errors::{self, About};
use crate::rights;
use crate::settings;
use crate::subscriptions::{Join, join, leave};
use crate::view;

/// `turn/start`
pub(crate) async fn start(cx: Arc<Connection>, params: TurnStartParams, responder: Responder) {
    let (about, request) = match checked(&cx, params) {
        Ok(checked) => checked,
        Err(error) => return responder.error(&error),
    };
    let thread = about.thread;
    if let Err(error) = rights::check_turn(&cx, METHOD, thread, &request.params).await {
        return responder.error(&error);
    }
    let joined = match join(&cx, thread, None).await {
        Ok(joined) => joined,
        // A row may be added to a lane of another worker; what becomes of it is told there.
        Err(Error::Store(StoreError::OwnedElsewhere { .. }))
            if request.how == StartHow::OrQueue =>
        {
            Join::Already
        }
        Err(error) => return errors::refuse(&cx, responder, error, &about),
    };
    let bound = request.bound;
    let runtime = cx.shared().options.runtime.clone();
    let reply = Reply::new(move |answer: Result<StartAnswer, Error>| match answer {
        Ok(answer) => {
            if let (StartAnswer::Queued(row), Bound::ToThisWorker) = (&answer, bound) {
                cx.bind(thread, view::row_id(row.id));
            }
            responder.result(&shown(&answer));
            if let Join::New(joined) = joined {
                joined.go_on();
            }
        }
        Err(error) => {
            errors::refuse(&cx, responder, error, &about);
            if let Join::New(_) = joined {
                // Whoever was refused follows no more than before.
                tokio::spawn(async move { leave(&cx, thread).await });
            }
        }
    });
    // The reply knows it too.
    let _ = runtime.start_with(thread, request, reply).await;
}

fn checked(
    cx: &Connection,
    mut params: TurnStartParams,
) -> Result<(About, StartRequest), ErrorObject> {
    let about = About {
        method: METHOD,
        thread: errors::thread_id(&params.thread_id)?,
        missing: MissingThread::NotFound,
    };
    input::check(&params.input)?;
    check_settings(cx, &mut params)?;
    settings::check_rules(cx, params.cwd.as_deref())?;
    let request = StartRequest {
        how: match params.when_busy {
            None => StartHow::OrSteer,
            Some(WhenBusy::Queue) => StartHow::OrQueue,
            Some(WhenBusy::Reject) => StartHow::OrReject,
        },
        key: params.idempotency_key.clone(),
        bound: match params.bound_to {
            Some(BoundTo::Connection) => Bound::ToThisWorker,
            None => Bound::No,
        },
        params,
    };
    Ok((about, request))
}

/// Refuses what could never be started, whatever is said to the agent; makes paths absolute.
pub(crate) fn check_settings(
    cx: &Connection,
    params: &mut TurnStartParams,
) -> Result<(), ErrorObject> {
    let sandbox = params.chosen_sandbox();
    let sandbox = sandbox.map_err(|_| ErrorObject::sandbox_disagreement())?;
    if let (Some(_), Some(_)) = (&params.permissions, sandbox) {
        return Err(ErrorObject::permissions_with("sandboxPolicy"));
    }
    if let Some(sandbox) = sandbox {
        settings::check_sandbox(cx, sandbox)?;
    }
    if let Some(profile) = settings::profile(cx, params.permissions.as_deref())? {
        settings::check_sandbox(cx, &profile.policy())?;
    }
    rights::mark(cx, params);
    if let Some(cwd) = &params.cwd {
        params.cwd = Some(settings::absolute(cx, cwd)?);
    }
    check_environments(cx, params.environments.as_deref())?;
    if let Some(schema) = &params.output_schema {
        check_schema(schema).map_err(|why| ErrorObject::invalid_output_schema(&why))?;
    }
    Ok(())
}

fn shown(answer: &StartAnswer) -> TurnStartAnswer {
    let accepted = |turn| TurnStartAnswer {
        turn,
        queued_turn: None,
    };
    match answer {
        StartAnswer::Begun(turn) => accepted(Turn::accepted(view::turn_id(turn.id))),
        StartAnswer::Steered(turn) => accepted(Turn::accepted(*turn)),
        StartAnswer::Queued(row) => waiting(row),
        StartAnswer::Repeated(repeated) => match &repeated.turn {
            Some(turn) => accepted(view::turn(turn, Vec::new(), ItemsView::NotLoaded)),
            None => waiting(&repeated.row),
        },
    }
}

fn waiting(row: &Row) -> TurnStartAnswer {
    let mut turn = Turn::accepted(view::turn_id(row.turn));
    turn.queued_turn_id = Some(view::row_id(row.id));
    let queued_turn = Some(Box::new(view::queued_turn(row)));
    TurnStartAnswer { turn, queued_turn }
}
