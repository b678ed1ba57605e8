//! Bad input on real connections: what is answered, and that the connection works afterwards.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use turnlane_rpc::{Duplex, FRAME_BYTES_MAX};
use turnlane_server::PeerKind;
use turnlane_testkit::TestClient;
use turnlane_testkit::wait::{DEADLINE, within};

use crate::support::{Client, ECHO, World};

const BAD_ID: &str = "Invalid request: id must be a string or an integer";
const NO_METHOD: &str = "Invalid request: missing field `method`";

/// What is sent, and what comes back: id, code and how the text begins.
fn rows() -> Vec<(&'static [u8], Value, i64, &'static str)> {
    vec![
        (b"{nonsense", Value::Null, -32700, "Parse error: "),
        (b"hello", Value::Null, -32700, "Parse error: "),
        (
            b"{\"id\":1,\"method\":\"thread/li",
            Value::Null,
            -32700,
            "Parse error: ",
        ),
        (
            b"[]",
            Value::Null,
            -32600,
            "batch requests are not supported",
        ),
        (
            b"[{\"id\":1,\"method\":\"thread/list\"}]",
            Value::Null,
            -32600,
            "batch requests are not supported",
        ),
        (b"{\"id\":5}", json!(5), -32600, NO_METHOD),
        (b"{\"id\":\"s\"}", json!("s"), -32600, NO_METHOD),
        (b"{}", Value::Null, -32600, NO_METHOD),
        (
            b"{\"id\":null,\"method\":\"thread/list\"}",
            Value::Null,
            -32600,
            BAD_ID,
        ),
        (
            b"{\"id\":1.5,\"method\":\"thread/list\"}",
            Value::Null,
            -32600,
            BAD_ID,
        ),
        (
            b"{\"id\":{},\"method\":\"thread/list\"}",
            Value::Null,
            -32600,
            BAD_ID,
        ),
        (
            b"{\"id\":[1],\"method\":\"thread/list\"}",
            Value::Null,
            -32600,
            BAD_ID,
        ),
        (
            b"{\"id\":true,\"method\":\"thread/list\"}",
            Value::Null,
            -32600,
            BAD_ID,
        ),
    ]
}

/// What is never answered: answers to what was never asked, and unknown notifications.
const SILENT: [&str; 4] = [
    "{\"id\":9,\"result\":{}}",
    "{\"id\":9,\"error\":{\"code\":1,\"message\":\"\"}}",
    "{\"id\":null,\"result\":{}}",
    "{\"method\":\"no/such\"}",
];

/// Sends every row and expects its answer, with nothing else between.
async fn all_rows(client: &mut Client) {
    for (sent, id, code, text) in rows() {
        let shown = String::from_utf8_lossy(sent).into_owned();
        client.0.send_raw(sent).await.unwrap();
        let answer = client.0.next().await.unwrap();
        assert_eq!(answer["id"], id, "{shown}: {answer}");
        assert!(answer.as_object().unwrap().contains_key("id"), "{answer}");
        assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(text), "{shown}: {answer}");
        assert!(answer["error"]["data"]["reason"].is_string(), "{answer}");
    }
    for sent in SILENT {
        client.0.send_raw(sent).await.unwrap();
    }
    works(client).await;
}

/// An id comes back as it was, and a turn runs.
async fn works(client: &mut Client) {
    for id in [json!("text"), json!(i64::MIN), json!(i64::MAX), json!("")] {
        let request = json!({"id": id, "method": "thread/loaded/list"});
        client.0.send(&request).await.unwrap();
        let answer = client.0.next().await.unwrap();
        assert_eq!(answer["id"], id);
        assert!(answer["result"].is_object(), "{answer}");
    }
    let thread = client.thread().await;
    let id = client.turn(&thread, "still here").await;
    assert_eq!(client.ended(&id).await["status"], "completed");
}

