//! Frames, written by hand where they are many.
//!
//! Output is most of what a server says, so its frames are put together from a prefix made once per
//! process and base64 written straight into the frame: no serializer, no string between. Answers and
//! the rare exit go through serde. Members stand in the order clients know from Codex.

use bytes::{BufMut as _, BytesMut};
use serde::Serialize;
use turnlane_process::{Event, ExitStatus, Reason, StreamName};
use turnlane_protocol::envelope::RequestId;
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::exec_server::process::{self, Closed, Exited};
use turnlane_protocol::exec_server::{Blob, v0};
use turnlane_rpc::FrameWriter;

use super::dialect::Dialect;
use crate::failure;

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
fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(ANSWER_BYTES_TYPICAL);
    frame.extend_from_slice(b"{\"method\":");
    append(&mut frame, &method);
    frame.extend_from_slice(b",\"params\":");
    append(&mut frame, params);
    frame.push(b'}');
    frame
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

    /// Pushes the frame of an event, if the dialect has one for it; its length.
    pub(crate) fn tell(
        &self,
        frames: &mut FrameWriter,
        event: &Event,
        sandbox_denied: impl FnOnce() -> bool,
    ) -> usize {
        let rare = match event {
            Event::Output { seq, stream, bytes } => {
                let output = self.output(*seq, *stream, bytes);
                frames.push_written(output.frame_bytes(), |out| output.put(out));
                return output.frame_bytes();
            }
            Event::Exited { seq, status } => self.exited(*seq, status, sandbox_denied),
            Event::Closed {
                seq,
                drain_timed_out,
            } => match self.closed(*seq, *drain_timed_out) {
                Some(frame) => frame,
                None => return 0,
            },
        };
        let frame_bytes = rare.len();
        frames.push(rare.into());
        frame_bytes
    }

    fn exited(
        &self,
        seq: u64,
        status: &ExitStatus,
        sandbox_denied: impl FnOnce() -> bool,
    ) -> Vec<u8> {
        match self.dialect {
            Dialect::V0 => {
                let params = v0::Exited {
                    session_id: self.id.to_string(),
                    exit_code: status.code,
                };
                notification(v0::EXITED, &params)
            }
            Dialect::ProcessV1 => {
                let params = Exited {
                    process_id: self.id.to_string(),
                    seq,
                    exit_code: status.code,
                    sandbox_denied: sandbox_denied(),
                    signal: status.signal,
                    reason: Some(reason(status.reason)),
                };
                notification(process::EXITED, &params)
            }
        }
    }

    fn closed(&self, seq: u64, drain_timed_out: bool) -> Option<Vec<u8>> {
        (self.dialect == Dialect::ProcessV1).then(|| {
            let params = Closed {
                process_id: self.id.to_string(),
                seq,
                drain_timed_out: drain_timed_out.then_some(true),
            };
            notification(process::CLOSED, &params)
        })
    }

    fn output<'a>(&'a self, seq: u64, stream: StreamName, bytes: &'a [u8]) -> OutputFrame<'a> {
        let (number, stream): (_, &[u8]) = match (self.dialect, stream) {
            // A terminal's output is standard output there.
            (Dialect::V0, StreamName::Stdout | StreamName::Pty) => (None, b"\"stdout\""),
            (Dialect::V0, StreamName::Stderr) => (None, b"\"stderr\""),
            (Dialect::ProcessV1, StreamName::Stdout) => (Some(seq), b",\"stream\":\"stdout\""),
            (Dialect::ProcessV1, StreamName::Stderr) => (Some(seq), b",\"stream\":\"stderr\""),
            (Dialect::ProcessV1, StreamName::Pty) => (Some(seq), b",\"stream\":\"pty\""),
        };
        OutputFrame {
            prefix: &self.output_prefix,
            number: number.map(Digits::of),
            stream,
            bytes,
        }
    }
}

/// The parts of an output notification.
struct OutputFrame<'a> {
    prefix: &'a [u8],
    number: Option<Digits>,
    stream: &'a [u8],
    bytes: &'a [u8],
}

impl OutputFrame<'_> {
    const BEFORE_CHUNK: &'static [u8] = b",\"chunk\":\"";
    const AFTER_CHUNK: &'static [u8] = b"\"}}";

    fn frame_bytes(&self) -> usize {
        self.prefix.len()
            + self.number.as_ref().map_or(0, |number| number.get().len())
            + self.stream.len()
            + Self::BEFORE_CHUNK.len()
            + Blob::encoded_bytes(self.bytes.len())
            + Self::AFTER_CHUNK.len()
    }

    fn put(&self, out: &mut BytesMut) {
        out.put_slice(self.prefix);
        if let Some(number) = &self.number {
            out.put_slice(number.get());
        }
        out.put_slice(self.stream);
        out.put_slice(Self::BEFORE_CHUNK);
        let start = out.len();
        out.resize(start + Blob::encoded_bytes(self.bytes.len()), 0);
        Blob::encode_to(self.bytes, &mut out[start..]);
        out.put_slice(Self::AFTER_CHUNK);
    }
}

/// A number in decimal.
struct Digits {
    digits: [u8; Self::MAX],
    start: usize,
}

impl Digits {
    const MAX: usize = 20;

    fn of(mut number: u64) -> Self {
        let mut digits = [b'0'; Self::MAX];
        let mut start = Self::MAX;
        loop {
            start -= 1;
            // Below ten.
            digits[start] += (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return Self { digits, start };
            }
        }
    }

    fn get(&self) -> &[u8] {
        &self.digits[self.start..]
    }
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
