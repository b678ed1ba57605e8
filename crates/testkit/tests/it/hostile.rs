//! Random bytes and mutated messages against a server process: no panic, no leak, no hang.
//!
//! A few seconds by default; `TURNLANE_FUZZ_SECONDS=60` gives it a minute. The seed is fixed, so a
//! failure can be had again, as far as the network's timing allows.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;
use turnlane_testkit::wait::{DEADLINE, within};

use crate::echo::{EchoServer, Over};

const ROUNDS_DEFAULT: u64 = 60;
const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// What mutations start from: every kind of message, and the usual ways to get them wrong.
const SEEDS: &[&str] = &[
    r#"{"id":1,"method":"echo","params":{"a":[1,2,{"b":null}],"text":"é\u00e9\n"}}"#,
    r#"{"id":"x\"y","method":"no/such","params":[]}"#,
    r#"{"method":"initialized"}"#,
    r#"{"id":1,"result":{"deep":[[[[[[[[]]]]]]]]}}"#,
    r#"{"id":null,"error":{"code":-32600,"message":"m","data":{"reason":"x"}}}"#,
    r#"[{"id":1,"method":"echo"},{"id":2,"method":"echo"}]"#,
    r#"{"jsonrpc":"2.0","id":9223372036854775807,"method":"flood","params":{"count":3,"bytes":5}}"#,
    "",
];

/// Bytes that mean something to a parser.
const INSERTED: &[u8] = b"{}[]\",:\\0-e\xff\n";

/// Small, fast and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap()
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    /// A seed with some bytes changed, removed, doubled or inserted.
    fn mutated(&mut self) -> Vec<u8> {
        let mut frame = SEEDS[self.below(SEEDS.len())].as_bytes().to_vec();
        for _ in 0..self.below(6) {
            let at = self.below(frame.len() + 1);
            match self.below(5) {
                0 if at < frame.len() => frame[at] = self.next().to_le_bytes()[0],
                1 if at < frame.len() => drop(frame.remove(at)),
                2 => frame.truncate(at),
                3 => frame.extend_from_within(..at),
                _ => frame.insert(at, INSERTED[self.below(INSERTED.len())]),
            }
        }
        frame
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_a_client_sends_breaks_the_server() {
    let seconds = std::env::var("TURNLANE_FUZZ_SECONDS")
        .ok()
        .and_then(|given| given.parse().ok());
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut random = Random(0x7475_726e_6c61_6e65);
    let mut servers = Vec::new();
    for over in Over::ALL {
        servers.push(EchoServer::start(over).await);
    }
    let mut stdio = servers[0].client().await;
    let before = memory(&servers);
    let (mut rounds, mut messages) = (0, 0);
    while until.map_or(rounds < ROUNDS_DEFAULT, |until| Instant::now() < until) {
        rounds += 1;
        for server in &mut servers[1..] {
            let mut client = server.client().await;
            // A unix socket is told by the first byte that lines follow.
            client.call("echo", json!(0)).await.unwrap();
            messages += mutated_messages(&mut client, &mut random).await;
        }
        // Over stdio a line end inside a mutated message makes two of it, which is fine too.
        messages += mutated_messages(&mut stdio, &mut random).await;
        garbage_instead_of_http(servers[3].address(), &mut random).await;
        garbage_instead_of_frames(servers[3].address(), &mut random).await;
    }
    for server in &mut servers[1..] {
        let mut client = server.client().await;
        assert_eq!(
            client.call("echo", json!("alive")).await.unwrap()["result"],
            "alive"
        );
    }
    for (server, before) in servers.iter_mut().zip(before) {
        assert!(
            server.process.try_wait().unwrap().is_none(),
            "{:?} has ended",
            server.over
        );
        let stderr = server.process.stderr_tail();
        assert!(!stderr.contains("panicked"), "{stderr}");
        let grown = server
            .process
            .rss_peak_bytes()
            .unwrap()
            .saturating_sub(before);
        assert!(
            grown < MEMORY_BYTES_MAX,
            "{:?}: {} MiB",
            server.over,
            grown >> 20
        );
        let open = open_files(server);
        assert!(open < 40, "{:?}: {open} files are open", server.over);
    }
    #[expect(clippy::print_stderr, reason = "a figure, for those who look")]
    {
        eprintln!("{rounds} rounds, {messages} mutated messages");
    }
}

/// Sends bad messages, then shows that the connection still works.
async fn mutated_messages(client: &mut turnlane_testkit::TestClient, random: &mut Random) -> usize {
    let count = 50;
    for _ in 0..count {
        client.send_raw(random.mutated()).await.unwrap();
    }
    let marker = format!("marker {}", random.next());
    client
        .send(&json!({"id": marker, "method": "echo", "params": 1}))
        .await
        .unwrap();
    // A mutation may have left a number or a line open that swallows the first marker.
    let again = format!("again {}", random.next());
    client
        .send(&json!({"id": again, "method": "echo", "params": 2}))
        .await
        .unwrap();
    client
        .find("the marker", |message| message["id"] == again)
        .await
        .unwrap();
    count
}

async fn garbage_instead_of_http(address: &str, random: &mut Random) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let count = random.below(2000);
    let bytes = random.bytes(count);
    // The server may hang up in the middle.
    let _ = stream.write_all(&bytes).await;
    if random.below(2) == 0 {
        let _ = stream.shutdown().await;
        let _ = within("the end", DEADLINE, stream.read_to_end(&mut Vec::new()))
            .await
            .unwrap();
    }
}

async fn garbage_instead_of_frames(address: &str, random: &mut Random) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGVzdGtpdC0xNi1ieXRlcw==\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let count = random.below(4000);
    let mut bytes = random.bytes(count);
    if random.below(2) == 0 {
        // A plausible first byte and length, masked, so that the garbage gets further in.
        let start = [0x81, 0x80 | (random.next().to_le_bytes()[0] & 0x7F)];
        bytes.splice(..0, start);
    }
    let _ = stream.write_all(&bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    // Also to garbage the server says why it closes, and lets us read that.
    let end = within("the end", DEADLINE, stream.read_to_end(&mut answer)).await;
    end.unwrap().unwrap();
    assert!(
        answer.starts_with(b"HTTP/1.1 101 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

fn memory(servers: &[EchoServer]) -> Vec<u64> {
    servers
        .iter()
        .map(|server| server.process.rss_bytes().unwrap())
        .collect()
}

/// A connection that was not closed is a file that stays open.
fn open_files(server: &EchoServer) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.process.pid()))
        .unwrap()
        .count()
}
