//! `turnlane exec-server` from outside: where it says it listens, whom it lets in, how it ends.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use turnlane_rpc::Duplex;
use turnlane_rpc::auth::Secret;
use turnlane_rpc::connect::{self, ConnectError, connect_unix_lines, connect_ws};
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{ProcessSpec, TempHome, TestClient, TestProcess};

use crate::{run, turnlane};

/// The server with these arguments and a home of its own.
fn spec(home: &TempHome, arguments: &[&str]) -> ProcessSpec {
    turnlane(&["exec-server"])
        .args(arguments.iter().copied())
        .envs(home.env())
        .current_dir(home.workspace())
}

/// Starts it and returns the address it tells on standard output.
async fn start(home: &TempHome, arguments: &[&str]) -> (TestProcess, String) {
    let mut process = TestProcess::start(spec(home, arguments)).unwrap();
    let mut lines = BufReader::new(process.take_stdout().unwrap()).lines();
    let line = tokio::time::timeout(DEADLINE, lines.next_line()).await;
    let url = line.unwrap().unwrap();
    let url = url.unwrap_or_else(|| panic!("it did not start: {}", process.stderr_tail()));
    (process, url)
}

fn with_token(token: &str) -> connect::Options {
    connect::Options {
        token: Some(Secret::from(token)),
        ..connect::Options::default()
    }
}

/// A client that speaks `process.v1`.
async fn client(duplex: Duplex) -> TestClient {
    let mut client = TestClient::new(duplex);
    let params = json!({"clientName": "test", "resumeSessionId": null});
    let answer = client.call("initialize", params).await.unwrap();
    assert_eq!(answer["result"]["protocolVersion"], "process.v1");
    client.notify("initialized", json!({})).await.unwrap();
    client
}

/// A tree with a grandchild in a session of its own; returns the pid of its leader.
async fn start_tree(client: &mut TestClient, id: &str, tty: bool, mark: &str) -> i64 {
    let script = format!("setsid sleep {mark} & echo ready; exec sleep {mark}");
    let params = json!({
        "processId": id, "argv": ["sh", "-c", script], "cwd": "file:///", "tty": tty, "arg0": null,
        "env": {"PATH": "/usr/bin:/bin"},
    });
    let answer = client.call("process/start", params).await.unwrap();
    let pid = answer["result"]["pid"].as_i64();
    let pid = pid.unwrap_or_else(|| panic!("it was not started: {answer:#}"));
    let is_output = |message: &Value| {
        message["method"] == "process/output" && message["params"]["processId"] == id
    };
    client
        .find("the tree to be ready", is_output)
        .await
        .unwrap();
    pid
}

/// How many processes have this argument.
fn alive(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap();
    let has_mark = |path: &Path| {
        std::fs::read(path.join("cmdline")).is_ok_and(|line| {
            line.split(|byte| *byte == 0)
                .any(|word| word == mark.as_bytes())
        })
    };
    entries
        .flatten()
        .filter(|entry| has_mark(&entry.path()))
        .count()
}

#[tokio::test]
async fn a_wrong_address_is_refused_with_the_words_scripts_know() {
    let home = TempHome::new().unwrap();
    for (url, message) in [
        (
            "http://127.0.0.1:1",
            "unsupported --listen URL `http://127.0.0.1:1`; expected `stdio://` or `ws://IP:PORT`",
        ),
        (
            "off",
            "unsupported --listen URL `off`; expected `stdio://` or `ws://IP:PORT`",
        ),
        (
            "ws://localhost:1",
            "invalid websocket --listen URL `ws://localhost:1`; expected `ws://IP:PORT`",
        ),
        (
            "ws://0.0.0.0:0",
            "refusing to listen on 0.0.0.0:0 without authentication; use --ws-auth",
        ),
    ] {
        let output = run(spec(&home, &["--listen", url, "--ws-auth", "none"])).await;
        assert_eq!(output.status.code(), Some(1), "{url}");
        assert!(output.stdout.is_empty(), "{url}");
        assert!(
            output.stderr_tail.contains(message),
            "{url}: {}",
            output.stderr_tail
        );
        assert!(!output.stderr_tail.contains("listening"), "{url}");
    }
}