/// A client on a pair of pipes, as on stdin and stdout, and the writing end for any bytes.
async fn on_lines(world: &World) -> (Client, tokio::io::WriteHalf<tokio::io::DuplexStream>) {
    let (near, far) = tokio::io::duplex(1024 * 1024);
    let (reads, writes) = tokio::io::split(far);
    let server = world.server.clone();
    tokio::spawn(async move {
        server
            .serve(Duplex::lines(reads, writes), PeerKind::Stdio)
            .await
    });
    let (reads, writes) = tokio::io::split(near);
    // What the client writes is copied, so that a test can write between its lines.
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let mut client = Client(TestClient::new(Duplex::lines(reads, ours)));
    let mut writes = writes;
    let (mut from_client, _unused) = tokio::io::split(theirs);
    let hello = json!({"clientInfo": {"name": "lines", "version": "1"}});
    let request = client.0.request("initialize", hello).await.unwrap();
    let mut line = vec![0; 4096];
    let count = from_client.read(&mut line).await.unwrap();
    writes.write_all(&line[..count]).await.unwrap();
    client.0.answer(request).await.unwrap();
    (client, writes)
}

#[tokio::test]
async fn every_row_is_answered_on_a_connection_in_memory() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    all_rows(&mut client).await;
}

#[tokio::test]
async fn every_row_is_answered_on_a_websocket() {
    let world = World::start(ECHO).await;
    let path = world.listen().await;
    let mut client = World::unix_client(&path).await;
    all_rows(&mut client).await;
}

#[tokio::test]
async fn lines_that_are_empty_no_text_or_too_long_leave_the_connection_open() {
    let world = World::start(ECHO).await;
    let (mut client, mut raw) = on_lines(&world).await;
    raw.write_all(b"\n\r\n   \n").await.unwrap();
    raw.write_all(b"{\"id\":1,\"method\":\"\xff\xfe\"}\n")
        .await
        .unwrap();
    let answer = client.0.next().await.unwrap();
    assert_eq!(answer["id"], Value::Null, "nothing for empty lines");
    assert_eq!(answer["error"]["code"], -32700);

    let chunk = vec![b'x'; 1024 * 1024];
    for _ in 0..=FRAME_BYTES_MAX / chunk.len() {
        raw.write_all(&chunk).await.unwrap();
    }
    raw.write_all(b"\n").await.unwrap();
    let answer = client.0.next().await.unwrap();
    assert_eq!(answer["id"], Value::Null);
    assert_eq!(answer["error"]["code"], -32600);
    let text = format!("message exceeds {FRAME_BYTES_MAX} bytes");
    assert_eq!(answer["error"]["message"], text);
    raw.write_all(b"{\"id\":77,\"method\":\"thread/loaded/list\"}\n")
        .await
        .unwrap();
    let answer = client.0.answer(77).await.unwrap();
    assert!(answer["result"].is_object(), "{answer}");
}

/// A websocket whose frames a test makes itself.
struct RawSocket(UnixStream);

impl RawSocket {
    const TEXT: u8 = 1;
    const BINARY: u8 = 2;
    const CLOSE: u8 = 8;

    async fn connect(path: &std::path::Path) -> Self {
        let mut stream = UnixStream::connect(path).await.unwrap();
        let request = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
            Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
            Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{head:?}");
        Self(stream)
    }

    /// The beginning of a frame of this length, whose mask changes nothing.
    async fn announce(&mut self, kind: u8, length: u64) {
        let mut head = vec![0x80 | kind, 0x80 | 0x7f];
        head.extend(length.to_be_bytes());
        head.extend([0; 4]);
        self.0.write_all(&head).await.unwrap();
    }

    async fn send(&mut self, kind: u8, bytes: &[u8]) {
        let mut head = vec![0x80 | kind];
        match u8::try_from(bytes.len()) {
            Ok(length) if length < 126 => head.push(0x80 | length),
            _ => {
                head.push(0x80 | 0x7e);
                head.extend(u16::try_from(bytes.len()).unwrap().to_be_bytes());
            }
        }
        head.extend([0; 4]);
        head.extend(bytes);
        self.0.write_all(&head).await.unwrap();
    }

