//! The real Codex with a home of its own, and a lane that listens and answers as a test wants.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;
use turnlane_engine::codex::{AppServers, Codex, CodexOptions};
use turnlane_engine::codex_program::{CodexProgram, CodexProgramOptions};
use turnlane_engine::{
    Decided, Engine, Event, LaneEnd, NoHooks, OutcomeStatus, Said, Steer, Steering, TurnKind,
    TurnOutcome, TurnRequest, TurnSettings, channel, run,
};
use turnlane_process::ProcessService;
use turnlane_protocol::approval::Decision;
use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
use turnlane_testkit::mock_model::MockModel;
use turnlane_testkit::wait::{DEADLINE, within};
use turnlane_testkit::{MOCK_KEY, MOCK_KEY_VARIABLE, Provider, TempHome, skipped};

/// Long before every turn: the clock of Codex is the machine's.
const ACCEPTED_MS: i64 = 1_767_225_600_000;

/// The variable of the provider's key.
const KEY_VARIABLE: &str = "MOCK_PROVIDER_KEY";

/// A size for every change, or the contract's own.
pub(crate) fn size(usual: usize, full: usize) -> usize {
    match std::env::var_os("TURNLANE_TEST_FULL") {
        Some(_) => full,
        None => usual,
    }
}

/// An engine with the real Codex.
pub(crate) struct Bench {
    pub(crate) mock: MockModel,
    pub(crate) home: TempHome,
    pub(crate) engine: Arc<Codex>,
    pub(crate) servers: AppServers,
    pub(crate) service: ProcessService,
    program: String,
}

impl Bench {
    /// None, and said so, where there is no Codex.
    pub(crate) async fn new() -> Option<Self> {
        let Ok(program) = std::env::var("TURNLANE_TEST_CODEX") else {
            skipped("engine codex: TURNLANE_TEST_CODEX does not name the Codex CLI");
            return None;
        };
        let mock = MockModel::start().await.unwrap();
        let home = TempHome::new().unwrap();
        let provider = Provider {
            request_max_retries: Some(0),
            stream_max_retries: Some(0),
            ..Provider::default()
        };
        home.use_provider(&mock.base_url(), &provider).unwrap();
        // The children get no variable of ours, so the key needs another name.
        let config = home.codex().join("config.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replace(MOCK_KEY_VARIABLE, KEY_VARIABLE)).unwrap();
        let service = ProcessService::start(turnlane_process::Options::default()).unwrap();
        let (engine, servers) = engine(&program, &home, &service);
        Some(Self {
            mock,
            home,
            engine,
            servers,
            service,
            program,
        })
    }

    /// What a new worker would have: another engine, with children of its own.
    pub(crate) fn restart(&mut self) {
        (self.engine, self.servers) = engine(&self.program, &self.home, &self.service);
    }

    pub(crate) fn request(&self, number: u8, text: &str) -> TurnRequest {
        TurnRequest {
            kind: TurnKind::Turn,
            thread_id: ThreadId::at(1, [1; 10]),
            turn_id: TurnId::at(2, [number; 10]),
            client_id: format!("row-{number}"),
            attempt: 1,
            accepted_ms: ACCEPTED_MS,
            context: Vec::new(),
            engine_state: None,
            history: Arc::default(),
            unrecorded: Vec::new(),
            input: vec![UserInput::text(text)],
            item_id: Some("input".into()),
            settings: TurnSettings {
                model: String::new(),
                provider: String::new(),
                cwd: self.home.workspace().display().to_string(),
                runtime_workspace_roots: Vec::new(),
                environments: None,
                config: Map::new(),
                approval_policy: ApprovalPolicy::OnRequest,
                sandbox_policy: SandboxPolicy::DangerFullAccess,
                requires_sandbox: false,
                effort: None,
                summary: None,
                service_tier: None,
                output_schema: None,
                base_instructions: None,
                developer_instructions: None,
            },
            runtime_tools: Vec::new(),
            command_variables: Vec::new(),
            thread_usage: None,
        }
    }

    /// A turn on the thread of an earlier one.
    pub(crate) fn next(&self, number: u8, text: &str, before: &Lane) -> TurnRequest {
        TurnRequest {
            engine_state: before.state.clone(),
            ..self.request(number, text)
        }
    }

    pub(crate) fn start(&self, request: TurnRequest) -> Lane {
        let (sink, control, end) = channel(Arc::new(NoHooks));
        let engine: Arc<dyn Engine> = Arc::<Codex>::clone(&self.engine);
        Lane {
            end,
            engine: tokio::spawn(run(engine, request, sink, control)),
            lines: Vec::new(),
            completed: Vec::new(),
            state: None,
            outcome: None,
            decided: Decided::new(Decision::Accept),
        }
    }

    /// The children of the engine, as the operating system names them.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let running = self.service.list().into_iter();
        let running = running.filter(|listed| listed.status.is_none());
        running.map(|listed| listed.info.pid).collect()
    }

