//! What processes tell, pulled by the writer of the attached connection.
//!
//! Nothing is told twice and nothing is kept here: an event that was taken from a process is in the
//! connection's buffer. A process gets a turn and then waits until the others had theirs, so a loud
//! one starves nobody; its exit and close stay behind its own output only.

use turnlane_process::{Event, TryNext};
use turnlane_rpc::FrameWriter;

use super::entry::Entry;
use super::session::Session;

/// A turn ends with the chunk that passes this: usually one of 64 KiB, and never more than 80 KiB,
/// which bounds what is lost with a connection.
const TURN_BYTES: usize = 16 * 1024;

/// Lets one process tell something; how many bytes of frames it was.
pub(crate) fn turn(session: &Session, entry: &Entry, frames: &mut FrameWriter) -> usize {
    entry.bell().heard();
    let mut feed = entry.feed();
    let Some(output) = feed.live() else {
        return 0;
    };
    let (mut told, mut framed) = (0, 0);
    let mut ended = false;
    while told < TURN_BYTES {
        let event = match output.try_next() {
            TryNext::Event(event) => event,
            TryNext::Empty => break,
            TryNext::Ended => {
                ended = true;
                break;
            }
        };
        if let Event::Output { bytes, .. } = &event {
            told += bytes.len();
        }
        framed += entry.wording.tell(frames, &event, || entry.looks_denied());
        match &event {
            Event::Output { .. } => {}
            Event::Exited { .. } => entry.exit_was_told(),
            Event::Closed { .. } => ended = true,
        }
        if ended {
            break;
        }
    }
    drop(feed);
    if ended {
        session.closed(entry);
    } else if told >= TURN_BYTES {
        entry.bell().ring();
    }
    framed
}
