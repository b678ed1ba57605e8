//! One client: a task that reads its commands and a task that writes its events.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::BytesMut;
use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};

use super::frames::{self, FrameDecoder, Framing, Inbound};
use super::{Arrival, Outbox};

/// One read asks for this much.
const READ_BYTES: usize = 16 * 1024;

/// A client, as the loop knows it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) id: u64,
    pub(crate) outbox: Arc<Outbox>,
    /// The longest event it reads.
    pub(crate) frame_bytes_max: usize,
}

/// Why a client is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// It closed its end.
    Ended,
    /// It cannot be read from or written to, or its frames make no sense.
    Broken,
    /// The task that served it panicked, which ends the shim.
    Panicked,
}

/// Starts both tasks and tells the loop of the client.
pub(super) async fn start(
    connection: Connection,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    decoder: FrameDecoder,
    arrivals: &mpsc::Sender<Arrival>,
) {
    let (framing_sender, framing) = watch::channel(decoder.framing());
    let id = connection.id;
    let outbox = Arc::clone(&connection.outbox);
    if arrivals.send(Arrival::Opened(connection)).await.is_err() {
        return;
    }
    let to_loop = arrivals.clone();
    let from_outbox = Arc::clone(&outbox);
    tokio::spawn(async move {
        let reading = read(id, reader, decoder, &from_outbox, &framing_sender, &to_loop);
        let closed = unless_panicked(reading).await.unwrap_or(Closed::Panicked);
        let _ = to_loop.send(Arrival::Closed(id, closed)).await;
    });
    let to_loop = arrivals.clone();
    tokio::spawn(async move {
        let closed = match unless_panicked(write(writer, &outbox, framing)).await {
            Some(Ok(())) if !outbox.is_overrun() => return,
            Some(_) => Closed::Broken,
            None => Closed::Panicked,
        };
        outbox.close();
        let _ = to_loop.send(Arrival::Closed(id, closed)).await;
    });
}

/// The output of a future; none where it panicked. Nothing of it is used after a panic but the outbox,
/// whose lock survives one.
pub(super) async fn unless_panicked<T>(future: impl Future<Output = T>) -> Option<T> {
    AssertUnwindSafe(future).catch_unwind().await.ok()
}

async fn read(
    id: u64,
    mut reader: impl AsyncRead + Unpin,
    mut decoder: FrameDecoder,
    outbox: &Outbox,
    framing: &watch::Sender<Framing>,
    arrivals: &mpsc::Sender<Arrival>,
) -> Closed {
    let mut buffer = BytesMut::new();
    loop {
        outbox.room().await;
        buffer.reserve(READ_BYTES);
        let Ok(count) = reader.read_buf(&mut buffer).await else {
            return Closed::Broken;
        };
        let is_end = count == 0;
        loop {
            let found = match decoder.decode(&mut buffer) {
                None if is_end => decoder.finish(&mut buffer),
                found => found,
            };
            framing.send_if_modified(|known| {
                let is_news = *known != decoder.framing();
                *known = decoder.framing();
                is_news
            });
            let Some(inbound) = found else {
                break;
            };
            let is_broken = matches!(inbound, Inbound::Broken { .. });
            if arrivals.send(Arrival::Frame(id, inbound)).await.is_err() {
                return Closed::Ended;
            }
            if is_broken {
                return Closed::Broken;
            }
        }
        if is_end {
            return Closed::Ended;
        }
    }
}

async fn write(
    mut writer: impl AsyncWrite + Unpin,
    outbox: &Outbox,
    mut framing: watch::Receiver<Framing>,
) -> std::io::Result<()> {
    while let Some(event) = outbox.next().await {
        // A client of the unix socket chooses its framing by its first byte.
        let known = framing
            .wait_for(|framing| *framing != Framing::Detected)
            .await;
        let known = known.map_or(Framing::Lines, |known| *known);
        let bytes = event.len();
        let frame = frames::encode(known, &event);
        writer.write_all(&frame).await?;
        writer.flush().await?;
        outbox.wrote(bytes);
    }
    writer.shutdown().await
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;
    use crate::channel::{FRAME_BYTES_MAX, SlowReader};
    use crate::wire::Weight;

    /// A stream with a bug in it.
    struct Faulty;

    impl AsyncRead for Faulty {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            panic!("a bug in a reader")
        }
    }

    impl AsyncWrite for Faulty {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<std::io::Result<usize>> {
            panic!("a bug in a writer")
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    async fn closed_by(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Option<Closed> {
        let (sender, mut arrivals) = mpsc::channel(4);
        let outbox = Arc::new(Outbox::new(SlowReader::Waited));
        outbox.put(bytes::Bytes::from_static(b"{}"), Weight::Lossless);
        let connection = Connection {
            id: 0,
            outbox,
            frame_bytes_max: FRAME_BYTES_MAX,
        };
        let decoder = FrameDecoder::new(Framing::Lines);
        start(connection, reader, writer, decoder, &sender).await;
        loop {
            if let Arrival::Closed(_, closed) = arrivals.recv().await? {
                return Some(closed);
            }
        }
    }

    #[tokio::test]
    async fn a_panic_in_a_reader_or_writer_is_told_to_the_loop() {
        // The other direction stays open, so nothing else could end the connection.
        let (ours, _theirs) = tokio::io::duplex(64);
        assert_eq!(closed_by(Faulty, ours).await, Some(Closed::Panicked));
        let (ours, _theirs) = tokio::io::duplex(64);
        assert_eq!(closed_by(ours, Faulty).await, Some(Closed::Panicked));
    }
}
