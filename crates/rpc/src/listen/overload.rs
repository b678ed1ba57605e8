//! The refusal of a unix connection above the limit that speaks JSON lines.
//!
//! The connection stays among the unadmitted ones while it is refused, which bounds how many
//! refusals run at once.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::socket::Socket;

/// For each of the two steps of a refusal.
const STEP_TIME_MAX: Duration = Duration::from_secs(1);
const READ_BYTES_MAX: usize = 16 * 1024;

const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 20\r\n\
    connection: close\r\n\
    \r\n\
    too many connections";

/// Answers 503, whatever is asked. Whether the other end hears it is its own affair.
pub(super) async fn refuse(mut socket: Socket) {
    // Not before the request: a client that gets an answer before it asked takes it for nonsense.
    let _ = timeout(STEP_TIME_MAX, read_head(&mut socket)).await;
    let _ = timeout(STEP_TIME_MAX, answer(socket)).await;
}

async fn read_head(socket: &mut Socket) -> io::Result<()> {
    let mut head = Vec::new();
    while head.len() < READ_BYTES_MAX && !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        if socket.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    Ok(())
}

async fn answer(mut socket: Socket) -> io::Result<u64> {
    socket.write_all(ANSWER).await?;
    socket.shutdown().await?;
    // Closing with unread bytes would reset the connection and could take the answer with it.
    let mut rest = socket.take(READ_BYTES_MAX as u64);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
}
