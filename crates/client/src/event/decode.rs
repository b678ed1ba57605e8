//! From a method and its params to an event.
//!
//! The invariant here: this is total. Params that are no JSON, of another type, too deep or without
//! what a body needs end as [`EventBody::Unknown`] with their bytes, and an event is given to its
//! thread and turn even then, where the ids can be read. Deltas and queues are read without building
//! a tree, since they are nearly all that a busy connection carries.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use turnlane_protocol::notification::{PlanStep, method};

use super::{
    Delta, DeltaKind, Event, EventBody, Plan, QueueNotice, RawEvent, item_from_json, queue,
};
use crate::ids::{ThreadId, TurnId};
use crate::outcome::{ErrorInfo, TurnView, Usage};

/// Told by both servers; its params are Turnlane's, Codex sends the thread alone.
const QUEUE_CHANGED: &str = "thread/queue/changed";
/// Warnings of Codex that have a `summary`, and sometimes `details`.
const SUMMARIES: [&str; 2] = ["configWarning", "deprecationNotice"];
/// A warning of Codex that has a `message`, like `warning`.
const GUARDIAN_WARNING: &str = "guardianWarning";

/// Decodes a notification.
pub(super) fn event(name: String, params: &[u8], seq: Option<u64>) -> Event {
    if let Some(kind) = delta_kind(&name)
        && let Ok(read) = serde_json::from_slice::<DeltaParams<'_>>(params)
    {
        return Event {
            thread: id(&read.thread_id).map(ThreadId::from),
            turn: id(&read.turn_id).map(TurnId::from),
            body: EventBody::Delta(Delta {
                item: read.item_id.into_owned(),
                kind,
                part: read.summary_index.or(read.content_index),
                text: read.delta.into_owned(),
            }),
            method: name,
            seq,
            bytes: params.len(),
        };
    }
    if name == QUEUE_CHANGED
        && let Some(thread) = queue::thread(params).as_deref().and_then(id)
    {
        return Event {
            thread: Some(ThreadId::from(thread)),
            turn: None,
            body: EventBody::Queue(QueueNotice::new(params)),
            method: name,
            seq,
            bytes: params.len(),
        };
    }
    let mut tree = serde_json::from_slice(params).unwrap_or(Value::Null);
    let (thread, turn) = (thread_of(&tree), turn_of(&tree));
    let body = body(&name, &mut tree).unwrap_or_else(|| {
        EventBody::Unknown(RawEvent {
            method: name.clone(),
            params: raw(params),
        })
    });
    Event {
        method: name,
        thread,
        turn,
        seq,
        body,
        bytes: params.len(),
    }
}

/// The params of every delta.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeltaParams<'a> {
    #[serde(borrow)]
    thread_id: Cow<'a, str>,
    #[serde(borrow)]
    turn_id: Cow<'a, str>,
    #[serde(borrow)]
    item_id: Cow<'a, str>,
    #[serde(borrow)]
    delta: Cow<'a, str>,
    summary_index: Option<i64>,
    content_index: Option<i64>,
}

fn delta_kind(name: &str) -> Option<DeltaKind> {
    match name {
        method::AGENT_MESSAGE_DELTA => Some(DeltaKind::Message),
        method::PLAN_DELTA => Some(DeltaKind::Plan),
        method::REASONING_SUMMARY_TEXT_DELTA => Some(DeltaKind::ReasoningSummary),
        method::REASONING_TEXT_DELTA => Some(DeltaKind::Reasoning),
        method::COMMAND_OUTPUT_DELTA => Some(DeltaKind::CommandOutput),
        _ => None,
    }
}

