//! A server with a process service of its own, and clients on connections in memory.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
use turnlane_process::{ContainmentKind, ProcessService};
use turnlane_protocol::ids::WorkerId;
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
use turnlane_rpc::Duplex;
use turnlane_runtime::store::sqlite::SqliteStore;
use turnlane_runtime::{AfterInterrupt, ManualClock, Runtime, Settings, this_worker};
use turnlane_server::{Defaults, Facts, Key, Options, PeerKind, ProcessSpawn, Server, Wanted};
use turnlane_testkit::TestClient;

/// The time at which tests happen.
const NOW_MS: i64 = 1_800_000_000_000;

/// A server that vanishes with everything it started.
pub(crate) struct Host {
    server: Server,
    service: ProcessService,
    pub(crate) folder: TempDir,
    _runtime: Runtime,
}

/// What callers get where they are silent.
struct Configured;

impl Defaults for Configured {
    fn settings(&self, wanted: Wanted<'_>) -> Result<Settings, String> {
        Ok(Settings {
            model: "mock-model".into(),
            provider: "mock".into(),
            cwd: wanted.cwd.to_owned(),
            runtime_workspace_roots: Vec::new(),
            config: Map::new(),
            approval_policy: ApprovalPolicy::Never,
            approvals_reviewer: None,
            permission_profile: None,
            sandbox_policy: SandboxPolicy::DangerFullAccess,
            effort: None,
            summary: None,
            personality: None,
            service_tier: None,
            base_instructions: None,
            developer_instructions: None,
        })
    }

    fn engine(&self) -> String {
        "scripted".into()
    }

    fn facts(&self, cwd: Option<&str>) -> Facts {
        let config = json!({"sandbox_mode": "read-only", "project": cwd,
            "model_providers": {"mock": {"experimental_bearer_token": "hunter2"}}});
        Facts {
            model: "mock-model".into(),
            provider: "mock".into(),
            key: Key::Present,
            config: config.as_object().unwrap().clone(),
            ..Facts::default()
        }
    }
}

impl Host {
    pub(crate) async fn new() -> Self {
        Self::with(ProcessSpawn::Allow).await
    }

    pub(crate) async fn with(process_spawn: ProcessSpawn) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(NOW_MS);
        let database = folder.path().join("turnlane.db");
        let store_options =
            turnlane_runtime::store::sqlite::Options::new(database, this_worker("test", &clock));
        let store = Arc::new(SqliteStore::open(store_options).unwrap());
        let script =
            Script::parse("test.yaml", "version: 1\nturns: []", AbortSteps::Refused).unwrap();
        let engine = Scripted::new(script, Arc::new(|| NOW_MS));
        let runtime = Runtime::start(
            store,
            vec![Arc::new(engine)],
            Arc::new(clock.clone()),
            turnlane_runtime::Options::default(),
        )
        .await
        .unwrap();
        let keeper = vec![env!("CARGO_BIN_EXE_server_host").into(), "__keeper".into()];
        let service = ProcessService::start(turnlane_process::Options {
            keeper: Some(keeper),
            ..turnlane_process::Options::default()
        })
        .unwrap();
        let server = Server::new(Options {
            runtime: runtime.handle(),
            service: service.clone(),
            defaults: Arc::new(Configured),
            clock: Arc::new(clock),
            home: folder.path().to_owned(),
            cwd: folder.path().to_owned(),
            worker_id: WorkerId::at(1, [1; 10]),
            process_spawn,
            on_interrupt: AfterInterrupt::Continue,
            features: Vec::new(),
            fanout: turnlane_server::FanoutOptions::default(),
            refuse_peer: None,
        });
        Self {
            server,
            service,
            folder,
            _runtime: runtime,
        }
    }

    /// The directory of the server.
    pub(crate) fn cwd(&self) -> &Path {
        self.folder.path()
    }

    /// A client that has said who it is, with everything it can ask for.
    pub(crate) async fn client(&self) -> TestClient {
        self.client_of(PeerKind::Stdio).await
    }

    /// A client without any capability.
    pub(crate) async fn plain_client(&self) -> TestClient {
        self.greeted(PeerKind::Stdio, Value::Null).await
    }

    pub(crate) async fn client_of(&self, kind: PeerKind) -> TestClient {
        self.greeted(kind, json!({"experimentalApi": true})).await
    }

    /// How much all processes have written so far.
    pub(crate) fn output_bytes(&self) -> u64 {
        self.service.counters().output_bytes.iter().sum()
    }

    /// Whether an end reaches only the process group on this machine.
    pub(crate) fn ends_only_groups(&self) -> bool {
        self.service.report().containment == ContainmentKind::Group
    }

    async fn greeted(&self, kind: PeerKind, capabilities: Value) -> TestClient {
        let (near, far) = Duplex::memory();
        let server = self.server.clone();
        tokio::spawn(async move { server.serve(far, kind).await });
        let mut client = TestClient::new(near);
        let greeting = json!({"clientInfo": {"name": "t", "version": "1"},
            "capabilities": capabilities});
        let answer = client.call("initialize", greeting).await.unwrap();
        assert!(answer.get("result").is_some(), "{answer}");
        client
    }
}

/// The result of a call that must have one.
#[track_caller]
pub(crate) fn result(answer: &Value) -> Value {
    match answer.get("result") {
        Some(result) => result.clone(),
        None => panic!("{answer}"),
    }
}

/// Calls and expects this refusal.
pub(crate) async fn refused(
    client: &mut TestClient,
    method: &str,
    params: Value,
    (code, reason, message): (i64, &str, &str),
) {
    let shown = params.to_string();
    let answer = client.call(method, params).await.unwrap();
    let error = &answer["error"];
    assert_eq!(error["message"], message, "{method} {shown}: {answer}");
    assert_eq!(error["code"], code, "{method} {shown}");
    assert_eq!(error["data"]["reason"], reason, "{method} {shown}");
}

pub(crate) fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// What was told of a stream of a process so far, and whether it was cut.
pub(crate) fn told(client: &TestClient, id: &str, stream: &str) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let mut is_cut = false;
    for message in client.received() {
        let params = &message["params"];
        let is_delta = message["method"] == "command/exec/outputDelta"
            || message["method"] == "process/outputDelta";
        let name = params.get("processId").or(params.get("processHandle"));
        if is_delta && name.is_some_and(|name| name == id) && params["stream"] == stream {
            assert!(!is_cut, "a delta after the last one: {message}");
            bytes.extend(
                STANDARD
                    .decode(params["deltaBase64"].as_str().unwrap())
                    .unwrap(),
            );
            is_cut = params["capReached"].as_bool().unwrap();
        }
    }
    (bytes, is_cut)
}

/// Waits until a stream of a process has told this.
pub(crate) async fn until_told(client: &mut TestClient, id: &str, wanted: &str) {
    loop {
        let (bytes, _) = told(client, id, "stdout");
        if String::from_utf8_lossy(&bytes).contains(wanted) {
            return;
        }
        client.next().await.unwrap();
    }
}
