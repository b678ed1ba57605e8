//! A server of some kind, a model behind it that does what it is told, and clients of it.
//!
//! The invariant here: a flow sees a [`Rig`] and nothing of how its server is reached. Whatever was
//! started ends with the rig.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use turnlane::{
    CallError, CallOptions, Client, ClientBuilder, ConnectError, Endpoint, Env, ServerKind,
    SpawnSpec, Supervision, Thread,
};
use turnlane_engine::native::provider::KeyFile;
use turnlane_engine::native::{Native, NativeConfig, NativeOptions};
use turnlane_process::ProcessService;
use turnlane_rpc::auth::Secret;
use turnlane_server::{Embedded, EmbeddedConfig};
use turnlane_testkit::mock_model::{At, Gate, Item, MockModel, RecordedRequest, Reply};
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{MOCK_KEY, TempHome, TestProcess, skipped};

use crate::engines::{KEY_VARIABLE, name_key_for_codex};

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    /// In this process.
    Embedded,
    /// Our binary, spoken to over standard input and output.
    Stdio,
    /// Our binary on a unix socket.
    Unix,
    /// Our binary on a websocket.
    WebSocket,
    /// `codex app-server`, over standard input and output.
    Codex,
}

/// A server that flows run on: how it is reached, and the engine of its threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    transport: Transport,
    engine: &'static str,
}

impl Target {
    /// A server in this process.
    pub(crate) const EMBEDDED: Self = Self::new(Transport::Embedded, "native");
    /// The real Codex, which has no engines.
    pub(crate) const CODEX: Self = Self::new(Transport::Codex, "");

    const fn new(transport: Transport, engine: &'static str) -> Self {
        Self { transport, engine }
    }

    /// Our binary over standard input and output.
    pub(crate) const fn stdio(engine: &'static str) -> Self {
        Self::new(Transport::Stdio, engine)
    }

    /// Our binary on a unix socket.
    pub(crate) const fn unix(engine: &'static str) -> Self {
        Self::new(Transport::Unix, engine)
    }

    /// Our binary on a websocket.
    pub(crate) const fn websocket(engine: &'static str) -> Self {
        Self::new(Transport::WebSocket, engine)
    }

    /// Returns true if the server is Codex, or starts it.
    fn needs_codex(self) -> bool {
        self.transport == Transport::Codex || self.engine.starts_with("codex")
    }

    /// The command line behind the name of the program.
    fn arguments(self, codex: Option<&str>) -> Vec<String> {
        let mut arguments = vec!["app-server".to_owned()];
        if self.transport == Transport::Codex {
            return arguments;
        }
        let mut configure = |key: &str, value: &str| {
            arguments.extend(["-c".to_owned(), format!("{key}={value}")]);
        };
        configure("engine.default", self.engine);
        if let Some(codex) = codex.filter(|_| self.needs_codex()) {
            configure("engine.codex.program", codex);
        }
        arguments
    }
}

/// A method that an engine does not serve and a flow needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    engine: &'static str,
    method: &'static str,
}

impl Refusal {
    /// The engine, and the method.
    pub(crate) const fn of((engine, method): (&'static str, &'static str)) -> Self {
        Self { engine, method }
    }
}

/// A server, its model and its home.
pub(crate) struct Rig {
    target: Target,
    pub(crate) mock: MockModel,
    pub(crate) home: TempHome,
    /// Holds back answers to `wait`.
    pub(crate) gate: Gate,
    server: Server,
}

/// What was started before any client.
enum Server {
    Embedded(Embedded),
    Sockets {
        process: Box<TestProcess>,
        endpoint: SocketAt,
    },
    /// Each client starts its own.
    Spawned {
        program: String,
        arguments: Vec<String>,
    },
}

enum SocketAt {
    Unix(PathBuf),
    WebSocket(String),
}

impl Rig {
    /// Runs a flow on a server, or says that it cannot. Where its engine refuses what the flow needs,
    /// that refusal is checked instead.
    pub(crate) async fn with<F: Future<Output = ()>>(
        target: Target,
        refusals: &[Refusal],
        flow: impl FnOnce(Rig) -> F,
    ) {
        let codex = std::env::var("TURNLANE_TEST_CODEX").ok();
        if target.needs_codex() && codex.is_none() {
            skipped("the SDK on the real Codex: TURNLANE_TEST_CODEX does not name it");
            return;
        }
        let mock = MockModel::start().await.unwrap();
        let gate = Gate::new();
        let held = gate.clone();
        mock.choose_with(move |request| Some(obey(request, &held)));
        let home = TempHome::new().unwrap();
        home.use_model(&mock.base_url()).unwrap();
        if target.engine.starts_with("codex") {
            name_key_for_codex(&home);
        }
        let arguments = target.arguments(codex.as_deref());
        let server = match (target.transport, codex) {
            (Transport::Embedded, _) => Server::Embedded(embedded(&home, &mock).await),
            (Transport::Codex, Some(program)) => Server::Spawned { program, arguments },
            (Transport::Stdio | Transport::Codex, _) => Server::Spawned {
                program: env!("CARGO_BIN_EXE_turnlane").to_owned(),
                arguments,
            },
            (Transport::Unix | Transport::WebSocket, _) => {
                sockets(&home, target.transport, arguments).await
            }
        };
        let rig = Rig {
            target,
            mock,
            home,
            gate,
            server,
        };
        match refusals.iter().find(|known| known.engine == target.engine) {
            Some(known) => rig.refuses(known.method).await,
            None => flow(rig).await,
        }
    }

