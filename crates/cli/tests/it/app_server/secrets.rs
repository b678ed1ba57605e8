//! A key never reaches a command, a log line, the wire or the store.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;
use turnlane_testkit::mock_model::{ApiError, Item, Reply};
use turnlane_testkit::wait::DEADLINE;

use super::{Served, Stdio, greet, thread, turn};

/// The value of the mock's key, as the test kit sets it.
fn key(served: &Served) -> String {
    let key = served
        .home
        .env()
        .into_iter()
        .find(|(name, _)| name.ends_with("KEY"));
    key.unwrap().1
}

/// Whether any file below a folder holds the text.
fn holds(folder: &Path, text: &str) -> Option<std::path::PathBuf> {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        let found = if kind.is_dir() {
            holds(&path, text)
        } else {
            let bytes = std::fs::read(&path).unwrap_or_default();
            let found = bytes
                .windows(text.len())
                .any(|bytes| bytes == text.as_bytes());
            found.then_some(path)
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

#[tokio::test]
async fn a_planted_key_appears_nowhere() {
    let served = Served::new(|_| Reply::text("never")).await;
    let secret = key(&served);
    let planted = served.work().join("planted");
    std::fs::write(&planted, format!("before {secret} after\n")).unwrap();
    let echo = json!({"cmd": "cat planted; env; echo done", "yield_time_ms": 30_000});
    let (half, rest) = secret.split_at(secret.len() / 2);
    served
        .mock
        .push(Reply::of([
            Item::function_call("exec_command", echo).call_id("c")
        ]))
        .push(Reply::streamed(["I saw ", half, rest, " there"]))
        .push(Reply::http_error(ApiError::bad_request(
            "x",
            &format!("bad key {secret}"),
        )));
    let mut process = {
        let spec = crate::turnlane(&["app-server"])
            .envs(served.home.env())
            .env("RUST_LOG", "trace")
            .current_dir(served.home.workspace());
        turnlane_testkit::TestProcess::start(spec).unwrap()
    };
    let stdin = process.take_stdin().unwrap();
    let stdout = process.take_stdout().unwrap();
    let mut client = turnlane_testkit::TestClient::new(turnlane_rpc::Duplex::lines(stdout, stdin));
    greet(&mut client).await;
    let mut server = Stdio { process, client };
    let client = &mut server.client;
    let thread = thread(
        client,
        &served.work(),
        json!({"sandbox": "danger-full-access"}),
    )
    .await;
    assert_eq!(turn(client, &thread, "look").await["status"], "completed");
    assert_eq!(turn(client, &thread, "again").await["status"], "failed");
    let wire = serde_json::to_string(client.received()).unwrap();
    assert!(wire.contains("before [redacted] after"), "{wire}");
    assert!(wire.contains("I saw "), "{wire}");
    let requests = served.mock.requests();
    assert_eq!(requests[0].bearer_key(), Some(secret.as_str()));
    for request in &requests {
        let body = String::from_utf8_lossy(&request.bytes);
        assert!(!body.contains(&secret), "in a request: {body}");
    }
    assert!(!wire.contains(&secret), "on the wire");
    client.finish().await.unwrap();
    server.process.wait(DEADLINE).await.unwrap();
    let log = server.process.stderr_tail();
    assert!(!log.contains(&secret), "in a log line");
    std::fs::remove_file(&planted).unwrap();
    let found = holds(&served.home.turnlane(), &secret);
    assert!(found.is_none(), "stored in {}", found.unwrap().display());
}

#[tokio::test]
async fn a_key_file_that_others_can_read_is_refused() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let keys = served.home.turnlane().join("keys.env");
    // While it runs: at its start a server looks at the whole home.
    let mut server = served.stdio().await;
    std::fs::write(&keys, "OTHER=aaaaaaaaaaaa\n").unwrap();
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o644)).unwrap();
    let client = &mut server.client;
    let thread = thread(client, &served.work(), json!({})).await;
    let end = turn(client, &thread, "hello").await;
    assert_eq!(end["status"], "failed", "{end}");
    let message = end["error"]["message"].as_str().unwrap();
    assert!(message.contains("keys.env"), "{message}");
    assert!(served.mock.requests().is_empty());
}
