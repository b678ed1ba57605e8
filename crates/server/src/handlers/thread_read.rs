//! `thread/read`: shows a thread without opening it.
//!
//! The invariant here: nothing is loaded and nobody follows; archived threads are shown as others.

use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::method::thread_read::METHOD;
use turnlane_protocol::method::{ThreadReadAnswer, ThreadReadParams};

use super::{shown, stored, thread_history};
use crate::connection::Connection;
use crate::errors::{self, About};

/// `thread/read`
pub(crate) async fn read(
    cx: Arc<Connection>,
    params: ThreadReadParams,
) -> Result<ThreadReadAnswer, ErrorObject> {
    let about = About {
        method: METHOD,
        thread: errors::thread_id(&params.thread_id)?,
        missing: MissingThread::NotLoaded,
    };
    let row = stored(&cx, &about).await?;
    let mut thread = shown(&cx, &row, &about).await?;
    if params.include_turns {
        thread.turns = thread_history::all(&cx, &about).await?;
    }
    Ok(ThreadReadAnswer {
        thread,
        read_state: None,
    })
}
