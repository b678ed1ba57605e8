//! Frames, clients and engines that are not there.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use turnlane_testkit::wait::{DEADLINE, eventually, within};
use turnlane_testkit::{MOCK_KEY, MOCK_KEY_VARIABLE, MockModel, Reply, TestProcess};

use super::rig::{Rig, names, of};

#[tokio::test]
async fn pings_and_hostile_frames_are_answered_during_a_turn() {
    let rig = Rig::new();
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    member.message("m", "busy").await;
    member.event("MessageDelivered").await;
    let hostile: [(&[u8], &str, &str); 7] = [
        (b"", "frame", "the frame is empty"),
        (
            b"{x",
            "frame",
            "the frame is not JSON: key must be a string at line 1 column 2",
        ),
        (b"[]", "frame", "the frame is not an object"),
        (b"\xff\xfe", "frame", ""),
        (b"{\"cmd\":\"Dance\"}", "Dance", "unknown command"),
        (
            b"{\"cmd\":\"SendMessage\",\"from\":\"a\"}",
            "SendMessage",
            "missing field `body`",
        ),
        (b"{\"cmd\":7}", "frame", "field `cmd` must be a string"),
    ];
    for (frame, command, reason) in hostile {
        member.send_bytes(frame).await;
        let error = member.event("Error").await;
        assert_eq!(error["command"], command);
        assert!(
            error["reason"].as_str().unwrap().starts_with(reason),
            "{error}"
        );
    }
    let long = vec![b' '; 1_048_577];
    member.send_bytes(&long).await;
    let error = member.event("Error").await;
    assert_eq!(error["reason"], "frame of 1048577 bytes exceeds 1048576");
    let mut pongs = 0;
    for _ in 0..30 {
        for _ in 0..100 {
            member.send(json!({"cmd": "Ping"})).await;
        }
        for _ in 0..100 {
            let event = member.event("Pong").await;
            assert_eq!(event, json!({"event": "Pong"}));
            pongs += 1;
        }
    }
    assert_eq!(pongs, 3_000);
    rig.go();
    member.event("Completion").await;
    // A frame beyond all bounds ends the channel.
    member
        .channel
        .write_all(&u32::MAX.to_be_bytes())
        .await
        .unwrap();
    let events = member.rest().await;
    assert_eq!(names(&events), ["Error", "StateChanged", "Died"]);
    assert_eq!(member.exit().await.code(), Some(6));
}

#[tokio::test]
async fn an_engine_that_is_not_usable_refuses_until_it_is() {
    let model = MockModel::start().await.unwrap();
    let rig = Rig::new();
    rig.home.use_model(&model.base_url()).unwrap();
    let without_key: Vec<(String, String)> = rig.home.env();
    assert!(
        without_key
            .iter()
            .any(|(name, _)| name == MOCK_KEY_VARIABLE)
    );
    // An empty key is none; the file of keys is read again at each check.
    let mut member = rig.member_without(MOCK_KEY_VARIABLE, &["--agent-type", "native"]);
    let events = member.until("Ready").await;
    assert_eq!(names(&events), ["Error", "Ready"]);
    assert_eq!(events[0]["command"], "startup");
    assert_eq!(events[1]["engine_ok"], false);
    member.message("m", "hello").await;
    let failed = member.event("DeliveryFailed").await;
    assert_eq!(failed["code"], "engine_unavailable");
    assert_eq!(failed["retryable"], true);
    let keys = rig.home.turnlane().join("keys.env");
    std::fs::write(&keys, format!("{MOCK_KEY_VARIABLE}={MOCK_KEY}\n")).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&keys, private).unwrap();
    model.push(Reply::streamed(["fine", " now"]));
    member.message("m", "hello").await;
    let events = member.until("Completion").await;
    assert_eq!(events.last().unwrap()["response"], "fine now");
    assert_eq!(of(&events, "Error").len(), 0);
    member.shutdown().await;
}

/// A client of a shim's socket that speaks lines.
struct SocketClient {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl SocketClient {
    async fn connect(path: &std::path::Path) -> Self {
        eventually("the socket", DEADLINE, async || path.exists())
            .await
            .unwrap();
        let (reader, writer) = UnixStream::connect(path).await.unwrap().into_split();
        Self {
            lines: BufReader::new(reader).lines(),
            writer,
        }
    }

