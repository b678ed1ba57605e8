//! The real Codex runs its tools on our exec-server.
//!
//! Each test is one turn of Codex's app-server against a mock model that asks for a terminal with
//! `cat`, types into it, sends Ctrl-C, patches a file and tries to write where it may and where it
//! may not. What the model was told and what is on disk is what counts. Needs the Codex CLI of the
//! pinned version: `TURNLANE_TEST_CODEX` names its program; without it these tests say that they
//! were skipped.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use turnlane_rpc::Duplex;
use turnlane_testkit::mock_model::{Item, MockModel, RecordedRequest, Reply};
use turnlane_testkit::{ProcessSpec, TempHome, TestClient, TestProcess, skipped};

/// A turn of Codex takes seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// The version whose wire the contract describes.
const VERSION: &str = "0.166.0";

/// How Codex is told of our server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wiring {
    /// `CODEX_EXEC_SERVER_URL`, which cannot carry a token.
    Variable,
    /// `environments.toml` with a URL and a bearer token.
    FileUrl,
    /// `environments.toml` with a program that is spoken to over stdio.
    FileProgram,
    /// `environment/add` on the app-server.
    Added,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    DangerFullAccess,
    WorkspaceWrite,
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::DangerFullAccess => "danger-full-access",
            Self::WorkspaceWrite => "workspace-write",
        }
    }
}

#[tokio::test]
async fn by_a_variable_in_full_access() {
    turn(Wiring::Variable, Mode::DangerFullAccess).await;
}

#[tokio::test]
async fn by_a_variable_in_a_workspace() {
    turn(Wiring::Variable, Mode::WorkspaceWrite).await;
}

#[tokio::test]
async fn by_a_file_with_url_and_token_in_full_access() {
    turn(Wiring::FileUrl, Mode::DangerFullAccess).await;
}

#[tokio::test]
async fn by_a_file_with_url_and_token_in_a_workspace() {
    turn(Wiring::FileUrl, Mode::WorkspaceWrite).await;
}

#[tokio::test]
async fn by_a_file_with_a_program_in_full_access() {
    turn(Wiring::FileProgram, Mode::DangerFullAccess).await;
}

#[tokio::test]
async fn by_a_file_with_a_program_in_a_workspace() {
    turn(Wiring::FileProgram, Mode::WorkspaceWrite).await;
}

#[tokio::test]
async fn by_a_request_in_full_access() {
    turn(Wiring::Added, Mode::DangerFullAccess).await;
}

#[tokio::test]
async fn by_a_request_in_a_workspace() {
    turn(Wiring::Added, Mode::WorkspaceWrite).await;
}

/// The connection is cut while a command writes; Codex comes back, and nothing is missing.
#[tokio::test]
async fn a_cut_in_the_middle_of_a_command_leaves_its_output_complete() {
    const LINES: usize = 60;
    let Some(codex) = codex().await else { return };
    let mock = MockModel::start().await.unwrap();
    let home = home_for(&mock, Mode::DangerFullAccess);
    let cmd = format!(
        "i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo line $i.; read -t 0.05 x; done < <(tail -f /dev/null)"
    );
    mock.choose_with(move |request| {
        Some(if request.tool_output("c1").is_none() {
            let arguments = json!({"cmd": cmd, "yield_time_ms": 20000});
            Reply::of([Item::function_call("exec_command", arguments).call_id("c1")])
        } else {
            Reply::text("finished")
        })
    });
    let mut server = server(&home, &["--ws-auth", "none"]).await;
    let proxy = Proxy::start(&server.url).await;
    server.url.clone_from(&proxy.url);
    let mut app = App::start(&codex, &home, Wiring::Variable, Some(&server)).await;
    app.begin_turn(&home, Wiring::Variable, Some(&server)).await;
    app.client
        .message("item/commandExecution/outputDelta")
        .await
        .unwrap();
    proxy.cut();
    let ended = app.turn_end().await;
    assert_eq!(ended["status"], "completed", "{ended:#}");
    assert!(proxy.connections() >= 2, "Codex did not come back");
    let told = mock.requests().last().unwrap().tool_output("c1");
    let told = told.unwrap_or_default();
    let missing: Vec<_> = (1..=LINES)
        .filter(|line| !told.contains(&format!("line {line}.")))
        .collect();
    assert!(missing.is_empty(), "missing {missing:?} in {told}");
}

/// Forwards connections to a server and can cut them.
struct Proxy {
    url: String,
    cut: tokio::sync::watch::Sender<usize>,
    count: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Proxy {
    async fn start(server: &str) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let server = server.trim_start_matches("ws://").to_owned();
        let cut = tokio::sync::watch::Sender::new(0);
        let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let (cuts, counter) = (cut.subscribe(), std::sync::Arc::clone(&count));
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let mut far = tokio::net::TcpStream::connect(&server).await.unwrap();
                let mut cuts = cuts.clone();
                cuts.mark_unchanged();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
        Self { url, cut, count }
    }

