//! What a person reads: help, and what to do when a daemon does not start or lets nobody in.

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
async fn help_teaches() {
    let help = crate::shown(crate::turnlane(&["serve", "--help"])).await;
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    assert_snapshot!(help.join("\n"), @r#"
    exit 0
    -- stdout
    Run as a daemon: serve clients, and run queued turns whether or not anybody is connected

    It listens on a websocket and on a socket in our folder, drains every queue of its home from its
    start on, and takes over what a crashed process left. Whatever was answered is on disk: queue turns,
    close the laptop, find them done.

    Usage: turnlane serve [OPTIONS]

    Options:
          --listen <URL>
              Where to listen besides the socket in our folder; may be repeated: `ws://IP:PORT` (port 0
              picks one), `unix://PATH`, `off` for nothing else [default: server.listen in config.toml,
              else `ws://127.0.0.1:0`]

          --script <FILE>
              Run turns by this script (YAML or JSON) instead of a model: for demos and tests

      -c, --config <KEY=VALUE>
              One setting for this run, as in config.toml: `-c queue.on_crash=retry`

      -h, --help
              Print help (see a summary with '-h')

    Authentication (websockets):
          --ws-auth <MODE>
              What a client must show; `none` is for loopback only

              [possible values: capability-token, signed-bearer-token, none]

          --ws-token-file <FILE>
              A file with the capability token in one line, readable by its owner only

          --ws-token-sha256 <HEX>
              The SHA-256 of the capability token, in hex

          --ws-shared-secret-file <FILE>
              A file with the secret that signs bearer tokens (HS256)

          --ws-issuer <TEXT>
              The issuer a signed token must name

          --ws-audience <TEXT>
              The audience a signed token must name

          --ws-max-clock-skew-seconds <N>
              How far the clock of a token's maker may be off

    One daemon serves a home. Other commands, the SDKs and `turnlane exec` find it by its socket,
    $TURNLANE_HOME/run/app-server.sock, which only you can use. Clients of the websocket show a token as
    `Authorization: Bearer TOKEN`; it is in $TURNLANE_HOME/token, which is made on the first start.

    The first SIGTERM or SIGINT lets running turns end for server.shutdown_grace (30s) and interrupts
    them then; a second one interrupts them at once. Queued turns wait for the next start.

    Over HTTP, on the websocket's port:
      /healthz   200 until it is told to stop
      /readyz    200 when it serves; 503 while it recovers from a crash, or cannot write to its disk
      /metrics   Prometheus text; needs the token

    Settings, in $TURNLANE_HOME/config.toml or with -c:
      server.listen, server.shutdown_grace, server.allowed_hosts, server.allowed_origins
      lanes.max_running         how many queued turns run at once (32)
      queue.max_depth           how many turns may wait in a new thread (1000)
      queue.on_crash            block (default), continue, retry: when this process died under a turn
      queue.on_error            continue (default), block: when a turn failed
      queue.on_cannot_start     block (default), continue: when it could not even begin
      queue.on_limit            wait (default), fail: when the provider has no capacity or allowance
      queue.on_interrupt        continue (default), pause: when somebody stopped a turn
      queue.dedupe_window, queue.poison_limit, thread.unload_after, approvals.timeout,
      approvals.unattended_timeout, engine.turn_timeout

    Examples:
      turnlane serve                                      a port is picked and told
      turnlane serve --listen ws://127.0.0.1:7071         always the same port
      codex --remote unix://$HOME/.turnlane/run/app-server.sock      the Codex terminal UI as a client
      curl -H "Authorization: Bearer $(cat ~/.turnlane/token)" http://127.0.0.1:7071/metrics
    -- stderr
    "#);
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
    std::fs::write(&token, "a-token-that-everybody-knows\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_snapshot!(shown(&home, &[]).await, @"
    exit 1
    -- stdout
    -- stderr
    error: HOME/token can be read or written by others (mode 0644); run: chmod 600 HOME/token
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
