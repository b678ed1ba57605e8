//! A lane that is not one: it listens, answers as a test wants, and keeps a transcript.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, json};
use tokio::task::JoinHandle;
use turnlane_engine::scripted::{AbortSteps, Clock, Gates, Script, Scripted};
use turnlane_engine::{
    Decided, Entry, Event, Hooks, LaneEnd, NoHooks, Said, Steer, SteerRefused, Steering,
    ToolAnswer, TurnKind, TurnOutcome, TurnRequest, TurnSettings, channel, run,
};
use turnlane_protocol::approval::Decision;
use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
use turnlane_testkit::wait::{DEADLINE, within};

/// The time of every item.
pub(crate) const NOW_MS: i64 = 1_767_225_600_123;

pub(crate) fn clock() -> Clock {
    Arc::new(|| NOW_MS)
}

/// An engine for a script in YAML whose `version: 1` is added.
pub(crate) fn scripted(yaml: &str) -> Scripted {
    let text = format!("version: 1\n{yaml}");
    let script = Script::parse("test.yaml", &text, AbortSteps::Refused).unwrap();
    Scripted::new(script, clock())
}

/// An engine whose every turn plays these steps.
pub(crate) fn steps(yaml: &str) -> Scripted {
    scripted(&format!("turns:\n  - steps:\n{yaml}"))
}

/// The first turn of a thread.
pub(crate) fn request(text: &str) -> TurnRequest {
    numbered(1, text, Vec::new())
}

