//! A native engine with a mock for a provider, and a lane that listens and answers as a test wants.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use turnlane_engine::native::{Native, NativeConfig, NativeOptions};
use turnlane_engine::{
    ApprovalRequest, Decided, Engine, Entry, Event, Fenced, Hooks, LaneEnd, NoHooks, OutcomeStatus,
    RuntimeTool, Said, Steer, SteerRefused, Steering, ToolAnswer, ToolCall, TurnKind, TurnOutcome,
    TurnRequest, TurnSettings, channel, run,
};
use turnlane_process::{ContainmentKind, ProcessService};
use turnlane_protocol::approval::Decision;
use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
use turnlane_testkit::mock_model::MockModel;
use turnlane_testkit::wait::{DEADLINE, within};

/// 2026-01-01, the time of everything.
pub(crate) const NOW_MS: i64 = 1_767_225_600_123;
/// The key of the provider.
pub(crate) const KEY: &str = "sk-planted-4711";

/// An engine, its provider, and folders that vanish.
pub(crate) struct Bench {
    pub(crate) mock: MockModel,
    pub(crate) engine: Arc<Native>,
    pub(crate) home: TempDir,
    pub(crate) cwd: TempDir,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(&json!({}), &json!({})).await
    }

    /// A bench with more keys in the shared file and in the table `native`.
    pub(crate) async fn with(shared: &Value, native: &Value) -> Self {
        let mock = MockModel::start().await.unwrap();
        let mut config = NativeConfig {
            shared: shared.as_object().unwrap().clone(),
            native: native.as_object().unwrap().clone(),
            ..NativeConfig::default()
        };
        let mut provider = json!({
            "base_url": mock.base_url(), "env_key": "MOCK_KEY",
            "request_max_retries": 0, "stream_max_retries": 0,
        });
        for (name, value) in shared["mock"].as_object().into_iter().flatten() {
            provider[name] = value.clone();
        }
        let providers = config.shared.entry("model_providers");
        providers.or_insert_with(|| json!({}))["mock"] = provider;
        let home = TempDir::new().unwrap();
        let engine = engine(config, home.path().to_owned());
        let cwd = TempDir::new().unwrap();
        Self {
            mock,
            engine: Arc::new(engine),
            home,
            cwd,
        }
    }

    pub(crate) fn cwd(&self) -> String {
        self.cwd
            .path()
            .canonicalize()
            .unwrap()
            .display()
            .to_string()
    }

    /// Turn `number` of the thread.
    pub(crate) fn request(&self, number: u8, text: &str, history: Vec<Entry>) -> TurnRequest {
        TurnRequest {
            kind: TurnKind::Turn,
            thread_id: thread(),
            turn_id: TurnId::at(2, [number; 10]),
            client_id: format!("row-{number}"),
            attempt: 1,
            accepted_ms: 1_767_225_600_000,
            context: Vec::new(),
            engine_state: None,
            history: history.into(),
            unrecorded: Vec::new(),
            input: vec![UserInput::text(text)],
            item_id: Some(format!("input-{number}").as_str().into()),
            settings: self.settings(),
            runtime_tools: Vec::new(),
            command_variables: Vec::new(),
            thread_usage: None,
        }
    }

    pub(crate) fn settings(&self) -> TurnSettings {
        TurnSettings {
            model: "m-1".to_owned(),
            provider: "mock".to_owned(),
            cwd: self.cwd(),
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
        }
    }

    pub(crate) fn start(&self, request: TurnRequest) -> Lane {
        self.hooked(request, Arc::new(NoHooks))
    }

    pub(crate) fn hooked(&self, request: TurnRequest, hooks: Arc<dyn Hooks>) -> Lane {
        let (sink, control, end) = channel(hooks);
        let engine: Arc<dyn Engine> = Arc::<Native>::clone(&self.engine);
        Lane {
            end,
            engine: tokio::spawn(run(engine, request, sink, control)),
            seen: Seen::default(),
            steering: Steering::More,
            fence: Ok(()),
            decide: Box::new(|_| Decided::new(Decision::Accept)),
            answer: Box::new(|call| ToolAnswer {
                text: format!("answer to {}", call.call_id),
                success: true,
                end_turn: false,
            }),
        }
    }

    /// Runs a first turn to its end.
    pub(crate) async fn turn(&self, text: &str) -> Seen {
        self.start(self.request(1, text, vec![])).finish().await
    }
}

pub(crate) fn thread() -> ThreadId {
    ThreadId::at(1, [1; 10])
}

