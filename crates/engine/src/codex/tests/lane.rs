//! A lane that listens, answers as a test wants, and keeps a transcript.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, json};
use tokio::task::JoinHandle;
use turnlane_protocol::approval::Decision;
use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
use turnlane_testkit::wait::{DEADLINE, within};

use super::double::{Bench, NOW_MS};
use crate::{
    ApprovalRequest, Decided, Engine, Event, LaneEnd, NoHooks, Said, Steer, Steering, ToolAnswer,
    TurnKind, TurnOutcome, TurnRequest, TurnSettings, channel, run,
};

/// The first turn of the thread.
pub(super) fn request(text: &str) -> TurnRequest {
    TurnRequest {
        kind: TurnKind::Turn,
        thread_id: ThreadId::at(1, [1; 10]),
        turn_id: TurnId::at(2, [1; 10]),
        client_id: "row".to_owned(),
        attempt: 1,
        accepted_ms: NOW_MS,
        context: Vec::new(),
        engine_state: None,
        history: Arc::default(),
        unrecorded: Vec::new(),
        input: vec![UserInput::text(text)],
        item_id: Some("input".into()),
        settings: TurnSettings {
            model: String::new(),
            provider: String::new(),
            cwd: "/w".to_owned(),
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

/// The state of a thread that Codex has; `total`: it has counted tokens on it.
pub(super) fn state(thread: &str, total: Option<i64>) -> Box<RawValue> {
    let total = total.map(|tokens| {
        json!({
            "inputTokens": tokens, "cachedInputTokens": 0, "cacheWriteInputTokens": 0,
            "outputTokens": 0, "reasoningOutputTokens": 0,
        })
    });
    let state = json!({"v": 1, "threadId": thread, "total": total});
    serde_json::value::to_raw_value(&state).unwrap()
}

type Decide = Box<dyn FnMut(&ApprovalRequest) -> Option<Decided> + Send>;

/// A lane with a turn that runs.
pub(super) struct Lane {
    pub(super) end: LaneEnd,
    pub(super) engine: JoinHandle<()>,
    pub(super) lines: Vec<String>,
    pub(super) completed: Vec<ThreadItem>,
    pub(super) states: Vec<String>,
    pub(super) outcome: Option<TurnOutcome>,
    /// None: the question is left open.
    pub(super) decide: Decide,
    /// Questions that were left open.
    pub(super) open: Vec<crate::Reply<Decided>>,
}

impl Lane {
    pub(super) fn start(bench: &Bench, request: TurnRequest) -> Self {
        let (sink, control, end) = channel(Arc::new(NoHooks));
        let engine: Arc<dyn Engine> = bench.engine.clone();
        Self {
            end,
            engine: tokio::spawn(run(engine, request, sink, control)),
            lines: Vec::new(),
            completed: Vec::new(),
            states: Vec::new(),
            outcome: None,
            decide: Box::new(|_| Some(Decided::new(Decision::Accept))),
            open: Vec::new(),
        }
    }

    /// Hears and answers one thing; none when the engine is done.
    pub(super) async fn step(&mut self) -> Option<()> {
        let said = within("the engine", DEADLINE, self.end.said.recv());
        let said = said.await.unwrap()?;
        assert!(self.outcome.is_none(), "said after the end: {said:?}");
        let line = match said {
            Said::Event(event) => self.note(event),
            Said::Approve { request, reply } => {
                match (self.decide)(&request) {
                    Some(decided) => drop(reply.send(decided)),
                    None => self.open.push(reply),
                }
                format!("approve {}", request.item_id)
            }
            Said::CloseSteer(reply) => {
                let waits = self.end.steer.waiting() > 0;
                let steering = if waits {
                    Steering::More
                } else {
                    Steering::Closed
                };
                let _ = reply.send(steering);
                format!("close steer {steering:?}")
            }
            Said::CallTool { call, reply } => {
                let _ = reply.send(ToolAnswer {
                    text: "answered".to_owned(),
                    success: true,
                    end_turn: false,
                });
                format!("call {}", call.tool)
            }
            Said::HandingOver { process, reply } => {
                assert_eq!(process, None);
                let _ = reply.send(Ok(()));
                "handing over".to_owned()
            }
            Said::Accepted(reply) => {
                let _ = reply.send(Ok(()));
                "accepted".to_owned()
            }
            Said::SaveState { state, reply } => {
                self.states.push(state.get().to_owned());
                let _ = reply.send(Ok(()));
                "state".to_owned()
            }
            Said::Ended(outcome) => {
                let line = format!("ended {:?}", outcome.status);
                self.outcome = Some(*outcome);
                line
            }
            Said::Record(_) | Said::Commit(_) => panic!("the history is Codex's"),
        };
        self.lines.push(line);
        Some(())
    }

    fn note(&mut self, event: Event) -> String {
        match event {
            Event::ItemStarted(item) => format!("started {}", item.type_word()),
            Event::ItemCompleted(item) => {
                let line = format!("completed {}", item.type_word());
                self.completed.push(*item);
                line
            }
            Event::Delta { text, .. } => format!("delta {text}"),
            Event::Usage { last, .. } => format!("usage {}", last.total_tokens),
            Event::Warning(text) => format!("warning {text}"),
            Event::Retry(error) => format!("retry {}", error.message),
            Event::RateLimits(_) => "limits".to_owned(),
            Event::Hook { phase, .. } => format!("hook {phase:?}"),
            Event::Plan { .. } => "plan".to_owned(),
            Event::Diff(_) => "diff".to_owned(),
            other => format!("{other:?}"),
        }
    }

    /// Listens and answers until a line begins like this.
    pub(super) async fn until(&mut self, begins: &str) {
        while !self.lines.iter().any(|line| line.starts_with(begins)) {
            let more = self.step().await;
            assert!(more.is_some(), "no {begins}: {:#?}", self.lines);
        }
    }

    /// Listens to the end.
    pub(super) async fn finish(&mut self) -> TurnOutcome {
        while self.step().await.is_some() {}
        self.outcome.clone().unwrap()
    }

    pub(super) fn steer(&self, item_id: &str) {
        let steer = Steer::Input {
            input: vec![UserInput::text("more")],
            item_id: item_id.into(),
            client_id: None,
        };
        self.end.steer.reserve(steer).unwrap().hand_over();
    }

    pub(super) fn count(&self, begins: &str) -> usize {
        let lines = self.lines.iter();
        lines.filter(|line| line.starts_with(begins)).count()
    }
}
