//! The body of an answer, which performs its steps while the connection asks for more.
//!
//! The invariant here: a gate or a cut is not reached before every byte in front of it has been
//! handed to the socket. hyper keeps what a body returned in a buffer of its own and throws that
//! buffer away when the body fails, so the connection's stream ([`FlushedStream`]) tells the body
//! when the buffer has been emptied. There is no task: a client that leaves makes hyper drop the
//! body, and with it every pause and gate it stands at.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::{recorder::InFlight, wire::Step};

/// The error by which a body tells hyper to close the connection.
#[derive(Debug, thiserror::Error)]
#[error("the script cuts the answer here")]
pub(super) struct CutHere;

/// Performs the steps of one answer.
pub(super) struct ScriptedBody {
    steps: VecDeque<Step>,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    cut: bool,
    /// Known for answers that are not streams, which then carry a `content-length`.
    bytes: Option<u64>,
    flushes: Flushes,
    in_flight: InFlight,
}

impl ScriptedBody {
    pub(super) fn new(
        steps: Vec<Step>,
        bytes: Option<u64>,
        flushes: Flushes,
        in_flight: InFlight,
    ) -> Self {
        Self {
            steps: steps.into(),
            waiting: None,
            cut: false,
            bytes,
            flushes,
            in_flight,
        }
    }
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = CutHere;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutHere>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                ready!(waiting.as_mut().poll(cx));
                self.waiting = None;
            }
            if self.cut {
                self.in_flight.answered();
                return Poll::Ready(Some(Err(CutHere)));
            }
            match self.steps.pop_front() {
                Some(Step::Data(bytes)) => {
                    if self.steps.is_empty() {
                        // hyper need not ask again when the length is known.
                        self.in_flight.answered();
                    }
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Some(Step::Pause(duration)) => {
                    self.waiting = Some(Box::pin(tokio::time::sleep(duration)));
                }
                Some(Step::Gate(gate)) => {
                    let flushed = self.flushes.next();
                    self.waiting = Some(Box::pin(async move {
                        flushed.await;
                        gate.pass().await;
                    }));
                }
                Some(Step::Cut) => {
                    self.cut = true;
                    self.waiting = Some(Box::pin(self.flushes.next()));
                }
                None => {
                    self.in_flight.answered();
                    return Poll::Ready(None);
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.bytes
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Tells when a connection's buffer was last emptied into the socket.
#[derive(Clone, Debug)]
pub(super) struct Flushes(Arc<watch::Sender<()>>);

impl Flushes {
    /// Completes at the first flush after this call.
    fn next(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut flushes = self.0.subscribe();
        async move {
            // A sender that is gone is a connection that is gone: nobody polls this any more.
            let _ = flushes.changed().await;
        }
    }
}

/// A connection that announces its flushes.
///
/// hyper flushes a stream only when its own buffer is empty; that is the moment of interest.
pub(super) struct FlushedStream {
    stream: TcpStream,
    flushes: Flushes,
}

impl FlushedStream {
    pub(super) fn new(stream: TcpStream) -> Self {
        let flushes = Flushes(Arc::new(watch::Sender::new(())));
        Self { stream, flushes }
    }

    pub(super) fn flushes(&self) -> Flushes {
        self.flushes.clone()
    }
}

impl AsyncRead for FlushedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for FlushedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.flushes.0.send_replace(());
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
