//! `process.v1`: Codex's methods as recorded, and our extensions.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane_exec_server::server::{DialectChoice, Options};
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{Got, Host, Wire, base64, bytes_of, start_params};

fn invalid(message: &str) -> (i64, String) {
    (-32600, message.to_owned())
}

fn bad_params(message: &str) -> (i64, String) {
    (-32602, message.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handshake_is_as_recorded() {
    let host = Host::start();
    let mut wire = host.ws().await;
    let start = start_params("p", "true", json!({}));
    assert_eq!(
        wire.err("process/start", start.clone()).await,
        invalid("client must call initialize before using exec methods")
    );
    assert_eq!(
        wire.err("environment/info", json!({})).await,
        invalid("client must call initialize before using environment info methods")
    );
    let resume = json!({"clientName": "x", "resumeSessionId": "nope"});
    assert_eq!(
        wire.err("initialize", resume).await,
        invalid("unknown session id nope")
    );
    let greeting = json!({"clientName": "x", "resumeSessionId": null});
    let greeted = wire.ok("initialize", greeting.clone()).await;
    assert_eq!(greeted["protocolVersion"], "process.v1");
    let about = &greeted["environmentInfo"];
    assert_eq!(about["platformOs"], "linux");
    assert_eq!(
        about["capabilities"],
        json!({"sandboxedFileStreaming": true})
    );
    assert_eq!(about["turnlane"]["extensions"].as_array().unwrap().len(), 8);
    assert_eq!(
        wire.err("process/start", start.clone()).await,
        invalid("client must send initialized before using exec methods")
    );
    assert_eq!(
        wire.err("initialize", greeting).await,
        invalid("initialize may only be sent once per connection")
    );
    wire.send(r#"{"method":"initialized"}"#).await;
    assert_eq!(wire.ok("environment/info", Value::Null).await, *about);
    assert_eq!(
        wire.ok("environment/status", json!({})).await,
        json!({"status": "ready"})
    );
    assert_eq!(
        wire.ok("capabilityRoots/discoverV1", json!({"roots": []}))
            .await,
        json!({"roots": []})
    );
    assert_eq!(
        wire.err("command/exec", json!({})).await,
        (
            -32601,
            "exec-server stub does not implement `command/exec` yet".to_owned()
        )
    );
    wire.sh("p", "true", json!({})).await;
    assert_eq!(wire.until_closed("p", 0).await, (Vec::new(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_are_refused_as_recorded() {
    let host = Host::start();
    let mut wire = host.v1().await;
    let start = |more: Value| start_params("a", "true", more);
    let not_supported =
        |name: &str| bad_params(&format!("{name} is not supported by this executor"));
    let no_such_file = || (-32603, "No such file or directory (os error 2)".to_owned());
    let cases = [
        (
            json!({"processId": "a"}),
            bad_params("missing field `argv`"),
        ),
        (
            start(json!({"argv": []})),
            bad_params("argv must not be empty"),
        ),
        (
            start(json!({"cwd": "/tmp"})),
            bad_params("invalid URI: relative URL without a base"),
        ),
        (
            start(json!({"networkProxy": {}})),
            not_supported("networkProxy"),
        ),
        (
            start(json!({"enforceManagedNetwork": true})),
            not_supported("enforceManagedNetwork"),
        ),
        (
            start(json!({"shellSnapshot": {}})),
            not_supported("shellSnapshot"),
        ),
        (
            start(json!({"tty": true, "size": {"rows": 0, "cols": 80}})),
            bad_params("rows and cols must be 1..10000"),
        ),
        (
            start(json!({"processId": "x".repeat(257)})),
            bad_params("processId must not exceed 256 bytes"),
        ),
        (
            start(json!({"argv": ["no-such-program-x"]})),
            no_such_file(),
        ),
        (
            start(json!({"cwd": "file:///nonexistent-dir"})),
            no_such_file(),
        ),
        (
            start(json!({"argv": ["printf", "a\u{0}b"]})),
            (-32603, "nul byte found in provided data".to_owned()),
        ),
    ];
    for (params, expected) in cases {
        assert_eq!(
            wire.err("process/start", params.clone()).await,
            expected,
            "{params}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_about_nothing_are_refused_as_recorded() {
    let host = Host::start();
    let mut wire = host.v1().await;
    let zz = |more: Value| {
        let mut params = json!({"processId": "zz"});
        let members = params.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        params
    };
    let unknown = || invalid("unknown process id zz");
    let written = zz(json!({"chunk": "eA==", "writeId": "1"}));
    assert_eq!(
        wire.ok("process/write", written).await,
        json!({"status": "unknownProcess"})
    );
    let size = |cols: u32| json!({"rows": 1, "cols": cols});
    for (method, more, expected) in [
        (
            "process/write",
            json!({"chunk": "eA=="}),
            bad_params("missing field `writeId`"),
        ),
        (
            "process/write",
            json!({"chunk": "!!!", "writeId": "1"}),
            bad_params("Invalid symbol 33, offset 0."),
        ),
        (
            "process/write",
            json!({"chunk": "", "writeId": ""}),
            bad_params("writeId must not be empty"),
        ),
        ("process/read", json!({}), unknown()),
        ("process/resize", size(1), unknown()),
        (
            "process/resize",
            size(10_001),
            bad_params("rows and cols must be 1..10000"),
        ),
        ("process/wait", json!({}), unknown()),
        ("process/snapshot", json!({}), unknown()),
    ] {
        assert_eq!(wire.err(method, zz(more)).await, expected, "{method}");
    }
    let (code, text) = wire
        .err("process/signal", zz(json!({"signal": "boom"})))
        .await;
    assert_eq!(code, -32602);
    let expected = "unknown variant `boom`, expected one of ";
    assert!(text.starts_with(expected), "{text}");
    let signal = zz(json!({"signal": "interrupt"}));
    assert_eq!(
        wire.ok("process/signal", signal).await,
        json!({"delivered": false})
    );
    let end = zz(json!({}));
    assert_eq!(
        wire.ok("process/terminate", end).await,
        json!({"running": false})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_answered_without_an_id() {
    let host = Host::start_with(Options {
        dialect: DialectChoice::Process,
        ..Options::default()
    });
    let mut wire = host.ws().await;
    for bad in [
        "not json",
        "[]",
        "{}",
        r#"{"id":1.5,"method":"x"}"#,
        &"[".repeat(200),
    ] {
        let answer: Value = serde_json::from_str(&wire.ask(bad).await).unwrap();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(-1), &json!(-32600))
        );
        let text = answer["error"]["message"].as_str().unwrap();
        let start =
            "failed to parse websocket JSON-RPC message from exec-server websocket 127.0.0.1:";
        assert!(text.starts_with(start), "{text}");
    }
    wire.greet(json!({"clientName": "only that"})).await;
    wire.send(r#"{"method":"foo/bar","params":{}}"#).await;
    assert_eq!(wire.got().await, Got::Closed(Some(1002)));
    let mut lines = host.stdio();
    let answer: Value = serde_json::from_str(&lines.ask("oops").await).unwrap();
    assert_eq!(
        answer["error"]["message"],
        "failed to parse JSON-RPC message from exec-server stdio: expected value at line 1 column 1"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn output_exit_and_reads_are_as_recorded() {
    let host = Host::start();
    let mut wire = host.v1().await;
    let started = wire
        .sh("p1", "echo out; echo err >&2; exit 3", json!({}))
        .await;
    assert_eq!(
        (&started["processId"], &started["sandboxType"]),
        (&json!("p1"), &json!("none"))
    );
    assert!(started["pid"].as_i64().unwrap() > 1);
    let (mut output, code) = wire.until_closed("p1", 0).await;
    output.sort_unstable();
    assert_eq!((output.len(), code), ("out\nerr\n".len(), 3));
    let read = |more: Value| {
        let mut params = json!({"processId": "p1"});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        params
    };
    let page = json!({"afterSeq": null, "maxBytes": 65536, "waitMs": 0});
    let all = wire.ok("process/read", read(page)).await;
    assert_eq!(all["chunks"].as_array().unwrap().len(), 2);
    assert_eq!(
        (
            &all["nextSeq"],
            &all["exited"],
            &all["exitCode"],
            &all["closed"]
        ),
        (&json!(3), &json!(true), &json!(3), &json!(true))
    );
    assert_eq!(
        (&all["failure"], &all["sandboxDenied"]),
        (&Value::Null, &json!(false))
    );
    assert_eq!(wire.ok("process/read", read(json!({}))).await["nextSeq"], 5);
    let rest = json!({"afterSeq": 2, "maxBytes": 1, "waitMs": 100});
    let rest = wire.ok("process/read", read(rest)).await;
    assert_eq!((&rest["chunks"], &rest["nextSeq"]), (&json!([]), &json!(5)));
    let one = wire.ok("process/read", read(json!({"maxBytes": 1}))).await;
    assert_eq!(
        (one["chunks"].as_array().unwrap().len(), &one["nextSeq"]),
        (1, &json!(2))
    );
    assert_eq!(
        wire.err("process/start", start_params("p1", "true", json!({})))
            .await,
        invalid("process p1 already exists")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_free_again_some_time_after_the_close() {
    let host = Host::start_with(Options {
        retain_after_close: Duration::from_millis(20),
        ..Options::default()
    });
    let mut wire = host.v1().await;
    wire.sh("p", "true", json!({})).await;
    wire.until_closed("p", 0).await;
    let again = async || {
        let start = start_params("p", "true", json!({}));
        wire.call("process/start", start)
            .await
            .get("error")
            .is_none()
    };
    eventually("the name", DEADLINE, again).await.unwrap();
}

async fn write(wire: &mut Wire, id: &str, bytes: &[u8], write_id: &str) -> Value {
    let params = json!({"processId": id, "chunk": base64(bytes), "writeId": write_id});
    wire.ok("process/write", params).await["status"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_write_id_is_written_once() {
    let host = Host::start();
    let mut wire = host.v1().await;
    wire.sh("cat", "exec cat", json!({"pipeStdin": true})).await;
    assert_eq!(write(&mut wire, "cat", b"hello\n", "w1").await, "accepted");
    assert_eq!(write(&mut wire, "cat", b"hello\n", "w1").await, "accepted");
    assert_eq!(write(&mut wire, "cat", b"", "w2").await, "accepted");
    assert_eq!(write(&mut wire, "cat", b"bye\n", "w3").await, "accepted");
    assert_eq!(
        wire.ok("process/closeStdin", json!({"processId": "cat"}))
            .await,
        json!({"status": "accepted"})
    );
    assert_eq!(
        wire.until_closed("cat", 0).await,
        (b"hello\nbye\n".to_vec(), 0)
    );
    assert_eq!(write(&mut wire, "cat", b"x", "w4").await, "stdinClosed");
    wire.sh("deaf", "exec sleep 100", json!({})).await;
    assert_eq!(write(&mut wire, "deaf", b"x", "w").await, "stdinClosed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_echoes_resizes_and_takes_control_characters() {
    let host = Host::start();
    let mut wire = host.v1().await;
    let size = json!({"tty": true, "size": {"rows": 7, "cols": 33}});
    wire.sh("t", "stty size; read x; stty size; exec cat", size)
        .await;
    let told = async |wire: &mut Wire, until: &str| {
        let mut seen = String::new();
        while !seen.contains(until) {
            let event = wire.event().await;
            assert_eq!(event["params"]["stream"], "pty");
            seen.push_str(&String::from_utf8(bytes_of(&event["params"]["chunk"])).unwrap());
        }
    };
    told(&mut wire, "7 33\r\n").await;
    let resize = json!({"processId": "t", "rows": 50, "cols": 132});
    assert_eq!(wire.ok("process/resize", resize).await, json!({}));
    assert_eq!(write(&mut wire, "t", b"\n", "1").await, "accepted");
    told(&mut wire, "50 132\r\n").await;
    assert_eq!(
        wire.err("process/closeStdin", json!({"processId": "t"}))
            .await,
        invalid("stdin of a terminal cannot be closed")
    );
    let picture = wire.ok("process/snapshot", json!({"processId": "t"})).await;
    assert_eq!(picture["size"], json!({"rows": 50, "cols": 132}));
    assert_eq!(write(&mut wire, "t", b"\x03", "2").await, "accepted");
    let ended = wire
        .ok("process/wait", json!({"processId": "t", "until": "closed"}))
        .await;
    assert_eq!(
        (&ended["done"], &ended["exitCode"], &ended["closed"]),
        (&json!(true), &json!(130), &json!(true))
    );
    wire.sh("pipe", "exec sleep 100", json!({})).await;
    let resize = json!({"processId": "pipe", "rows": 5, "cols": 5});
    assert_eq!(
        wire.err("process/resize", resize).await,
        invalid("process pipe has no terminal")
    );
}
