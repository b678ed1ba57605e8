//! `thread/name/set`: what people call a thread.
//!
//! The invariant here: the name is on disk before the answer, and everybody is told after it.

use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::method::thread_name::METHOD;
use turnlane_protocol::method::{Done, ThreadNameSetParams};
use turnlane_rpc::Responder;
use turnlane_runtime::{Error, Reply};

use crate::connection::Connection;
use crate::errors::{self, About};

/// `thread/name/set`
pub(crate) async fn set(cx: Arc<Connection>, params: ThreadNameSetParams, responder: Responder) {
    let about = match errors::thread_id(&params.thread_id) {
        Ok(thread) => About {
            method: METHOD,
            thread,
            missing: MissingThread::NotFound,
        },
        Err(error) => return responder.error(&error),
    };
    let name = params.name.trim().to_owned();
    if name.is_empty() {
        return responder.error(&ErrorObject::empty_thread_name());
    }
    let runtime = cx.shared().options.runtime.clone();
    let reply = Reply::new(move |done: Result<(), Error>| match done {
        Ok(()) => responder.result(&Done {}),
        Err(error) => errors::refuse(&cx, responder, error, &about),
    });
    runtime.rename_with(about.thread, Some(name), reply).await;
}
