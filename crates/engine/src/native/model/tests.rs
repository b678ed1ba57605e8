//! Model calls over real sockets, against the mock and against servers that misbehave.
//!
//! Here is the stage on which they run: a lane that writes down what it hears, and a provider whose
//! limits a test sets. Waits are real where sockets are, so they are short.

mod again;
mod cancel;
mod keys;
mod refused;
mod rows;
mod sockets;
mod whole;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;
use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_protocol::item::{ItemBody, ThreadItem};
use turnlane_protocol::method::ReasoningSummary;
use turnlane_testkit::mock_model::MockModel;
use turnlane_testkit::wait::{DEADLINE, within};

use super::{CallFailed, CallFailure, ModelCall, Models, Response, Show};
use crate::entry::{Entry, EntryKind};
use crate::event::Event;
use crate::hooks::{Hooks, NoHooks};
use crate::lane_end::{LaneEnd, channel};
use crate::native::failure::Failure;
use crate::native::history::{Author, Pictures, Reasoning, View};
use crate::native::provider::{Environment, KeyFile, Provider, Resolved};
use crate::native::request::{Body, Fields};
use crate::native::retry::Jitter;
use crate::native::tools::Clock;
use crate::said::Said;

pub(super) const KEY: &str = "sk-planted-0123456789";
pub(super) const NOW_MS: i64 = 1_893_456_000_000;
pub(super) const MODEL: &str = "m-1";

/// Who is called, and how.
pub(super) struct Stage {
    pub(super) models: Arc<Models>,
    pub(super) provider: Arc<Resolved>,
    pub(super) hooks: Arc<dyn Hooks>,
    pub(super) history: Vec<Entry>,
    pub(super) show: Show,
}

impl Stage {
    pub(super) fn at(base_url: &str) -> Self {
        let config = json!({"model_providers": {"mock": {"base_url": base_url, "env_key": "KEY"}}});
        let Value::Object(config) = config else {
            unreachable!("it is a table");
        };
        let provider = Provider::read("mock", &config, &Map::new()).unwrap();
        let provider = provider.resolve(&Environment {
            variables: &|name| (name == "KEY").then(|| KEY.to_owned()),
            keys: &KeyFile::default(),
        });
        let mut provider = provider.unwrap();
        provider.limits.request_max_retries = 1;
        provider.limits.stream_max_retries = 1;
        let models = Models {
            jitter: || Jitter::from_unit(0.0),
            ..Models::new()
        };
        Self {
            models: Arc::new(models),
            provider: Arc::new(provider),
            hooks: Arc::new(NoHooks),
            history: vec![author().note("hello")],
            show: Show::Items,
        }
    }

    pub(super) fn of(mock: &MockModel) -> Self {
        Self::at(&mock.base_url())
    }

    pub(super) fn limits(mut self, set: impl FnOnce(&mut crate::native::provider::Limits)) -> Self {
        set(&mut Arc::make_mut(&mut self.provider).limits);
        self
    }

    pub(super) fn idle_ms(self, idle_ms: u64) -> Self {
        self.limits(|limits| limits.stream_idle_timeout = Duration::from_millis(idle_ms))
    }

    pub(super) fn start(&self) -> Running {
        let (sink, control, lane) = channel(Arc::clone(&self.hooks));
        let (models, provider) = (Arc::clone(&self.models), Arc::clone(&self.provider));
        let (history, show) = (self.history.clone(), self.show);
        let call = tokio::spawn(async move {
            let fields = fields();
            let mut body = Body::new(&fields, view(), &history);
            let clock: Clock = Arc::new(|| NOW_MS);
            let call = ModelCall {
                provider: &provider,
                model: MODEL,
                body: &mut body,
                fields: &fields,
                sink: &sink,
                ask: &control.ask,
                cancel: &control.cancel,
                clock: &clock,
                context_window: 1_000,
                show,
            };
            models.call(call).await
        });
        let events = Vec::new();
        Running { call, lane, events }
    }

    pub(super) async fn play(&self) -> Played {
        self.start().finish().await
    }
}

/// A call that runs.
pub(super) struct Running {
    pub(super) call: JoinHandle<Result<Response, CallFailed>>,
    pub(super) lane: LaneEnd,
    pub(super) events: Vec<Event>,
}

impl Running {
    /// Listens until an event is of this kind.
    pub(super) async fn hears(&mut self, fits: impl Fn(&Event) -> bool) {
        let hear = async {
            while let Some(said) = self.lane.said.recv().await {
                let Said::Event(event) = said else {
                    panic!("a call says nothing but events");
                };
                self.events.push(event);
                if self.events.last().is_some_and(&fits) {
                    return;
                }
            }
            panic!("it was never said: {:?}", self.events);
        };
        within("an event", DEADLINE, hear).await.unwrap();
    }