    /// `kill -9` of every child.
    pub(crate) fn kill(&self) {
        for pid in self.pids() {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            // A child that is gone already is as good.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

fn engine(program: &str, home: &TempHome, service: &ProcessService) -> (Arc<Codex>, AppServers) {
    let environment = home.env().into_iter();
    let environment = environment.chain([(KEY_VARIABLE.to_owned(), MOCK_KEY.to_owned())]);
    let environment = environment.map(|(name, value)| (name.into(), value.into()));
    let program = CodexProgram::new(CodexProgramOptions {
        service: service.clone(),
        program: Some(program.into()),
        environment: environment.collect(),
        env_remove: Vec::new(),
    });
    let clock: turnlane_engine::scripted::Clock = Arc::new(|| ACCEPTED_MS);
    let servers = AppServers::new(program, 1, clock.clone());
    let options = CodexOptions {
        servers: servers.clone(),
        clock,
    };
    (Arc::new(Codex::new(options)), servers)
}

/// A lane with a turn that runs.
pub(crate) struct Lane {
    pub(crate) end: LaneEnd,
    pub(crate) engine: JoinHandle<()>,
    pub(crate) lines: Vec<String>,
    pub(crate) completed: Vec<ThreadItem>,
    pub(crate) state: Option<Box<RawValue>>,
    pub(crate) outcome: Option<TurnOutcome>,
    pub(crate) decided: Decided,
}

impl Lane {
    /// Hears and answers one thing; none when the engine is done.
    pub(crate) async fn step(&mut self) -> Option<()> {
        let said = within("the engine", DEADLINE, self.end.said.recv());
        let said = said.await.unwrap()?;
        let line = match said {
            Said::Event(Event::ItemStarted(item)) => format!("started {}", item.type_word()),
            Said::Event(Event::ItemCompleted(item)) => {
                let line = format!("completed {}", item.type_word());
                self.completed.push(*item);
                line
            }
            Said::Event(Event::Delta { text, .. }) => format!("delta {text}"),
            Said::Event(Event::Usage { last, .. }) => format!("usage {}", last.total_tokens),
            Said::Event(event) => format!("{event:?}"),
            Said::Approve { reply, .. } => {
                let _ = reply.send(self.decided.clone());
                "approve".to_owned()
            }
            Said::CloseSteer(reply) => {
                let waits = self.end.steer.waiting() > 0;
                let steering = if waits {
                    Steering::More
                } else {
                    Steering::Closed
                };
                let _ = reply.send(steering);
                "close steer".to_owned()
            }
            Said::HandingOver { reply, .. } => {
                let _ = reply.send(Ok(()));
                "handing over".to_owned()
            }
            Said::Accepted(reply) => {
                let _ = reply.send(Ok(()));
                "accepted".to_owned()
            }
            Said::SaveState { state, reply } => {
                self.state = Some(state);
                let _ = reply.send(Ok(()));
                "state".to_owned()
            }
            Said::Ended(outcome) => {
                let line = format!("ended {:?}", outcome.status);
                self.outcome = Some(*outcome);
                line
            }
            other => panic!("{other:?}"),
        };
        self.lines.push(line);
        Some(())
    }

    /// Listens and answers until a line begins like this.
    pub(crate) async fn until(&mut self, begins: &str) {
        while !self.lines.iter().any(|line| line.starts_with(begins)) {
            let more = self.step().await;
            assert!(more.is_some(), "no {begins}: {:#?}", self.lines);
        }
    }

    /// Listens to the end; every item that began has ended.
    pub(crate) async fn finish(&mut self) -> TurnOutcome {
        while self.step().await.is_some() {}
        assert_eq!(self.count("started "), self.count("completed "));
        self.outcome.clone().unwrap()
    }

    pub(crate) async fn completes(&mut self) -> TurnOutcome {
        let outcome = self.finish().await;
        let status = outcome.status;
        assert_eq!(status, OutcomeStatus::Completed, "{outcome:?}");
        outcome
    }

    pub(crate) fn count(&self, begins: &str) -> usize {
        let lines = self.lines.iter();
        lines.filter(|line| line.starts_with(begins)).count()
    }

    pub(crate) fn item(&self, word: &str) -> Value {
        let item = self.completed.iter().find(|item| item.type_word() == word);
        json!(item.unwrap())
    }

    pub(crate) fn thread(&self) -> String {
        let state: Value = serde_json::from_str(self.state.as_ref().unwrap().get()).unwrap();
        state["threadId"].as_str().unwrap().to_owned()
    }

    pub(crate) fn steer(&self, text: &str) {
        let steer = Steer::Input {
            input: vec![UserInput::text(text)],
            item_id: "steer".into(),
            client_id: None,
        };
        self.end.steer.reserve(steer).unwrap().hand_over();
    }
}

/// How long a command of a test would run; longer than any test.
pub(crate) const LONG: Duration = Duration::from_secs(987);
