//! The smallest HTTP client that shows what the mock really sends: status, headers, each chunk
//! as it arrives, and whether the body had its end.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use turnlane_testkit::{
    MockModel,
    wait::{DEADLINE, within},
};

/// One answer being read.
pub(crate) struct Exchange {
    stream: BufReader<TcpStream>,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
}

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The body ended as HTTP says it should.
    Proper,
    /// The connection was closed before.
    Cut,
}

/// What the next read gave.
pub(crate) enum Next {
    Chunk(Vec<u8>),
    End(End),
}

/// A request with this prompt, of the least shape the mock cares about.
pub(crate) fn prompt(text: &str) -> Value {
    json!({"model": "mock-model", "stream": true, "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
    ]})
}

/// Sends a prompt and reads the whole answer.
pub(crate) async fn ask(model: &MockModel, text: &str) -> Answer {
    send(model, "POST", "/v1/responses", &prompt(text).to_string())
        .await
        .whole()
        .await
}

/// Sends a request and returns once the headers of its answer have arrived.
pub(crate) async fn send(model: &MockModel, method: &str, path: &str, body: &str) -> Exchange {
    let stream = write(model, method, path, body).await;
    within("the answer's head", DEADLINE, Exchange::read_head(stream))
        .await
        .unwrap()
        .unwrap()
}

/// Sends a request and does not wait for anything.
pub(crate) async fn write(model: &MockModel, method: &str, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(model.address()).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: mock\r\nauthorization: Bearer k-1\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // A server that refuses a large body may close before it has read it.
    let _ = stream.write_all(body.as_bytes()).await;
    stream
}

impl Exchange {
    /// `None` when the connection closes without a status line.
    pub(crate) async fn read_head(stream: TcpStream) -> Option<Self> {
        let mut stream = BufReader::new(stream);
        let status_line = line(&mut stream).await.filter(|line| !line.is_empty())?;
        let status = status_line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        while let Some(header) = line(&mut stream).await.filter(|line| !line.is_empty()) {
            let (name, value) = header.split_once(": ").unwrap();
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        Some(Self {
            stream,
            status,
            headers,
        })
    }

    /// The next chunk, or the end.
    pub(crate) async fn next(&mut self) -> Next {
        within("the next chunk", DEADLINE, self.read_chunk())
            .await
            .unwrap()
    }

    async fn read_chunk(&mut self) -> Next {
        let Some(size) = line(&mut self.stream).await else {
            return Next::End(End::Cut);
        };
        let Ok(size) = usize::from_str_radix(&size, 16) else {
            return Next::End(End::Cut);
        };
        let mut chunk = vec![0; size + 2];
        if self.stream.read_exact(&mut chunk).await.is_err() {
            return Next::End(End::Cut);
        }
        chunk.truncate(size);
        if size == 0 {
            Next::End(End::Proper)
        } else {
            Next::Chunk(chunk)
        }
    }

    pub(crate) async fn whole(mut self) -> Answer {
        let mut chunks = Vec::new();
        let length = header(&self.headers, "content-length").map(|length| length.parse().unwrap());
        let end = if let Some(length) = length {
            let mut body = vec![0; length];
            let read = self.stream.read_exact(&mut body).await;
            chunks.push(body);
            if read.is_ok() { End::Proper } else { End::Cut }
        } else {
            loop {
                match self.next().await {
                    Next::Chunk(chunk) => chunks.push(chunk),
                    Next::End(end) => break end,
                }
            }
        };
        Answer {
            status: self.status,
            headers: self.headers,
            chunks,
            end,
        }
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap()
    }

    /// The events whose data is JSON, whatever their line ends.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = String::from_utf8_lossy(&self.bytes()).into_owned();
        let lines = text.split(['\n', '\r']);
        let data = lines.filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|data| serde_json::from_str(data).ok())
            .collect()
    }

    /// The types of those events, without the leading `response.`.
    pub(crate) fn kinds(&self) -> Vec<String> {
        let kind = |event: &Value| {
            let kind = event["type"].as_str().unwrap_or_default();
            kind.strip_prefix("response.").unwrap_or(kind).to_owned()
        };
        self.events().iter().map(kind).collect()
    }

    /// The first event of this type.
    pub(crate) fn event(&self, kind: &str) -> Value {
        let events = self.events();
        events
            .into_iter()
            .find(|event| event["type"] == kind)
            .unwrap()
    }

    /// All text deltas joined.
    pub(crate) fn message(&self) -> String {
        let events = self.events();
        let deltas = events
            .iter()
            .filter(|event| event["type"] == "response.output_text.delta");
        deltas.filter_map(|event| event["delta"].as_str()).collect()
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.as_str())
}

/// A line without its end; `None` at the end of the connection or when it was reset.
async fn line(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let count = stream.read_line(&mut line).await.ok()?;
    (count > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
}