#[tokio::test]
async fn a_taken_port_and_an_open_token_file_are_refused_without_a_banner() {
    let home = TempHome::new().unwrap();
    let (_server, url) = start(&home, &["--listen", "ws://127.0.0.1:0"]).await;
    let again = run(spec(&home, &["--listen", &url])).await;
    assert_eq!(again.status.code(), Some(1));
    assert!(again.stdout.is_empty());
    assert!(
        again.stderr_tail.contains("cannot listen on"),
        "{}",
        again.stderr_tail
    );
    let token = home.path().join("token");
    std::fs::write(&token, "secret-token-of-this-test\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    let arguments = [
        "--listen",
        "ws://127.0.0.1:0",
        "--ws-token-file",
        token.to_str().unwrap(),
    ];
    let open = run(spec(&home, &arguments)).await;
    assert_eq!(open.status.code(), Some(1));
    assert!(open.stdout.is_empty());
    assert!(
        !open.stderr_tail.contains("secret-token"),
        "{}",
        open.stderr_tail
    );
}

#[tokio::test]
async fn the_banner_comes_first_and_the_token_is_made_once_and_never_shown() {
    let home = TempHome::new().unwrap();
    let (mut server, url) = start(&home, &["--listen", "ws://127.0.0.1:0"]).await;
    let first = server
        .wait_for_stderr_line(|_| true, DEADLINE)
        .await
        .unwrap();
    assert_eq!(first, format!("turnlane-exec-server listening on {url}"));
    let path = home.turnlane().join("exec-server.token");
    let token = std::fs::read_to_string(&path).unwrap().trim().to_owned();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let refused = connect_ws(&url, &connect::Options::default()).await;
    assert!(
        matches!(refused, Err(ConnectError::Unauthorized { .. })),
        "{refused:?}"
    );
    client(connect_ws(&url, &with_token(&token)).await.unwrap()).await;
    let shown = std::fs::read(format!("/proc/{}/cmdline", server.pid())).unwrap();
    assert!(!String::from_utf8_lossy(&shown).contains(&token));
    server.terminate().unwrap();
    assert_eq!(server.wait(DEADLINE).await.unwrap().code(), Some(0));
    assert!(!server.stderr_tail().contains(&token));
    assert!(
        server
            .stderr_tail()
            .starts_with("turnlane-exec-server listening on")
    );
    let (_server, url) = start(&home, &["--listen", "ws://127.0.0.1:0"]).await;
    client(connect_ws(&url, &with_token(&token)).await.unwrap()).await;
}

#[tokio::test]
async fn a_unix_socket_is_for_its_owner() {
    let home = TempHome::new().unwrap();
    let path = home.path().join("exec.sock");
    let listen = format!("unix://{}", path.display());
    let (_server, url) = start(&home, &["--listen", &listen]).await;
    assert_eq!(url, listen);
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let duplex = connect_unix_lines(&path, &connect::Options::default()).await;
    client(duplex.unwrap()).await;
}