    /// Checks that the engine refuses a method about a thread with a turn.
    async fn refuses(self, method: &str) {
        let (client, thread) = self.thread().await;
        let turn = thread.turn("hello").await.unwrap().turn;
        let engine = self.target.engine;
        let params = json!({"threadId": thread.id(), "beforeTurnId": turn});
        let answer = client.call_raw(method, params, CallOptions::default());
        let Err(CallError::Rpc(error)) = answer.await else {
            panic!("`{engine}` serves {method}: take the line out of the table of flows");
        };
        assert_eq!(error.reason(), Some("unsupportedByEngine"), "{error:?}");
        let text = format!("engine '{engine}' does not support {method}");
        assert_eq!(error.message, text);
    }

    /// The folder that threads work in.
    pub(crate) fn work(&self) -> PathBuf {
        self.home.workspace().canonicalize().unwrap()
    }

    /// Which product the server is.
    pub(crate) fn kind(&self) -> ServerKind {
        match self.target.transport {
            Transport::Codex => ServerKind::Codex,
            Transport::Embedded | Transport::Stdio | Transport::Unix | Transport::WebSocket => {
                ServerKind::Turnlane
            }
        }
    }

    /// A client with the defaults.
    pub(crate) async fn client(&self) -> Client {
        self.client_with(Client::builder()).await
    }

    /// A client with these choices.
    pub(crate) async fn client_with(&self, builder: ClientBuilder) -> Client {
        self.try_client_with(builder).await.unwrap()
    }

    /// The same, where it may be refused.
    pub(crate) async fn try_client_with(
        &self,
        builder: ClientBuilder,
    ) -> Result<Client, ConnectError> {
        let endpoint = match &self.server {
            Server::Embedded(server) => Endpoint::io(server.connect()),
            Server::Sockets { endpoint, .. } => match endpoint {
                SocketAt::Unix(path) => Endpoint::Unix(path.clone()),
                SocketAt::WebSocket(url) => {
                    let token = std::fs::read_to_string(self.home.turnlane().join("token"));
                    let token = Secret::from(token.unwrap().trim().to_owned());
                    Endpoint::ws(url, Some(token)).unwrap()
                }
            },
            Server::Spawned { program, arguments } => {
                let arguments = arguments.iter().map(OsString::from).collect();
                self.spawned(program.into(), arguments)
            }
        };
        builder.endpoint(endpoint).connect().await
    }

    fn spawned(&self, program: OsString, args: Vec<OsString>) -> Endpoint {
        let key = (KEY_VARIABLE.to_owned(), MOCK_KEY.to_owned());
        let env = self.home.env().into_iter().chain([key]);
        Endpoint::Spawn(SpawnSpec {
            program,
            args,
            cwd: Some(self.work()),
            env: Env::Only(
                env.map(|(name, value)| (name.into(), value.into()))
                    .collect(),
            ),
            supervision: Supervision::Never,
        })
    }

    /// A client and the process of its server, where each client starts its own.
    pub(crate) async fn client_by_pid(&self) -> Option<(Client, i32)> {
        let Server::Spawned { program, arguments } = &self.server else {
            skipped("a server that is killed: here it is not a child of its client");
            return None;
        };
        let pid = self.home.path().join("pid");
        let arguments = arguments.join(" ");
        let script = format!(
            "echo $$ > \"{}\"; exec {program} {arguments}",
            pid.display()
        );
        let endpoint = self.spawned("sh".into(), vec!["-c".into(), script.into()]);
        let client = Client::connect(endpoint).await.unwrap();
        let pid = std::fs::read_to_string(pid).unwrap();
        Some((client, pid.trim().parse().unwrap()))
    }

    /// A client and a thread that may only read.
    pub(crate) async fn thread(&self) -> (Client, Thread) {
        let client = self.client().await;
        let thread = client.threads().start(self.work()).await.unwrap();
        (client, thread)
    }

