//! `thread/queue/changed`: the visible queue and what holds it.
//!
//! The invariant here: at most 100 rows and [`NOTIFICATION_BYTES_MAX`]; whoever is told `truncated`
//! lists the rest.

use serde::Serialize;
use turnlane_protocol::envelope::{Stamp, encode_notification};
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::notification::method;
use turnlane_protocol::queue::QueueState;
use turnlane_runtime::store::queue::QueuePage;

use super::NOTIFICATION_BYTES_MAX;
use crate::view::{self, ShownRow};

/// The method.
pub(crate) const METHOD: &str = method::THREAD_QUEUE_CHANGED;

/// The protocol's `ThreadQueueChanged`, with rows that are copied as they are stored.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Changed<'a> {
    thread_id: ThreadId,
    queued_turns: Vec<ShownRow<'a>>,
    truncated: bool,
    #[serde(flatten)]
    state: QueueState,
}

/// The frame that tells what a queue looks like.
pub(crate) fn queue_changed(thread: ThreadId, page: &QueuePage, stamp: Stamp) -> Option<Vec<u8>> {
    let mut shown = page.rows.len();
    let mut truncated = shown < page.lane.depth as usize;
    let mut changed = Changed {
        thread_id: thread,
        queued_turns: Vec::new(),
        truncated,
        state: view::queue_state(&page.lane),
    };
    // Rows that do not fit anyway need not be written out first.
    while shown > 0 && bytes(&page.rows[..shown]) > NOTIFICATION_BYTES_MAX {
        truncated = true;
        shown /= 2;
    }
    loop {
        changed.queued_turns = page.rows[..shown].iter().map(view::shown_row).collect();
        changed.truncated = truncated;
        let frame = encode_notification(METHOD, &changed, Some(stamp)).ok()?;
        if frame.len() <= NOTIFICATION_BYTES_MAX || shown == 0 {
            return Some(frame);
        }
        truncated = true;
        shown /= 2;
    }
}

/// At least so long are these rows when they are written.
fn bytes(rows: &[turnlane_runtime::store::queue::Row]) -> usize {
    rows.iter().map(|row| row.params.as_str().len()).sum()
}