    /// Listens to the end.
    pub(super) async fn finish(mut self) -> Played {
        let hear = async {
            while let Some(said) = self.lane.said.recv().await {
                let Said::Event(event) = said else {
                    panic!("a call says nothing but events");
                };
                self.events.push(event);
            }
        };
        within("the end of a call", DEADLINE, hear).await.unwrap();
        Played {
            result: self.call.await.unwrap(),
            events: self.events,
        }
    }
}

/// A call that ended.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) result: Result<Response, CallFailed>,
    pub(super) events: Vec<Event>,
}

impl Played {
    pub(super) fn response(&self) -> &Response {
        let error = |failed| panic!("{failed:?}\n{:?}", self.events);
        self.result.as_ref().unwrap_or_else(error)
    }

    pub(super) fn failure(&self) -> &Failure {
        match &self.result {
            Err(CallFailed {
                why: CallFailure::Failed(failure) | CallFailure::Overflow(failure),
                ..
            }) => failure,
            other => panic!("no failure: {other:?}"),
        }
    }

    pub(super) fn cancelled(&self) -> &CallFailed {
        match &self.result {
            Err(failed) if matches!(failed.why, CallFailure::Cancelled) => failed,
            other => panic!("not cancelled: {other:?}"),
        }
    }

    pub(super) fn retries(&self) -> Vec<String> {
        let notice = |event: &Event| match event {
            Event::Retry(notice) => Some(notice.message.clone()),
            _ => None,
        };
        self.events.iter().filter_map(notice).collect()
    }

    pub(super) fn warnings(&self) -> Vec<&str> {
        let mut warnings = Vec::new();
        for event in &self.events {
            if let Event::Warning(text) = event {
                warnings.push(text.as_str());
            }
        }
        warnings
    }

    /// The items that ended, those that are stored and those that are not.
    pub(super) fn ended(&self) -> (Vec<String>, Vec<String>) {
        let mut ended = (Vec::new(), Vec::new());
        for event in &self.events {
            match event {
                Event::ItemCompleted(item) => ended.0.push(text(item)),
                Event::ItemDropped(item) => ended.1.push(text(item)),
                _ => {}
            }
        }
        ended
    }

    /// Asserts that items began once, ended once, and that deltas add up to what they end with.
    pub(super) fn adds_up(&self) {
        let mut open: BTreeMap<String, ThreadItem> = BTreeMap::new();
        for event in &self.events {
            match event {
                Event::ItemStarted(item) => {
                    let known = open.insert(item.id.to_string(), (**item).clone());
                    assert!(known.is_none(), "{item:?} began twice");
                }
                Event::Delta { item_id, text, .. } => {
                    let item = open.get_mut(item_id.as_str()).expect("an open item");
                    if let ItemBody::AgentMessage(message) = &mut item.body {
                        message.text.push_str(text);
                    }
                }
                Event::ItemCompleted(item) | Event::ItemDropped(item) => {
                    let begun = open.remove(item.id.as_str()).expect("an open item");
                    if let ItemBody::AgentMessage(_) = item.body {
                        assert_eq!(text(&begun), text(item));
                    }
                    assert_eq!(item.completed_at_ms, Some(NOW_MS));
                }
                _ => {}
            }
        }
        assert!(open.is_empty(), "left open: {open:?}");
    }

    /// Everything that was said or is given to the turn, to be searched.
    pub(super) fn dump(&self) -> String {
        format!("{self:?}")
    }
}

pub(super) fn text(item: &ThreadItem) -> String {
    match &item.body {
        ItemBody::AgentMessage(message) => message.text.clone(),
        ItemBody::Reasoning(reasoning) => {
            format!("{:?} {:?}", reasoning.summary, reasoning.content)
        }
        other => format!("{other:?}"),
    }
}

pub(super) fn author() -> Author {
    Author {
        turn_id: TurnId::at(2, [1; 10]),
        provider: "mock".to_owned(),
        model: MODEL.to_owned(),
    }
}

/// What a model said before, with reasoning that only its provider can read.
pub(super) fn thought() -> Entry {
    let items = json!([
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "yes", "annotations": []}]},
    ]);
    Entry {
        kind: EntryKind::Output,
        items: items.to_string(),
        ..author().note("")
    }
}

fn fields() -> Fields<'static> {
    Fields {
        model: MODEL,
        instructions: "be brief",
        tools: &[],
        effort: Some("medium"),
        summary: Some(ReasoningSummary::Auto),
        verbosity: Some("low"),
        output_schema: None,
        service_tier: None,
        max_output_tokens: None,
        thread_id: ThreadId::at(1, [1; 10]),
        drop: &[],
    }
}

fn view() -> View {
    View {
        provider: "mock".to_owned(),
        reasoning: Reasoning::Encrypted,
        pictures: Pictures::Sent,
    }
}
