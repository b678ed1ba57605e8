//! How a daemon begins, who finds it, and who comes second.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use futures_util::future::select_all;
use serde_json::{Value, json};
use turnlane::{CallOptions, Client, Endpoint};
use turnlane_testkit::mock_model::Reply;
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::{Daemon, is_full, spec};
use crate::app_server::{Served, ok, thread, turn};

#[tokio::test]
async fn it_listens_on_a_websocket_and_a_socket_and_makes_its_token_once() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let home = served.home.turnlane();
    let mut daemon = Daemon::start(&served.home, &[]).await;
    assert!(daemon.url.starts_with("ws://127.0.0.1:"), "{}", daemon.url);
    let mode = |name: &str| home.join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("token"), 0o600);
    assert_eq!(mode("run/app-server.sock"), 0o600);
    assert_eq!(mode("run/serve.json"), 0o600);
    assert_eq!(mode("run"), 0o700);
    let said = daemon.process.stderr_tail();
    let told = format!("the token is in {}", home.join("token").display());
    assert!(said.lines().any(|line| line == told), "{said}");
    assert!(!said.contains(&daemon.token), "the token was told");

    let mut one = daemon.unix().await;
    let id = thread(&mut one, &served.work(), json!({})).await;
    assert_eq!(turn(&mut one, &id, "hello").await["status"], "completed");
    let mut other = daemon.websocket().await;
    let read = ok(&mut other, "thread/read", json!({"threadId": id})).await;
    assert_eq!(read["thread"]["id"], id.as_str());

    let token = daemon.token.clone();
    daemon.process.terminate().unwrap();
    assert!(daemon.process.wait(DEADLINE).await.unwrap().success());
    let left = |name: &str| home.join(name).exists();
    assert!(!left("run/app-server.sock") && !left("run/serve.json"));
    let daemon = Daemon::start(&served.home, &[]).await;
    assert_eq!(daemon.token, token, "a restart keeps the token");
    daemon.websocket().await;
}

/// How often several daemons are started at once.
fn races() -> usize {
    if is_full() { 100 } else { 6 }
}

/// What one says that came second: who serves, where and since when, and what to do about it.
async fn says_who(loser: &TestProcess, socket: &Path, winner: i32) {
    let error = |line: &str| line.starts_with("error: ");
    let said = loser.wait_for_stderr_line(error, DEADLINE).await.unwrap();
    let begins = format!("error: process {winner} serves this home since 20");
    let line = said.trim();
    assert!(line.starts_with(&begins) && !line.contains('\n'), "{said}");
    let place = format!(" UTC, on {} and ws://127.0.0.1:", socket.display());
    assert!(line.contains(&place), "{said}");
    let next = "; commands use it by themselves, `turnlane serve stop` stops it";
    assert!(line.ends_with(next), "{said}");
}

#[tokio::test]
async fn of_three_that_start_at_once_one_serves_and_the_others_say_who() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let socket = served.home.turnlane().join("run/app-server.sock");
    let record = served.home.turnlane().join("run/serve.json");
    for race in 0..races() {
        // Every other race begins with what a kill has left: a socket, a record, a worker.
        assert_eq!(record.exists() && socket.exists(), race % 2 == 1);
        let start = || TestProcess::start(spec(&served.home, &[])).unwrap();
        let mut all = vec![start(), start(), start()];
        let mut losers = Vec::new();
        while all.len() > 1 {
            let ends = all.iter_mut().map(|one| Box::pin(one.wait(DEADLINE)));
            let (status, at, _) = select_all(ends).await;
            assert_eq!(status.unwrap().code(), Some(1));
            losers.push(all.remove(at));
        }
        let mut winner = all.remove(0);
        for loser in &losers {
            says_who(loser, &socket, winner.pid()).await;
        }
        let ready = |line: &str| line.starts_with("ready");
        winner.wait_for_stderr_line(ready, DEADLINE).await.unwrap();
        if race % 2 == 0 {
            winner.kill9().await.unwrap();
        } else {
            winner.terminate().unwrap();
            assert!(winner.wait(DEADLINE).await.unwrap().success());
        }
    }
}

