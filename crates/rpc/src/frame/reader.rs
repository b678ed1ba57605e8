//! Bytes from a stream, or frames from a channel, as one source of [`Inbound`].

use std::fmt;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::mpsc;

use super::{FrameError, Framing, Inbound, LengthDecoder, LinesDecoder, WebSocketDecoder};

/// One read asks for this much; it is also what an idle connection keeps.
const READ_BYTES: usize = 16 * 1024;

/// The reading half of a connection, for those who need frames and no peer.
pub struct FrameReader(Source);

enum Source {
    Stream {
        io: Box<dyn AsyncRead + Send + Unpin>,
        buffer: BytesMut,
        decoder: Decoder,
        ended: bool,
    },
    Memory(mpsc::Receiver<Bytes>),
}

/// How a byte stream is split.
#[derive(Debug)]
pub(crate) enum Decoder {
    Lines(LinesDecoder),
    Length(LengthDecoder),
    WebSocket(WebSocketDecoder),
}

impl FrameReader {
    /// Reads from `io`; `leftover` are bytes that were read before, by a handshake.
    pub(crate) fn stream(
        io: impl AsyncRead + Send + Unpin + 'static,
        leftover: &[u8],
        decoder: Decoder,
    ) -> Self {
        let io = Box::new(io);
        Self(Source::Stream {
            io,
            buffer: BytesMut::from(leftover),
            decoder,
            ended: false,
        })
    }

    pub(crate) fn memory(frames: mpsc::Receiver<Bytes>) -> Self {
        Self(Source::Memory(frames))
    }

    /// The next frame, or `None` at the end. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Result<Option<Inbound>, FrameError> {
        match &mut self.0 {
            Source::Memory(frames) => Ok(frames.recv().await.map(Inbound::Message)),
            Source::Stream {
                io,
                buffer,
                decoder,
                ended,
            } => loop {
                if *ended {
                    return Ok(decoder.finish(buffer));
                }
                if let Some(found) = decoder.decode(buffer)? {
                    return Ok(Some(found));
                }
                // A peer that announces much and sends little gets little memory.
                buffer.reserve(READ_BYTES.max(buffer.len()));
                *ended = io.read_buf(buffer).await? == 0;
            },
        }
    }

    pub(crate) fn set(&mut self, framing: &Framing) {
        if let Source::Stream { decoder, .. } = &mut self.0 {
            match decoder {
                Decoder::Lines(lines) => lines.frame_bytes_max = framing.frame_bytes_max,
                Decoder::Length(length) => length.frame_bytes_max = framing.frame_bytes_max,
                Decoder::WebSocket(websocket) => websocket.set(framing),
            }
        }
    }

    /// Reads to the end of the connection and forgets what it reads: a socket closed on unread
    /// bytes is reset, and its last words may be lost.
    pub async fn discard(&mut self) {
        match &mut self.0 {
            Source::Memory(frames) => while frames.recv().await.is_some() {},
            Source::Stream { io, buffer, .. } => loop {
                buffer.clear();
                buffer.reserve(READ_BYTES);
                if !io.read_buf(buffer).await.is_ok_and(|count| count > 0) {
                    return;
                }
            },
        }
    }
}

impl Decoder {
    pub(super) fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Inbound>, FrameError> {
        match self {
            Self::Lines(lines) => Ok(lines.decode(buffer)),
            Self::Length(length) => Ok(length.decode(buffer)),
            Self::WebSocket(websocket) => websocket.decode(buffer),
        }
    }

    pub(super) fn finish(&mut self, buffer: &mut BytesMut) -> Option<Inbound> {
        match self {
            Self::Lines(lines) => lines.finish(buffer),
            // A piece of a frame with a known length is no frame.
            Self::Length(_) | Self::WebSocket(_) => None,
        }
    }
}

impl fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FrameReader")
    }
}
