//! `process/read`: what is retained of a process, told or not, without consuming it.
//!
//! It is also how a resumed client catches up: its `afterSeq` says what it has, and the first answer
//! after a resume moves the live events of its process to where the answer ends, forward or back.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use turnlane_process::Page;
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::exec_server::Blob;
use turnlane_protocol::exec_server::process::{Chunk, ReadAnswer, ReadParams};

use super::super::encode;
use super::super::entry::Entry;
use super::super::outbox::{Responder, Then};
use super::super::session::Session;
use super::{process_of, started};

/// The longest a read waits.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// The first page after a resume is no longer than this, if it can be told in pieces.
const CATCH_UP_BYTES: usize = 64 * 1024;

/// `process/read`; the future answers when there is something, or when its time is over.
pub(crate) fn read(
    session: &Session,
    responder: Responder,
    params: &ReadParams,
) -> Result<impl Future<Output = ()> + Send + 'static, ErrorObject> {
    let entry = started(session, &params.process_id)?;
    let after = params.after_seq.unwrap_or(0);
    let bytes_max = params
        .max_bytes
        .map(|max| usize::try_from(max).unwrap_or(usize::MAX));
    let wait = Duration::from_millis(params.wait_ms.unwrap_or(0)).min(WAIT_MAX);
    Ok(async move {
        let Some(process) = entry.process() else {
            return;
        };
        if !wait.is_zero() && has_nothing(&process.read(after, Some(0)), after) {
            // Out of time is an answer too.
            let _ = timeout(wait, process.readable(after)).await;
        }
        // A page is long; it is made when there is room for it.
        responder.outbox.room().await;
        let mut page = process.read(after, bytes_max);
        let then = entry.is_answering().then(|| {
            shorten(&mut page);
            let (entry, told) = (Arc::clone(&entry), page.next_seq.saturating_sub(1));
            Then(Box::new(move || entry.was_read_to(told)))
        });
        match answer(&entry, page) {
            Err(error) => responder.fail(&error),
            Ok(answer) => responder.respond_then(&answer, then),
        }
    })
}

/// Leaves the rest of a long page to live events, which follow. A page that is lost with a second
/// connection would be lost whole, and may be longer than what stays readable.
fn shorten(page: &mut Page) {
    let mut bytes = 0;
    let fitting = page.chunks.iter().take_while(|(_, _, chunk)| {
        bytes += chunk.len();
        bytes <= CATCH_UP_BYTES
    });
    let kept = fitting.count().max(1);
    // With something missing, live events could not go on from here without a gap.
    if page.truncated || kept >= page.chunks.len() {
        return;
    }
    page.chunks.truncate(kept);
    if let Some((seq, ..)) = page.chunks.last() {
        page.next_seq = seq + 1;
    }
    let told = page.next_seq;
    page.exited = page.exited.filter(|(seq, _)| *seq < told);
    page.closed = page.closed.filter(|seq| *seq < told);
}

/// Whether a read that may wait has to.
fn has_nothing(page: &Page, after: u64) -> bool {
    let exited_since = page.exited.is_some_and(|(seq, _)| seq > after);
    page.chunks.is_empty() && page.closed.is_none() && !exited_since
}

fn answer(entry: &Entry, page: Page) -> Result<ReadAnswer, ErrorObject> {
    process_of(entry)?;
    let chunks = page.chunks.into_iter().map(|(seq, stream, bytes)| Chunk {
        seq,
        stream: encode::stream(stream),
        chunk: Blob(bytes),
    });
    Ok(ReadAnswer {
        chunks: chunks.collect(),
        next_seq: page.next_seq,
        exited: page.exited.is_some(),
        exit_code: page.exited.map(|(_, status)| status.code),
        closed: page.closed.is_some(),
        failure: None,
        sandbox_denied: page.exited.is_some() && entry.looks_denied(),
        truncated: Some(page.truncated),
        omitted_bytes: Some(page.omitted_bytes),
        first_seq: page.first_seq,
    })
}