fn engine(config: NativeConfig, home: PathBuf) -> Native {
    let service = ProcessService::start(turnlane_process::Options {
        containment: Some(ContainmentKind::Group),
        ..turnlane_process::Options::default()
    });
    Native::new(NativeOptions {
        service: service.unwrap(),
        config: Arc::new(config),
        clock: Arc::new(|| NOW_MS),
        variables: Arc::new(|name| match name {
            "MOCK_KEY" => Some(KEY.to_owned()),
            "SHELL" => Some("/bin/sh".to_owned()),
            _ => None,
        }),
        turnlane_home: home,
        codex_home: None,
    })
}

/// A tool of the runtime.
pub(crate) fn tool(name: &str) -> RuntimeTool {
    RuntimeTool {
        name: name.to_owned(),
        description: "does something".to_owned(),
        parameters: json!({"type": "object", "properties": {}}),
    }
}

/// A lane with a turn that runs.
pub(crate) struct Lane {
    pub(crate) end: LaneEnd,
    pub(crate) engine: JoinHandle<()>,
    pub(crate) seen: Seen,
    steering: Steering,
    /// What commits are answered.
    pub(crate) fence: Result<(), Fenced>,
    /// Who decides approvals.
    pub(crate) decide: Box<dyn FnMut(&ApprovalRequest) -> Decided + Send>,
    /// Who answers calls of runtime tools.
    pub(crate) answer: Box<dyn FnMut(&ToolCall) -> ToolAnswer + Send>,
}

/// What a lane has heard so far.
#[derive(Default)]
pub(crate) struct Seen {
    /// Everything, in order, in short.
    pub(crate) lines: Vec<String>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) started: Vec<ThreadItem>,
    pub(crate) completed: Vec<ThreadItem>,
    pub(crate) warnings: Vec<String>,
    pub(crate) outcome: Option<TurnOutcome>,
}

impl Lane {
    /// Hears one thing without answering it; none when the engine is done.
    pub(crate) async fn hear(&mut self) -> Option<Said> {
        let said = within("the engine", DEADLINE, self.end.said.recv());
        let said = said.await.unwrap()?;
        assert!(self.seen.outcome.is_none(), "said after the end: {said:?}");
        self.seen.note(&said);
        Some(said)
    }

    pub(crate) fn reply(&mut self, said: Said) {
        match said {
            Said::Commit(reply) => drop(reply.send(self.fence)),
            Said::Approve { request, reply } => drop(reply.send((self.decide)(&request))),
            Said::CloseSteer(reply) => {
                let waits = self.end.steer.waiting() > 0;
                self.steering = if waits {
                    Steering::More
                } else {
                    Steering::Closed
                };
                let _ = reply.send(self.steering);
            }
            Said::CallTool { call, reply } => drop(reply.send((self.answer)(&call))),
            Said::Event(_) | Said::Record(_) | Said::Ended(_) => {}
            Said::HandingOver { .. } | Said::Accepted(_) | Said::SaveState { .. } => {
                panic!("only foreign engines say this")
            }
        }
    }

    pub(crate) async fn step(&mut self) -> Option<()> {
        let said = self.hear().await?;
        self.reply(said);
        Some(())
    }

    /// Listens and answers until a line begins like this.
    pub(crate) async fn until(&mut self, begins: &str) {
        let heard = |lane: &Self| lane.seen.lines.iter().any(|line| line.starts_with(begins));
        while !heard(self) {
            let more = self.step().await;
            assert!(more.is_some(), "no {begins}: {:#?}", self.seen.lines);
        }
    }

    /// A steer that is accepted, written and handed over, as a lane does it.
    pub(crate) fn steer(&mut self, item_id: &str) -> Result<(), SteerRefused> {
        if self.steering == Steering::Closed {
            return Err(SteerRefused::Gone);
        }
        let steer = Steer::Input {
            input: vec![UserInput::text(format!("words of {item_id}"))],
            item_id: item_id.into(),
            client_id: None,
        };
        self.end.steer.reserve(steer)?.hand_over();
        Ok(())
    }

    /// Listens to the end.
    pub(crate) async fn finish(mut self) -> Seen {
        while self.step().await.is_some() {}
        within("the engine's end", DEADLINE, self.engine)
            .await
            .unwrap()
            .unwrap();
        self.seen
    }
}

