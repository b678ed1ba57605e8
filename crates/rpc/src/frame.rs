//! Frames: where one message ends and the next begins, in both directions.
//!
//! Three framings share one reader and one writer: JSON lines, a 4-byte big-endian length, and
//! websocket text messages. The decoders and encoders are sans-I/O (bytes in, frames out), so they
//! are tested against arbitrary splits of their input; the in-memory pair needs none of them and
//! hands whole frames over.
//!
//! The invariant here: a frame is at most `frame_bytes_max` long. A longer one is skipped to its
//! end and reported ([`Inbound::TooLarge`]), never held in memory and never dropped in silence;
//! only a websocket server ends the connection instead, as its contract says.
//!
//! What is in a frame is nobody's business here.
//!
//! Websocket framing is our own although good crates exist: tokio-tungstenite (0.29) ends its stream
//! at the first text message that is not UTF-8 or is too long, where we owe an answer and a
//! connection that goes on, and its two halves share a lock, where a stuck write must never delay a
//! read. The tests speak to it as an independent implementation.

mod length;
mod lines;
mod reader;
mod websocket;
mod writer;

use bytes::{Buf as _, Bytes, BytesMut};

pub(crate) use length::LengthDecoder;
pub(crate) use lines::LinesDecoder;
pub(crate) use reader::Decoder;
pub use reader::FrameReader;
use websocket::Place;
pub(crate) use websocket::{Role, WebSocketDecoder, WebSocketEncoder};
pub(crate) use writer::Encoder;
pub use writer::{FrameWriter, WriteError};

/// Frames up to this size are copied out of the read buffer: a small request that waits for its
/// answer must not keep a whole buffer alive.
const COPIED_BYTES_MAX: usize = 4096;

/// How much of a frame that is too long is kept, to see whom it was for.
const HEAD_BYTES_KEPT: usize = 64;

/// What a protocol may change about the framing of a connection; the defaults are those of the
/// app-server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// The longest frame that is read.
    pub frame_bytes_max: usize,
    /// What becomes of binary websocket messages.
    pub binary: BinaryMessages,
    /// Websocket messages longer than this are written in pieces of it.
    pub fragment_bytes_max: usize,
}

impl Default for Framing {
    fn default() -> Self {
        Self {
            frame_bytes_max: crate::FRAME_BYTES_MAX,
            binary: BinaryMessages::Skipped,
            fragment_bytes_max: usize::MAX,
        }
    }
}

/// What becomes of binary websocket messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryMessages {
    /// They are a sign of life and nothing else.
    Skipped,
    /// They are read like text.
    Read,
}

/// What a reader found.
#[derive(Debug, PartialEq, Eq)]
pub enum Inbound {
    /// One whole frame.
    Message(Bytes),
    /// A frame above the limit, skipped to its end.
    TooLarge(TooLarge),
    /// A websocket ping; wants a pong with the same bytes.
    Ping(Bytes),
    /// A sign of life without content: a pong, or a binary message that is skipped.
    Alive,
    /// A websocket close frame with its code.
    Close(u16),
}

/// A frame that was too long to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// Its length.
    pub bytes: u64,
    /// The longest frame this connection reads.
    pub limit: usize,
    /// Its first bytes.
    pub head: Bytes,
}

/// Why no further frame can be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// A websocket message above the limit; the connection is closed with 1009.
    #[error("message exceeds the limit")]
    TooLarge,
    /// The bytes are no websocket frames; the connection is closed with 1002.
    #[error("websocket protocol violation: {0}")]
    Protocol(&'static str),
    /// The operating system failed.
    #[error("read failed")]
    Io(#[from] std::io::Error),
}

/// Takes `count` bytes off the front as a frame of its own.
fn take(buffer: &mut BytesMut, count: usize) -> Bytes {
    if count <= COPIED_BYTES_MAX {
        let copy = Bytes::copy_from_slice(&buffer[..count]);
        buffer.advance(count);
        copy
    } else {
        buffer.split_to(count).freeze()
    }
}

/// Something too long on its way to the bin: counted, with its first bytes kept.
#[derive(Debug, Default)]
struct Skipped {
    bytes: u64,
    head: BytesMut,
}

impl Skipped {
    /// Drops `count` bytes off the front of `buffer`.
    fn discard(&mut self, buffer: &mut BytesMut, count: usize) {
        let kept = HEAD_BYTES_KEPT.saturating_sub(self.head.len()).min(count);
        self.head.extend_from_slice(&buffer[..kept]);
        self.bytes += count as u64;
        buffer.advance(count);
    }

    fn report(self, limit: usize) -> Inbound {
        let head = self.head.freeze();
        Inbound::TooLarge(TooLarge {
            bytes: self.bytes,
            limit,
            head,
        })
    }
}

#[cfg(test)]
mod tests;
