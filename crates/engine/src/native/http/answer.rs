//! An answer whose headers are there and whose body is still coming.
//!
//! The invariant here: a read ends with bytes, the end, or a fault; after the provider's limit of
//! silence at the latest. An answer that is not read to its end costs its connection.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::{Broken, faults};
use crate::native::failure::Fault;

/// How much of the body of an error is read.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// How long, and how much, is read behind the end of a response to keep its connection.
const REST_WAIT_MAX: Duration = Duration::from_secs(2);
const REST_BYTES_MAX: usize = 64 * 1024;

/// An answer of a provider.
#[derive(Debug)]
pub(crate) struct Answer {
    response: reqwest::Response,
    idle_max: Duration,
}

impl Answer {
    pub(super) fn new(response: reqwest::Response, idle_max: Duration) -> Self {
        Self { response, idle_max }
    }

    /// The status.
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// Whether the status is 2xx.
    pub(crate) fn is_success(&self) -> bool {
        self.response.status().is_success()
    }

    /// The headers.
    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The content type; empty when the provider gave none.
    pub(crate) fn content_type(&self) -> &str {
        let named = self.headers().get(CONTENT_TYPE);
        named.and_then(|named| named.to_str().ok()).unwrap_or("")
    }

    /// The next bytes of the body; none at its end. Dropped while it waits, nothing is lost.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Broken> {
        match tokio::time::timeout(self.idle_max, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(faults::of_body(error)),
            Err(_elapsed) => {
                let text = format!("no bytes for {} ms", self.idle_max.as_millis());
                Err(Broken::new(Fault::Idle, text))
            }
        }
    }

    /// The beginning of the body of an error; what arrived, should it break.
    pub(crate) async fn error_body(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < ERROR_BYTES_MAX
            && let Ok(Some(chunk)) = self.chunk().await
        {
            let room = ERROR_BYTES_MAX - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        }
        body
    }

    /// Reads what stands behind the end of a response, on the side.
    ///
    /// Only a connection whose answer was read to its end serves another request.
    pub(crate) fn read_rest(mut self) {
        tokio::spawn(async move {
            let rest = async {
                let mut room = REST_BYTES_MAX;
                while let Ok(Some(chunk)) = self.response.chunk().await
                    && chunk.len() <= room
                {
                    room -= chunk.len();
                }
            };
            // One that goes on beyond its end is closed.
            let _ = tokio::time::timeout(REST_WAIT_MAX, rest).await;
        });
    }
}
