//! A thread with real processes and a lane that answers as a test wants.
//!
//! The invariant here: a turn that ended has let go of its lane, or [`Turn::over`] fails; so every
//! test that ends its turns proves that nothing can be emitted afterwards.
//!
//! The service of these tests has no keeper, so that an end reaches process groups.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value};
use tokio::task::JoinHandle;
use turnlane_process::{Options, ProcessService};
use turnlane_protocol::approval::Decision;
use turnlane_protocol::ids::{ItemId, ThreadId, TurnId};
use turnlane_protocol::item::{CommandExecution, ItemBody, ThreadItem};
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use crate::native::environment::CommandEnvironment;
use crate::native::redact::Redactor;
use crate::native::rules::RuleSet;
use crate::native::sessions::{InTurn, Sessions};
use crate::native::tools::exec::exec_command;
use crate::native::tools::write_stdin::write_stdin;
use crate::native::tools::{
    Called, Dangerous, LoginShell, Output, Permission, Pictures, Slot, Stop, ToolSettings, ToolTurn,
};
use crate::{
    ApprovalRequest, CancelHandle, CancelReason, Decided, Event, Fenced, LaneEnd, NoHooks, Said,
    TurnSettings, channel,
};

/// The value every test's redactor knows.
pub(super) const KEY: &str = "sk-planted-12345678";

/// A thread.
pub(super) struct Thread {
    pub(super) service: ProcessService,
    pub(super) sessions: Sessions,
    /// Removed with the thread.
    _dir: tempfile::TempDir,
    pub(super) settings: TurnSettings,
    pub(super) tools: ToolSettings,
    pub(super) rules: Arc<RuleSet>,
    turns: u8,
}

pub(super) const THREAD: u64 = 1;

impl Thread {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        Self {
            service: ProcessService::start(Options::default()).unwrap(),
            sessions: Sessions::default(),
            settings: TurnSettings {
                model: "none".to_owned(),
                provider: "nobody".to_owned(),
                cwd: cwd.to_str().unwrap().to_owned(),
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
            rules: Arc::default(),
            tools: ToolSettings {
                environment: CommandEnvironment::default().policy,
                shell: "/bin/sh".to_owned(),
                login: LoginShell::No,
                dangerous: Dangerous::Guarded,
                parallel_max: 8,
                output_tokens_max: 10_000,
                pictures: Pictures::Refused,
                withheld: BTreeSet::new(),
                variables: Vec::new(),
            },
            _dir: dir,
            turns: 0,
        }
    }

    pub(super) fn with_policy(approval: ApprovalPolicy, sandbox: SandboxPolicy) -> Self {
        let mut thread = Self::new();
        thread.settings.approval_policy = approval;
        thread.settings.sandbox_policy = sandbox;
        thread
    }

    pub(super) fn id() -> ThreadId {
        ThreadId::at(THREAD, [1; 10])
    }

    /// A path in the thread's directory.
    pub(super) fn path(&self, name: &str) -> std::path::PathBuf {
        std::path::Path::new(&self.settings.cwd).join(name)
    }

    pub(super) fn turn(&mut self) -> Turn {
        self.turn_deciding([])
    }

    /// A turn whose lane decides so, in this order.
    pub(super) fn turn_deciding(&mut self, decisions: impl Into<VecDeque<Decided>>) -> Turn {
        self.turns += 1;
        let turn_id = TurnId::at(2, [self.turns; 10]);
        let (sink, control, lane) = channel(Arc::new(NoHooks));
        let LaneEnd {
            said,
            cancel,
            steer: _,
        } = lane;
        let entered = self.sessions.enter(Self::id(), turn_id);
        let heard = Heard::default();
        let listening = tokio::spawn(listen(said, heard.clone(), decisions.into()));
        let turn = ToolTurn {
            turn_id,
            settings: Arc::new(self.settings.clone()),
            tools: self.tools.clone(),
            sink,
            ask: control.ask,
            cancel: control.cancel,
            rules: Arc::clone(&self.rules),
            redactor: Arc::new(Redactor::new([KEY])),
            service: self.service.clone(),
            sessions: Arc::clone(entered.sessions()),
            diff: tokio::sync::Mutex::default(),
            clock: Arc::new(|| 1_767_225_600_123),
        };
        Turn {
            tools: Arc::new(turn),
            entered,
            heard,
            cancel,
            listening,
        }
    }

    /// Processes of this test that still run.
    pub(super) fn running(&self) -> usize {
        let is_running = |listed: &turnlane_process::Listed| listed.status.is_none();
        self.service.list().into_iter().filter(is_running).count()
    }
}

/// What a lane heard.
#[derive(Clone, Default)]
pub(super) struct Heard {
    pub(super) events: Arc<Mutex<Vec<Event>>>,
    pub(super) asked: Arc<Mutex<Vec<ApprovalRequest>>>,
    /// Whether the next commit finds that another worker owns the lane.
    pub(super) is_fenced: Arc<Mutex<bool>>,
}

async fn listen(
    mut said: tokio::sync::mpsc::Receiver<Said>,
    heard: Heard,
    mut decisions: VecDeque<Decided>,
) {
    // A question nobody answers stays open.
    let mut open = Vec::new();
    while let Some(said) = said.recv().await {
        match said {
            Said::Event(event) => heard.events.lock().unwrap().push(event),
            Said::Commit(reply) => {
                let is_fenced = *heard.is_fenced.lock().unwrap();
                let answer = if is_fenced { Err(Fenced) } else { Ok(()) };
                let _ = reply.send(answer);
            }
            Said::Approve { request, reply } => {
                heard.asked.lock().unwrap().push(*request);
                match decisions.pop_front() {
                    Some(decided) => {
                        let _ = reply.send(decided);
                    }
                    None => open.push(reply),
                }
            }
            other => panic!("tools do not say {other:?}"),
        }
    }
}