    /// Ends every connection there is now.
    fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    fn connections(&self) -> usize {
        self.count.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// Codex's program, if it is the version these tests are about.
pub(crate) async fn codex() -> Option<String> {
    let skip = |why: &str| {
        skipped(format_args!("the real Codex on our exec-server: {why}"));
        None
    };
    let Ok(program) = std::env::var("TURNLANE_TEST_CODEX") else {
        return skip("TURNLANE_TEST_CODEX does not name the Codex CLI");
    };
    let spec = ProcessSpec::new(&program).args(["--version"]);
    match TestProcess::run(spec, PATIENCE).await {
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains(VERSION) => Some(program),
        Ok(_) => skip(&format!("{program} is not Codex {VERSION}")),
        Err(error) => skip(&format!("{program} does not run: {error}")),
    }
}

/// Whether this machine can enforce a read-only `.git` in a writable project.
pub(crate) async fn sandbox_is_complete() -> bool {
    let report = crate::run(crate::turnlane(&["doctor", "--json"])).await;
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    ["landlockAbsent", "seccompAbsent", "mountsAbsent"]
        .iter()
        .all(|absent| report[absent].is_null())
}

/// A running server, its URL and its token.
struct Server {
    process: TestProcess,
    url: String,
    token: String,
}

async fn server(home: &TempHome, auth: &[&str]) -> Server {
    let arguments = ["exec-server", "--listen", "ws://127.0.0.1:0"];
    let spec = crate::turnlane(&arguments)
        .args(auth.iter().copied())
        .envs(home.env())
        .current_dir(home.workspace());
    let mut process = TestProcess::start(spec).unwrap();
    let stdout = process.take_stdout().unwrap();
    let mut lines = BufReader::new(stdout).lines();
    let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
    let url = line.unwrap().unwrap().unwrap_or_default();
    assert!(url.starts_with("ws://"), "{}", process.stderr_tail());
    let token = std::fs::read_to_string(home.turnlane().join("exec-server.token"));
    Server {
        process,
        url,
        token: token.unwrap_or_default().trim().to_owned(),
    }
}

/// One whole turn.
async fn turn(wiring: Wiring, mode: Mode) {
    let Some(codex) = codex().await else { return };
    if mode == Mode::WorkspaceWrite && !sandbox_is_complete().await {
        return skipped("a turn of Codex in workspace-write: see `turnlane doctor`");
    }
    let (home, mock) = world(mode).await;
    let server = match wiring {
        Wiring::Variable => Some(server(&home, &["--ws-auth", "none"]).await),
        Wiring::FileUrl | Wiring::Added => Some(server(&home, &[]).await),
        Wiring::FileProgram => None,
    };
    let mut app = App::start(&codex, &home, wiring, server.as_ref()).await;
    app.begin_turn(&home, wiring, server.as_ref()).await;
    let ended = app.turn_end().await;
    assert_eq!(ended["status"], "completed", "{ended:#}");
    check(&home, &mock, mode);
    if let Some(server) = server {
        assert!(!server.process.stderr_tail().contains(&server.token) || server.token.is_empty());
    }
}

/// A home whose Codex uses the mock model, and a project with a file to patch.
async fn world(mode: Mode) -> (TempHome, MockModel) {
    let mock = MockModel::start().await.unwrap();
    let home = home_for(&mock, mode);
    std::fs::write(home.workspace().join("a.txt"), "one\n").unwrap();
    std::fs::create_dir(home.workspace().join(".git")).unwrap();
    mock.choose_with(move |request| Some(script(request, mode)));
    (home, mock)
}

fn home_for(mock: &MockModel, mode: Mode) -> TempHome {
    let home = TempHome::new().unwrap();
    home.use_model(&mock.base_url()).unwrap();
    let config = home.codex().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let policy = format!(
        "approval_policy = \"never\"\nsandbox_mode = \"{}\"\n{text}",
        mode.name()
    );
    std::fs::write(&config, policy).unwrap();
    home
}

/// What the model says next, from what it was told last.
fn script(request: &RecordedRequest, mode: Mode) -> Reply {
    let call = |id: &str, name: &str, arguments: Value| {
        Reply::of([Item::function_call(name, arguments).call_id(id)])
    };
    let session = || session_id(&request.tool_output("c1").unwrap_or_default());
    if request.tool_output("c1").is_none() {
        let arguments = json!({"cmd": "cat", "tty": true, "yield_time_ms": 1000});
        return call("c1", "exec_command", arguments);
    }
    if request.tool_output("c2").is_none() {
        let typed =
            json!({"session_id": session(), "chars": "typed here\n", "yield_time_ms": 2000});
        return call("c2", "write_stdin", typed);
    }
    if request.tool_output("c3").is_none() {
        let ctrl_c = json!({"session_id": session(), "chars": "\u{3}", "yield_time_ms": 5000});
        return call("c3", "write_stdin", ctrl_c);
    }
    if request.tool_output("c4").is_none() {
        // Codex takes such a script for a patch and applies it itself, by file calls.
        let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch";
        let cmd = format!("apply_patch <<'EOF'\n{patch}\nEOF\n");
        return call("c4", "exec_command", json!({"cmd": cmd}));
    }
    if request.tool_output("c5").is_none() {
        // Whoever may write there should not.
        let outside = match mode {
            Mode::WorkspaceWrite => "touch /etc/turnlane-probe",
            Mode::DangerFullAccess => "true",
        };
        let cmd = format!("echo inside > b.txt; touch .git/x; {outside}; echo done; exit 7");
        return call(
            "c5",
            "exec_command",
            json!({"cmd": cmd, "yield_time_ms": 10000}),
        );
    }
    Reply::text("finished")
}

/// `Process running with session ID 123`
fn session_id(output: &str) -> i64 {
    let digits = output.split_once("session ID ").map(|(_, rest)| {
        rest.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    });
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(-1)
}

/// What the model was told and what is on disk.
fn check(home: &TempHome, mock: &MockModel, mode: Mode) {
    let requests = mock.requests();
    let last = requests.last().unwrap();
    let told = |id: &str| last.tool_output(id).unwrap_or_default();
    assert!(told("c2").contains("typed here"), "{}", told("c2"));
    assert!(told("c3").contains("code 130"), "{}", told("c3"));
    assert!(told("c5").contains("done"), "{}", told("c5"));
    assert!(told("c5").contains("code 7"), "{}", told("c5"));
    let read =
        |name: &str| std::fs::read_to_string(home.workspace().join(name)).unwrap_or_default();
    assert_eq!(read("a.txt"), "two\n", "{}", told("c4"));
    assert_eq!(read("b.txt"), "inside\n", "{}", told("c5"));
    let confined = mode == Mode::WorkspaceWrite;
    let exists = |path: &Path| path.exists();
    assert_eq!(
        exists(&home.workspace().join(".git/x")),
        !confined,
        "{}",
        told("c5")
    );
    let denied = told("c5").contains("cannot touch '/etc/turnlane-probe'");
    assert_eq!(denied, confined, "{}", told("c5"));
    assert!(!exists(Path::new("/etc/turnlane-probe")));
}

/// Codex's app-server on stdio.
struct App {
    client: TestClient,
    _process: TestProcess,
}

impl App {
    async fn start(codex: &str, home: &TempHome, wiring: Wiring, server: Option<&Server>) -> Self {
        let mut spec = ProcessSpec::new(codex)
            .args(["app-server"])
            .envs(home.env())
            .current_dir(home.workspace());
        let environments = home.codex().join("environments.toml");
        match (wiring, server) {
            (Wiring::Variable, Some(server)) => {
                spec = spec.env("CODEX_EXEC_SERVER_URL", &server.url);
            }
            (Wiring::FileUrl, Some(server)) => {
                let (url, token) = (&server.url, &server.token);
                let text = format!(
                    "default = \"box\"\n[[environments]]\nid = \"box\"\nurl = \"{url}\"\n\
                     auth_bearer_token = \"{token}\"\n"
                );
                std::fs::write(environments, text).unwrap();
            }
            (Wiring::FileProgram, _) => {
                let program = env!("CARGO_BIN_EXE_turnlane");
                let text = format!(
                    "default = \"box\"\n[[environments]]\nid = \"box\"\nprogram = \"{program}\"\n\
                     args = [\"exec-server\", \"--listen\", \"stdio\"]\n"
                );
                std::fs::write(environments, text).unwrap();
            }
            (Wiring::Added, _) | (Wiring::Variable | Wiring::FileUrl, None) => {}
        }
        let mut process = TestProcess::start(spec).unwrap();
        let (stdin, stdout) = (
            process.take_stdin().unwrap(),
            process.take_stdout().unwrap(),
        );
        let mut client = TestClient::new(Duplex::lines(stdout, stdin));
        let params = json!({
            "clientInfo": {"name": "test", "version": "0"},
            "capabilities": {"experimentalApi": true},
        });
        client.call("initialize", params).await.unwrap();
        client.notify("initialized", json!({})).await.unwrap();
        Self {
            client,
            _process: process,
        }
    }

    /// Starts a thread and a turn.
    async fn begin_turn(&mut self, home: &TempHome, wiring: Wiring, server: Option<&Server>) {
        let cwd = home.workspace();
        let mut params = json!({"cwd": cwd});
        if let (Wiring::Added, Some(server)) = (wiring, server) {
            let added = json!({
                "environmentId": "box",
                "execServerUrl": server.url,
                "authBearerToken": server.token,
            });
            self.client.call("environment/add", added).await.unwrap();
            params["environments"] = json!([{"environmentId": "box", "cwd": cwd}]);
        }
        let started = self.client.call("thread/start", params).await.unwrap();
        let input = json!([{"type": "text", "text": "go"}]);
        let params = json!({"threadId": started["result"]["thread"]["id"], "input": input});
        self.client.call("turn/start", params).await.unwrap();
    }

    /// The turn as it ended.
    async fn turn_end(&mut self) -> Value {
        let ended = tokio::time::timeout(PATIENCE, async {
            loop {
                let message = self.client.next().await.unwrap();
                if message["method"] == "turn/completed" {
                    return message["params"]["turn"].clone();
                }
            }
        });
        ended.await.unwrap()
    }
}
