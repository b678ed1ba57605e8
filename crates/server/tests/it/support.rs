//! A server on a database of its own with an engine that plays a script, and clients of it.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};
use turnlane_engine::Engine;
use turnlane_engine::scripted::{AbortSteps, Gates, Script, Scripted};
use turnlane_process::ProcessService;
use turnlane_protocol::ids::WorkerId;
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
use turnlane_rpc::connect::{self, connect_unix};
use turnlane_rpc::listen::Listener;
use turnlane_runtime::store::Store;
use turnlane_runtime::store::sqlite::{self, SqliteStore};
use turnlane_runtime::{AfterInterrupt, Runtime, Settings, SystemClock, this_worker};
use turnlane_server::{Defaults, Facts, Options, PeerKind, ProcessSpawn, Server, Wanted};
use turnlane_testkit::TestClient;

/// Says back what it is told.
pub(crate) const ECHO: &str = "version: 1\nfallback: {say: \"You said: {input}\"}";

/// A runtime and a server on it.
pub(crate) struct World {
    runtime: Runtime,
    pub(crate) server: Server,
    pub(crate) gates: Gates,
    pub(crate) folder: TempDir,
    stop_listening: DropGuard,
}

/// What the configuration of a test says.
struct TestDefaults;

impl Defaults for TestDefaults {
    fn settings(&self, wanted: Wanted<'_>) -> Result<Settings, String> {
        let text = |key: &str| {
            let value = wanted.config.and_then(|config| config.get(key));
            value.and_then(Value::as_str).map(str::to_owned)
        };
        if let Some(bug) = text("bug") {
            panic!("{bug}");
        }
        if let Some(unfit) = text("unfit") {
            return Err(format!("config key does not fit: {unfit}"));
        }
        Ok(Settings {
            model: text("model").unwrap_or_else(|| "test-model".to_owned()),
            provider: "test".to_owned(),
            cwd: wanted.cwd.to_owned(),
            runtime_workspace_roots: Vec::new(),
            config: wanted.config.cloned().unwrap_or_default(),
            approval_policy: ApprovalPolicy::OnRequest,
            approvals_reviewer: None,
            permission_profile: None,
            sandbox_policy: match text("sandbox_mode") {
                Some(mode) => SandboxPolicy::from_mode(&mode).ok_or("no such sandbox_mode")?,
                None => SandboxPolicy::DangerFullAccess,
            },
            effort: None,
            summary: None,
            personality: None,
            service_tier: None,
            base_instructions: None,
            developer_instructions: None,
        })
    }

    fn engine(&self) -> String {
        "scripted".to_owned()
    }

    fn instruction_sources(&self, cwd: &str) -> Vec<String> {
        vec![format!("{cwd}/AGENTS.md")]
    }

    fn facts(&self, _cwd: Option<&str>) -> Facts {
        Facts {
            model: "test-model".to_owned(),
            provider: "test".to_owned(),
            ..Facts::default()
        }
    }
}

impl World {
    pub(crate) async fn start(script: &str) -> Self {
        Self::start_with(script, turnlane_runtime::Options::default()).await
    }

    pub(crate) async fn start_with(script: &str, options: turnlane_runtime::Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::start_in(folder, script, options).await
    }

    pub(crate) async fn start_in(
        folder: TempDir,
        script: &str,
        options: turnlane_runtime::Options,
    ) -> Self {
        let engine = scripted(script);
        let gates = engine.gates();
        let store = open(&folder.path().join("turnlane.db"));
        let world = Self::start_on(folder, store, vec![Arc::new(engine)], options).await;
        Self { gates, ..world }
    }

    /// Another worker on the database of this one.
    pub(crate) async fn beside(&self, script: &str) -> Self {
        let engine = scripted(script);
        let gates = engine.gates();
        let store = open(&self.folder.path().join("turnlane.db"));
        let options = turnlane_runtime::Options {
            drain: turnlane_runtime::Drain::Loaded,
            ..turnlane_runtime::Options::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let world = Self::start_on(folder, store, vec![Arc::new(engine)], options).await;
        Self { gates, ..world }
    }

    /// A world of its own with these engines; `scripted` must be one of them.
    pub(crate) async fn with_engines(engines: Vec<Arc<dyn Engine>>) -> Self {
        Self::with_engines_and(engines, turnlane_runtime::Options::default()).await
    }

    /// The same with these options.
    pub(crate) async fn with_engines_and(
        engines: Vec<Arc<dyn Engine>>,
        options: turnlane_runtime::Options,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder.path().join("turnlane.db"));
        Self::start_on(folder, store, engines, options).await
    }

