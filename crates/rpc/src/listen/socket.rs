//! A connected socket of either family, whose first bytes may have been read already.
//!
//! HTTP needs one stream it can read and write; a [`Duplex`] needs two halves that do not wait for
//! each other. So this is one type during the handshake and is taken apart afterwards.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes, BytesMut};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream, UnixStream};

use crate::duplex::Duplex;
use crate::frame::Role;

/// Enough for bursts of notifications without waking the writer for each.
pub(super) const SEND_BUFFER_BYTES: u32 = 256 * 1024;

/// A connected stream socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A [`Stream`] that first yields bytes that were read from it before.
#[derive(Debug)]
pub(crate) struct Socket {
    unread: Bytes,
    stream: Stream,
}

impl Socket {
    pub(crate) fn new(stream: Stream) -> Self {
        Self::after(Bytes::new(), stream)
    }

    /// A socket of which `unread` was read to see what it carries.
    pub(crate) fn after(unread: Bytes, stream: Stream) -> Self {
        Self { unread, stream }
    }

    /// JSON lines from the first byte on.
    pub(crate) fn into_lines(self) -> Duplex {
        let Self { unread, stream } = self;
        match stream {
            Stream::Tcp(stream) => {
                let (reader, writer) = stream.into_split();
                Duplex::lines_after(&unread, reader, writer)
            }
            Stream::Unix(stream) => {
                let (reader, writer) = stream.into_split();
                Duplex::lines_after(&unread, reader, writer)
            }
        }
    }

    /// Takes the socket back from HTTP, with whatever HTTP read beyond the handshake.
    pub(crate) fn websocket(upgraded: Upgraded, role: Role) -> io::Result<Duplex> {
        let parts = upgraded
            .downcast::<TokioIo<Self>>()
            .map_err(|_| io::Error::other("the upgraded connection is not our socket"))?;
        let Self { unread, stream } = parts.io.into_inner();
        // HTTP read its buffer before what we still hold.
        let mut leftover = BytesMut::from(parts.read_buf);
        leftover.extend_from_slice(&unread);
        Ok(match stream {
            Stream::Tcp(stream) => {
                let (reader, writer) = stream.into_split();
                Duplex::websocket(role, &leftover, reader, writer)
            }
            Stream::Unix(stream) => {
                let (reader, writer) = stream.into_split();
                Duplex::websocket(role, &leftover, reader, writer)
            }
        })
    }
}

/// An unconnected socket for `addr`; accepted sockets inherit what is set here.
pub(crate) fn tcp_socket(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    Ok(socket)
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.has_remaining() {
            let count = self.unread.len().min(buffer.remaining());
            buffer.put_slice(&self.unread.split_to(count));
            return Poll::Ready(Ok(()));
        }
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
