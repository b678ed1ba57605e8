//! Frames to a stream or a channel, many at a time.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::time::Duration;

use bytes::{Buf, BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{Framing, Place, WebSocketEncoder};

/// Payloads from this size on are written from where they are instead of being copied: they may be
/// shared by many connections.
const SHARED_BYTES_MIN: usize = 16 * 1024;

/// What a connection keeps for the next batch; a rare long frame gives its memory back.
const TAIL_BYTES_KEPT: usize = 256 * 1024;

/// The writing half of a connection, for those who need frames and no peer.
pub struct FrameWriter(Sink);

enum Sink {
    Stream {
        io: Box<dyn AsyncWrite + Send + Unpin>,
        encoder: Encoder,
        /// Encoded and not yet written, in order; `tail` comes last and still grows.
        segments: VecDeque<Bytes>,
        tail: BytesMut,
    },
    Memory {
        frames: mpsc::Sender<Bytes>,
        waiting: VecDeque<Bytes>,
    },
}

/// How frames are told apart.
#[derive(Debug)]
pub(crate) enum Encoder {
    Lines,
    Length,
    WebSocket(WebSocketEncoder),
}

/// Why a flush failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Not one byte was taken for the stated time.
    #[error("the peer stopped reading")]
    Stalled,
    /// The other end is gone or the operating system failed.
    #[error("write failed")]
    Io(#[from] io::Error),
}

impl FrameWriter {
    pub(crate) fn stream(io: impl AsyncWrite + Send + Unpin + 'static, encoder: Encoder) -> Self {
        let (segments, tail) = (VecDeque::new(), BytesMut::new());
        Self(Sink::Stream {
            io: Box::new(io),
            encoder,
            segments,
            tail,
        })
    }

    pub(crate) fn memory(frames: mpsc::Sender<Bytes>) -> Self {
        Self(Sink::Memory {
            frames,
            waiting: VecDeque::new(),
        })
    }

    /// Encodes a frame; nothing is written before [`FrameWriter::flush`].
    pub fn push(&mut self, frame: Bytes) {
        let (encoder, segments, tail) = match &mut self.0 {
            Sink::Memory { waiting, .. } => return waiting.push_back(frame),
            Sink::Stream {
                encoder,
                segments,
                tail,
                ..
            } => (encoder, segments, tail),
        };
        let mut rest = encoder.on_one_line(frame);
        let mut place = Place::Whole;
        loop {
            let piece = rest.split_to(rest.len().min(encoder.piece_bytes_max()));
            place = match (place, rest.is_empty()) {
                (Place::Whole, true) => Place::Whole,
                (Place::Whole, false) => Place::First,
                (_, true) => Place::Last,
                (_, false) => Place::Middle,
            };
            if piece.len() < SHARED_BYTES_MIN || !encoder.is_plain() {
                encoder.whole(tail, &piece, place);
            } else {
                encoder.before(tail, piece.len(), place);
                segments.extend([tail.split().freeze(), piece]);
                encoder.after(tail);
            }
            if matches!(place, Place::Whole | Place::Last) {
                return;
            }
        }
    }

    /// Encodes a frame of exactly `frame_bytes` bytes that `write` appends, without a line end among
    /// them. It is written where it leaves from, so this saves a copy and a system call where
    /// [`FrameWriter::push`] of a long frame costs one.
    pub fn push_written(&mut self, frame_bytes: usize, write: impl FnOnce(&mut BytesMut)) {
        if let Sink::Stream { encoder, tail, .. } = &mut self.0
            && encoder.is_plain()
            && frame_bytes <= encoder.piece_bytes_max()
        {
            encoder.before(tail, frame_bytes, Place::Whole);
            let start = tail.len();
            tail.reserve(frame_bytes);
            write(tail);
            debug_assert_eq!(tail.len() - start, frame_bytes, "the length was promised");
            encoder.after(tail);
            return;
        }
        let mut frame = BytesMut::with_capacity(frame_bytes);
        write(&mut frame);
        self.push(frame.freeze());
    }

    pub(crate) fn set(&mut self, framing: &Framing) {
        if let Some((encoder, _)) = self.websocket() {
            encoder.fragment_bytes_max = framing.fragment_bytes_max.max(1);
        }
    }

    /// Encodes a websocket ping; other framings have none.
    pub fn push_ping(&mut self) {
        if let Some((encoder, tail)) = self.websocket() {
            encoder.ping(tail);
        }
    }

    /// Encodes a websocket pong.
    pub fn push_pong(&mut self, payload: &[u8]) {
        if let Some((encoder, tail)) = self.websocket() {
            encoder.pong(tail, payload);
        }
    }

    /// Encodes a websocket close frame; a reason beyond 123 bytes is cut.
    pub fn push_close(&mut self, code: u16, reason: &str) {
        if let Some((encoder, tail)) = self.websocket() {
            encoder.close(tail, code, reason);
        }
    }

    fn websocket(&mut self) -> Option<(&mut WebSocketEncoder, &mut BytesMut)> {
        match &mut self.0 {
            Sink::Stream {
                encoder: Encoder::WebSocket(encoder),
                tail,
                ..
            } => Some((encoder, tail)),
            _ => None,
        }
    }

    /// Writes everything pushed so far. Fails when the other end takes nothing for `stall`; as
    /// long as it takes anything at all, it may take its time.
    pub async fn flush(&mut self, stall: Duration) -> Result<(), WriteError> {
        match &mut self.0 {
            Sink::Memory { frames, waiting } => {
                while let Some(frame) = waiting.pop_front() {
                    let gone = || WriteError::Io(io::ErrorKind::BrokenPipe.into());
                    in_time(stall, frames.send(frame))
                        .await?
                        .map_err(|_| gone())?;
                }
            }
            Sink::Stream {
                io, segments, tail, ..
            } => {
                while let Some(segment) = segments.front_mut() {
                    write_all(io, segment, stall).await?;
                    segments.pop_front();
                }
                write_all(io, tail, stall).await?;
                if tail.capacity() > TAIL_BYTES_KEPT {
                    *tail = BytesMut::new();
                }
                in_time(stall, io.flush()).await??;
            }
        }
        Ok(())
    }

    /// Tells the other end that no more will come.
    pub async fn shutdown(&mut self, stall: Duration) -> Result<(), WriteError> {
        if let Sink::Stream { io, .. } = &mut self.0 {
            in_time(stall, io.shutdown()).await??;
        }
        Ok(())
    }
}

async fn write_all(
    io: &mut (impl AsyncWrite + Unpin),
    bytes: &mut impl Buf,
    stall: Duration,
) -> Result<(), WriteError> {
    while bytes.has_remaining() {
        if in_time(stall, io.write_buf(bytes)).await?? == 0 {
            return Err(WriteError::Io(io::ErrorKind::WriteZero.into()));
        }
    }
    Ok(())
}

async fn in_time<T>(stall: Duration, step: impl Future<Output = T>) -> Result<T, WriteError> {
    timeout(stall, step).await.map_err(|_| WriteError::Stalled)
}

impl Encoder {
    fn is_plain(&self) -> bool {
        match self {
            Self::Lines | Self::Length => true,
            Self::WebSocket(websocket) => websocket.is_plain(),
        }
    }

    /// JSON passed through from elsewhere may be laid out over several lines. Outside of strings a
    /// line end is white space and inside it is escaped, so a blank in its place changes nothing.
    fn on_one_line(&self, frame: Bytes) -> Bytes {
        if !matches!(self, Self::Lines) || memchr::memchr(b'\n', &frame).is_none() {
            return frame;
        }
        frame
            .iter()
            .map(|&byte| if byte == b'\n' { b' ' } else { byte })
            .collect()
    }

    fn piece_bytes_max(&self) -> usize {
        match self {
            Self::Lines | Self::Length => usize::MAX,
            Self::WebSocket(websocket) => websocket.fragment_bytes_max,
        }
    }

    fn whole(&mut self, out: &mut BytesMut, frame: &[u8], place: Place) {
        if let Self::WebSocket(websocket) = self {
            return websocket.text(out, frame, place);
        }
        self.before(out, frame.len(), place);
        out.put_slice(frame);
        self.after(out);
    }

    fn before(&self, out: &mut BytesMut, frame_bytes: usize, place: Place) {
        match self {
            Self::Lines => {}
            // Frames are bounded far below 4 GiB; a longer one would be cut off by its reader.
            Self::Length => out.put_u32(u32::try_from(frame_bytes).unwrap_or(u32::MAX)),
            Self::WebSocket(_) => WebSocketEncoder::text_header(out, frame_bytes, place),
        }
    }

    fn after(&self, out: &mut BytesMut) {
        if matches!(self, Self::Lines) {
            out.put_u8(b'\n');
        }
    }
}

impl fmt::Debug for FrameWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FrameWriter")
    }
}