    pub(crate) async fn start_on(
        folder: TempDir,
        store: Arc<dyn Store>,
        engines: Vec<Arc<dyn Engine>>,
        options: turnlane_runtime::Options,
    ) -> Self {
        let clock = Arc::new(SystemClock);
        let runtime = Runtime::start(store, engines, clock, options);
        let runtime = runtime.await.unwrap();
        let server = Server::new(options_of(&runtime, &folder));
        Self {
            runtime,
            server,
            gates: Gates::default(),
            folder,
            stop_listening: CancellationToken::new().drop_guard(),
        }
    }

    /// Options for another server on the same runtime.
    pub(crate) fn options(&self) -> Options {
        options_of(&self.runtime, &self.folder)
    }

    /// The runtime behind the server.
    pub(crate) fn handle(&self) -> turnlane_runtime::Handle {
        self.runtime.handle()
    }

    /// Stops server and runtime, and starts others on the same database.
    pub(crate) async fn restart(self, script: &str) -> Self {
        let options = turnlane_runtime::Options::default();
        self.restart_with(script, options).await
    }

    /// As [`World::restart`], with these options.
    pub(crate) async fn restart_with(
        self,
        script: &str,
        options: turnlane_runtime::Options,
    ) -> Self {
        self.server.stop().await;
        self.runtime.stop(std::time::Duration::ZERO).await.unwrap();
        Self::start_in(self.folder, script, options).await
    }

    /// Another server on the same runtime, with this word about processes without a sandbox.
    pub(crate) fn server_with(&self, process_spawn: ProcessSpawn) -> Server {
        Server::new(Options {
            process_spawn,
            ..options_of(&self.runtime, &self.folder)
        })
    }

    /// A client that has said nothing yet.
    pub(crate) fn stranger(&self) -> Client {
        Client(TestClient::new(self.server.in_memory()))
    }

    /// A client with the capabilities of Codex's own.
    pub(crate) async fn client(&self) -> Client {
        self.client_with(json!({"experimentalApi": true})).await
    }

    /// A client that knows Turnlane.
    pub(crate) async fn knowing_client(&self) -> Client {
        self.client_with(json!({"experimentalApi": true, "turnlane": {"version": 1}}))
            .await
    }

    pub(crate) async fn client_with(&self, capabilities: Value) -> Client {
        let mut client = self.stranger();
        client.initialize(capabilities).await;
        client
    }

    /// Listens on a unix socket; its path.
    pub(crate) async fn listen(&self) -> std::path::PathBuf {
        let path = self.folder.path().join("run/app-server.sock");
        let listener = Listener::bind_unix(&path, turnlane_rpc::listen::Options::default());
        let listener = listener.await.unwrap();
        let server = self.server.clone();
        let stop = self.stop_listening.token().clone();
        tokio::spawn(async move {
            let serve = move |accepted: turnlane_rpc::listen::Accepted| {
                let server = server.clone();
                tokio::spawn(async move { server.serve(accepted.duplex, PeerKind::Unix).await });
            };
            listener.run(stop, serve).await;
        });
        path
    }

    /// A client on the unix socket.
    pub(crate) async fn unix_client(path: &Path) -> Client {
        Self::unix_client_with(path, json!({"experimentalApi": true})).await
    }

    /// The same with these capabilities.
    pub(crate) async fn unix_client_with(path: &Path, capabilities: Value) -> Client {
        let duplex = connect_unix(path, &connect::Options::default())
            .await
            .unwrap();
        let mut client = Client(TestClient::new(duplex));
        client.initialize(capabilities).await;
        client
    }
}

fn options_of(runtime: &Runtime, folder: &TempDir) -> Options {
    Options {
        runtime: runtime.handle(),
        service: ProcessService::start(turnlane_process::Options::default()).unwrap(),
        defaults: Arc::new(TestDefaults),
        clock: Arc::new(SystemClock),
        home: folder.path().to_owned(),
        cwd: folder.path().to_owned(),
        worker_id: WorkerId::at(1, [1; 10]),
        process_spawn: ProcessSpawn::Allow,
        on_interrupt: AfterInterrupt::Continue,
        features: turnlane_server::features(),
        fanout: turnlane_server::FanoutOptions::default(),
        refuse_peer: None,
    }
}

/// An engine that plays this script.
pub(crate) fn scripted(script: &str) -> Scripted {
    let script = Script::parse("test.yaml", script, AbortSteps::Refused).unwrap();
    let now = || turnlane_runtime::Clock::now_ms(&SystemClock);
    Scripted::new(script, Arc::new(now))
}

pub(crate) fn open(path: &Path) -> Arc<dyn Store> {
    let options = sqlite::Options::new(path, this_worker("test", &SystemClock));
    Arc::new(SqliteStore::open(options).unwrap())
}

