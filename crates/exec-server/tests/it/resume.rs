//! A connection is lost and another one goes on: nothing is lost, nothing is told twice.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use turnlane_exec_server::server::{Options, Server};
use turnlane_rpc::connect::{self, connect_unix_lines};
use turnlane_rpc::listen::Listener;
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use crate::support::{Got, Host, Random, Wire, base64, bytes_of, in_full, service};

/// Something between client and server that can be cut, or go silent, at any moment.
struct Cable {
    url: String,
    cut: tokio_util::sync::CancellationToken,
}

/// How much may be on its way: what a client has not read when a connection is lost is gone for it.
const ON_THE_WAY_BYTES: u32 = 16 * 1024;

impl Cable {
    async fn to(host: &Host) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let server = host.url.trim_start_matches("ws://").parse().unwrap();
        let cut = tokio_util::sync::CancellationToken::new();
        let token = cut.clone();
        tokio::spawn(async move {
            let (client, _) = listener.accept().await.unwrap();
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_recv_buffer_size(ON_THE_WAY_BYTES).unwrap();
            let server = socket.connect(server).await.unwrap();
            let carried = carry(client, server);
            tokio::select! {
                () = token.cancelled() => {}
                () = carried => {}
            }
        });
        Self { url, cut }
    }
}

/// Carries bytes both ways, in small pieces so that little is under way.
async fn carry(client: TcpStream, server: TcpStream) {
    client.set_nodelay(true).unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = tokio::io::copy(&mut from_client, &mut to_server);
    let down = async {
        let mut buffer = vec![0; 4 * 1024];
        while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
            if to_client.write_all(&buffer[..count]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        _ = up => {}
        () = down => {}
    }
}

/// What a client has of the output of a process.
#[derive(Default)]
struct Received {
    bytes: Vec<u8>,
    last: u64,
    closed: bool,
}

impl Received {
    fn take(&mut self, event: &Value) {
        let params = &event["params"];
        assert_eq!(
            params["seq"],
            self.last + 1,
            "numbers are dense: {}",
            event["method"]
        );
        self.last += 1;
        match event["method"].as_str().unwrap() {
            "process/output" => self.bytes.extend(bytes_of(&params["chunk"])),
            "process/closed" => self.closed = true,
            other => assert_eq!(other, "process/exited"),
        }
    }

    /// Catches up by a read, as a client that comes back does.
    async fn catch_up(&mut self, wire: &mut Wire, id: &str) {
        let page = json!({"processId": id, "afterSeq": self.last, "maxBytes": null, "waitMs": 0});
        let page = wire.ok("process/read", page).await;
        assert_eq!(
            page["truncated"], false,
            "something was lost after {}",
            self.last
        );
        for chunk in page["chunks"].as_array().unwrap() {
            assert_eq!(chunk["seq"], self.last + 1);
            self.last += 1;
            self.bytes.extend(bytes_of(&chunk["chunk"]));
        }
        self.last = page["nextSeq"].as_u64().unwrap() - 1;
        self.closed = page["closed"].as_bool().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_complete_whenever_the_connection_was_lost() {
    // Numbered lines: whatever is missing, doubled or displaced shows.
    let (rounds, lines) = if in_full() {
        (100, 6_500_000)
    } else {
        (6, 1_400_000)
    };
    let host = Host::start();
    let mut random = Random(0x5eed);
    let mut expected = String::new();
    for number in 1..=lines {
        expected.push_str(&number.to_string());
        expected.push('\n');
    }
    for round in 0..rounds {
        let cable = Cable::to(&host).await;
        let mut wire = Wire::ws(&cable.url).await;
        let session = wire.greet_v1().await;
        let id = format!("p{round}");
        wire.sh(&id, &format!("seq 1 {lines}"), json!({})).await;
        let mut received = Received::default();
        let cut_at = random.below(expected.len());
        while received.bytes.len() < cut_at {
            received.take(&wire.event().await);
        }
        cable.cut.cancel();
        // What was under way may still arrive.
        while let Got::Text(text) = wire.got().await {
            received.take(&serde_json::from_str(&text).unwrap());
        }
        let mut wire = resumed(&host, &session).await;
        received.catch_up(&mut wire, &id).await;
        while !received.closed {
            received.take(&wire.event().await);
        }
        assert!(
            received.bytes == expected.as_bytes(),
            "round {round}: bytes differ"
        );
        wire.ok("session/end", json!({})).await;
    }
}

/// A new connection to the session, as soon as the server knows that the old one is gone.
async fn resumed(host: &Host, session: &str) -> Wire {
    let back = async {
        loop {
            let mut wire = host.ws().await;
            let params = json!({"clientName": "test", "resumeSessionId": session});
            let answer = wire.call("initialize", params).await;
            if answer.get("result").is_some() {
                assert_eq!(answer["result"]["sessionId"], session);
                wire.send(r#"{"method":"initialized","params":{}}"#).await;
                return wire;
            }
            assert_eq!(answer["error"]["code"], -32010, "{answer}");
        }
    };
    within("the session", DEADLINE, back).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_sent_before_and_after_the_loss_is_written_once() {
    let host = Host::start();
    let mut wire = host.ws().await;
    let session = wire.greet_v1().await;
    wire.sh("cat", "exec cat", json!({"pipeStdin": true})).await;
    let write = |id: &str, text: &str| json!({"processId": "cat", "chunk": base64(text.as_bytes()), "writeId": id});
    wire.ok("process/write", write("w1", "one ")).await;
    // Sent, and the answer never read.
    wire.push_call("process/write", &write("w2", "two "));
    wire.flush().await;
    drop(wire);
    let mut wire = resumed(&host, &session).await;
    for (id, text) in [("w1", "one "), ("w2", "two "), ("w3", "three")] {
        assert_eq!(
            wire.ok("process/write", write(id, text)).await,
            json!({"status": "accepted"})
        );
    }
    wire.ok("process/closeStdin", json!({"processId": "cat"}))
        .await;
    wire.ok(
        "process/wait",
        json!({"processId": "cat", "until": "closed"}),
    )
    .await;
    let mut received = Received::default();
    received.catch_up(&mut wire, "cat").await;
    assert_eq!(received.bytes, b"one two three");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_write_of_a_lost_connection_is_repeated_without_doubling() {
    let host = Host::start();
    let mut wire = host.ws().await;
    let session = wire.greet_v1().await;
    // It starts to read when it is told to.
    let script = "trap 'exec cat' USR1; while :; do sleep 0.01; done";
    wire.sh("cat", script, json!({"pipeStdin": true})).await;
    let chunks: Vec<Vec<u8>> = (0..8_u8).map(|n| vec![b'a' + n; 300 * 1024]).collect();
    let write = |number: usize| {
        let id = format!("w{number}");
        json!({"processId": "cat", "chunk": base64(&chunks[number]), "writeId": id})
    };
    for number in 0..chunks.len() {
        wire.push_call("process/write", &write(number));
    }
    wire.flush().await;
    for _ in 0..3 {
        wire.answer_text().await;
    }
    drop(wire);
    let mut wire = resumed(&host, &session).await;
    for number in 0..chunks.len() {
        wire.push_call("process/write", &write(number));
    }
    wire.push_call("process/closeStdin", &json!({"processId": "cat"}));
    wire.push_call(
        "process/signal",
        &json!({"processId": "cat", "signal": "usr1", "target": "leader"}),
    );
    wire.flush().await;
    for _ in 0..chunks.len() + 2 {
        let answer: Value = serde_json::from_str(&wire.answer_text().await).unwrap();
        assert!(answer.get("error").is_none(), "{answer}");
    }
    let (output, _) = wire.until_closed("cat", 0).await;
    assert!(output == chunks.concat(), "{} bytes", output.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn live_events_go_on_where_the_first_read_ended() {
    let host = Host::start();
    let mut wire = host.ws().await;
    let session = wire.greet_v1().await;
    let script = "echo 1; read x; echo 2; read x; echo 3";
    wire.sh("p", script, json!({"pipeStdin": true})).await;
    let mut received = Received::default();
    received.take(&wire.event().await);
    drop(wire);
    let mut wire = resumed(&host, &session).await;
    let line = |id: &str| json!({"processId": "p", "chunk": base64(b"\n"), "writeId": id});
    wire.ok("process/write", line("a")).await;
    // Told by the read and not again: events are held until it was answered.
    let page = json!({"processId": "p", "afterSeq": 1, "waitMs": 60_000});
    let page = wire.ok("process/read", page).await;
    assert_eq!(
        (&page["chunks"][0]["seq"], &page["nextSeq"]),
        (&json!(2), &json!(3))
    );
    wire.ok("process/write", line("b")).await;
    assert_eq!(wire.until_closed("p", 2).await, (b"3\n".to_vec(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn live_events_go_on_by_themselves_if_nobody_reads() {
    let host = Host::start();
    let mut wire = host.ws().await;
    let session = wire.greet_v1().await;
    wire.sh("p", "echo 1; read x; echo 2", json!({"pipeStdin": true}))
        .await;
    wire.event().await;
    drop(wire);
    let mut wire = resumed(&host, &session).await;
    let line = json!({"processId": "p", "chunk": base64(b"\n"), "writeId": "a"});
    wire.ok("process/write", line).await;
    assert_eq!(wire.until_closed("p", 1).await, (b"2\n".to_vec(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detached_child_is_stalled_and_loses_nothing() {
    let host = Host::start();
    let mut wire = host.ws().await;
    let session = wire.greet_v1().await;
    drop(wire);
    let mut wire = resumed(&host, &session).await;
    wire.sh(
        "p",
        "sleep 0.2; head -c 10000000 /dev/zero | tr '\\0' x",
        json!({}),
    )
    .await;
    drop(wire);
    let stalled = "turnlane_exec_stalled_processes 1";
    let is_stalled = async || host.server.metrics().contains(stalled);
    eventually("the stall", DEADLINE, is_stalled).await.unwrap();
    let mut wire = resumed(&host, &session).await;
    let (output, code) = wire.until_closed("p", 0).await;
    assert_eq!((output.len(), code), (10_000_000, 0));
    assert!(output.iter().all(|&byte| byte == b'x'));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exited_while_nobody_was_there_can_be_read() {
    let host = Host::start();
    let mut wire = host.ws().await;
    let session = wire.greet_v1().await;
    wire.sh("p", "read x; echo done; exit 9", json!({"pipeStdin": true}))
        .await;
    wire.push_call("process/closeStdin", &json!({"processId": "p"}));
    wire.flush().await;
    wire.answer_text().await;
    drop(wire);
    let mut wire = resumed(&host, &session).await;
    wire.ok("process/wait", json!({"processId": "p", "until": "closed"}))
        .await;
    let page = wire.ok("process/read", json!({"processId": "p"})).await;
    assert_eq!(bytes_of(&page["chunks"][0]["chunk"]), b"done\n");
    assert_eq!(
        (&page["exitCode"], &page["closed"]),
        (&json!(9), &json!(true))
    );
}

/// A client whose machine is gone: it neither reads nor answers nor closes.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_connection_gives_its_session_up() {
    let host = Host::start();
    let mut gone = host.ws().await;
    let session = gone.greet_v1().await;
    gone.sh("p", "exec sleep 1000", json!({})).await;
    // Nobody reads on `gone`, so no ping is ever answered.
    let _wire = resumed(&host, &session).await;
    drop(gone);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_shows_signs_of_life_keeps_its_session() {
    let host = Host::start();
    let mut first = host.ws().await;
    let session = first.greet_v1().await;
    let mut second = host.ws().await;
    let params = json!({"clientName": "test", "resumeSessionId": session});
    let alive = async {
        loop {
            if let Got::Closed(code) = first.got().await {
                panic!("the first connection was closed with {code:?}");
            }
        }
    };
    let wants = async {
        for _ in 0..3 {
            let answer = second.call("initialize", params.clone()).await;
            assert_eq!(answer["error"]["code"], -32010);
            let text = format!("session {session} is already attached to another connection");
            assert_eq!(answer["error"]["message"], text);
            // Longer than a connection without life would have.
            let silence = tokio::time::timeout(Duration::from_millis(1200), second.got()).await;
            assert!(silence.is_err(), "nothing comes");
        }
    };
    tokio::select! {
        () = alive => {}
        () = wants => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unix_socket_carries_lines_and_sessions_that_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let options = Options::default();
    let listener = Listener::bind_unix(&path, options.listen()).await.unwrap();
    let server = Server::new(service(), options);
    let shutdown = tokio_util::sync::CancellationToken::new();
    let listening = tokio::spawn({
        let (server, shutdown) = (server.clone(), shutdown.clone());
        async move { server.run_listener(listener, shutdown).await }
    });
    let connect = async || {
        let options = connect::Options::default();
        Wire::new(connect_unix_lines(&path, &options).await.unwrap())
    };
    let mut wire = connect().await;
    let session = wire.greet_v1().await;
    wire.sh("p", "echo 1; read x; echo 2", json!({"pipeStdin": true}))
        .await;
    wire.event().await;
    drop(wire);
    let params = json!({"clientName": "test", "resumeSessionId": session});
    let back = async {
        loop {
            let mut wire = connect().await;
            if wire
                .call("initialize", params.clone())
                .await
                .get("result")
                .is_some()
            {
                return wire;
            }
        }
    };
    let mut wire = within("the session", DEADLINE, back).await.unwrap();
    wire.send(r#"{"method":"initialized"}"#).await;
    let page = wire.ok("process/read", json!({"processId": "p"})).await;
    assert_eq!(bytes_of(&page["chunks"][0]["chunk"]), b"1\n");
    wire.ok("process/closeStdin", json!({"processId": "p"}))
        .await;
    assert_eq!(wire.until_closed("p", 1).await, (b"2\n".to_vec(), 0));
    shutdown.cancel();
    server.stop().await;
    listening.await.unwrap();
    assert_eq!(wire.got().await, Got::Closed(None));
}