    async fn send(&mut self, command: Value) {
        let line = format!("{command}\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    async fn event(&mut self, name: &str) -> Value {
        loop {
            let event = self.next().await.unwrap();
            if event["event"] == name {
                return event;
            }
        }
    }

    /// The next event; none when the shim has closed the connection. The last line may be cut then.
    async fn next(&mut self) -> Option<Value> {
        let line = within("a line", DEADLINE, self.lines.next_line());
        let line = line.await.unwrap().ok()??;
        serde_json::from_str(&line).ok()
    }

    /// Waits until the shim is idle.
    async fn idle(&mut self) {
        loop {
            self.send(json!({"cmd": "GetState"})).await;
            if self.event("State").await["state"] == "idle" {
                return;
            }
        }
    }
}

/// A shim that serves a socket.
fn listening(rig: &Rig) -> (TestProcess, std::path::PathBuf) {
    let socket = rig.home.path().join("member.sock");
    let listen = format!("unix://{}", socket.display());
    let workspace = rig.home.workspace();
    let spec = crate::turnlane(&["shim", "--id", "eng-1", "--listen", &listen])
        .args(["--agent-type", "scripted", "--script", rig.script()])
        .args(["--cwd", workspace.to_str().unwrap()])
        .envs(rig.home.env())
        .current_dir(&workspace);
    (TestProcess::start(spec).unwrap(), socket)
}

#[tokio::test]
async fn a_client_that_stops_reading_slows_neither_the_lane_nor_the_others() {
    let text = "0123456789".repeat(40_000);
    let script = format!(
        "version: 1\nturns:\n  - match: \"\"\n    steps:\n      - say: {{text: \"{text}\", phase: final_answer}}\n"
    );
    let rig = Rig::with_script(&script);
    let (mut process, socket) = listening(&rig);
    let mut reads = SocketClient::connect(&socket).await;
    reads.idle().await;
    reads.send(json!({"cmd": "Hello", "version": 2})).await;
    reads.event("Welcome").await;
    let mut stuck = SocketClient::connect(&socket).await;
    stuck.send(json!({"cmd": "Hello", "version": 2})).await;
    let welcome = stuck.event("Welcome").await;
    // More than the outbox of a client and the buffers of its socket hold.
    let mut bytes = 0;
    let mut number = 0;
    while bytes < 12 * 1_048_576 {
        number += 1;
        let id = format!("m{number}");
        let message = json!({"cmd": "SendMessage", "from": "a", "body": "go", "message_id": id});
        reads.send(message).await;
        let completion = reads.event("Completion").await;
        assert_eq!(completion["message_id"], id);
        bytes += completion.to_string().len();
    }
    // The one that did not read was cut off; it comes back and is told to start over.
    let mut last = welcome["seq"].as_u64().unwrap();
    while let Some(event) = stuck.next().await {
        assert_eq!(event["seq"], last + 1, "a gap");
        last += 1;
    }
    let since = json!({"epoch": welcome["epoch"], "seq": last});
    let mut back = SocketClient::connect(&socket).await;
    back.send(json!({"cmd": "Hello", "version": 2, "since": since}))
        .await;
    back.event("Welcome").await;
    // It missed more than a client can be told at once.
    back.event("Resync").await;
    let message = json!({"cmd": "SendMessage", "from": "a", "body": "go", "message_id": "last"});
    back.send(message).await;
    assert_eq!(back.event("Completion").await["message_id"], "last");
    back.send(json!({"cmd": "Kill"})).await;
    assert_eq!(process.wait(DEADLINE).await.unwrap().code(), Some(0));
}

#[expect(
    clippy::too_many_lines,
    reason = "one story of two clients, told in its order"
)]
#[tokio::test]
async fn clients_of_a_socket_are_told_what_they_missed() {
    let rig = Rig::new();
    let (mut process, socket) = listening(&rig);
    let mut first = SocketClient::connect(&socket).await;
    let mode = std::fs::metadata(&socket).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&mode) & 0o777, 0o600);
    first.idle().await;
    first
        .send(json!({"cmd": "Hello", "version": 2, "client": "one"}))
        .await;
    let welcome = first.event("Welcome").await;
    let (epoch, seq) = (welcome["epoch"].clone(), welcome["seq"].as_u64().unwrap());
    drop(first);
    let mut second = SocketClient::connect(&socket).await;
    second.send(json!({"cmd": "Hello", "version": 2})).await;
    second.event("Welcome").await;
    let message = json!({"cmd": "SendMessage", "from": "a", "body": "hello", "message_id": "m",
                         "req": "7", "client_data": {"x": 1}});
    second.send(message).await;
    let ok = second.event("Ok").await;
    assert_eq!(
        (&ok["req"], &ok["client_data"]),
        (&json!("7"), &json!({"x": 1}))
    );
    let finished = second.event("TurnFinished").await;
    assert_eq!(finished["outcome"], "ok");
    // The one that comes back is told each event once, without a gap.
    let mut first = SocketClient::connect(&socket).await;
    let since = json!({"epoch": epoch, "seq": seq});
    first
        .send(json!({"cmd": "Hello", "version": 2, "since": since}))
        .await;
    first.event("Welcome").await;
    let mut expected = seq + 1;
    loop {
        let event = first.next().await.unwrap();
        assert_eq!(event["seq"], expected, "{event}");
        expected += 1;
        if event["event"] == "TurnFinished" {
            break;
        }
    }
    let since = json!({"epoch": "another", "seq": 1});
    first
        .send(json!({"cmd": "Hello", "version": 2, "since": since}))
        .await;
    first.event("Resync").await;
    // The queue in the words of v2.
    first.send(json!({"cmd": "Pause", "req": 1})).await;
    first.event("Ok").await;
    for id in ["a", "b", "c"] {
        let message =
            json!({"cmd": "SendMessage", "from": "x", "body": id, "message_id": id, "req": id});
        first.send(message).await;
        first.event("Ok").await;
    }
    first
        .send(json!({"cmd": "CancelMessage", "message_id": "b", "req": 2}))
        .await;
    first.event("Ok").await;
    first
        .send(json!({"cmd": "ReorderQueue", "ids": ["c", "a"], "req": 3}))
        .await;
    first.event("Ok").await;
    first
        .send(json!({"cmd": "CancelMessage", "message_id": "b", "req": 4}))
        .await;
    assert_eq!(first.event("Error").await["code"], "not_waiting");
    first.send(json!({"cmd": "ListQueue", "req": 5})).await;
    let queue = first.event("Ok").await["queue"].clone();
    let ids: Vec<&str> = queue
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["message_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["c", "a"]);
    first
        .send(json!({"cmd": "Steer", "body": "x", "req": 6}))
        .await;
    assert_eq!(first.event("Error").await["code"], "idle");
    first.send(json!({"cmd": "Resume", "req": 7})).await;
    assert_eq!(first.event("Completion").await["message_id"], "c");
    assert_eq!(first.event("Completion").await["message_id"], "a");
    first.send(json!({"cmd": "Kill"})).await;
    assert_eq!(process.wait(DEADLINE).await.unwrap().code(), Some(0));
    assert!(!socket.exists());
}