    /// The next frame: its kind and its content.
    async fn next(&mut self) -> (u8, Vec<u8>) {
        let read = async {
            let kind = self.0.read_u8().await.unwrap() & 0x0f;
            let length = match self.0.read_u8().await.unwrap() {
                126 => u64::from(self.0.read_u16().await.unwrap()),
                127 => self.0.read_u64().await.unwrap(),
                short => u64::from(short),
            };
            let mut bytes = vec![0; usize::try_from(length).unwrap()];
            self.0.read_exact(&mut bytes).await.unwrap();
            (kind, bytes)
        };
        within("a frame", DEADLINE, read).await.unwrap()
    }

    async fn message(&mut self) -> Value {
        let (kind, bytes) = self.next().await;
        assert_eq!(kind, Self::TEXT, "{}", String::from_utf8_lossy(&bytes));
        serde_json::from_slice(&bytes).unwrap()
    }
}

#[tokio::test]
async fn binary_frames_are_passed_over_and_a_frame_too_long_closes_with_1009() {
    let world = World::start(ECHO).await;
    let path = world.listen().await;
    let mut socket = RawSocket::connect(&path).await;
    let hello = json!({"id": 1, "method": "initialize",
        "params": {"clientInfo": {"name": "raw", "version": "1"}}});
    let hello = hello.to_string();
    // Read as text, this would be an initialize and the next one would be the second.
    socket.send(RawSocket::BINARY, hello.as_bytes()).await;
    socket.send(RawSocket::TEXT, hello.as_bytes()).await;
    let answer = socket.message().await;
    assert!(answer["result"]["userAgent"].is_string(), "{answer}");
    socket.send(RawSocket::BINARY, b"\x00\xff").await;
    socket.send(RawSocket::TEXT, b"").await;
    socket
        .send(
            RawSocket::TEXT,
            b"{\"id\":2,\"method\":\"thread/loaded/list\"}",
        )
        .await;
    loop {
        let answer = socket.message().await;
        if answer["id"] == 2 {
            assert!(answer["result"].is_object(), "{answer}");
            break;
        }
        assert_eq!(answer["error"]["code"], -32700, "{answer}");
    }
    let too_long = FRAME_BYTES_MAX as u64 + 1;
    socket.announce(RawSocket::TEXT, too_long).await;
    let (kind, bytes) = socket.next().await;
    assert_eq!(kind, RawSocket::CLOSE);
    assert_eq!(u16::from_be_bytes([bytes[0], bytes[1]]), 1009);
    let mut others = World::unix_client(&path).await;
    works(&mut others).await;
}

#[tokio::test]
async fn text_that_is_no_utf8_is_a_parse_error_on_a_websocket_too() {
    let world = World::start(ECHO).await;
    let path = world.listen().await;
    let mut client = World::unix_client(&path).await;
    client
        .0
        .send_raw(&b"{\"id\":1,\"method\":\"\xff\xfe\"}"[..])
        .await
        .unwrap();
    let answer = client.0.next().await.unwrap();
    assert_eq!(answer["id"], Value::Null);
    assert_eq!(answer["error"]["code"], -32700, "{answer}");
    works(&mut client).await;
}

#[tokio::test]
async fn two_requests_with_one_id_are_both_done_and_both_answered() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let twice = json!({"id": 500, "method": "thread/start", "params": {}});
    client.0.send(&twice).await.unwrap();
    client.0.send(&twice).await.unwrap();
    let mut threads = std::collections::HashSet::new();
    while threads.len() < 2 {
        let message = client.0.next().await.unwrap();
        if message["id"] == 500 {
            let id = message["result"]["thread"]["id"].as_str().unwrap();
            assert!(threads.insert(id.to_owned()), "two threads, not one twice");
        }
    }
}
