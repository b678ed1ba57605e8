//! The body of a request on its way out.
//!
//! The invariant here: the bytes are shared, not copied, and every piece that the connection takes
//! is announced, so that the limit on silence starts when a connection is there and starts anew as
//! long as a large body moves.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::watch;

/// How much is handed to the connection at once.
const PIECE_BYTES_MAX: usize = 64 * 1024;

/// A body that announces its progress.
pub(super) struct Upload {
    rest: Bytes,
    moved: watch::Sender<()>,
}

impl Upload {
    /// The body, and what changes whenever a piece of it was taken.
    pub(super) fn new(bytes: Bytes) -> (Self, watch::Receiver<()>) {
        let (moved, progress) = watch::channel(());
        (Self { rest: bytes, moved }, progress)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.moved.send_replace(());
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let piece = self.rest.len().min(PIECE_BYTES_MAX);
        let piece = self.rest.split_to(piece);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        // An exact size makes a `Content-Length`, which every server takes.
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
