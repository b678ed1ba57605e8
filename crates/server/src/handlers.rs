//! What the methods about threads, turns and approvals do.
//!
//! One file per subject, one function per method, named after it. The invariant: a handler checks
//! what it was given, makes one call of the runtime and turns its answer into the wire's; what it
//! reads is read from the store that the thread is in, at that moment.

pub(crate) mod approval;
pub(crate) mod fanout;
pub(crate) mod server_status;
pub(crate) mod thread_archive;
pub(crate) mod thread_background;
pub(crate) mod thread_binding;
pub(crate) mod thread_fork;
pub(crate) mod thread_history;
pub(crate) mod thread_list;
pub(crate) mod thread_loaded;
pub(crate) mod thread_name;
pub(crate) mod thread_queue;
pub(crate) mod thread_read;
pub(crate) mod thread_resume;
pub(crate) mod thread_revert;
pub(crate) mod thread_settings;
pub(crate) mod thread_start;
pub(crate) mod turn_interrupt;
pub(crate) mod turn_start;
pub(crate) mod turn_steer;

use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::thread::Thread;
use turnlane_runtime::store::thread::ThreadRow;

use crate::connection::Connection;
use crate::errors::{self, About};
use crate::view::{self, Seen};

/// The thread that a request is about, as it is stored.
pub(crate) async fn stored(cx: &Connection, about: &About) -> Result<ThreadRow, ErrorObject> {
    let store = cx.shared().options.runtime.store_of(about.thread);
    let row = store.thread(about.thread.as_uuid().into()).await;
    let row = row.map_err(|error| errors::of_store(&error, about))?;
    row.ok_or_else(|| errors::missing(about))
}

/// A stored thread as clients see it, without turns.
pub(crate) async fn shown(
    cx: &Connection,
    row: &ThreadRow,
    about: &About,
) -> Result<Thread, ErrorObject> {
    let runtime = &cx.shared().options.runtime;
    let lane = runtime.store_of(about.thread).look(row.id).await;
    let lane = lane.map_err(|error| errors::of_store(&error, about))?;
    view::thread(
        row,
        Seen {
            status: runtime.status(about.thread),
            lane: Some(&lane),
            ephemeral: runtime.is_ephemeral(about.thread),
        },
    )
}