#[tokio::test]
async fn one_that_was_killed_is_followed_by_the_next() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let mut daemon = Daemon::start(&served.home, &[]).await;
    daemon.process.kill9().await.unwrap();
    assert!(served.home.turnlane().join("run/serve.json").exists());
    let next = Daemon::start(&served.home, &[]).await;
    let record = std::fs::read(served.home.turnlane().join("run/serve.json")).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    assert_eq!(record["pid"], next.process.pid());
}

/// A daemon that is killed while it starts a process leaves its lock to that process for a moment.
#[tokio::test]
async fn a_lock_under_which_nobody_serves_is_waited_for() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let run = served.home.turnlane().join("run");
    std::fs::DirBuilder::new().mode(0o700).create(&run).unwrap();
    let lock = std::fs::File::create(run.join("app-server.sock.lock")).unwrap();
    lock.lock().unwrap();
    let process = TestProcess::start(spec(&served.home, &[])).unwrap();
    let ready = |line: &str| line.starts_with("ready");
    let early = process.wait_for_stderr_line(ready, Duration::from_secs(1));
    assert!(early.await.is_err(), "it serves under another's lock");
    drop(lock);
    Daemon::of(&served.home, process).await;
}

#[tokio::test]
async fn exec_and_the_sdk_find_it_by_its_socket() {
    let served = Served::new(|_| Reply::text("the answer")).await;
    std::fs::create_dir(served.work().join(".git")).unwrap();
    let daemon = Daemon::start(&served.home, &[]).await;
    let before = daemon.metric("turnlane_connections_total").await;
    let spec = crate::turnlane(&["exec", "--json", "a question"])
        .envs(served.home.env())
        .current_dir(served.home.workspace());
    let output = crate::run(spec).await;
    assert!(output.status.success(), "{}", output.stderr_tail);
    let said = String::from_utf8(output.stdout).unwrap();
    let first: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!(
        daemon.metric("turnlane_connections_total").await,
        before + 1
    );

    let client = Client::connect(Endpoint::Unix(daemon.socket.clone()));
    let client = client.await.unwrap();
    let read = json!({"threadId": first["thread_id"], "includeTurns": true});
    let read = client
        .call_raw("thread/read", read, CallOptions::default())
        .await;
    let read = read.unwrap();
    assert_eq!(read["thread"]["turns"][0]["status"], "completed", "{read}");
    drop(client);

    let name = "serve::life::the_default_client_in_a_process_of_its_own";
    let child = ProcessSpec::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .envs(served.home.env())
        .env(CHILD, "1");
    let output = TestProcess::run(child, DEADLINE).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", output.stderr_tail);
    assert_eq!(
        daemon.metric("turnlane_connections_total").await,
        before + 3
    );
}

/// Set in the child of the test above.
const CHILD: &str = "TURNLANE_DEFAULT_CLIENT";

#[tokio::test]
async fn the_default_client_in_a_process_of_its_own() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let client = Client::connect_default().await.unwrap();
    let endpoint = client.server().endpoint;
    assert!(endpoint.ends_with("run/app-server.sock"), "{endpoint}");
}

#[tokio::test]
async fn where_it_listens_is_said_by_flags_before_configuration() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let other = served.home.path().join("other");
    let listen = format!("server.listen=[\"unix://{}\"]", other.display());
    let mut process = TestProcess::start(spec(&served.home, &["-c", &listen])).unwrap();
    let ready = |line: &str| line.starts_with("ready");
    process.wait_for_stderr_line(ready, DEADLINE).await.unwrap();
    let said = process.stderr_tail();
    assert!(other.exists() && !said.contains("ws://"), "{said}");
    assert!(!said.contains("token"), "nobody needs one: {said}");
    process.terminate().unwrap();
    assert!(process.wait(DEADLINE).await.unwrap().success());

    let arguments = ["-c", &listen, "--listen", "ws://127.0.0.1:0"];
    let daemon = Daemon::start(&served.home, &arguments).await;
    assert!(!other.exists());
    assert!(daemon.socket.exists(), "its own socket is always there");
}