/// A later turn of that thread.
pub(crate) fn numbered(number: u8, text: &str, history: Vec<Entry>) -> TurnRequest {
    TurnRequest {
        kind: TurnKind::Turn,
        thread_id: ThreadId::at(1, [1; 10]),
        turn_id: TurnId::at(2, [number; 10]),
        client_id: "row-1".to_owned(),
        attempt: 1,
        accepted_ms: 1_767_225_600_000,
        context: Vec::new(),
        engine_state: None,
        history: history.into(),
        unrecorded: Vec::new(),
        input: vec![UserInput::text(text)],
        item_id: Some("input".into()),
        settings: TurnSettings {
            model: "none".to_owned(),
            provider: "nobody".to_owned(),
            cwd: "/project".to_owned(),
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

/// A lane with a turn that runs.
pub(crate) struct Lane {
    pub(crate) end: LaneEnd,
    pub(crate) engine: JoinHandle<()>,
    pub(crate) gates: Gates,
    pub(crate) decision: Decided,
    pub(crate) seen: Seen,
    steering: Steering,
}

/// What a lane has heard so far.
#[derive(Default)]
pub(crate) struct Seen {
    /// Everything, in order, as text; `{turn}` stands for the turn's id.
    pub(crate) lines: Vec<String>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) started: Vec<String>,
    pub(crate) completed: Vec<String>,
    pub(crate) outcome: Option<TurnOutcome>,
}

impl Lane {
    pub(crate) fn start(engine: Scripted, request: TurnRequest) -> Self {
        Self::with_hooks(engine, request, Arc::new(NoHooks))
    }

    pub(crate) fn with_hooks(
        engine: Scripted,
        request: TurnRequest,
        hooks: Arc<dyn Hooks>,
    ) -> Self {
        let gates = engine.gates();
        Self::of(Arc::new(engine), gates, request, hooks)
    }

    /// A turn of an engine that several lanes share.
    pub(crate) fn shared(engine: &Arc<Scripted>, request: TurnRequest) -> Self {
        let gates = engine.gates();
        Self::of(Arc::clone(engine), gates, request, Arc::new(NoHooks))
    }

    fn of(
        engine: Arc<Scripted>,
        gates: Gates,
        request: TurnRequest,
        hooks: Arc<dyn Hooks>,
    ) -> Self {
        let (sink, control, end) = channel(hooks);
        Self {
            end,
            engine: tokio::spawn(run(engine, request, sink, control)),
            gates,
            decision: Decided::new(Decision::Accept),
            seen: Seen::default(),
            steering: Steering::More,
        }
    }

    /// Hears and answers one thing; none when the engine is done.
    pub(crate) async fn step(&mut self) -> Option<()> {
        let said = self.hear().await?;
        self.reply(said);
        Some(())
    }

    /// Hears one thing without answering it.
    pub(crate) async fn hear(&mut self) -> Option<Said> {
        let said = within("the engine", DEADLINE, self.end.said.recv());
        let said = said.await.unwrap()?;
        assert!(self.seen.outcome.is_none(), "said after the end: {said:?}");
        self.seen.note(&said);
        Some(said)
    }

    pub(crate) fn reply(&mut self, said: Said) {
        match said {
            Said::Commit(reply) => reply.send(Ok(())).unwrap_or_default(),
            Said::Approve { reply, .. } => drop(reply.send(self.decision.clone())),
            Said::CloseSteer(reply) => {
                let waits = self.end.steer.waiting() > 0;
                self.steering = if waits {
                    Steering::More
                } else {
                    Steering::Closed
                };
                let _ = reply.send(self.steering);
            }
            Said::CallTool { reply, .. } => drop(reply.send(ToolAnswer {
                text: String::new(),
                success: true,
                end_turn: false,
            })),
            Said::Event(_) | Said::Record(_) | Said::Ended(_) => {}
            Said::HandingOver { .. } | Said::Accepted(_) | Said::SaveState { .. } => {
                panic!("only foreign engines say this")
            }
        }
    }

    /// A steer that is accepted, written and handed over, as a lane does it.
    pub(crate) fn steer(&mut self, item_id: &str) -> Result<(), SteerRefused> {
        if self.steering == Steering::Closed {
            return Err(SteerRefused::Gone);
        }
        self.end.steer.reserve(steer(item_id))?.hand_over();
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

pub(crate) fn steer(item_id: &str) -> Steer {
    Steer::Input {
        input: vec![UserInput::text(format!("words of {item_id}"))],
        item_id: item_id.into(),
        client_id: None,
    }
}

impl Seen {
    fn note(&mut self, said: &Said) {
        let line = match said {
            Said::Event(event) => {
                match event {
                    Event::ItemStarted(item) => self.started.push(item.id.to_string()),
                    Event::ItemCompleted(item) => self.completed.push(item.id.to_string()),
                    _ => {}
                }
                written(event)
            }
            Said::Record(entries) => {
                let lines = entries
                    .iter()
                    .map(|entry| format!("record {} {}", entry.kind.as_str(), entry.items));
                let line = lines.collect::<Vec<_>>().join(" + ");
                self.entries.extend(entries.iter().cloned());
                line
            }
            Said::Commit(_) => "commit".to_owned(),
            Said::Approve { request, .. } => format!("approve {}", request.item_id),
            Said::CloseSteer(_) => "close steer".to_owned(),
            Said::CallTool { call, .. } => format!("call {}", call.tool),
            Said::Ended(outcome) => {
                self.outcome = Some(outcome.as_ref().clone());
                format!("ended {:?}", outcome.status)
            }
            other => format!("{other:?}"),
        };
        let turn = TurnId::at(2, [1; 10]).to_string();
        self.lines.push(line.replace(&turn, "{turn}"));
    }

    pub(crate) fn outcome(&self) -> &TurnOutcome {
        self.outcome.as_ref().unwrap()
    }

    /// Every item that began has ended, once.
    pub(crate) fn assert_whole(&self) {
        let unique: BTreeSet<_> = self.started.iter().collect();
        assert_eq!(unique.len(), self.started.len(), "{:#?}", self.lines);
        assert_eq!(self.started, self.completed, "{:#?}", self.lines);
    }

    /// The lines without those about history.
    pub(crate) fn shown(&self) -> Vec<&str> {
        let lines = self.lines.iter().map(String::as_str);
        lines.filter(|line| !line.starts_with("record")).collect()
    }
}

/// An event as bytes that show every member.
fn written(event: &Event) -> String {
    match event {
        Event::ItemStarted(item) => format!("started {}", json!(item)),
        Event::ItemCompleted(item) => format!("completed {}", json!(item)),
        Event::Delta {
            item_id,
            kind,
            text,
        } => format!("{} {item_id} {text:?}", kind.method()),
        Event::Usage { last, .. } => format!("usage {}", json!(last)),
        Event::Plan { plan, .. } => format!("plan {}", json!(plan)),
        Event::Retry(error) => format!("retry {}", json!(error)),
        other => format!("{other:?}"),
    }
}