impl Seen {
    fn note(&mut self, said: &Said) {
        let line = match said {
            Said::Event(event) => self.note_event(event),
            Said::Record(entries) => {
                let kinds: Vec<_> = entries.iter().map(|entry| entry.kind.as_str()).collect();
                self.entries.extend(entries.iter().cloned());
                format!("record {}", kinds.join(" "))
            }
            Said::Commit(_) => "commit".to_owned(),
            Said::Approve { .. } => "approve".to_owned(),
            Said::CloseSteer(_) => "close steer".to_owned(),
            Said::CallTool { call, .. } => format!("call {} {}", call.tool, call.call_id),
            Said::Ended(outcome) => {
                self.outcome = Some(outcome.as_ref().clone());
                format!("ended {:?}", outcome.status)
            }
            other => format!("{other:?}"),
        };
        self.lines.push(line);
    }

    fn note_event(&mut self, event: &Event) -> String {
        match event {
            Event::ItemStarted(item) => {
                self.started.push(item.as_ref().clone());
                format!("started {}", item.type_word())
            }
            Event::ItemCompleted(item) => {
                self.completed.push(item.as_ref().clone());
                format!("completed {}", item.type_word())
            }
            Event::ItemDropped(item) => format!("dropped {}", item.type_word()),
            Event::Delta { text, .. } => format!("delta {text:?}"),
            Event::Usage { last, .. } => format!("usage {}", last.total_tokens),
            Event::Plan { .. } => "plan".to_owned(),
            Event::Diff(_) => "diff".to_owned(),
            Event::Warning(text) => {
                self.warnings.push(text.clone());
                format!("warning {text}")
            }
            Event::Retry(error) => format!("retry {}", error.message),
            Event::SummaryPartAdded { .. } => "summary part".to_owned(),
            Event::TerminalInteraction { .. } => "terminal".to_owned(),
            Event::RateLimits(_) => "limits".to_owned(),
            Event::Hook { phase, .. } => format!("hook {phase:?}"),
        }
    }

    pub(crate) fn outcome(&self) -> &TurnOutcome {
        self.outcome.as_ref().unwrap()
    }

    pub(crate) fn assert_completed(&self) -> &Self {
        let outcome = self.outcome();
        let lines = &self.lines;
        assert_eq!(
            outcome.status,
            OutcomeStatus::Completed,
            "{outcome:?} {lines:#?}"
        );
        self.assert_whole()
    }

    /// Every item that began has ended, once.
    pub(crate) fn assert_whole(&self) -> &Self {
        let ids = |items: &[ThreadItem]| -> Vec<String> {
            items.iter().map(|item| item.id.to_string()).collect()
        };
        let (started, completed) = (ids(&self.started), ids(&self.completed));
        let unique: BTreeSet<_> = started.iter().collect();
        assert_eq!(unique.len(), started.len(), "{:#?}", self.lines);
        let ended: BTreeSet<_> = completed.iter().collect();
        assert_eq!(unique, ended, "{:#?}", self.lines);
        assert_eq!(started.len(), completed.len(), "{:#?}", self.lines);
        self
    }

    /// The lines that begin like this.
    pub(crate) fn count(&self, begins: &str) -> usize {
        let lines = self.lines.iter();
        lines.filter(|line| line.starts_with(begins)).count()
    }

    /// The completed items of a type, as JSON.
    pub(crate) fn items(&self, word: &str) -> Vec<Value> {
        let items = self.completed.iter();
        let items = items.filter(|item| item.type_word() == word);
        items.map(|item| json!(item)).collect()
    }

    /// Where the first line that begins like this stands.
    pub(crate) fn place(&self, begins: &str) -> usize {
        let found = self.lines.iter().position(|line| line.starts_with(begins));
        found.unwrap_or_else(|| panic!("no {begins}: {:#?}", self.lines))
    }

    /// A history of an earlier one and what was recorded here.
    pub(crate) fn after(&self, before: &[Entry]) -> Vec<Entry> {
        before.iter().chain(&self.entries).cloned().collect()
    }

    /// Everything that was said, as one text, to look for what should not be there.
    pub(crate) fn everything(&self) -> String {
        let items = self.started.iter().chain(&self.completed);
        let items: Vec<String> = items.map(|item| json!(item).to_string()).collect();
        let entries: Vec<&str> = self
            .entries
            .iter()
            .map(|entry| entry.items.as_str())
            .collect();
        let outcome = format!("{:?}", self.outcome);
        [
            self.lines.join("\n"),
            items.join("\n"),
            entries.join("\n"),
            outcome,
        ]
        .join("\n")
    }
}
