//! `command/exec` and `process/*` on every transport: confined unless somebody says otherwise, and
//! gone with the connection that started them.

use std::path::Path;

use serde_json::{Value, json};
use turnlane_testkit::TestClient;
use turnlane_testkit::mock_model::Reply;
use turnlane_testkit::wait::DEADLINE;

use super::ends::{is_alive, pid_in, until_dead};
use super::{Served, ok};

async fn shell(client: &mut TestClient, work: &Path, script: &str, more: Value) -> Value {
    let mut params = json!({"command": ["sh", "-c", script], "cwd": work});
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    ok(client, "command/exec", params).await
}

/// What holds for whoever calls, over whatever.
async fn check(client: &mut TestClient, served: &Served, name: &str) {
    let work = served.work();
    let answer = shell(client, &work, "echo out; echo err >&2; exit 3", json!({})).await;
    let expected = json!({"exitCode": 3, "stdout": "out\n", "stderr": "err\n"});
    assert_eq!(answer, expected, "{name}");

    // Nothing is configured, so nothing may be written.
    let file = work.join(format!("made.{name}"));
    let write = format!("echo x > \"{}\"", file.display());
    let answer = shell(client, &work, &write, json!({})).await;
    assert_ne!(answer["exitCode"], 0, "{name}: {answer}");
    assert!(!file.exists(), "{name}");
    let policy = json!({"sandboxPolicy": {"type": "workspaceWrite"}});
    let answer = shell(client, &work, &write, policy.clone()).await;
    assert_eq!(answer["exitCode"], 0, "{name}: {answer}");
    assert!(file.exists(), "{name}");
    // Our folder is none of theirs.
    let home = served.home.turnlane().join("planted");
    let write = format!("echo x > \"{}\"", home.display());
    let policy = json!({"sandboxPolicy": {
        "type": "workspaceWrite", "excludeTmpdirEnvVar": true, "excludeSlashTmp": true,
    }});
    let answer = shell(client, &work, &write, policy).await;
    assert_ne!(answer["exitCode"], 0, "{name}: {answer}");
    assert!(!home.exists(), "{name}");

    // A model's key is in no environment, whatever the sandbox.
    let free = json!({"sandboxPolicy": {"type": "dangerFullAccess"}, "env": {"GIVEN": "this"}});
    let answer = shell(client, &work, "env", free).await;
    let env = answer["stdout"].as_str().unwrap();
    assert!(env.contains("GIVEN=this"), "{name}: {env}");
    assert!(!env.contains(turnlane_testkit::MOCK_KEY), "{name}: {env}");

    let answer = shell(client, &work, "sleep 1000", json!({"timeoutMs": 200})).await;
    assert_eq!(answer["exitCode"], 124, "{name}: {answer}");
    feed(client, &work, name).await;
    let params = json!({"processHandle": "p", "command": ["sh", "-c", "echo $GIVEN; exit 5"],
                        "cwd": work, "env": {"GIVEN": "this"}});
    assert_eq!(ok(client, "process/spawn", params).await, json!({}));
    let exited = client.message("process/exited").await.unwrap();
    assert_eq!(exited["params"]["processHandle"], "p", "{name}");
    assert_eq!(exited["params"]["exitCode"], 5, "{name}");
    assert_eq!(exited["params"]["stdout"], "this\n", "{name}");
}

/// A streamed command that is written to.
async fn feed(client: &mut TestClient, work: &Path, name: &str) {
    let params = json!({"command": ["cat"], "cwd": work, "processId": "fed",
                        "streamStdin": true, "streamStdoutStderr": true});
    let id = client.request("command/exec", params).await.unwrap();
    let write = json!({"processId": "fed", "deltaBase64": "aGVsbG8=", "closeStdin": true});
    assert_eq!(ok(client, "command/exec/write", write).await, json!({}));
    let answer = client.answer(id).await.unwrap();
    let expected = json!({"exitCode": 0, "stdout": "", "stderr": ""});
    assert_eq!(answer["result"], expected, "{name}");
    let delta = client.message("command/exec/outputDelta").await.unwrap();
    assert_eq!(delta["params"]["processId"], "fed", "{name}");
    assert_eq!(delta["params"]["deltaBase64"], "aGVsbG8=", "{name}");
}

#[tokio::test]
async fn commands_run_alike_and_confined_on_every_transport() {
    let served = Served::new(|_| Reply::text("never")).await;
    let mut server = served.stdio().await;
    check(&mut server.client, &served, "stdio").await;
    drop(server);
    let server = served.sockets().await;
    check(&mut server.websocket().await, &served, "websocket").await;
    check(&mut server.unix().await, &served, "unix").await;
}

/// Starts one of each, with daemons; the pids of all.
async fn start_some(client: &mut TestClient, work: &Path, name: &str) -> Vec<i32> {
    let mark = |part: &str| work.join(format!("{name}.{part}"));
    let script = |part: &str| {
        format!(
            "trap '' TERM; setsid sh -c 'echo $$ > \"{}\"; exec sleep 1000' & echo $$ > \"{}\"; wait",
            mark(&format!("{part}.daemon")).display(),
            mark(part).display()
        )
    };
    let params = json!({"command": ["sh", "-c", script("exec")], "cwd": work,
                        "processId": "same name", "disableTimeout": true,
                        "sandboxPolicy": {"type": "dangerFullAccess"}});
    client.request("command/exec", params).await.unwrap();
    let params = json!({"command": ["sh", "-c", script("spawn")], "cwd": work,
                        "processHandle": "same name", "timeoutMs": null});
    ok(client, "process/spawn", params).await;
    let mut pids = Vec::new();
    for part in ["exec", "exec.daemon", "spawn", "spawn.daemon"] {
        pids.push(pid_in(&mark(part)).await);
    }
    assert!(pids.iter().all(|pid| is_alive(*pid)), "{name}: {pids:?}");
    pids
}

#[tokio::test]
async fn a_connection_takes_its_processes_with_it_and_no_others() {
    let served = Served::new(|_| Reply::text("never")).await;
    let server = served.sockets().await;
    let mut stays = server.websocket().await;
    let staying = start_some(&mut stays, &served.work(), "stays").await;
    for name in ["websocket", "unix"] {
        let mut client = match name {
            "unix" => server.unix().await,
            _ => server.websocket().await,
        };
        let pids = start_some(&mut client, &served.work(), name).await;
        drop(client);
        for pid in pids {
            until_dead(pid, DEADLINE).await;
        }
    }
    assert!(staying.iter().all(|pid| is_alive(*pid)));
    // Names are the connection's own.
    let write = json!({"processHandle": "same name"});
    let mut other = server.websocket().await;
    let error = super::refused(&mut other, "process/kill", write.clone()).await;
    let message = "no active process for process handle \"same name\"";
    assert_eq!(error["message"], message);
    assert_eq!(ok(&mut stays, "process/kill", write).await, json!({}));
    let exited = stays.message("process/exited").await.unwrap();
    assert_eq!(exited["params"]["processHandle"], "same name");
}

#[tokio::test]
async fn the_end_of_input_ends_them_before_the_server_has_gone() {
    let served = Served::new(|_| Reply::text("never")).await;
    let mut server = served.stdio().await;
    let pids = start_some(&mut server.client, &served.work(), "stdio").await;
    server.client.finish().await.unwrap();
    assert!(server.process.wait(DEADLINE).await.unwrap().success());
    let left: Vec<i32> = pids.into_iter().filter(|pid| is_alive(*pid)).collect();
    assert!(left.is_empty(), "{left:?}");
}
