//! Takes a process's output until it has ended: to the client, or for its end.
//!
//! The invariant here: of each stream the first bytes up to the cap are told or kept, in order and
//! once, and whether there was more is said; a process whose client does not read is made to wait
//! and never makes the server hold more than a bound; and this always ends, at the latest a moment
//! after the process did.
//!
//! What is answered with the result is the handlers' business.

use std::time::Duration;

use bytes::Bytes;
use turnlane_process::{End, Event, Output, StreamName};
use turnlane_protocol::error::ProcessFamily;
use turnlane_protocol::exec_server::Blob;
use turnlane_protocol::notification::{
    CommandExecOutputDelta, OutputStream, ProcessOutputDelta, method,
};

use super::Live;
use super::plan::OutputUse;
use crate::connection::Connection;

/// How long output may stay open after the process has exited, because a descendant holds it.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// While this much waits for the client, the process is not read and waits in turn.
const UNREAD_MAX: usize = 1024 * 1024;

/// How much is kept of a process at most, as it is written in JSON and whatever the caller says: an
/// answer is one message, and a connection that holds too much is closed.
const KEPT_MAX: usize = 48 * 1024 * 1024;

/// How a process ended and what it left.
#[derive(Debug, Default)]
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) stdout: Kept,
    pub(super) stderr: Kept,
    /// How long what is kept is in JSON.
    written: usize,
    /// Something still held its output when nobody waited any longer.
    pub(super) drain_timed_out: bool,
}

/// What is kept of a stream.
#[derive(Debug, Default)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    /// How much was told or kept.
    taken: usize,
    /// There was more.
    pub(super) cap_reached: bool,
}

impl Kept {
    /// As much of it as is text; what is not is replaced.
    pub(super) fn into_text(self) -> String {
        match String::from_utf8(self.bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }
    }

    /// How much of `bytes` may still be taken; notes when that is not all.
    fn admit(&mut self, bytes: &Bytes, cap: Option<usize>) -> Bytes {
        let room = cap.map_or(usize::MAX, |cap| cap - self.taken.min(cap));
        let taken = bytes.slice(..bytes.len().min(room));
        self.taken += taken.len();
        self.cap_reached |= taken.len() < bytes.len();
        taken
    }
}

/// Who is told of output.
pub(super) struct Listener<'a> {
    pub(super) cx: &'a Connection,
    pub(super) family: ProcessFamily,
    /// The client's name for the process; empty where output is kept.
    pub(super) id: &'a str,
}

/// Takes everything until the end. Ends the process when the connection ends.
pub(super) async fn relay(listener: Listener<'_>, live: &Live, output: OutputUse) -> Ended {
    let process = &live.process;
    let mut ended = Ended::default();
    let Ok(mut events) = process.output() else {
        // Nobody else can have it: a process is made with its relay.
        tracing::error!("the output of a process was taken before");
        return ended;
    };
    let closed = listener.cx.peer().closed();
    tokio::pin!(closed);
    let mut is_gone = false;
    loop {
        let next = take(&listener, &mut events, output);
        let event = tokio::select! {
            event = next => event,
            _ = &mut closed, if !is_gone => {
                is_gone = true;
                process.end(End::Force);
                continue;
            }
        };
        match event {
            Some(Event::Output { stream, bytes, .. }) => {
                ended.take(&listener, output, stream, &bytes);
            }
            Some(Event::Exited { status, .. }) => {
                ended.code = status.code;
                ended.drain_timed_out = !drain(&listener, &mut ended, &mut events, output).await;
                return ended;
            }
            // Without an exit there is nothing to say, but it is over.
            Some(Event::Closed { .. }) | None => return ended,
        }
    }
}

/// The next event, once the client has read enough of those before.
async fn take(listener: &Listener<'_>, events: &mut Output, output: OutputUse) -> Option<Event> {
    match output {
        OutputUse::Told { .. } => listener.cx.peer().room(UNREAD_MAX).await,
        OutputUse::Kept { .. } => {}
    }
    events.next().await
}

/// Takes what descendants still write, for a moment; false when somebody kept a stream open.
async fn drain(
    listener: &Listener<'_>,
    ended: &mut Ended,
    events: &mut Output,
    output: OutputUse,
) -> bool {
    let rest = async {
        while let Some(event) = take(listener, events, output).await {
            match event {
                Event::Output { stream, bytes, .. } => {
                    ended.take(listener, output, stream, &bytes);
                }
                Event::Closed {
                    drain_timed_out, ..
                } => return !drain_timed_out,
                Event::Exited { .. } => {}
            }
        }
        true
    };
    tokio::time::timeout(DRAIN_MAX, rest).await.unwrap_or(false)
}

impl Ended {
    fn take(
        &mut self,
        listener: &Listener<'_>,
        output: OutputUse,
        stream: StreamName,
        bytes: &Bytes,
    ) {
        let (kept, stream) = match stream {
            StreamName::Stdout | StreamName::Pty => (&mut self.stdout, OutputStream::Stdout),
            StreamName::Stderr => (&mut self.stderr, OutputStream::Stderr),
        };
        if kept.cap_reached {
            return;
        }
        match output {
            OutputUse::Told { cap } => {
                let delta = kept.admit(bytes, cap);
                listener.tell(stream, delta, kept.cap_reached);
            }
            OutputUse::Kept { cap } => {
                let taken = kept.admit(bytes, cap);
                self.written += written_bytes(&taken);
                if self.written <= KEPT_MAX {
                    kept.bytes.extend_from_slice(&taken);
                } else {
                    kept.cap_reached = true;
                }
            }
        }
    }
}

/// How long bytes are as text in JSON, at most.
fn written_bytes(bytes: &[u8]) -> usize {
    let one = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        // What is no text becomes a character of three bytes.
        0x80.. => 3,
        0x20..0x80 => 1,
    };
    bytes.iter().map(one).sum()
}

impl Listener<'_> {
    fn tell(&self, stream: OutputStream, delta: Bytes, cap_reached: bool) {
        let delta = Blob(delta);
        match self.family {
            ProcessFamily::CommandExec => {
                let told = CommandExecOutputDelta {
                    process_id: self.id.to_owned(),
                    stream,
                    delta,
                    cap_reached,
                };
                self.cx
                    .notify(method::COMMAND_EXEC_OUTPUT_DELTA, &told, None);
            }
            ProcessFamily::Process => {
                let told = ProcessOutputDelta {
                    process_handle: self.id.to_owned(),
                    stream,
                    delta,
                    cap_reached,
                };
                self.cx.notify(method::PROCESS_OUTPUT_DELTA, &told, None);
            }
        }
    }
}
