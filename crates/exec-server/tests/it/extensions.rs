//! Our extensions of Codex's methods, and what they promise: ends, survivors, sessions, limits.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use turnlane_exec_server::server::Options;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{Got, Host, SOON, all_gone, base64, bytes_of, is_alive, start_params};

fn invalid(message: &str) -> (i64, String) {
    (-32600, message.to_owned())
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
    let (said, code) = wire.until_closed("g", 1).await;
    // The shell may also tell that its own child was terminated.
    assert!(said.ends_with(b"bye\n"));
    assert_eq!(code, 5);
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
    assert!(is_alive(pid));
    let list = wire.ok("process/list", json!({})).await;
    assert_eq!(list["processes"][0]["survivors"], 1);
    assert_eq!(list["processes"][0]["state"], "closed");
    let end = json!({"processId": "bg", "survivors": "end"});
    assert_eq!(
        wire.ok("process/terminate", end).await,
        json!({"running": false})
    );
    all_gone("the survivor", SOON, &[pid]).await;
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
    eventually("the name", DEADLINE, again).await.unwrap();
    assert!(is_alive(pid));
    let list = wire.ok("process/list", json!({})).await;
    assert_eq!(list["processes"][0]["survivors"], 1, "{list}");
    let ended = wire.ok("session/end", json!({})).await;
    assert!(ended["ended"].as_u64().unwrap() <= 1, "{ended}");
    all_gone("the survivor", SOON, &[pid]).await;
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
    all_gone("the leader", SOON, &[started["pid"].as_i64().unwrap()]).await;
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
    let mut answers = BTreeMap::new();
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
        let mut answers = BTreeMap::new();
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
    // A sandbox that confines nothing is direct exec under another name.
    for permissions in [
        json!(null),
        json!({"type": "disabled"}),
        json!({"type": "external", "network": "enabled"}),
        json!({"type": "managed", "file_system": {"type": "unrestricted"}, "network": "enabled"}),
    ] {
        let intent = json!({"sandbox": {"permissions": permissions}});
        let start = start_params("d", "true", intent.clone());
        assert_eq!(
            host.v1().await.err("process/start", start).await,
            invalid("direct exec is disabled on this server"),
            "{intent}"
        );
    }
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