/// A client, with the words of these tests.
pub(crate) struct Client(pub(crate) TestClient);

impl Client {
    /// A client on this connection with the capabilities of Codex's own.
    pub(crate) async fn greeted(duplex: turnlane_rpc::Duplex) -> Self {
        let mut client = Self(TestClient::new(duplex));
        client.initialize(json!({"experimentalApi": true})).await;
        client
    }

    /// A client of this kind that knows Turnlane.
    pub(crate) async fn of_kind(server: &Server, kind: PeerKind) -> Self {
        let (near, far) = turnlane_rpc::Duplex::memory();
        let server = server.clone();
        tokio::spawn(async move { server.serve(far, kind).await });
        let mut client = Self(TestClient::new(near));
        let capabilities = json!({"experimentalApi": true, "turnlane": {"version": 1}});
        client.initialize(capabilities).await;
        client
    }

    async fn initialize(&mut self, capabilities: Value) {
        let params = json!({"clientInfo": {"name": "test", "title": null, "version": "1"},
            "capabilities": capabilities});
        let answer = self.0.call("initialize", params).await.unwrap();
        assert!(answer["result"]["userAgent"].is_string(), "{answer}");
    }

    /// The result of a call that must succeed.
    pub(crate) async fn ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.0.call(method, params).await.unwrap();
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The error of a call that must fail.
    pub(crate) async fn err(&mut self, method: &str, params: Value) -> Value {
        let answer = self.0.call(method, params).await.unwrap();
        assert!(answer.get("error").is_some(), "{method}: {answer}");
        answer["error"].clone()
    }

    /// A new thread; its id.
    pub(crate) async fn thread(&mut self) -> String {
        let answer = self.ok("thread/start", json!({})).await;
        answer["thread"]["id"].as_str().unwrap().to_owned()
    }

    /// Starts a turn; its id.
    pub(crate) async fn turn(&mut self, thread: &str, text: &str) -> String {
        let answer = self.ok("turn/start", turn(thread, text)).await;
        answer["turn"]["id"].as_str().unwrap().to_owned()
    }

    /// Waits until this turn has ended; how.
    pub(crate) async fn ended(&mut self, turn: &str) -> Value {
        let found = self.0.find("the end of the turn", |message| {
            message["method"] == "turn/completed" && message["params"]["turn"]["id"] == turn
        });
        found.await.unwrap()["params"]["turn"].clone()
    }

    /// The first message with this method and these members in its params.
    pub(crate) async fn told(&mut self, method: &str, members: Value) -> Value {
        let what = format!("{method} {members}");
        let found = self.0.find(&what, |message| {
            message["method"] == method && fits(&message["params"], &members)
        });
        found.await.unwrap()
    }

    /// What was received since message number `from`: methods of notifications and requests,
    /// `answer` for answers.
    pub(crate) fn words(&self, from: usize) -> Vec<String> {
        let word = |message: &Value| match message["method"].as_str() {
            Some(method) => method.to_owned(),
            None => "answer".to_owned(),
        };
        self.0.received()[from..].iter().map(word).collect()
    }

    /// A call that proves that everything sent before was dealt with.
    pub(crate) async fn settle(&mut self) {
        self.ok("thread/loaded/list", json!({})).await;
    }
}

/// A size for every day, or the contract's own when `TURNLANE_TEST_FULL` is set.
pub(crate) fn size(daily: usize, full: usize) -> usize {
    match std::env::var_os("TURNLANE_TEST_FULL") {
        Some(_) => full,
        None => daily,
    }
}

/// A line for whoever looks at the output of a test.
#[expect(clippy::print_stderr, reason = "seeds and figures are to be seen")]
pub(crate) fn say(line: &str) {
    eprintln!("{line}");
}

/// Numbers that look random and are the same for the same seed.
pub(crate) struct Dice(u64);

impl Dice {
    /// Dice with the seed of `TURNLANE_SEED`, or this one; it is printed.
    pub(crate) fn new(seed: u64) -> Self {
        let given = std::env::var("TURNLANE_SEED").ok();
        let seed = given.map_or(seed, |given| given.parse().unwrap());
        say(&format!("TURNLANE_SEED={seed}"));
        Self(seed.max(1))
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Params of `turn/start`.
pub(crate) fn turn(thread: &str, text: &str) -> Value {
    json!({"threadId": thread, "input": [{"type": "text", "text": text}]})
}

/// Whether a value has these members, all the way down.
fn fits(value: &Value, members: &Value) -> bool {
    match members {
        Value::Object(members) => members
            .iter()
            .all(|(key, member)| fits(&value[key], member)),
        other => value == other,
    }
}
