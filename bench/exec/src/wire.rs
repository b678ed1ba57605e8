//! The one client of all servers: as little as possible between the socket and the figure.

use std::time::Duration;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use turnlane_rpc::connect::{self, connect_ws};
use turnlane_rpc::{FrameReader, FrameWriter, Frames, Inbound};

/// Nothing here takes longer unless something is broken.
const PATIENCE: Duration = Duration::from_mins(1);

/// One connection that speaks `process.v1`.
pub(crate) struct Wire {
    reader: FrameReader,
    pub(crate) writer: FrameWriter,
}

impl Wire {
    pub(crate) async fn connect(url: &str) -> anyhow::Result<Self> {
        let duplex = connect_ws(url, &connect::Options::default()).await?;
        let Frames { reader, writer, .. } = duplex.into_frames();
        let mut wire = Self { reader, writer };
        wire.push(&json!({"id": 0, "method": "initialize", "params": {"clientName": "bench", "resumeSessionId": null}}));
        wire.flush().await?;
        wire.until(|message| message.get("id").is_some()).await?;
        wire.push(&json!({"method": "initialized", "params": {}}));
        wire.flush().await?;
        Ok(wire)
    }

    pub(crate) fn push(&mut self, message: &Value) {
        self.writer.push(message.to_string().into());
    }

    pub(crate) async fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.writer.flush(PATIENCE).await?)
    }

    /// Asks for a process; its answer has the same number.
    pub(crate) fn start(&mut self, number: usize, process: &Process<'_>) {
        let params = json!({
            "processId": number.to_string(),
            "argv": process.argv,
            "cwd": "file:///tmp",
            "env": {"PATH": "/usr/local/bin:/usr/bin:/bin"},
            "tty": process.tty,
            "arg0": null,
            "pipeStdin": process.stdin,
            "sandbox": process.sandbox,
        });
        self.push(&json!({"id": number, "method": "process/start", "params": params}));
    }

    /// The next frame.
    pub(crate) async fn frame(&mut self) -> anyhow::Result<Bytes> {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.reader.next()).await;
            match next.context("the server is silent")?? {
                Some(Inbound::Message(frame)) => return Ok(frame),
                Some(Inbound::Ping(payload)) => {
                    self.writer.push_pong(&payload);
                    self.flush().await?;
                }
                Some(_) => {}
                None => bail!("the server closed the connection"),
            }
        }
    }

    /// Reads until a message fits.
    pub(crate) async fn until(
        &mut self,
        mut fits: impl FnMut(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        loop {
            let message: Value = serde_json::from_slice(&self.frame().await?)?;
            if let Some(error) = message.get("error") {
                bail!("the server refused: {error}");
            }
            if fits(&message) {
                return Ok(message);
            }
        }
    }

    /// Reads until this process has exited.
    pub(crate) async fn exited(&mut self, number: usize) -> anyhow::Result<()> {
        let id = number.to_string();
        self.until(|message| {
            message["method"] == "process/exited" && message["params"]["processId"] == *id
        })
        .await
        .map(drop)
    }

    /// Reads output until a process is closed and returns how many bytes it was.
    pub(crate) async fn drain(&mut self) -> anyhow::Result<usize> {
        let mut bytes = 0;
        let mut decoded = Vec::new();
        loop {
            let frame = self.frame().await?;
            if let Some(chunk) = chunk(&frame) {
                decoded.resize(base64::decoded_len_estimate(chunk.len()), 0);
                bytes += STANDARD.decode_slice(chunk, &mut decoded)?;
            } else if memchr::memmem::find(&frame, b"process/closed").is_some() {
                return Ok(bytes);
            }
        }
    }
}

/// What to start.
#[derive(Clone, Default)]
pub(crate) struct Process<'a> {
    pub(crate) argv: &'a [&'a str],
    pub(crate) tty: bool,
    pub(crate) stdin: bool,
    pub(crate) sandbox: Value,
}

/// The base64 of an output notification, whoever wrote it.
fn chunk(frame: &[u8]) -> Option<&[u8]> {
    memchr::memmem::find(&frame[..frame.len().min(64)], b"process/output")?;
    let start = memchr::memmem::find(frame, b"\"chunk\":\"")? + 9;
    let length = memchr::memchr(b'"', &frame[start..])?;
    Some(&frame[start..start + length])
}

/// Codex's object for reading everything and writing nothing.
pub(crate) fn read_only() -> Value {
    let root = json!({"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"});
    restricted(&[root])
}

/// Codex's object for a writable directory in which some entries are read-only.
pub(crate) fn workspace_write(root: &std::path::Path, entries: &[&str]) -> Value {
    let mut all = vec![
        json!({"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}),
        json!({"path": {"type": "path", "path": format!("file://{}", root.display())}, "access": "write"}),
    ];
    for name in entries {
        let path = format!("file://{}/{name}", root.display());
        all.push(json!({"path": {"type": "path", "path": path}, "access": "read"}));
    }
    restricted(&all)
}

fn restricted(entries: &[Value]) -> Value {
    json!({"permissions": {"type": "managed", "network": "restricted",
        "file_system": {"type": "restricted", "entries": entries}}})
}
