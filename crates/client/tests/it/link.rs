//! The connection as a program sees it: servers it runs, servers that vanish, itself vanishing.
//!
//! A test that needs a client in a process of its own starts this very test again with [`PLAY`] set,
//! which makes it play the client's part.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;
use turnlane::{
    CallError, CallOptions, Client, ConnectError, Connection, Endpoint, Env, Secret, ServerKind,
    SpawnSpec, Supervision, TransportError, Version,
};
use turnlane_testkit::wait::{DEADLINE, eventually, within};
use turnlane_testkit::{ProcessSpec, TempHome, TestProcess, skipped};

pub(crate) const PLAY: &str = "TURNLANE_TEST_PLAY";
const SECOND: Duration = Duration::from_secs(1);
/// How long a child may be there after its client is gone.
const GONE: Duration = Duration::from_secs(2);

/// Answers everything but `wait`, ends on demand and at the end of its input.
const SERVER: &str = include_str!("server.sh");

/// Initialises, then ignores the end of its input and SIGTERM.
const STUBBORN: &str = include_str!("stubborn.sh");

/// Where servers write down who they are.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn pids(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.0.path().join("pids")).unwrap_or_default();
        text.lines().map(|pid| pid.parse().unwrap()).collect()
    }

    fn spec(&self, script: &str, agent: &str) -> SpawnSpec {
        let pids = self.0.path().join("pids");
        SpawnSpec {
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            cwd: None,
            env: Env::InheritWith(vec![
                ("PIDS".into(), pids.into()),
                ("AGENT".into(), agent.into()),
            ]),
            supervision: Supervision::Never,
        }
    }

    fn endpoint(&self, script: &str) -> Endpoint {
        Endpoint::Spawn(self.spec(script, "sh/1.2.3"))
    }

    /// No child is there within [`GONE`] of `since`, when its client went.
    async fn emptied(&self, since: Instant) {
        let pids = self.pids();
        assert!(!pids.is_empty());
        let gone = async || !pids.iter().any(|pid| is_there(*pid));
        let left = (since + GONE).saturating_duration_since(Instant::now());
        eventually("the end of the child", left, gone)
            .await
            .unwrap();
    }
}

