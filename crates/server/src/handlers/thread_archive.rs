//! `thread/archive`, `thread/unarchive`, `thread/delete`.
//!
//! The invariant here: the caller is answered before anybody is told, because the runtime calls the
//! reply first.

use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::method::thread_archive::{ARCHIVE, DELETE, UNARCHIVE};
use turnlane_protocol::method::{
    Done, ThreadArchiveParams, ThreadDeleteParams, ThreadUnarchiveAnswer, ThreadUnarchiveParams,
};
use turnlane_protocol::thread::ThreadStatus;
use turnlane_rpc::Responder;
use turnlane_runtime::store::StoreError;
use turnlane_runtime::{Error, Reply};

use crate::connection::Connection;
use crate::errors::{self, About};
use crate::handlers::thread_queue;
use crate::view::{self, Seen};

/// `thread/archive`
pub(crate) async fn archive(
    cx: Arc<Connection>,
    params: ThreadArchiveParams,
    responder: Responder,
) {
    let about = match about(ARCHIVE, &params.thread_id, MissingThread::NoRollout) {
        Ok(about) => about,
        Err(error) => return responder.error(&error),
    };
    let runtime = cx.shared().options.runtime.clone();
    let reply = Reply::new(move |done: Result<(), Error>| match done {
        Ok(()) => responder.result(&Done {}),
        // What is put away is not there to be put away.
        Err(Error::Store(StoreError::Archived(_))) => responder.error(&errors::missing(&about)),
        Err(error) => errors::refuse(&cx, responder, error, &about),
    });
    runtime.archive_with(about.thread, reply).await;
}

/// `thread/unarchive`
pub(crate) async fn unarchive(
    cx: Arc<Connection>,
    params: ThreadUnarchiveParams,
    responder: Responder,
) {
    let missing = MissingThread::NoArchivedRollout;
    let about = match about(UNARCHIVE, &params.thread_id, missing) {
        Ok(about) => about,
        Err(error) => return responder.error(&error),
    };
    let runtime = &cx.shared().options.runtime;
    // Looked at before: the answer cannot wait, since what it causes is told right after it.
    let lane = runtime
        .store()
        .look(about.thread.as_uuid().into())
        .await
        .ok();
    let reply = Reply::new(move |row: Result<_, Error>| {
        let row = row.map_err(|error| errors::of(&error, &about));
        responder.respond(row.and_then(|row| {
            let seen = Seen {
                status: ThreadStatus::NotLoaded,
                lane: lane.as_ref(),
                ephemeral: false,
            };
            let thread = view::thread(&row, seen)?;
            Ok(ThreadUnarchiveAnswer { thread })
        }));
    });
    runtime.unarchive_with(about.thread, reply).await;
}

/// `thread/delete`
pub(crate) async fn delete(cx: Arc<Connection>, params: ThreadDeleteParams, responder: Responder) {
    let about = match about(DELETE, &params.thread_id, MissingThread::NoRollout) {
        Ok(about) => about,
        Err(error) => return responder.error(&error),
    };
    let runtime = cx.shared().options.runtime.clone();
    let (home, thread) = (cx.shared().options.home.clone(), about.thread);
    // Looked for before, because the answer cannot wait: what it causes is told right after it.
    let copies = tokio::task::spawn_blocking(move || thread_queue::of_thread(&home, thread));
    let copies = copies.await.unwrap_or_default();
    let store = runtime.store().as_ref();
    let copies = thread_queue::still_of_thread(store, thread, copies).await;
    let reply = Reply::new(move |done: Result<(), Error>| match done {
        Ok(()) => {
            // Few threads have any. Gone before the answer, since a command ends with it.
            thread_queue::remove_of_thread(&copies);
            responder.result(&Done {});
        }
        Err(error) => errors::refuse(&cx, responder, error, &about),
    });
    runtime.delete_thread_with(about.thread, reply).await;
}

fn about(method: &'static str, thread: &str, missing: MissingThread) -> Result<About, ErrorObject> {
    Ok(About {
        method,
        thread: errors::thread_id(thread)?,
        missing,
    })
}