#[tokio::test]
async fn the_end_of_standard_input_ends_everything() {
    let home = TempHome::new().unwrap();
    let mark = "1000.31";
    let mut server = TestProcess::start(spec(&home, &[])).unwrap();
    let (input, output) = (server.take_stdin().unwrap(), server.take_stdout().unwrap());
    let mut client = client(Duplex::lines(output, input)).await;
    start_tree(&mut client, "p", false, mark).await;
    drop(client);
    assert_eq!(server.wait(DEADLINE).await.unwrap().code(), Some(0));
    eventually("the tree to end", DEADLINE, async || alive(mark) == 0)
        .await
        .unwrap();
    // And with a listener, when asked for.
    let arguments = ["--listen", "ws://127.0.0.1:0", "--exit-on-stdin-close"];
    let (mut server, _url) = start(&home, &arguments).await;
    drop(server.take_stdin());
    assert_eq!(server.wait(DEADLINE).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_signal_ends_gracefully_and_a_second_one_by_force() {
    let home = TempHome::new().unwrap();
    let arguments = ["--listen", "ws://127.0.0.1:0", "--ws-auth", "none"];
    let patient = ["-c", "exec_server.shutdown_grace_period_ms=600000"];
    let all: Vec<_> = arguments.iter().chain(&patient).copied().collect();
    let (mut server, url) = start(&home, &all).await;
    let duplex = connect_ws(&url, &connect::Options::default())
        .await
        .unwrap();
    let mut client = client(duplex).await;
    let params = |id: &str, script: &str| {
        json!({"processId": id, "argv": ["sh", "-c", script], "cwd": "file:///", "tty": false,
            "arg0": null, "env": {"PATH": "/usr/bin:/bin"}})
    };
    let polite =
        "trap 'echo bye; exit 0' TERM; echo ready; while :; do read -t 1 x; sleep 0.1; done";
    let stubborn = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    for (id, script) in [("polite", polite), ("stubborn", stubborn)] {
        client
            .call("process/start", params(id, script))
            .await
            .unwrap();
        let ready = |message: &Value| {
            message["method"] == "process/output" && message["params"]["processId"] == id
        };
        client.find("readiness", ready).await.unwrap();
    }
    server.terminate().unwrap();
    let exited = |id: &'static str| {
        move |message: &Value| {
            message["method"] == "process/exited" && message["params"]["processId"] == id
        }
    };
    let polite = client
        .find("the polite one to exit", exited("polite"))
        .await
        .unwrap();
    assert_eq!(polite["params"]["exitCode"], 0);
    assert!(
        server.try_wait().unwrap().is_none(),
        "it waits for the stubborn one"
    );
    server.terminate().unwrap();
    let stubborn = client
        .find("the stubborn one to exit", exited("stubborn"))
        .await
        .unwrap();
    assert_eq!(stubborn["params"]["exitCode"], 137);
    assert_eq!(server.wait(DEADLINE).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn nothing_is_left_when_the_server_is_killed() {
    let home = TempHome::new().unwrap();
    let mark = "1000.32";
    let arguments = ["--listen", "ws://127.0.0.1:0", "--ws-auth", "none"];
    let (mut server, url) = start(&home, &arguments).await;
    let duplex = connect_ws(&url, &connect::Options::default())
        .await
        .unwrap();
    let mut client = client(duplex).await;
    for number in 0..6 {
        start_tree(&mut client, &number.to_string(), number % 2 == 1, mark).await;
    }
    let all = eventually("six trees of two", DEADLINE, async || alive(mark) == 12);
    all.await.unwrap();
    server.kill9().await.unwrap();
    let gone = eventually("every tree to end", DEADLINE, async || alive(mark) == 0);
    gone.await.unwrap();
}

/// The children of a process whose name is this.
fn children(of: i32, name: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let status = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/status"));
    let fits = |pid: &i32| {
        status(pid).is_ok_and(|text| {
            text.contains(&format!("Name:\t{name}\n")) && text.contains(&format!("PPid:\t{of}\n"))
        })
    };
    pids.filter(fits).collect()
}

#[tokio::test]
async fn a_killed_keeper_costs_what_runs_and_nothing_that_comes() {
    let home = TempHome::new().unwrap();
    let mark = "1000.33";
    let arguments = ["--listen", "ws://127.0.0.1:0", "--ws-auth", "none"];
    let (server, url) = start(&home, &arguments).await;
    let keepers = children(server.pid(), "tl-keeper");
    let [keeper] = keepers[..] else {
        return turnlane_testkit::skipped("a killed keeper: this machine has only process groups");
    };
    let duplex = connect_ws(&url, &connect::Options::default())
        .await
        .unwrap();
    let mut client = client(duplex).await;
    start_tree(&mut client, "before", false, mark).await;
    let keeper = rustix::process::Pid::from_raw(keeper).unwrap();
    rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
    let exited = client.message("process/exited").await.unwrap();
    assert_eq!(exited["params"]["exitCode"], -1, "{exited:#}");
    assert_eq!(exited["params"]["reason"], "lost");
    let gone = eventually("the tree to end", DEADLINE, async || alive(mark) == 0);
    gone.await.unwrap();
    start_tree(&mut client, "after", false, mark).await;
    let ended = client.call("session/end", json!({})).await.unwrap();
    assert_eq!(ended["result"]["ended"], 1);
}

#[tokio::test]
async fn a_bad_configuration_is_named_with_file_and_line() {
    let home = TempHome::new().unwrap();
    let text = "[exec_server]\ndialect = \"v7\"\n";
    std::fs::write(home.turnlane().join("config.toml"), text).unwrap();
    let output = run(spec(&home, &["--listen", "ws://127.0.0.1:0"])).await;
    assert_eq!(output.status.code(), Some(1));
    let expected = "config.toml:2: exec_server.dialect: must be one of auto, v0, process, not `v7`";
    assert!(
        output.stderr_tail.contains(expected),
        "{}",
        output.stderr_tail
    );
}

#[tokio::test]
async fn doctor_says_what_the_machine_offers() {
    let home = TempHome::new().unwrap();
    let text = run(turnlane(&["doctor"]).envs(home.env())).await;
    let json = run(turnlane(&["doctor", "--json"]).envs(home.env())).await;
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    let text_shown = String::from_utf8(text.stdout).unwrap();
    let kind = report["containment"].as_str().unwrap();
    assert!(
        text_shown.contains(&format!("  ok        {kind}")),
        "{text_shown}"
    );
    let expected = i32::from(report["complete"] != true);
    assert_eq!(text.status.code(), Some(expected), "{text_shown}");
    assert_eq!(json.status.code(), Some(expected));
}