    /// The same home with a server that was started anew; clients before it are gone.
    pub(crate) async fn restart(mut self) -> Self {
        self.server = match self.server {
            Server::Embedded(server) => {
                server.stop(std::time::Duration::ZERO).await.unwrap();
                Server::Embedded(embedded(&self.home, &self.mock).await)
            }
            Server::Sockets { mut process, .. } => {
                process.terminate().unwrap();
                process.wait(DEADLINE).await.unwrap();
                let codex = std::env::var("TURNLANE_TEST_CODEX").ok();
                let arguments = self.target.arguments(codex.as_deref());
                sockets(&self.home, self.target.transport, arguments).await
            }
            spawned @ Server::Spawned { .. } => spawned,
        };
        self
    }
}

/// A server in this process with the engine of the binary.
async fn embedded(home: &TempHome, mock: &MockModel) -> Embedded {
    let keeper = vec![env!("CARGO_BIN_EXE_turnlane").into(), "__keeper".into()];
    let service = ProcessService::start(turnlane_process::Options {
        keeper: Some(keeper),
        ..turnlane_process::Options::default()
    })
    .unwrap();
    let config = NativeConfig {
        shared: shared(mock),
        keys: KeyFile::parse("keys.env", "MOCK_KEY=k").unwrap(),
        ..NativeConfig::default()
    };
    let native = Native::new(NativeOptions {
        service: service.clone(),
        config: Arc::new(config),
        clock: Arc::new(|| 0),
        variables: Arc::new(|_name| None),
        turnlane_home: home.turnlane(),
        codex_home: None,
    });
    let config = EmbeddedConfig::new(Arc::new(native))
        .folder(home.turnlane().join("embedded"))
        .processes(service)
        .settings(|settings| {
            "mock-model".clone_into(&mut settings.model);
            "mock".clone_into(&mut settings.provider);
        });
    Embedded::start(config).await.unwrap()
}

fn shared(mock: &MockModel) -> serde_json::Map<String, Value> {
    let provider = json!({"name": "mock", "base_url": mock.base_url(), "wire_api": "responses",
        "env_key": "MOCK_KEY"});
    let shared = json!({"model": "mock-model", "model_provider": "mock",
        "model_providers": {"mock": provider}});
    shared.as_object().unwrap().clone()
}

async fn sockets(home: &TempHome, transport: Transport, arguments: Vec<String>) -> Server {
    let path = home.path().join("socket");
    let listen = match transport {
        Transport::Unix => format!("unix://{}", path.display()),
        _ => "ws://127.0.0.1:0".to_owned(),
    };
    let spec = crate::turnlane(&[])
        .args(arguments)
        .args(["--listen", &listen])
        .envs(home.env())
        .current_dir(home.workspace());
    let process = TestProcess::start(spec).unwrap();
    let line = process
        .wait_for_stderr_line(|line| line.starts_with("listening on "), DEADLINE)
        .await
        .unwrap();
    let endpoint = match transport {
        Transport::Unix => SocketAt::Unix(path),
        _ => SocketAt::WebSocket(line.rsplit(' ').next().unwrap().to_owned()),
    };
    Server::Sockets {
        process: Box::new(process),
        endpoint,
    }
}

/// What the model answers to the last thing that was said.
fn obey(request: &RecordedRequest, gate: &Gate) -> Reply {
    let said = request.last_user_text();
    let call = |arguments: Value| {
        // Another name for each command: a thread has many.
        let id = format!("call_{}", request.input().len());
        Reply::of([Item::function_call("exec_command", arguments).call_id(id)])
    };
    let answered = request
        .input()
        .last()
        .is_some_and(|item| item["type"] == "function_call_output");
    if answered && said.starts_with("run silently ") {
        return Reply::of([Item::reasoning("done")]);
    }
    if answered {
        return Reply::text("the command is done");
    }
    if let Some(file) = said.strip_prefix("ask to touch ") {
        return call(
            json!({"cmd": format!("touch {file}"), "yield_time_ms": 30_000,
            "sandbox_permissions": "require_escalated", "justification": "it was asked for"}),
        );
    }
    if let Some(command) = said.strip_prefix("run silently ") {
        return call(json!({"cmd": command, "yield_time_ms": 30_000}));
    }
    if let Some(command) = said.strip_prefix("run ") {
        return call(json!({"cmd": command, "yield_time_ms": 30_000}));
    }
    match said.as_str() {
        "say it in pieces" => Reply::streamed(["one ", "two ", "three"]),
        "answer as json" => Reply::text("{\"answer\":42}"),
        "wait" => Reply::streamed(["still ", "here"]).gated_by(At::LastEvent, gate),
        "fail" => Reply::failed(turnlane_testkit::mock_model::ApiError::invalid_prompt()),
        said => Reply::text(format!("you said {said}")),
    }
}
