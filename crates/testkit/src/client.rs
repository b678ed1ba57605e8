//! A JSON-RPC client that sees everything: for tests of servers over any transport.
//!
//! Unlike a peer it keeps what it receives in wire order, answers and notifications in one list,
//! because much of what a test asserts is order; and it can send what no well-behaved client would.
//! It answers nothing by itself: a server's request is one more thing it has received.

use bytes::Bytes;
use serde_json::{Value, json};
use turnlane_rpc::{Duplex, FrameReader, FrameWriter, Frames, Inbound};

use crate::Error;
use crate::wait::{DEADLINE, within};

/// How many of the last messages an error shows.
const SHOWN_MAX: usize = 5;

/// A client over any [`Duplex`]: lines, websocket, memory.
#[derive(Debug)]
pub struct TestClient {
    reader: FrameReader,
    /// None once no more will be sent.
    writer: Option<FrameWriter>,
    received: Vec<Value>,
    next_id: i64,
}

/// How a connection came to its end, as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// End of file or a reset.
    Cut,
    /// A websocket close frame with this code.
    Closed(u16),
}

impl TestClient {
    /// A client on this connection; nothing is sent yet.
    pub fn new(duplex: Duplex) -> Self {
        let Frames { reader, writer, .. } = duplex.into_frames();
        Self {
            reader,
            writer: Some(writer),
            received: Vec::new(),
            next_id: 1,
        }
    }

    /// Sends bytes as one frame, whatever they are.
    pub async fn send_raw(&mut self, frame: impl Into<Bytes>) -> Result<(), Error> {
        if let Some(writer) = &mut self.writer {
            writer.push(frame.into());
        }
        self.flush().await
    }

    /// Sends one JSON value as a frame.
    pub async fn send(&mut self, message: &Value) -> Result<(), Error> {
        self.send_raw(message.to_string()).await
    }

    /// Sends a request and returns its id at once.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<i64, Error> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"id": id, "method": method, "params": params}))
            .await?;
        Ok(id)
    }

    /// Sends a request and waits for its answer: the whole message, result or error.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value, Error> {
        let id = self.request(method, params).await?;
        self.answer(id).await
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) -> Result<(), Error> {
        self.send(&json!({"method": method, "params": params}))
            .await
    }

    /// The answer to the request with this id, received before or now.
    pub async fn answer(&mut self, id: i64) -> Result<Value, Error> {
        let is_answer = |message: &Value| message["id"] == id && message.get("method").is_none();
        self.find(&format!("the answer to request {id}"), is_answer)
            .await
    }

    /// The first notification or request with this method, received before or now.
    pub async fn message(&mut self, method: &str) -> Result<Value, Error> {
        self.find(&format!("a message {method}"), |message| {
            message["method"] == method
        })
        .await
    }

    /// The first message that fits, received before or now; it stays in [`TestClient::received`].
    pub async fn find(
        &mut self,
        what: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<Value, Error> {
        let mut looked_at = 0;
        loop {
            if let Some(found) = self.received[looked_at..]
                .iter()
                .find(|message| fits(message))
            {
                return Ok(found.clone());
            }
            looked_at = self.received.len();
            if self.receive(what).await?.is_none() {
                let what = what.to_owned();
                return Err(Error::Over {
                    what,
                    seen: self.seen(),
                });
            }
        }
    }

    /// The next message off the wire.
    pub async fn next(&mut self) -> Result<Value, Error> {
        let what = "the next message";
        match self.receive(what).await? {
            Some(()) => Ok(self.received.last().cloned().unwrap_or_default()),
            None => Err(Error::Over {
                what: what.to_owned(),
                seen: self.seen(),
            }),
        }
    }

    /// Everything received so far, in wire order.
    pub fn received(&self) -> &[Value] {
        &self.received
    }

    /// Waits for the connection's end; what comes before is kept in [`TestClient::received`].
    pub async fn ending(&mut self) -> Result<Ending, Error> {
        loop {
            let next = within("the end of the connection", DEADLINE, self.reader.next()).await;
            match next.map_err(|error| error.seeing(&self.seen()))? {
                Ok(Some(Inbound::Message(frame))) => self.keep(&frame),
                Ok(Some(Inbound::Close(code))) => return Ok(Ending::Closed(code)),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Ok(Ending::Cut),
            }
        }
    }

    /// Says that no more will come, and goes on reading: the end of stdin.
    pub async fn finish(&mut self) -> Result<(), Error> {
        // A pipe ends when it is dropped, not before.
        let Some(mut writer) = self.writer.take() else {
            return Ok(());
        };
        let done = writer.shutdown(DEADLINE).await;
        done.map_err(|why| Error::doing("end the output")(std::io::Error::other(why)))
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let Some(writer) = &mut self.writer else {
            let over = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
            return Err(Error::doing("write a frame")(over));
        };
        let flushed = writer.flush(DEADLINE).await;
        flushed.map_err(|why| Error::doing("write a frame")(std::io::Error::other(why)))
    }

    /// Reads until one message was kept; `None` at the end of the connection.
    async fn receive(&mut self, what: &str) -> Result<Option<()>, Error> {
        // One deadline for all of it: pings must not prolong a wait in vain.
        let read = within(what, DEADLINE, self.read_message()).await;
        read.map_err(|error| error.seeing(&self.seen()))?
    }

    async fn read_message(&mut self) -> Result<Option<()>, Error> {
        loop {
            match self.reader.next().await {
                Ok(Some(Inbound::Message(frame))) => {
                    self.keep(&frame);
                    return Ok(Some(()));
                }
                // A server closes a websocket whose client is silent for a minute; commands take longer.
                Ok(Some(Inbound::Ping(payload))) => {
                    if let Some(writer) = &mut self.writer {
                        writer.push_pong(&payload);
                        self.flush().await?;
                    }
                }
                Ok(Some(Inbound::Close(_)) | None) | Err(_) => return Ok(None),
                Ok(Some(_)) => {}
            }
        }
    }

    /// What is not JSON is kept as a string, so that the test sees it.
    fn keep(&mut self, frame: &[u8]) {
        let text = || Value::from(String::from_utf8_lossy(frame).into_owned());
        self.received
            .push(serde_json::from_slice(frame).unwrap_or_else(|_| text()));
    }

    fn seen(&self) -> String {
        let last = &self.received[self.received.len().saturating_sub(SHOWN_MAX)..];
        let last: Vec<String> = last.iter().map(Value::to_string).collect();
        format!(
            "; {} messages came, the last:\n{}",
            self.received.len(),
            last.join("\n")
        )
    }
}
