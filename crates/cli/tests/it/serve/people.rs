//! What a person reads: what to do when a daemon does not start or lets nobody in.

use insta::assert_snapshot;
use turnlane::{Client, Endpoint};
use turnlane_testkit::mock_model::Reply;
use turnlane_testkit::small_disk::Wanted;
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{SmallDisk, TempHome, TestProcess};

use super::{Daemon, get, spec};
use crate::app_server::Served;

/// What is said in a home, with what differs from run to run replaced.
async fn shown(home: &TempHome, arguments: &[&str]) -> String {
    let shown = crate::shown(spec(home, arguments)).await;
    shown.replace(home.turnlane().to_str().unwrap(), "HOME")
}

#[tokio::test]
async fn a_wrong_argument_says_what_is_expected() {
    let home = TempHome::new().unwrap();
    assert_snapshot!(shown(&home, &["--listen", "stdio://"]).await, @"
    exit 1
    -- stdout
    -- stderr
    error: unsupported --listen URL `stdio://`; expected `ws://IP:PORT`, `unix://PATH` or `off`
    ");
    assert_snapshot!(shown(&home, &["--listen", "ws://localhost:7071"]).await, @"
    exit 1
    -- stdout
    -- stderr
    error: unsupported --listen URL `ws://localhost:7071`; expected `ws://IP:PORT`, `unix://PATH` or `off`
    ");
    assert_snapshot!(shown(&home, &["--port", "7071"]).await, @"
    exit 2
    -- stdout
    -- stderr
    error: unexpected argument '--port' found

    Usage: turnlane serve [OPTIONS]
           turnlane serve <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(shown(&home, &["-c", "queue.on_crash=sometimes"]).await, @"
    exit 1
    -- stdout
    -- stderr
    error: -c queue.on_crash=sometimes: queue.on_crash: must be one of block, continue, retry, not `sometimes`
    ");
    assert_snapshot!(shown(&home, &["--listen", "ws://0.0.0.0:0", "--ws-auth", "none"]).await, @"
    exit 1
    -- stdout
    -- stderr
    error: refusing to listen on 0.0.0.0:0 without authentication; use --ws-auth
    ");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_and_another_proposed() {
    let home = TempHome::new().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let shown = shown(&home, &["--listen", &format!("ws://{address}")]).await;
    assert_snapshot!(shown.replace(&address, "127.0.0.1:PORT"), @"
    exit 1
    -- stdout
    -- stderr
    error: another program listens on 127.0.0.1:PORT; choose another port, or let one be picked with --listen ws://127.0.0.1:0
    ");
    let socket = home.turnlane().join("run/app-server.sock");
    assert!(!socket.exists(), "what was bound before is given back");
}

#[tokio::test]
async fn a_token_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = TempHome::new().unwrap();
    let token = home.turnlane().join("token");
    std::fs::write(&token, "a-token-that-everybody-knows-by-heart\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    // A path with spaces is quoted.
    let shown = shown(&home, &[]).await.replace('\'', "");
    assert_snapshot!(shown, @"
    exit 1
    -- stdout
    -- stderr
    error: HOME/token can be read by other users (mode 0644); run: chmod 600 HOME/token
    ");
}

#[tokio::test]
async fn another_server_on_the_socket_is_told_apart_from_a_daemon() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let other = crate::turnlane(&["app-server", "--listen", "unix://"])
        .envs(served.home.env())
        .current_dir(served.home.workspace());
    let other = TestProcess::start(other).unwrap();
    let listening = |line: &str| line.starts_with("listening on unix://");
    other
        .wait_for_stderr_line(listening, DEADLINE)
        .await
        .unwrap();
    let shown = shown(&served.home, &[]).await;
    assert_snapshot!(shown.replace(&other.pid().to_string(), "PID"), @"
    exit 1
    -- stdout
    -- stderr
    error: HOME/run/app-server.sock is served by process PID, another server of this home; stop it first
    ");
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_never_shown() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let daemon = Daemon::start(&served.home, &[]).await;
    let wrong = Endpoint::ws(&daemon.url, Some("not-the-token".into())).unwrap();
    let error = Client::connect(wrong).await.unwrap_err();
    let mut said = vec![error.to_string()];
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        said.push(error.to_string());
        cause = error.source();
    }
    let said = said.join("\n").replace(&daemon.url, "URL");
    assert_snapshot!(said, @"the server refused the connection: invalid websocket bearer token");
    let header = "Authorization: Bearer not-the-token\r\n";
    assert_snapshot!(get(&daemon.url, "/metrics", header).await.1, @"invalid websocket bearer token");
    assert_snapshot!(get(&daemon.url, "/metrics", "").await.1, @"missing websocket bearer token");
    let log = daemon.process.stderr_tail();
    assert!(!log.contains("not-the-token"), "{log}");
}

#[tokio::test]
async fn a_home_that_cannot_be_written_says_what_to_do() {
    let wanted = Wanted {
        module: module_path!(),
        test: "a_home_that_cannot_be_written_says_what_to_do",
        mebibytes: 1,
    };
    let Some(disk) = SmallDisk::of(wanted).await.unwrap() else {
        return;
    };
    let home = TempHome::new().unwrap();
    disk.make_read_only().await.unwrap();
    assert_snapshot!(shown(&home, &[]).await, @"
    exit 1
    -- stdout
    -- stderr
    error: cannot make the folder HOME/run: Read-only file system (os error 30); make it writable, or name another folder in TURNLANE_HOME
    ");
}
