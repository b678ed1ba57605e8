//! Frames, written by hand where they are many.
//!
//! Output is most of what a server says, so its frames are put together from a prefix made once per
//! process and base64 written straight into the frame: no serializer, no string between. Answers and
//! the rare exit go through serde. Members stand in the order clients know from Codex.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, Bytes, BytesMut};
use serde::Serialize;
use turnlane_process::{Event, ExitStatus, Reason, StreamName};
use turnlane_protocol::envelope::RequestId;
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::exec_server::process::{self, Closed, Exited};
use turnlane_protocol::exec_server::v0;

use super::dialect::Dialect;
use super::failure;

/// No message that leaves is longer.
pub(crate) const MESSAGE_BYTES_MAX: usize = 48 * 1024 * 1024;

/// Most answers are this short.
const ANSWER_BYTES_TYPICAL: usize = 128;

/// `{"id":…,"result":…}`, or the error that it cannot be told.
pub(crate) fn result(id: &RequestId, result: &impl Serialize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(ANSWER_BYTES_TYPICAL);
    frame.extend_from_slice(b"{\"id\":");
    append(&mut frame, id);
    frame.extend_from_slice(b",\"result\":");
    let written = serde_json::to_writer(&mut frame, result).is_ok();
    frame.push(b'}');
    if !written {
        return error(id, &failure::internal("the answer could not be written"));
    }
    if frame.len() > MESSAGE_BYTES_MAX {
        return error(id, &failure::internal("the answer exceeds 48 MiB"));
    }
    frame
}

/// `{"error":…,"id":…}`
pub(crate) fn error(id: &RequestId, error: &ErrorObject) -> Vec<u8> {
    let mut frame = Vec::with_capacity(ANSWER_BYTES_TYPICAL);
    frame.extend_from_slice(b"{\"error\":");
    append(&mut frame, error);
    frame.extend_from_slice(b",\"id\":");
    append(&mut frame, id);
    frame.push(b'}');
    frame
}

/// `{"method":…,"params":…}`
fn notification(out: &mut BytesMut, method: &str, params: &impl Serialize) -> Bytes {
    let mut frame = Vec::with_capacity(ANSWER_BYTES_TYPICAL);
    frame.extend_from_slice(b"{\"method\":");
    append(&mut frame, &method);
    frame.extend_from_slice(b",\"params\":");
    append(&mut frame, params);
    frame.push(b'}');
    out.put_slice(&frame);
    out.split().freeze()
}

/// Strings, numbers and structs of them always serialise into memory.
fn append(frame: &mut Vec<u8>, value: &impl Serialize) {
    let start = frame.len();
    if serde_json::to_writer(&mut *frame, value).is_err() {
        frame.truncate(start);
        frame.extend_from_slice(b"null");
    }
}

/// What the frames of one process have in common.
#[derive(Debug)]
pub(crate) struct Wording {
    dialect: Dialect,
    id: Box<str>,
    /// An output notification up to its first variable member.
    output_prefix: Box<[u8]>,
}

impl Wording {
    pub(crate) fn new(dialect: Dialect, id: &str) -> Self {
        let (method, name, next) = match dialect {
            Dialect::V0 => (v0::OUTPUT_DELTA, "sessionId", "stream"),
            Dialect::ProcessV1 => (process::OUTPUT, "processId", "seq"),
        };
        let mut prefix = Vec::new();
        prefix.extend_from_slice(b"{\"method\":");
        append(&mut prefix, &method);
        prefix.extend_from_slice(b",\"params\":{");
        append(&mut prefix, &name);
        prefix.push(b':');
        append(&mut prefix, &id);
        prefix.push(b',');
        append(&mut prefix, &next);
        prefix.push(b':');
        Self {
            dialect,
            id: id.into(),
            output_prefix: prefix.into(),
        }
    }