fn is_there(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

async fn connect(endpoint: Endpoint) -> Result<Client, ConnectError> {
    within("a connection", DEADLINE, Client::connect(endpoint))
        .await
        .unwrap()
}

async fn raw(client: &Client, method: &str) -> Result<Value, CallError> {
    client
        .call_raw(method, json!({}), CallOptions::default())
        .await
}

#[tokio::test]
async fn d11_a_killed_server_is_noticed_at_once_and_a_supervised_one_comes_back() {
    let place = Place::new();
    let spec = SpawnSpec {
        supervision: Supervision::on_crash(),
        ..place.spec(SERVER, "sh/1.2.3")
    };
    let client = connect(Endpoint::Spawn(spec)).await.unwrap();
    let waiting = {
        let client = client.clone();
        tokio::spawn(async move { raw(&client, "wait").await })
    };
    raw(&client, "hello").await.unwrap();
    let pid = place.pids()[0];
    TestProcess::run(ProcessSpec::shell(&format!("kill -9 {pid}")), DEADLINE)
        .await
        .unwrap();
    let error = within("the end of the call", SECOND, waiting)
        .await
        .unwrap();
    assert!(matches!(
        error.unwrap(),
        Err(CallError::Transport(TransportError::Closed { .. }))
    ));
    raw(&client, "hello").await.unwrap();
    assert_eq!(
        *client.connection().borrow(),
        Connection::Ready { generation: 2 }
    );
    assert_eq!(place.pids().len(), 2);
    let since = Instant::now();
    client.shutdown(SECOND).await.unwrap();
    place.emptied(since).await;
}

#[tokio::test]
async fn d12_no_child_is_left_when_the_last_handle_is_dropped() {
    for script in [SERVER, STUBBORN] {
        let place = Place::new();
        let client = connect(place.endpoint(script)).await.unwrap();
        let threads = client.threads();
        drop(client);
        // A handle that is left keeps the client.
        assert!(is_there(place.pids()[0]));
        let since = Instant::now();
        drop(threads);
        place.emptied(since).await;
    }
}

#[tokio::test]
async fn d12_no_child_is_left_when_the_task_of_its_owner_panics() {
    let place = Place::new();
    let endpoint = place.endpoint(STUBBORN);
    let owner = tokio::spawn(async move {
        let _client = connect(endpoint).await.unwrap();
        panic!("as owners do");
    });
    assert!(owner.await.unwrap_err().is_panic());
    place.emptied(Instant::now()).await;
}

#[test]
fn d12_no_child_is_left_when_the_runtime_is_shut_down() {
    let place = Place::new();
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let first = runtime();
    let client = first.block_on(connect(place.endpoint(STUBBORN))).unwrap();
    let since = Instant::now();
    first.shutdown_background();
    runtime().block_on(place.emptied(since));
    drop(client);
}

#[tokio::test]
async fn d12_no_child_is_left_when_the_client_is_killed() {
    if let Some(folder) = std::env::var_os(PLAY) {
        let place = Place(TempDir::new_in(folder).unwrap());
        let client = connect(place.endpoint(STUBBORN)).await.unwrap();
        say(&format!("child {}", place.pids()[0]));
        std::future::pending::<()>().await;
        drop(client);
    }
    let folder = TempDir::new().unwrap();
    let name = "link::d12_no_child_is_left_when_the_client_is_killed";
    let mut player = player(name, folder.path(), &[]);
    let line = player
        .wait_for_stderr_line(|line| line.starts_with("child "), DEADLINE)
        .await
        .unwrap();
    let pid: i32 = line["child ".len()..].parse().unwrap();
    assert!(is_there(pid));
    player.kill9().await.unwrap();
    let gone = async || !is_there(pid);
    eventually("the end of the child", GONE, gone)
        .await
        .unwrap();
}

#[tokio::test]
async fn d14_a_version_is_checked_whatever_the_server_is_called() {
    let place = Place::new();
    let required = Version::new(0, 166, 0);
    for agent in [
        "Codex Desktop/0.165.9 (x)",
        "codex_cli_rs/0.165.9",
        "acme/0.165.9",
    ] {
        let endpoint = Endpoint::Spawn(place.spec(SERVER, agent));
        let builder = Client::builder().endpoint(endpoint).min_version(required);
        let found = Version::new(0, 165, 9);
        assert!(matches!(
            builder.connect().await,
            Err(ConnectError::VersionTooOld { found: told, required: wanted })
                if told == found && wanted == required
        ));
    }
    let endpoint = Endpoint::Spawn(place.spec(SERVER, "acme/0.166.1 (x)"));
    let client = Client::builder().endpoint(endpoint).min_version(required);
    let server = client.connect().await.unwrap().server();
    assert_eq!(server.version, Some(Version::new(0, 166, 1)));
    assert_eq!(
        (server.kind, &*server.endpoint),
        (ServerKind::Codex, "spawn sh")
    );
    place.emptied(Instant::now()).await;
}

#[tokio::test]
async fn d15_a_binary_that_exits_at_start_costs_no_handshake_timeout() {
    let endpoint = Endpoint::command("sh", &["-c", "echo 'no such option' >&2; exit 64"]);
    let error = within("the failure", 10 * SECOND, Client::connect(endpoint)).await;
    let Err(ConnectError::ServerExited {
        status,
        stderr_tail,
    }) = error.unwrap()
    else {
        panic!("another error");
    };
    assert_eq!(status.unwrap().code(), Some(64));
    assert_eq!(stderr_tail, "no such option\n");
}

#[tokio::test]
async fn d17_a_clean_exit_is_not_restarted() {
    let place = Place::new();
    let spec = SpawnSpec {
        supervision: Supervision::on_crash(),
        ..place.spec(SERVER, "sh/1.2.3")
    };
    let client = connect(Endpoint::Spawn(spec)).await.unwrap();
    assert!(raw(&client, "exit").await.is_err());
    let mut connection = client.connection();
    let closed = |now: &Connection| matches!(now, Connection::Closed { .. });
    let told = within("the end", DEADLINE, connection.wait_for(closed))
        .await
        .unwrap();
    let reason = "the server ended: exit status: 0".to_owned();
    assert_eq!(*told.unwrap(), Connection::Closed { reason });
    assert_eq!(place.pids().len(), 1);
}

#[tokio::test]
async fn after_a_shutdown_everything_says_that_the_client_is_closed() {
    let place = Place::new();
    let client = connect(place.endpoint(SERVER)).await.unwrap();
    let other = client.clone();
    let report = client.shutdown(20 * SECOND).await.unwrap();
    assert!(report.status.unwrap().success() && !report.forced);
    assert!(matches!(raw(&other, "hello").await, Err(CallError::Closed)));
    assert!(other.shutdown(SECOND).await.is_err());
}

#[test]
fn a_websocket_that_makes_no_sense_is_refused_before_any_packet() {
    let token = || Some(Secret::from("t"));
    let mut rows = vec![
        ("ws://192.0.2.1:1", token()),
        ("http://127.0.0.1:1", None),
        ("ws://", None),
        ("", None),
    ];
    if cfg!(not(feature = "tls")) {
        rows.push(("wss://127.0.0.1:1", None));
    }
    for (url, token) in rows {
        assert!(
            matches!(
                Endpoint::ws(url, token),
                Err(ConnectError::InvalidEndpoint { .. })
            ),
            "{url}"
        );
    }
    assert!(Endpoint::ws("ws://127.0.0.1:1", token()).is_ok());
    assert!(Endpoint::ws("ws://192.0.2.1:1", None).is_ok());
}

/// Measured with 0.166 and no window: 276 answered, 358 refused, 366 never answered.
#[tokio::test(flavor = "multi_thread")]
async fn the_real_codex_answers_a_thousand_calls_at_once_and_ends_with_its_input() {
    let Some(program) = std::env::var_os("TURNLANE_TEST_CODEX") else {
        return skipped("TURNLANE_TEST_CODEX does not name the Codex CLI: a link to the real one");
    };
    let home = TempHome::new().unwrap();
    let variables = home.env().into_iter();
    let variables = variables.map(|(name, value)| (name.into(), value.into()));
    let spec = SpawnSpec {
        program,
        args: vec!["app-server".into()],
        cwd: Some(home.workspace()),
        env: Env::Only(variables.collect()),
        supervision: Supervision::Never,
    };
    let started = Instant::now();
    let client = connect(Endpoint::Spawn(spec)).await.unwrap();
    let connected = started.elapsed();
    let server = client.server();
    assert_eq!(server.kind, ServerKind::Codex);
    assert_eq!(server.version, Some(Version::new(0, 166, 0)));

    let started = Instant::now();
    let calls: Vec<_> = (0..1_000)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { raw(&client, "thread/loaded/list").await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap()["data"], json!([]));
    }
    let answered = started.elapsed();

    for _ in 0..2 {
        let error = raw(&client, "turnlane/noSuchMethod").await.unwrap_err();
        assert!(matches!(error, CallError::Unsupported { .. }), "{error:?}");
    }
    assert_eq!(client.metrics().sent, 1_001);

    let started = Instant::now();
    let report = client.shutdown(20 * SECOND).await.unwrap();
    assert!(
        !report.forced && report.status.unwrap().success(),
        "{report:?}"
    );
    let ended = started.elapsed();
    say(&format!(
        "real Codex: connected in {connected:?}, 1,000 calls in {answered:?}, ended in {ended:?}"
    ));
}

/// This binary once more, playing in the test `name`.
pub(crate) fn player(name: &str, play: &Path, variables: &[(&str, &OsStr)]) -> TestProcess {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let spec = ProcessSpec::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env("PATH", path)
        .env(PLAY, play)
        .envs(variables.iter().copied());
    TestProcess::start(spec).unwrap()
}

/// A line on standard error that no runner holds back.
pub(crate) fn say(line: &str) {
    use std::io::Write as _;
    std::io::stderr()
        .write_all(format!("{line}\n").as_bytes())
        .unwrap();
}
