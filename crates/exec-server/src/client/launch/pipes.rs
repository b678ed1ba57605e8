//! Standard input and output of a contained child, as byte streams.
//!
//! Two kinds of children speak a protocol on them: servers of this crate and the Codex of the engine
//! `codex`. Standard error is taken in the same order and given to the owner of the stream. The
//! invariant here: a stream ends with the leader, even if a descendant inherited its pipes.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turnlane_process::{Event, InputError, Output, Process, StreamName, TryNext};

/// A longer line of the server's standard error is logged in pieces.
const LOG_LINE_BYTES_MAX: usize = 8 * 1024;

/// Takes the bytes of a child's standard error as they come.
pub type StderrSink = Box<dyn FnMut(&[u8]) + Send>;

/// The standard output of a contained child.
pub struct ChildOutput {
    output: Output,
    current: Bytes,
    waker: Arc<Mutex<Option<Waker>>>,
    stderr: StderrSink,
    has_ended: bool,
}

impl ChildOutput {
    /// Reads `output`; its standard error goes to `stderr`, which must be quick.
    pub fn new(mut output: Output, stderr: StderrSink) -> Self {
        let waker: Arc<Mutex<Option<Waker>>> = Arc::default();
        let to_wake = Arc::clone(&waker);
        output.set_doorbell(Arc::new(move || {
            let waiting = to_wake
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(waiting) = waiting {
                waiting.wake();
            }
        }));
        Self {
            output,
            current: Bytes::new(),
            waker,
            stderr,
            has_ended: false,
        }
    }

    /// The next piece is in `current`, or the stream has ended.
    fn poll_fill(&mut self, cx: &Context<'_>) -> Poll<()> {
        while self.current.is_empty() && !self.has_ended {
            // Before the look, so that a ring right after it wakes this task.
            *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
            match self.output.try_next() {
                TryNext::Event(Event::Output { stream, bytes, .. }) => match stream {
                    StreamName::Stdout | StreamName::Pty => self.current = bytes,
                    StreamName::Stderr => (self.stderr)(&bytes),
                },
                TryNext::Event(Event::Exited { status, .. }) => {
                    tracing::debug!(code = status.code, "the child ended");
                    self.has_ended = true;
                }
                TryNext::Event(Event::Closed { .. }) | TryNext::Ended => self.has_ended = true,
                TryNext::Empty => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }
}

impl AsyncRead for ChildOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_fill(cx));
        let count = buf.remaining().min(self.current.len());
        buf.put_slice(&self.current[..count]);
        self.current.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for ChildOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildOutput")
            .field("has_ended", &self.has_ended)
            .finish_non_exhaustive()
    }
}

/// Makes log lines of a server's standard error.
pub(super) fn logged() -> StderrSink {
    let mut log = Log::default();
    Box::new(move |bytes| log.push(bytes))
}

/// Lines of a server's standard error.
#[derive(Debug, Default)]
struct Log {
    line: BytesMut,
}

impl Log {
    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() >= LOG_LINE_BYTES_MAX {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        let line = self.line.split();
        let text = String::from_utf8_lossy(&line);
        tracing::info!(target: "turnlane_exec_server::stderr", "{}", text.trim_end());
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            self.flush();
        }
    }
}

type Writing = Pin<Box<dyn Future<Output = Result<(), InputError>> + Send>>;

/// The standard input of a contained child. A piece is taken over at once and the next waits until it
/// is queued.
pub struct ChildInput {
    process: Process,
    writing: Option<Writing>,
}

impl ChildInput {
    /// Writes to the standard input of `process`, and closes it at shutdown.
    pub fn new(process: Process) -> Self {
        let writing = None;
        Self { process, writing }
    }

    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(writing) = &mut self.writing {
            let written = ready!(writing.as_mut().poll(cx));
            self.writing = None;
            return Poll::Ready(written.map_err(|_| io::ErrorKind::BrokenPipe.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ChildInput {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_written(cx))?;
        let (process, bytes) = (self.process.clone(), Bytes::copy_from_slice(buf));
        self.writing = Some(Box::pin(async move { process.write(bytes).await }));
        // Started here; the next write or flush waits for it.
        match self.poll_written(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(buf.len())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_written(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_written(cx))?;
        // Closed already is as good.
        let _ = self.process.close_stdin();
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for ChildInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChildInput")
    }
}
