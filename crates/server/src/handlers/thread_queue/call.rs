//! A call about a queue on its way from its params to its answer.
//!
//! The invariant here: every refusal of the runtime has its words here or in `errors`; rows are named
//! in them as the caller named them, and a text that is no id is the id of no row.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use turnlane_protocol::error::{ErrorObject, MissingThread, QueueDialect};
use turnlane_protocol::ids::QueuedTurnId;
use turnlane_protocol::method::NamedRow;
use turnlane_rpc::Responder;
use turnlane_runtime::store::{RowId, StoreError};
use turnlane_runtime::{Error, Handle, Reply};

use crate::connection::Connection;
use crate::errors::{self, About};
use crate::handlers;

/// One call about a queue on its way to its answer.
pub(super) struct Call {
    pub(super) cx: Arc<Connection>,
    pub(super) about: About,
    pub(super) dialect: QueueDialect,
    /// How the caller spelled the rows it named.
    pub(super) spelled: HashMap<RowId, String>,
    pub(super) responder: Responder,
}

impl Call {
    /// Answers with the words of a refusal.
    pub(super) fn refuse(self, error: Error) {
        let id = self.about.thread.to_string();
        match error {
            Error::Ephemeral => {
                let refusal = ErrorObject::ephemeral_queue(self.dialect, &id);
                self.responder.error(&refusal);
            }
            Error::Store(StoreError::NotAPermutation) => {
                let refusal = ErrorObject::not_the_queue(self.dialect);
                self.responder.error(&refusal);
            }
            Error::Store(StoreError::RowNotFound(row)) => {
                let spelled = self.spelled.get(&row).cloned();
                let row = spelled.unwrap_or_else(|| row.to_string());
                let refusal = ErrorObject::queued_turn_not_found(&row);
                self.responder.error(&refusal);
            }
            error => errors::refuse(&self.cx, self.responder, error, &self.about),
        }
    }

    /// Answers with what `show` makes of the runtime's answer.
    pub(super) fn reply<T: Send + 'static, R: Serialize>(
        self,
        show: impl FnOnce(T) -> R + Send + 'static,
    ) -> Reply<T> {
        Reply::new(move |answer: Result<T, Error>| match answer {
            Ok(answer) => self.responder.result(&show(answer)),
            Err(error) => self.refuse(error),
        })
    }

    pub(super) fn runtime(&self) -> Handle {
        self.cx.shared().options.runtime.clone()
    }

    /// The row that the caller means by this text.
    pub(super) fn row(&mut self, text: &str) -> QueuedTurnId {
        let row = text.parse().unwrap_or_else(|_| QueuedTurnId::new(0));
        let id = row.as_uuid().into();
        self.spelled.insert(id, text.to_owned());
        row
    }
}

/// A call about the queue of a thread; answers it when there can be no such thread.
pub(super) fn call(
    cx: Arc<Connection>,
    method: &'static str,
    thread: &str,
    dialect: QueueDialect,
    responder: Responder,
) -> Option<Call> {
    match about(method, thread) {
        Ok(about) => Some(Call {
            cx,
            about,
            dialect,
            spelled: HashMap::new(),
            responder,
        }),
        Err(error) => {
            responder.error(&error);
            None
        }
    }
}

pub(super) fn about(method: &'static str, thread: &str) -> Result<About, ErrorObject> {
    Ok(About {
        method,
        thread: errors::thread_id(thread)?,
        missing: MissingThread::NotFound,
    })
}

/// As [`call`] about one row, which must be named.
pub(super) fn call_for_row(
    cx: Arc<Connection>,
    method: &'static str,
    thread: &str,
    row: &NamedRow,
    responder: Responder,
) -> Option<(Call, QueuedTurnId)> {
    let Some(named) = row.id() else {
        responder.error(&missing("queuedTurnId"));
        return None;
    };
    let mut call = call(cx, method, thread, QueueDialect::Submissions, responder)?;
    let row = call.row(named);
    Some((call, row))
}

pub(super) fn missing(member: &str) -> ErrorObject {
    ErrorObject::invalid_request(&format!("missing field `{member}`"))
}

/// Whether the thread is there and has a queue that may be changed; otherwise what is wrong with it
/// comes before what is wrong with the content.
pub(super) async fn check_thread(
    cx: &Connection,
    about: &About,
    dialect: QueueDialect,
) -> Result<(), ErrorObject> {
    if cx.shared().options.runtime.is_ephemeral(about.thread) {
        let id = about.thread.to_string();
        return Err(ErrorObject::ephemeral_queue(dialect, &id));
    }
    let row = handlers::stored(cx, about).await?;
    if row.archived {
        return Err(ErrorObject::archived(&about.thread.to_string()));
    }
    Ok(())
}