/// A turn that calls tools.
pub(super) struct Turn {
    pub(super) tools: Arc<ToolTurn>,
    entered: InTurn,
    pub(super) heard: Heard,
    cancel: CancelHandle,
    listening: JoinHandle<()>,
}

impl Turn {
    pub(super) fn called(item: &str, arguments: Value, permission: Permission) -> Called {
        Called {
            call_id: format!("call_{item}"),
            item_id: item.into(),
            name: String::new(),
            arguments,
            permission,
            slot: Slot::default(),
        }
    }

    pub(super) async fn call(&self, item: &str, arguments: Value) -> Result<Output, Stop> {
        let called = Self::called(item, arguments, Permission::Usual);
        within("the command", DEADLINE, exec_command(&self.tools, &called))
            .await
            .unwrap()
    }

    pub(super) async fn exec(&self, item: &str, arguments: Value) -> Output {
        self.call(item, arguments).await.unwrap()
    }

    pub(super) async fn write(&self, item: &str, arguments: Value) -> Output {
        let called = Self::called(item, arguments, Permission::Usual);
        let written = within("the write", DEADLINE, write_stdin(&self.tools, &called));
        written.await.unwrap().unwrap()
    }

    pub(super) fn stop(&self) {
        self.cancel.cancel(CancelReason::Interrupt);
    }

    /// Polls until the session's output has this text in it; returns all of it.
    pub(super) async fn write_until(&self, chars: &str, number: u64, wanted: &str) -> String {
        let mut text = String::new();
        let mut chars = chars;
        let told = async || {
            let arguments = serde_json::json!({"session_id": number, "chars": chars,
                "yield_time_ms": 50});
            text.push_str(&self.write("w", arguments).await.text);
            chars = "";
            text.contains(wanted)
        };
        Box::pin(eventually(wanted, DEADLINE, told)).await.unwrap();
        text
    }

    /// The turn completes; everything its lane heard.
    pub(super) async fn end(self) -> Told {
        let Self { tools, entered, .. } = self;
        drop(tools);
        entered.end().await;
        Self::over(self.listening, self.heard).await
    }

    /// The turn was stopped; everything its lane heard.
    pub(super) async fn interrupt(self) -> Told {
        let Self { tools, entered, .. } = self;
        drop(tools);
        entered.interrupt().await;
        Self::over(self.listening, self.heard).await
    }

    /// The turn is dropped without a word.
    pub(super) async fn lose(self) -> Told {
        let Self { tools, entered, .. } = self;
        drop((tools, entered));
        Self::over(self.listening, self.heard).await
    }

    async fn over(listening: JoinHandle<()>, heard: Heard) -> Told {
        within("the lane to be let go", DEADLINE, listening)
            .await
            .unwrap()
            .unwrap();
        let events = std::mem::take(&mut *heard.events.lock().unwrap());
        let asked = std::mem::take(&mut *heard.asked.lock().unwrap());
        Told { events, asked }
    }
}

/// What a whole turn told.
pub(super) struct Told {
    pub(super) events: Vec<Event>,
    pub(super) asked: Vec<ApprovalRequest>,
}

impl Told {
    /// One word per event; deltas that follow each other are one.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for event in &self.events {
            let word = match event {
                Event::ItemStarted(item) => format!("{} started", item.id),
                Event::Delta { item_id, .. } => format!("{item_id} grew"),
                Event::TerminalInteraction { item_id, stdin, .. } => {
                    format!("{item_id} was told {stdin:?}")
                }
                Event::ItemCompleted(item) => format!("{} completed", item.id),
                other => panic!("no event of a command: {other:?}"),
            };
            if !word.ends_with("grew") || words.last() != Some(&word) {
                words.push(word);
            }
        }
        words
    }

    /// The item as it was started.
    pub(super) fn started(&self, item: &str) -> CommandExecution {
        self.find(item, |event| match event {
            Event::ItemStarted(item) => Some(item),
            _ => None,
        })
    }

    /// The item as it was completed.
    pub(super) fn completed(&self, item: &str) -> CommandExecution {
        self.find(item, |event| match event {
            Event::ItemCompleted(item) => Some(item),
            _ => None,
        })
    }

    fn find(
        &self,
        item: &str,
        pick: impl Fn(&Event) -> Option<&Box<ThreadItem>>,
    ) -> CommandExecution {
        let id = ItemId::from(item);
        let mut found = self.events.iter().filter_map(pick);
        let found = found.find(|item| item.id == id).unwrap();
        match &found.body {
            ItemBody::CommandExecution(command) => (**command).clone(),
            other => panic!("no command: {other:?}"),
        }
    }

    /// The deltas of an item.
    pub(super) fn deltas(&self, item: &str) -> Vec<&str> {
        let id = ItemId::from(item);
        let deltas = self.events.iter().filter_map(|event| match event {
            Event::Delta { item_id, text, .. } if *item_id == id => Some(text.as_str()),
            _ => None,
        });
        deltas.collect()
    }
}

/// Decisions without reasons.
pub(super) fn decide<const N: usize>(decisions: [Decision; N]) -> VecDeque<Decided> {
    decisions.into_iter().map(Decided::new).collect()
}

/// The text behind `Output:`.
pub(super) fn told_output(output: &Output) -> &str {
    output.text.split_once("\nOutput:\n").unwrap().1
}

/// Whether a process lives; a dead one that nobody waited for does not.
pub(super) fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap()
            .trim()
            .starts_with(['Z', 'X'])
    })
}