/// What happened; none when the params do not say what the method promises.
fn body(name: &str, params: &mut Value) -> Option<EventBody> {
    match name {
        method::TURN_STARTED => {
            let turn = TurnView::from_json(params.get("turn")?)?;
            Some(EventBody::TurnStarted(Box::new(turn)))
        }
        method::TURN_COMPLETED => {
            let turn = TurnView::from_json(params.get("turn")?)?;
            Some(EventBody::TurnCompleted(Box::new(turn)))
        }
        method::ITEM_STARTED => {
            let item = item_from_json(params.get("item")?)?;
            Some(EventBody::ItemStarted(Box::new(item)))
        }
        method::ITEM_COMPLETED => {
            let item = item_from_json(params.get("item")?)?;
            Some(EventBody::ItemCompleted(Box::new(item)))
        }
        method::TURN_PLAN_UPDATED => plan(params).map(EventBody::Plan),
        method::TURN_DIFF_UPDATED => text(params, "diff").map(EventBody::Diff),
        method::THREAD_TOKEN_USAGE_UPDATED => {
            Usage::from_json(params.get("tokenUsage")?).map(EventBody::Usage)
        }
        method::HOOK_STARTED | method::HOOK_COMPLETED => {
            let run = params.get_mut("run")?.take();
            run.is_object().then_some(EventBody::Hook(run))
        }
        method::ERROR => {
            let mut error = ErrorInfo::from_json(params.get("error")?)?;
            error.will_retry = params.get("willRetry").and_then(Value::as_bool) == Some(true);
            Some(EventBody::Error(Box::new(error)))
        }
        method::THREAD_STATUS_CHANGED => {
            let status = params.get("status")?;
            let word = status.as_str().or_else(|| status.get("type")?.as_str())?;
            Some(EventBody::Status(word.to_owned()))
        }
        method::THREAD_ARCHIVED | method::THREAD_DELETED | method::THREAD_CLOSED => {
            thread_of(params).map(|_| EventBody::ThreadGone)
        }
        method::SERVER_REQUEST_RESOLVED => {
            let request = params.get_mut("requestId")?.take();
            Some(EventBody::RequestResolved(request))
        }
        method::WARNING | GUARDIAN_WARNING => text(params, "message").map(EventBody::Warning),
        method::CONNECTION_LAGGED => {
            let missed = params.get("missed")?.as_u64()?;
            Some(EventBody::Lagged { missed })
        }
        name if SUMMARIES.contains(&name) => summary(params).map(EventBody::Warning),
        _ => None,
    }
}

fn plan(params: &mut Value) -> Option<Plan> {
    let steps = Vec::<PlanStep>::deserialize(params.get("plan")?).ok()?;
    Some(Plan {
        explanation: text(params, "explanation"),
        steps,
    })
}

fn summary(params: &mut Value) -> Option<String> {
    let summary = text(params, "summary")?;
    Some(match text(params, "details") {
        Some(details) => format!("{summary}\n{details}"),
        None => summary,
    })
}

/// Takes a text out of the params.
fn text(params: &mut Value, name: &str) -> Option<String> {
    match params.get_mut(name)?.take() {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// The thread, wherever methods name it.
fn thread_of(params: &Value) -> Option<ThreadId> {
    let named = params
        .get("threadId")
        .or_else(|| params.get("thread")?.get("id"))
        .or_else(|| params.get("approval")?.get("threadId"));
    id(named?.as_str()?).map(ThreadId::from)
}

/// The turn, wherever methods name it.
fn turn_of(params: &Value) -> Option<TurnId> {
    let named = params
        .get("turnId")
        .or_else(|| params.get("turn")?.get("id"))
        .or_else(|| params.get("approval")?.get("turnId"));
    id(named?.as_str()?).map(TurnId::from)
}

/// An id; nothing has an empty one.
fn id(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// The params as they came. Frames are checked before they get here, so what is no JSON is kept as
/// a text only for the sake of being total.
fn raw(params: &[u8]) -> Box<RawValue> {
    serde_json::from_slice(params)
        .or_else(|_| serde_json::value::to_raw_value(&String::from_utf8_lossy(params)))
        .unwrap_or_else(|_| RawValue::NULL.to_owned())
}
