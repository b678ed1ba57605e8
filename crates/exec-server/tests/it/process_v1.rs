//! `process.v1`: Codex's methods as recorded, and our extensions.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane_exec_server::server::{DialectChoice, Options};
use turnlane_testkit::wait::eventually;

use crate::support::{Got, Host, Wire, all_gone, base64, bytes_of, start_params};

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
async fn refusals_are_as_recorded() {
    let host = Host::start();
    let mut wire = host.v1().await;
    let start = |more: Value| start_params("a", "true", more);
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
            bad_params("networkProxy is not supported by this executor"),
        ),
        (
            start(json!({"enforceManagedNetwork": true})),
            bad_params("enforceManagedNetwork is not supported by this executor"),
        ),
        (
            start(json!({"shellSnapshot": {}})),
            bad_params("shellSnapshot is not supported by this executor"),
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
            (-32603, "No such file or directory (os error 2)".to_owned()),
        ),
        (
            start(json!({"cwd": "file:///nonexistent-dir"})),
            (-32603, "No such file or directory (os error 2)".to_owned()),
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
    let zz = |more: Value| {
        let mut params = json!({"processId": "zz"});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        params
    };
    assert_eq!(
        wire.ok(
            "process/write",
            zz(json!({"chunk": "eA==", "writeId": "1"}))
        )
        .await,
        json!({"status": "unknownProcess"})
    );
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
        ("process/read", json!({}), invalid("unknown process id zz")),
        (
            "process/resize",
            json!({"rows": 1, "cols": 1}),
            invalid("unknown process id zz"),
        ),
        (
            "process/resize",
            json!({"rows": 1, "cols": 10_001}),
            bad_params("rows and cols must be 1..10000"),
        ),
        ("process/wait", json!({}), invalid("unknown process id zz")),
        (
            "process/snapshot",
            json!({}),
            invalid("unknown process id zz"),
        ),
    ] {
        assert_eq!(wire.err(method, zz(more)).await, expected, "{method}");
    }
    let (code, text) = wire
        .err("process/signal", zz(json!({"signal": "boom"})))
        .await;
    assert_eq!(code, -32602);
    assert!(
        text.starts_with("unknown variant `boom`, expected one of "),
        "{text}"
    );
    let signal = zz(json!({"signal": "interrupt"}));
    assert_eq!(
        wire.ok("process/signal", signal).await,
        json!({"delivered": false})
    );
    assert_eq!(
        wire.ok("process/terminate", zz(json!({}))).await,
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
    eventually("the name", Duration::from_secs(5), again)
        .await
        .unwrap();
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

#[tokio::test(flavor = "multi_thread")]
async fn signals_reach_their_target_and_ends_are_told() {
    let host = Host::start();
    let mut wire = host.v1().await;
    wire.sh(
        "s",
        "trap 'exit 7' USR1; echo up; while :; do sleep 0.01; done",
        json!({}),
    )
    .await;
    wire.event().await;
    let usr1 = json!({"processId": "s", "signal": "usr1", "target": "leader"});
    assert_eq!(
        wire.ok("process/signal", usr1.clone()).await,
        json!({"delivered": true})
    );
    assert_eq!(wire.until_closed("s", 1).await.1, 7);
    assert_eq!(
        wire.ok("process/signal", usr1).await,
        json!({"delivered": false})
    );
    wire.sh(
        "g",
        "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.01; done",
        json!({}),
    )
    .await;
    wire.event().await;
    let graceful = json!({"processId": "g", "mode": {"type": "graceful", "timeoutMs": 20_000}});
    assert_eq!(
        wire.ok("process/terminate", graceful).await,
        json!({"running": true})
    );
    assert_eq!(wire.until_closed("g", 1).await, (b"bye\n".to_vec(), 5));
    wire.sh("t", "exec sleep 100", json!({"timeoutMs": 30}))
        .await;
    let exited = wire.event().await;
    assert_eq!(exited["params"]["exitCode"], 124);
    assert_eq!(exited["params"]["reason"], "timeout");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminate_after_the_exit_leaves_survivors_alone_unless_told() {
    let host = Host::start();
    let mut wire = host.v1().await;
    let script = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!";
    wire.sh("bg", script, json!({})).await;
    let (said, code) = wire.until_closed("bg", 0).await;
    assert_eq!(code, 0);
    let pid: i64 = String::from_utf8(said).unwrap().trim().parse().unwrap();
    assert_eq!(
        wire.ok("process/terminate", json!({"processId": "bg"}))
            .await,
        json!({"running": false})
    );
    assert!(crate::support::is_alive(pid));
    let list = wire.ok("process/list", json!({})).await;
    assert_eq!(list["processes"][0]["survivors"], 1);
    assert_eq!(list["processes"][0]["state"], "closed");
    let end = json!({"processId": "bg", "survivors": "end"});
    assert_eq!(
        wire.ok("process/terminate", end).await,
        json!({"running": false})
    );
    all_gone("the survivor", Duration::from_secs(1), &[pid]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_survivor_outlives_the_memory_of_its_leader_but_not_the_session() {
    let host = Host::start_with(Options {
        retain_after_close: Duration::from_millis(10),
        ..Options::default()
    });
    let mut wire = host.v1().await;
    let script = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!";
    wire.sh("bg", script, json!({})).await;
    let (said, _) = wire.until_closed("bg", 0).await;
    let pid: i64 = String::from_utf8(said).unwrap().trim().parse().unwrap();
    // The name is free again, so the leader is forgotten; what it left behind is not.
    let again = async || {
        let start = start_params("bg", "true", json!({}));
        wire.call("process/start", start)
            .await
            .get("error")
            .is_none()
    };
    eventually("the name", Duration::from_secs(5), again)
        .await
        .unwrap();
    assert!(crate::support::is_alive(pid));
    let list = wire.ok("process/list", json!({})).await;
    assert_eq!(list["processes"][0]["survivors"], 1, "{list}");
    let ended = wire.ok("session/end", json!({})).await;
    assert!(ended["ended"].as_u64().unwrap() <= 1, "{ended}");
    all_gone("the survivor", Duration::from_secs(1), &[pid]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_ended_ends_its_processes_and_its_connection() {
    let host = Host::start();
    let mut wire = host.ws().await;
    let session = wire.greet_v1().await;
    let started = wire.sh("a", "exec sleep 1000", json!({})).await;
    wire.sh("b", "exec sleep 1000", json!({"tty": true})).await;
    assert_eq!(wire.ok("session/end", json!({})).await, json!({"ended": 2}));
    while let Got::Text(_) = wire.got().await {}
    all_gone(
        "the leader",
        Duration::from_secs(1),
        &[started["pid"].as_i64().unwrap()],
    )
    .await;
    let resume = json!({"clientName": "x", "resumeSessionId": session});
    assert_eq!(
        host.ws().await.err("initialize", resume).await,
        invalid(&format!("unknown session id {session}"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_reads_and_lists_look_without_touching() {
    let host = Host::start();
    let mut wire = host.v1().await;
    let meta = json!({"metadata": {"toolCallId": "c1"}, "pipeStdin": true});
    wire.sh("w", "read x; printf %s \"$x\"; exit 4", meta).await;
    let soon = json!({"processId": "w", "timeoutMs": 10});
    let not_yet = wire.ok("process/wait", soon).await;
    assert_eq!(
        (&not_yet["done"], &not_yet["exitCode"]),
        (&json!(false), &Value::Null)
    );
    let list = wire.ok("process/list", json!({})).await;
    let listed = &list["processes"][0];
    assert_eq!(
        (
            &listed["state"],
            &listed["metadata"]["toolCallId"],
            &listed["cwd"]
        ),
        (&json!("running"), &json!("c1"), &json!("file:///tmp"))
    );
    let reading = wire.push_call("process/read", &json!({"processId": "w", "waitMs": 60_000}));
    let waiting = wire.push_call("process/wait", &json!({"processId": "w"}));
    let writing = wire.push_call(
        "process/write",
        &json!({"processId": "w", "chunk": base64(b"hey\n"), "writeId": "1"}),
    );
    wire.flush().await;
    let mut answers = std::collections::BTreeMap::new();
    for _ in 0..3 {
        let answer: Value = serde_json::from_str(&wire.answer_text().await).unwrap();
        answers.insert(answer["id"].as_i64().unwrap(), answer["result"].clone());
    }
    assert_eq!(answers[&writing], json!({"status": "accepted"}));
    assert_eq!(bytes_of(&answers[&reading]["chunks"][0]["chunk"]), b"hey");
    assert_eq!(
        (&answers[&waiting]["done"], &answers[&waiting]["exitCode"]),
        (&json!(true), &json!(4))
    );
    let picture = wire.ok("process/snapshot", json!({"processId": "w"})).await;
    assert_eq!(bytes_of(&picture["stdout"]), b"hey");
    assert_eq!(
        picture["streams"]["stdout"],
        json!({"headBytes": 3, "totalBytes": 3, "omittedBytes": 0})
    );
    // None of that consumed anything.
    assert_eq!(wire.until_closed("w", 0).await, (b"hey".to_vec(), 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_terminated_while_it_starts_never_was() {
    let host = Host::start();
    let mut wire = host.v1().await;
    for round in 0..50 {
        let id = format!("p{round}");
        let start = wire.push_call(
            "process/start",
            &start_params(&id, "exec sleep 1000", json!({})),
        );
        let end = wire.push_call("process/terminate", &json!({"processId": id}));
        wire.flush().await;
        let mut answers = std::collections::BTreeMap::new();
        for _ in 0..2 {
            let answer: Value = serde_json::from_str(&wire.answer_text().await).unwrap();
            answers.insert(answer["id"].as_i64().unwrap(), answer);
        }
        assert_eq!(answers[&end]["result"], json!({"running": true}));
        if answers[&start].get("error").is_some() {
            let text = format!("process {id} start was cancelled");
            assert_eq!(answers[&start]["error"]["message"], text);
        } else {
            assert_eq!(wire.until_closed(&id, 0).await.1, 137);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_and_switches_are_obeyed() {
    let host = Host::start_with(Options {
        processes_per_connection_max: 2,
        ..Options::default()
    });
    let mut wire = host.v1().await;
    wire.sh("a", "exec sleep 100", json!({})).await;
    wire.sh("b", "true", json!({})).await;
    wire.until_closed("b", 0).await;
    wire.sh("c", "exec sleep 100", json!({})).await;
    assert_eq!(
        wire.err("process/start", start_params("d", "true", json!({})))
            .await,
        (-32001, "process limit reached".to_owned())
    );
    let host = Host::start_with(Options {
        allow_direct_exec: false,
        ..Options::default()
    });
    assert_eq!(
        host.v1()
            .await
            .err("process/start", start_params("d", "true", json!({})))
            .await,
        invalid("direct exec is disabled on this server")
    );
    let host = Host::start_with(Options {
        allow_prepared_exec: false,
        ..Options::default()
    });
    let sandboxed = start_params("d", "true", json!({"sandbox": {"permissions": null}}));
    assert_eq!(
        host.v1().await.err("process/start", sandboxed).await,
        invalid("prepared exec is disabled on this server")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandboxed_process_is_confined_or_refused_and_its_failure_hinted_at() {
    let host = Host::start();
    let mut wire = host.v1().await;
    let entries = json!([
        {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
    ]);
    let permissions = json!({
        "type": "managed",
        "file_system": {"type": "restricted", "entries": entries},
        "network": "restricted",
    });
    let sandbox = json!({"sandbox": {"permissions": permissions, "cwd": "file:///tmp"}});
    let start = start_params("s", "echo x > /tmp/turnlane-exec-denied", sandbox);
    let answer = wire.call("process/start", start).await;
    if let Some(error) = answer.get("error") {
        let text = error["message"].as_str().unwrap();
        assert!(
            text.starts_with("sandbox intent cannot be enforced on this executor: "),
            "{text}"
        );
        return;
    }
    assert_eq!(answer["result"]["sandboxType"], "linuxSeccomp");
    loop {
        let event = wire.event().await;
        if event["method"] == "process/exited" {
            assert_ne!(event["params"]["exitCode"], 0);
            assert_eq!(event["params"]["sandboxDenied"], true);
            break;
        }
    }
    let unknown = json!({"sandbox": {"permissions": {"type": "magic"}}});
    let (code, text) = wire
        .err("process/start", start_params("u", "true", unknown))
        .await;
    assert_eq!(code, -32602);
    assert!(
        text.starts_with("sandbox intent cannot be enforced on this executor: "),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_answered_on_the_same_connection() {
    let host = Host::start();
    let mut wire = host.v1().await;
    let folder = tempfile::tempdir().unwrap();
    let path = format!("file://{}/a.txt", folder.path().display());
    let file = json!({"path": path, "dataBase64": "YWJj", "sandbox": null});
    assert_eq!(wire.ok("fs/writeFile", file).await, json!({}));
    assert_eq!(
        wire.ok("fs/readFile", json!({"path": path, "sandbox": null}))
            .await,
        json!({"dataBase64": "YWJj"})
    );
    let missing = json!({"path": "file:///nonexistent/x", "sandbox": null});
    assert_eq!(
        wire.err("fs/readFile", missing).await,
        (-32004, "No such file or directory (os error 2)".to_owned())
    );
}
