//! The calls about turns, one function per method: what is sent, and the least that is read back.
//!
//! The invariant here: `turn/steer` never becomes a `turn/start`, an interrupt always names its turn,
//! and nothing in here decides whether a call is repeated: the caller says so.
//!
//! Who may send what, and when, is decided by the task and by the handles.

use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use crate::call::CallOptions;
use crate::core::Core;
use crate::error::{CallError, Side};
use crate::event::EventBody;
use crate::feed::{Fed, TurnFeed};
use crate::ids::{QueuedTurnId, ThreadId, TurnId};
use crate::input::InputItem;
use crate::link::{Call, Repeat};
use crate::outcome::{TurnStatus, TurnView};

/// How long an interrupt may take when somebody waits for it; our server answers within 6 s.
pub(crate) const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an interrupt may take that a drop has sent.
pub(crate) const DETACHED_TIMEOUT: Duration = Duration::from_millis(500);

/// The answer to `turn/start`.
#[derive(Debug)]
pub(crate) struct Started {
    /// The turn, perhaps one that ran before.
    pub(crate) turn: TurnView,
    /// The row in which it waits.
    pub(crate) row: Option<QueuedTurnId>,
}

/// `turn/start`.
pub(crate) async fn start(
    core: &Core,
    params: &Map<String, Value>,
    repeat: Repeat,
) -> Result<Started, CallError> {
    const METHOD: &str = "turn/start";
    let answer: Value = core
        .call_as(METHOD, params, repeat, CallOptions::default())
        .await?;
    let turn = answer
        .get("turn")
        .and_then(TurnView::from_json)
        .ok_or_else(|| missing(METHOD, "result is missing turn id"))?;
    let row = answer.pointer("/queuedTurn/id").and_then(Value::as_str);
    Ok(Started {
        turn,
        row: row.map(QueuedTurnId::from),
    })
}

/// `turn/steer`; the turn that took the input.
pub(crate) async fn steer(
    core: &Core,
    thread: &ThreadId,
    expected: &TurnId,
    input: &[InputItem],
    client_id: &str,
) -> Result<TurnId, CallError> {
    const METHOD: &str = "turn/steer";
    let params = json!({
        "threadId": thread,
        "expectedTurnId": expected,
        "input": input_value(input)?,
        "clientUserMessageId": client_id,
    });
    let answer: Value = core
        .call_as(METHOD, &params, Repeat::Never, CallOptions::default())
        .await?;
    let turn = answer.get("turnId").and_then(Value::as_str);
    turn.map(TurnId::from)
        .ok_or_else(|| missing(METHOD, "result is missing turn id"))
}

/// `turn/interrupt`; returns at the answer or at the end of the turn, whichever comes first.
pub(crate) async fn interrupt(
    core: &Core,
    thread: &ThreadId,
    turn: &TurnId,
    timeout: Duration,
) -> Result<(), CallError> {
    let mut feed = core.router.follow(thread, turn);
    let options = CallOptions {
        timeout: Some(timeout),
        ..CallOptions::default()
    };
    let params = interrupt_params(thread, turn);
    let call = core.call_as::<Value>("turn/interrupt", &params, Repeat::Never, options);
    tokio::select! {
        answer = call => answer.map(drop),
        () = end_of(&mut feed) => Ok(()),
    }
}

/// Resolves when the turn of a feed has ended; never when that cannot be seen any more.
async fn end_of(feed: &mut TurnFeed) {
    loop {
        match feed.next().await {
            Fed::Event(event) => match &event.body {
                EventBody::TurnCompleted(turn) if turn.status != TurnStatus::InProgress => return,
                _ => {}
            },
            Fed::Lost | Fed::Reconnected { .. } => {}
            Fed::Closed(_) | Fed::TooSlow => std::future::pending().await,
        }
    }
}

/// Stops a turn without waiting for anything: interrupts it, and takes it out of the queue if it
/// still waits there. Works outside a runtime.
pub(crate) fn stop_detached(
    core: &Core,
    thread: &ThreadId,
    turn: &TurnId,
    row: Option<&QueuedTurnId>,
) {
    if let Some(row) = row {
        let params = json!({"threadId": thread, "queuedTurnId": row});
        send_detached(core, "thread/queue/delete", &params);
    }
    // Also for a row: it may have been claimed a moment ago, and a turn that never was is no harm.
    let mut params = interrupt_params(thread, turn);
    // Nobody stopped the queue: a program lost interest in this one turn.
    params["queue"] = "continue".into();
    send_detached(core, "turn/interrupt", &params);
}

fn send_detached(core: &Core, method: &str, params: &Value) {
    let (Ok(link), Some(params)) = (core.link(), raw(params)) else {
        return;
    };
    link.send_detached(Call {
        method: method.to_owned(),
        params,
        timeout: Some(DETACHED_TIMEOUT),
        repeat: Repeat::Never,
    });
}

fn interrupt_params(thread: &ThreadId, turn: &TurnId) -> Value {
    json!({"threadId": thread, "turnId": turn})
}

fn raw(params: &Value) -> Option<Box<RawValue>> {
    // A value is always JSON.
    to_raw_value(params).ok()
}

/// An input as it stands on the wire.
pub(crate) fn input_value(input: &[InputItem]) -> Result<Value, CallError> {
    serde_json::to_value(input).map_err(|error| CallError::InvalidArgument {
        what: "input",
        reason: format!("the input cannot be written as JSON: {error}"),
    })
}

pub(crate) fn missing(method: &str, reason: &str) -> CallError {
    CallError::Contract {
        method: method.to_owned(),
        side: Side::Response,
        reason: reason.to_owned(),
    }
}
