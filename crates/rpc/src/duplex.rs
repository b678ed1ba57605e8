//! One framed connection that is not yet a peer.
//!
//! A [`Duplex`] is a reader and a writer of frames, from whatever they were made: standard input
//! and output, a socket, a websocket after its handshake, or nothing at all (the in-memory pair).
//! It owns the connection: dropping it closes it. It does not know what a message is.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::frame::{
    Decoder, Encoder, FrameReader, FrameWriter, Framing, LengthDecoder, LinesDecoder, Role,
    WebSocketDecoder, WebSocketEncoder,
};

/// The longest frame a connection reads unless told otherwise: 64 MiB.
pub const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Frames that wait between the two ends of an in-memory pair. A full channel makes the writing
/// side wait, as a full socket would.
const MEMORY_FRAMES_MAX: usize = 256;

/// One framed connection; [`crate::Peer::start`] makes it talk.
#[derive(Debug)]
pub struct Duplex {
    pub(crate) reader: FrameReader,
    pub(crate) writer: FrameWriter,
    pub(crate) kind: Kind,
    /// A listener's count of open connections; given back when the connection is gone.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// A connection taken apart.
#[derive(Debug)]
pub struct Frames {
    /// Whether it ends by a close frame and is kept alive by pings.
    pub is_websocket: bool,
    /// What comes.
    pub reader: FrameReader,
    /// What goes.
    pub writer: FrameWriter,
    /// To be kept as long as the connection: the listener counts it until this is dropped.
    pub counted: Counted,
}

/// One connection in a listener's count.
#[derive(Debug)]
pub struct Counted {
    _permit: Option<OwnedSemaphorePermit>,
}

/// What the peer must know about the transport below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ends by end of file.
    Stream,
    /// Ends by a close frame and is kept alive by pings.
    WebSocket,
}

impl Duplex {
    /// One JSON text per line.
    pub fn lines(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::lines_after(&[], reader, writer)
    }

    /// Lines on a stream whose first bytes were read to find out that it carries lines.
    pub(crate) fn lines_after(
        leftover: &[u8],
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let decoder = Decoder::Lines(LinesDecoder::new(FRAME_BYTES_MAX));
        Self {
            reader: FrameReader::stream(reader, leftover, decoder),
            writer: FrameWriter::stream(writer, Encoder::Lines),
            kind: Kind::Stream,
            permit: None,
        }
    }

    /// A 4-byte big-endian length before each JSON text; frames up to `frame_bytes_max`.
    pub fn length_prefixed(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        frame_bytes_max: usize,
    ) -> Self {
        let decoder = Decoder::Length(LengthDecoder::new(frame_bytes_max));
        Self {
            reader: FrameReader::stream(reader, &[], decoder),
            writer: FrameWriter::stream(writer, Encoder::Length),
            kind: Kind::Stream,
            permit: None,
        }
    }

    /// Websocket text messages, after the handshake. `leftover` is what the handshake read too
    /// much.
    pub(crate) fn websocket(
        role: Role,
        leftover: &[u8],
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let decoder = Decoder::WebSocket(WebSocketDecoder::new(role, FRAME_BYTES_MAX));
        let encoder = Encoder::WebSocket(WebSocketEncoder::new(role));
        Self {
            reader: FrameReader::stream(reader, leftover, decoder),
            writer: FrameWriter::stream(writer, encoder),
            kind: Kind::WebSocket,
            permit: None,
        }
    }

    /// Changes how frames are read and written; to be called before the first of them.
    #[must_use]
    pub fn framed(mut self, framing: &Framing) -> Self {
        self.reader.set(framing);
        self.writer.set(framing);
        self
    }

    /// The two halves, for those who speak frames and not as a [`crate::Peer`].
    pub fn into_frames(self) -> Frames {
        Frames {
            is_websocket: self.kind == Kind::WebSocket,
            reader: self.reader,
            writer: self.writer,
            counted: Counted {
                _permit: self.permit,
            },
        }
    }

    /// Two connected ends in this process. Frames are handed over whole, without any framing.
    pub fn memory() -> (Self, Self) {
        let (left_sends, right_receives) = mpsc::channel(MEMORY_FRAMES_MAX);
        let (right_sends, left_receives) = mpsc::channel(MEMORY_FRAMES_MAX);
        let end = |sends: mpsc::Sender<Bytes>, receives| Self {
            reader: FrameReader::memory(receives),
            writer: FrameWriter::memory(sends),
            kind: Kind::Stream,
            permit: None,
        };
        (
            end(left_sends, left_receives),
            end(right_sends, right_receives),
        )
    }

    /// The standard input and output of this process, as lines. Nothing else may write to
    /// standard output.
    pub fn stdio() -> Self {
        #[cfg(target_os = "linux")]
        if let Some(duplex) = Self::stdio_pipes() {
            return duplex;
        }
        Self::lines(tokio::io::stdin(), tokio::io::stdout())
    }

    /// Pipes can be waited for by the reactor instead of a blocked thread per direction. They are
    /// opened anew, because non-blocking mode belongs to the open file, which our parent and its
    /// other children share.
    #[cfg(target_os = "linux")]
    fn stdio_pipes() -> Option<Self> {
        use tokio::net::unix::pipe::OpenOptions;
        let reader = OpenOptions::new().open_receiver("/proc/self/fd/0").ok()?;
        let writer = OpenOptions::new().open_sender("/proc/self/fd/1").ok()?;
        Some(Self::lines(reader, writer))
    }
}
