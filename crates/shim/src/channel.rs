//! The channel to the orchestrator: connections, their frames, and what waits to be written to them.
//!
//! Owned here: framing, one reader and one writer task per connection, the bound on what a client leaves
//! unread. The invariant: each frame is written whole, by one writer, in the order of its events. A client
//! that does not read costs a bounded amount of memory and never slows the lane.
//!
//! Theory of operation: a reader task decodes frames and sends them to the loop through one channel of
//! [`ARRIVALS_MAX`] places; when that is full it stops reading. A writer task takes frames from its
//! [`Outbox`] and ends when the outbox is closed and empty, or when a write fails, which it tells the loop.
//! What a frame means is the business of [`crate::wire`].

mod connection;
mod frames;
mod listener;
mod outbox;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

pub(crate) use self::connection::{Closed, Connection};
pub(crate) use self::frames::{FrameDecoder, Framing, Inbound};
pub(crate) use self::listener::Listener;
pub(crate) use self::outbox::{Outbox, SlowReader};

/// Frames that wait for the loop; when there are as many, readers wait.
const ARRIVALS_MAX: usize = 64;
/// The longest event on the socket that the parent gave.
pub(crate) const SOCKET_FRAME_BYTES_MAX: usize = 65_536;
/// The longest event elsewhere.
pub(crate) const FRAME_BYTES_MAX: usize = 1_048_576;

/// How the orchestrator is reached.
#[derive(Debug)]
pub enum Transport {
    /// A stream socket that the parent process gave, with length frames.
    Socket(std::os::unix::net::UnixStream),
    /// Standard input and output, with one JSON object per line.
    Stdio,
    /// A unix socket with any number of clients; each chooses its framing by its first byte.
    Listen(PathBuf),
}

impl Transport {
    /// Returns true for the one channel to a parent process.
    pub(crate) fn is_single(&self) -> bool {
        !matches!(self, Self::Listen(_))
    }
}

/// What readers and writers tell the loop.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A client is there.
    Opened(Connection),
    /// A client sent a frame.
    Frame(u64, Inbound),
    /// A client is gone, or cannot be written to.
    Closed(u64, Closed),
}

/// All channels of one shim.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) arrivals: mpsc::Receiver<Arrival>,
    /// Removes its file when dropped.
    _listener: Option<Listener>,
}

impl Channel {
    /// Opens the transport.
    pub(crate) async fn open(transport: Transport) -> std::io::Result<Self> {
        let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
        let mut listener = None;
        match transport {
            Transport::Socket(socket) => {
                socket.set_nonblocking(true)?;
                let socket = tokio::net::UnixStream::from_std(socket)?;
                let (reader, writer) = socket.into_split();
                start(
                    sender,
                    reader,
                    writer,
                    Framing::Length,
                    SOCKET_FRAME_BYTES_MAX,
                )
                .await;
            }
            Transport::Stdio => open_stdio(sender).await,
            Transport::Listen(path) => listener = Some(Listener::start(&path, sender).await?),
        }
        Ok(Self {
            arrivals,
            _listener: listener,
        })
    }
}

async fn start(
    sender: mpsc::Sender<Arrival>,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    framing: Framing,
    frame_bytes_max: usize,
) {
    let outbox = Arc::new(Outbox::new(SlowReader::Waited));
    let connection = Connection {
        id: 0,
        outbox,
        frame_bytes_max,
    };
    let decoder = FrameDecoder::new(framing);
    connection::start(connection, reader, writer, decoder, &sender).await;
}

/// Pipes are waited for by the reactor instead of a blocked thread per direction. They are opened anew,
/// because non-blocking mode belongs to the open file, which the parent shares.
async fn open_stdio(sender: mpsc::Sender<Arrival>) {
    use tokio::net::unix::pipe::OpenOptions;
    let reader = OpenOptions::new().open_receiver("/proc/self/fd/0");
    let writer = OpenOptions::new().open_sender("/proc/self/fd/1");
    if let (Ok(reader), Ok(writer)) = (reader, writer) {
        start(sender, reader, writer, Framing::Lines, FRAME_BYTES_MAX).await;
    } else {
        let (reader, writer) = (tokio::io::stdin(), tokio::io::stdout());
        start(sender, reader, writer, Framing::Lines, FRAME_BYTES_MAX).await;
    }
}
