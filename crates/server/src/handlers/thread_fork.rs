//! `thread/fork`: makes a thread that begins with another one's history.
//!
//! The invariant here: the copy owns its history; what becomes of the other thread does not matter
//! to it.

use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::method::thread_fork::METHOD;
use turnlane_protocol::method::{StartAnswer, ThreadForkParams};
use turnlane_runtime::store::StoreError;
use turnlane_runtime::store::thread::UpTo;
use turnlane_runtime::{Error, ForkThread, Life};

use super::{thread_history, thread_start};
use crate::connection::Connection;
use crate::errors::{self, About};
use crate::git;
use crate::methods::Then;
use crate::settings;
use crate::view::{self, ThreadFacts};

/// `thread/fork`
pub(crate) async fn fork(
    cx: Arc<Connection>,
    params: ThreadForkParams,
) -> Result<Then<StartAnswer>, ErrorObject> {
    let from = errors::thread_id(&params.thread_id)?;
    let about = About {
        method: METHOD,
        thread: from,
        missing: MissingThread::NoRollout,
    };
    let (upto, named) = match (&params.last_turn_id, &params.before_turn_id) {
        (Some(_), Some(_)) => return Err(ErrorObject::both_fork_ends()),
        (Some(last), None) => (UpTo::Turn(errors::turn_id(last)?.as_uuid().into()), last),
        (None, Some(before)) => {
            let turn = errors::turn_id(before)?;
            (UpTo::Before(turn.as_uuid().into()), before)
        }
        (None, None) => (UpTo::LastEnded, &params.thread_id),
    };
    let source = super::stored(&cx, &about).await?;
    if source.archived {
        return Err(ErrorObject::archived(&from.to_string()));
    }
    let settings = settings::after(&cx, &view::settings(&source)?, &params.overrides)?;
    settings::check_sandbox(&cx, &settings.sandbox_policy)?;
    if source.engine == thread_start::NATIVE {
        settings::check_rules(&cx, Some(&settings.cwd))?;
    }
    let before: ThreadFacts = view::read(&source.facts, "facts")?;
    let facts = ThreadFacts {
        session_id: Some(before.session_id.unwrap_or(from)),
        forked_from_id: Some(from),
        originator: cx.client_name().map(str::to_owned),
        thread_source: params.thread_source,
        environments: before.environments,
        git_info: git::info(&settings.cwd).await,
        ..ThreadFacts::default()
    };
    let fork = ForkThread {
        upto,
        facts: facts.into_map(),
        max_depth: cx.shared().options.defaults.queue_max_depth(),
        life: if params.ephemeral {
            Life::Ephemeral
        } else {
            Life::Durable
        },
        ..ForkThread::new(settings)
    };
    let made = cx.shared().options.runtime.fork(from, fork).await;
    let row = made.map_err(|error| match &error {
        Error::Store(StoreError::TurnNotFound) => ErrorObject::turn_not_found(named),
        error => errors::of(error, &about),
    })?;
    let about = About {
        thread: view::thread_id(row.id),
        ..about
    };
    let turns = if params.exclude_turns {
        Vec::new()
    } else {
        thread_history::all(&cx, &about).await?
    };
    thread_start::begun(&cx, &row, about, turns).await
}