    /// The frame of an event; `None` if the dialect has none for it. `out` is empty before and
    /// after; its memory is used again once the frame was written.
    pub(crate) fn event(
        &self,
        out: &mut BytesMut,
        event: &Event,
        sandbox_denied: impl FnOnce() -> bool,
    ) -> Option<Bytes> {
        match event {
            Event::Output { seq, stream, bytes } => Some(self.output(out, *seq, *stream, bytes)),
            Event::Exited { seq, status } => Some(match self.dialect {
                Dialect::V0 => {
                    let params = v0::Exited {
                        session_id: self.id.to_string(),
                        exit_code: status.code,
                    };
                    notification(out, v0::EXITED, &params)
                }
                Dialect::ProcessV1 => {
                    let exited = self.exited(*seq, status, sandbox_denied());
                    notification(out, process::EXITED, &exited)
                }
            }),
            Event::Closed {
                seq,
                drain_timed_out,
            } => (self.dialect == Dialect::ProcessV1).then(|| {
                let params = Closed {
                    process_id: self.id.to_string(),
                    seq: *seq,
                    drain_timed_out: drain_timed_out.then_some(true),
                };
                notification(out, process::CLOSED, &params)
            }),
        }
    }

    fn exited(&self, seq: u64, status: &ExitStatus, sandbox_denied: bool) -> Exited {
        Exited {
            process_id: self.id.to_string(),
            seq,
            exit_code: status.code,
            sandbox_denied,
            signal: status.signal,
            reason: Some(reason(status.reason)),
        }
    }

    fn output(&self, out: &mut BytesMut, seq: u64, stream: StreamName, bytes: &[u8]) -> Bytes {
        const AROUND_BYTES: usize = 64;
        let encoded_bytes = bytes.len().div_ceil(3) * 4;
        out.reserve(self.output_prefix.len() + AROUND_BYTES + encoded_bytes);
        out.put_slice(&self.output_prefix);
        match self.dialect {
            // A terminal's output is standard output there.
            Dialect::V0 => out.put_slice(match stream {
                StreamName::Stdout | StreamName::Pty => b"\"stdout\"",
                StreamName::Stderr => b"\"stderr\"",
            }),
            Dialect::ProcessV1 => {
                put_number(out, seq);
                out.put_slice(match stream {
                    StreamName::Stdout => b",\"stream\":\"stdout\"",
                    StreamName::Stderr => b",\"stream\":\"stderr\"",
                    StreamName::Pty => b",\"stream\":\"pty\"",
                });
            }
        }
        out.put_slice(b",\"chunk\":\"");
        put_base64(out, bytes);
        out.put_slice(b"\"}}");
        out.split().freeze()
    }
}

fn put_number(out: &mut BytesMut, mut number: u64) {
    const DIGITS_MAX: usize = 20;
    let mut digits = [0; DIGITS_MAX];
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        // Below ten.
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.put_slice(&digits[at..]);
}

fn put_base64(out: &mut BytesMut, bytes: &[u8]) {
    let start = out.len();
    let encoded_bytes = bytes.len().div_ceil(3) * 4;
    out.resize(start + encoded_bytes, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]);
    debug_assert!(written.is_ok_and(|written| written == encoded_bytes));
}

/// The stream's name on the wire.
pub(crate) fn stream(stream: StreamName) -> process::StreamName {
    match stream {
        StreamName::Stdout => process::StreamName::Stdout,
        StreamName::Stderr => process::StreamName::Stderr,
        StreamName::Pty => process::StreamName::Pty,
    }
}

/// The reason's name on the wire.
pub(crate) fn reason(reason: Reason) -> process::Reason {
    match reason {
        Reason::Exited => process::Reason::Exited,
        Reason::Signaled => process::Reason::Signaled,
        Reason::Terminated => process::Reason::Terminated,
        Reason::Timeout => process::Reason::Timeout,
        Reason::Lost => process::Reason::Lost,
    }
}

#[cfg(test)]
mod tests;
