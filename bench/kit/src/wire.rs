//! A client that costs little, so that what is measured is the server.
//!
//! The invariant here: of a message only its head is looked at, and nothing is kept. Who waits for an
//! answer lets everything else pass; who wants the notifications takes messages one by one.

use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use turnlane_rpc::{Duplex, FrameReader, FrameWriter, Frames, Inbound};
use turnlane_testkit::wait::within;

/// Longer than anything that is measured takes.
const LIMIT: Duration = Duration::from_mins(2);

/// A client that has said hello.
#[derive(Debug)]
pub struct Wire {
    reader: FrameReader,
    writer: FrameWriter,
    next_id: i64,
}

/// One message, read no further than to what it is.
#[derive(Debug)]
pub struct Message {
    /// The request that it answers, if it is an answer.
    pub answers: Option<i64>,
    /// Its method, empty for an answer.
    pub method: String,
    body: Bytes,
}

#[derive(Deserialize)]
struct Head<'a> {
    id: Option<i64>,
    #[serde(borrow)]
    method: Option<&'a str>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

impl Message {
    /// All of it.
    pub fn value(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_slice(&self.body)?)
    }

    /// The result of an answer, unread; an error when the answer is one.
    fn result(&self) -> anyhow::Result<&RawValue> {
        let answer: Answer<'_> = serde_json::from_slice(&self.body)?;
        let refused = || format!("refused: {}", String::from_utf8_lossy(&self.body));
        answer.result.with_context(refused)
    }
}

impl Wire {
    /// Says hello over this connection.
    pub async fn greet(duplex: Duplex) -> anyhow::Result<Self> {
        let Frames { reader, writer, .. } = duplex.into_frames();
        let mut wire = Self {
            reader,
            writer,
            next_id: 1,
        };
        let params = json!({
            "clientInfo": {"name": "bench", "version": "0"},
            "capabilities": {"experimentalApi": true},
        });
        wire.call("initialize", &params).await?;
        wire.send(&json!({"method": "initialized", "params": {}}))
            .await?;
        Ok(wire)
    }

    /// Sends a request and returns its id at once.
    pub async fn request(&mut self, method: &str, params: &Value) -> anyhow::Result<i64> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"id": id, "method": method, "params": params}))
            .await?;
        Ok(id)
    }

    /// Sends a request and reads its answer; what comes before it is forgotten.
    pub async fn call(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        let answer = self.answered(method, params).await?;
        Ok(serde_json::from_str(answer.result()?.get())?)
    }

    /// The same without reading the answer, which must be a good one.
    pub async fn confirm(&mut self, method: &str, params: &Value) -> anyhow::Result<()> {
        self.answered(method, params).await?.result()?;
        Ok(())
    }

    /// The next message.
    pub async fn next(&mut self) -> anyhow::Result<Message> {
        loop {
            match within("a message", LIMIT, self.reader.next()).await?? {
                Some(Inbound::Message(body)) => {
                    let head: Head<'_> = serde_json::from_slice(&body)?;
                    let method = head.method.unwrap_or_default().to_owned();
                    let answers = head.id.filter(|_| method.is_empty());
                    return Ok(Message {
                        answers,
                        method,
                        body,
                    });
                }
                Some(Inbound::Close(_)) | None => bail!("the connection has ended"),
                Some(_) => {}
            }
        }
    }

    /// The next notification of this method; what comes before it is forgotten.
    pub async fn until(&mut self, method: &str) -> anyhow::Result<Message> {
        loop {
            let message = self.next().await?;
            if message.method == method {
                return Ok(message);
            }
        }
    }

    /// The next answer, to whatever; it must be a good one.
    pub async fn next_answer(&mut self) -> anyhow::Result<()> {
        loop {
            let message = self.next().await?;
            if message.answers.is_some() {
                message.result()?;
                return Ok(());
            }
        }
    }

    async fn answered(&mut self, method: &str, params: &Value) -> anyhow::Result<Message> {
        let id = self.request(method, params).await?;
        loop {
            let message = self.next().await?;
            if message.answers == Some(id) {
                return Ok(message);
            }
        }
    }

    async fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        self.writer.push(message.to_string().into());
        Ok(self.writer.flush(LIMIT).await?)
    }
}
