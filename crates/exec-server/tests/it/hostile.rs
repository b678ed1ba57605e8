//! Messages nobody should send: answered or closed as specified, and the server lives on.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use turnlane_testkit::wait::{DEADLINE, within};

use crate::support::{Got, Host, HostProcess, Random, Wire, in_full, start_params};

const MIB: usize = 1024 * 1024;

async fn still_serves(host: &Host) {
    let mut wire = host.v1().await;
    wire.sh("p", "echo fine", json!({})).await;
    assert_eq!(wire.until_closed("p", 0).await, (b"fine\n".to_vec(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_above_the_limit_closes_with_1009() {
    let host = Host::start();
    let mut wire = host.v1().await;
    let longest = format!("{{\"id\":1,\"method\":\"{}\"}}", "x".repeat(15 * MIB));
    assert!(
        wire.ask(&longest)
            .await
            .starts_with("{\"error\":{\"code\":-32601")
    );
    let too_long = format!("{{\"id\":1,\"method\":\"{}\"}}", "x".repeat(16 * MIB));
    wire.push(too_long);
    // It may be closed before all of it was sent.
    let _ = wire.try_flush().await;
    assert!(matches!(wire.got().await, Got::Closed(Some(1009) | None)));
    let mut lines = host.stdio();
    lines.greet_v1().await;
    lines.push("x".repeat(17 * MIB));
    let _ = lines.try_flush().await;
    assert_eq!(lines.got().await, Got::Closed(None));
    still_serves(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_and_wide_messages_are_malformed() {
    let host = Host::start();
    let mut wire = host.v1().await;
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!("{{\"id\":1,\"method\":\"environment/status\",\"params\":{open}{close}}}")
    };
    let wide = |count: usize| {
        let zeros = vec!["0"; count].join(",");
        format!("{{\"id\":1,\"method\":\"environment/status\",\"params\":[{zeros}]}}")
    };
    for (frame, text) in [
        (nested(200), "recursion limit exceeded at line 1 column "),
        (
            nested(1_000_000),
            "recursion limit exceeded at line 1 column ",
        ),
        (
            wide(300_000),
            "JSON-RPC message exceeds the limit of 262144 JSON values at line 1 column ",
        ),
    ] {
        let answer: Value = serde_json::from_str(&wire.ask(&frame).await).unwrap();
        assert_eq!(answer["id"], -1);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(text), "{message}");
    }
    assert_eq!(
        wire.ask(&nested(127)).await,
        r#"{"id":1,"result":{"status":"ready"}}"#
    );
    assert_eq!(
        wire.ask(&wide(262_000)).await,
        r#"{"id":1,"result":{"status":"ready"}}"#
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn json_in_a_binary_message_is_read() {
    let host = Host::start();
    let mut wire = host.v1().await;
    // A masked binary frame by hand; the mask is zero.
    let text = br#"{"id":901,"method":"environment/status","params":{}}"#;
    let mut frame = vec![0x82, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0];
    frame.extend_from_slice(text);
    let mut raw = raw_ws(&host.url).await;
    let greeting = br#"{"id":1,"method":"initialize","params":{"clientName":"x"}}"#;
    let mut hello = vec![
        0x82,
        0x80 | u8::try_from(greeting.len()).unwrap(),
        0,
        0,
        0,
        0,
    ];
    hello.extend_from_slice(greeting);
    let answer = exchange(&mut raw, &hello).await;
    assert!(answer.ends_with(br#"{"id":1,"result":{"protocolVersion":"exec-server.v0"}}"#));
    let answer = exchange(&mut raw, &frame).await;
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(
        text.contains("unknown method: environment/status"),
        "{text}"
    );
    wire.ok("environment/status", json!({})).await;
}

/// A message made wrong in some way.
fn mutated(random: &mut Random, good: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=random.below(5) {
        let at = random.below(bytes.len().max(1));
        match random.below(5) {
            0 if !bytes.is_empty() => bytes[at] = u8::try_from(random.below(256)).unwrap(),
            1 => bytes.truncate(at),
            2 => bytes.insert(at.min(bytes.len()), b"{}[],:\"\\-0e"[random.below(11)]),
            3 if !bytes.is_empty() => {
                bytes.remove(at);
            }
            _ => {
                let again = bytes[at.min(bytes.len())..].to_vec();
                bytes.extend(again);
            }
        }
    }
    // A line end would make two messages of one.
    bytes.retain(|&byte| byte != b'\n' && byte != b'\r');
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn random_messages_harm_nobody() {
    let rounds = if in_full() { 20_000 } else { 2_000 };
    let host = HostProcess::start(&["--dialect", "process"]).await;
    let mut random = Random(0x5eed);
    let good: Vec<Vec<u8>> = [
        json!({"id": 1, "method": "process/start", "params": start_params("p", "true", json!({}))}),
        json!({"id": 2, "method": "process/read", "params": {"processId": "p", "afterSeq": 0}}),
        json!({"id": 3, "method": "process/write", "params": {"processId": "p", "chunk": "aGk=", "writeId": "w"}}),
        json!({"id": 4, "method": "process/terminate", "params": {"processId": "p", "mode": {"type": "graceful"}}}),
        json!({"id": 5, "method": "process/list", "params": {}}),
        json!({"method": "initialized", "params": {}}),
        json!({"id": 6, "method": "process/wait", "params": {"processId": "p", "timeoutMs": 1}}),
    ]
    .iter()
    .map(|message| message.to_string().into_bytes())
    .collect();
    let before = host.resident_bytes();
    let mut wire = host.v1().await;
    for _ in 0..rounds {
        let which = random.below(good.len());
        let frame = mutated(&mut random, &good[which]);
        wire.push(frame);
        let asked = json!({"id": "here", "method": "environment/status"}).to_string();
        wire.push(asked);
        if wire.try_flush().await.is_err() || !heard(&mut wire).await {
            wire = host.v1().await;
        }
    }
    let grown = host.resident_bytes().saturating_sub(before);
    assert!(grown < 16 * MIB as u64, "{} KiB", grown / 1024);
    host.v1().await.ok("environment/status", json!({})).await;
}

/// Whether the connection still answers; whatever else it says is passed over.
async fn heard(wire: &mut Wire) -> bool {
    loop {
        match wire.got().await {
            Got::Closed(_) => return false,
            Got::Text(text) if text.starts_with("{\"id\":\"here\"") => return true,
            Got::Text(_) => {}
        }
    }
}

/// A websocket without a client: bytes go out as they are.
async fn raw_ws(url: &str) -> TcpStream {
    let addr = url.trim_start_matches("ws://");
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let head = format!(
        "GET / HTTP/1.1\r\nHost: {addr}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    let answer = exchange(&mut stream, head.as_bytes()).await;
    assert!(answer.starts_with(b"HTTP/1.1 101"));
    stream
}

/// Sends bytes and returns the first that come back.
async fn exchange(stream: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    stream.write_all(bytes).await.unwrap();
    let mut answer = vec![0; 64 * 1024];
    let count = within("an answer", DEADLINE, stream.read(&mut answer)).await;
    answer.truncate(count.unwrap().unwrap());
    answer
}
