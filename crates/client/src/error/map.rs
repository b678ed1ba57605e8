//! Which answer of a server becomes which error: the one place that knows the words of servers.
//!
//! The invariant here: errors of a Turnlane server are known by `data.reason`; those of Codex by
//! their code and a few fixed texts of 0.166. Whatever is not known stays [`CallError::Rpc`], and no
//! error is made of an answer that was a success.

use std::time::Duration;

use serde::de::Error as _;
use serde_json::Value;
use turnlane_protocol::error::{INTERNAL_ERROR, INVALID_REQUEST, OVERLOADED};

use super::{Block, CallError, DecodeError, RpcError, SteerError, ThreadError, TurnError};
use crate::ids::{ThreadId, TurnId};

/// JSON-RPC's own code for a method that is not served.
const METHOD_NOT_FOUND: i64 = -32601;

/// When to try again if an overloaded server does not say.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// What Codex 0.166 says, with [`METHOD_NOT_FOUND`], of the history of a thread without turns. The
/// method is served all the same.
const NO_TURNS_YET: &str = "list_turns is not supported yet";

/// An error answer to `method`, as every call reports it.
pub(crate) fn call(method: &str, error: RpcError) -> CallError {
    if error.code == OVERLOADED || error.reason() == Some("overloaded") {
        let millis = member(&error, "retryAfterMs").and_then(Value::as_u64);
        return CallError::Overloaded {
            retry_after: millis.map_or(RETRY_AFTER, Duration::from_millis),
        };
    }
    if is_unsupported(method, &error) {
        return CallError::Unsupported {
            method: method.to_owned(),
        };
    }
    CallError::Rpc(error)
}

/// Whether the server does not serve `method` at all.
pub(crate) fn is_unsupported(method: &str, error: &RpcError) -> bool {
    if error.code == METHOD_NOT_FOUND {
        return error.message != NO_TURNS_YET;
    }
    match error.reason() {
        Some("unknownMethod" | "experimental" | "capability") => true,
        Some(_) => false,
        None => {
            let unknown = format!("Invalid request: unknown variant `{method}`");
            let gated = format!("{method} requires experimentalApi capability");
            error.code == INVALID_REQUEST
                && (error.message.starts_with(&unknown) || error.message == gated)
        }
    }
}

/// Whether Codex says that a thread has no history yet, which is an empty page and not an error.
pub(crate) fn is_no_turns_yet(error: &CallError) -> bool {
    matches!(error, CallError::Rpc(error) if error.message == NO_TURNS_YET)
}

/// An error of a call about a thread that is to be opened, read or put away.
pub(crate) fn thread(id: &ThreadId, error: CallError) -> ThreadError {
    let CallError::Rpc(rpc) = error else {
        return ThreadError::Call(error);
    };
    let id = || id.clone();
    match thread_word(&rpc) {
        Some("threadNotFound") => ThreadError::NotFound { id: id() },
        Some("archived") => ThreadError::Archived { id: id() },
        Some("ownedElsewhere") => ThreadError::InUse { id: id() },
        Some("blockedByHook") => ThreadError::Blocked(block(&rpc)),
        _ => ThreadError::Call(CallError::Rpc(rpc)),
    }
}

/// The reason of an error about a thread, from Codex's texts where there is none.
fn thread_word(error: &RpcError) -> Option<&str> {
    if let Some(reason) = error.reason() {
        return Some(reason);
    }
    if error.code != INVALID_REQUEST && error.code != INTERNAL_ERROR {
        return None;
    }
    let message = error.message.as_str();
    let begins = |prefix: &str| message.starts_with(prefix);
    if begins("thread not found: ")
        || begins("thread not loaded: ")
        || begins("no archived rollout found for thread id ")
        // The queue puts its own words before these.
        || message.contains("no rollout found for thread id ")
    {
        Some("threadNotFound")
    } else if begins("session ") && message.contains(" is archived. ") {
        Some("archived")
    } else if begins("thread ") && message.ends_with(" already has an active writer") {
        Some("ownedElsewhere")
    } else {
        None
    }
}

/// An error of a call that starts or queues a turn of `thread`.
pub(crate) fn turn(thread: &ThreadId, error: CallError) -> TurnError {
    let CallError::Rpc(rpc) = error else {
        return TurnError::Call(error);
    };
    match rpc.reason().or_else(|| turn_word(&rpc)) {
        Some("busy") => TurnError::Busy {
            // A server may not know which one; the id is empty then.
            active: TurnId::from(text(&rpc, "turnId")),
        },
        Some("blockedByHook") => TurnError::Blocked(block(&rpc)),
        Some("archived") => TurnError::Call(CallError::ThreadClosed {
            thread: thread.clone(),
        }),
        _ => TurnError::Call(CallError::Rpc(rpc)),
    }
}

fn turn_word(error: &RpcError) -> Option<&'static str> {
    if error.code != INVALID_REQUEST {
        return None;
    }
    match error.message.as_str() {
        "thread already has an active or pending turn" => Some("busy"),
        message if message.starts_with("session ") && message.contains(" is archived. ") => {
            Some("archived")
        }
        _ => None,
    }
}

/// An error of `turn/steer`.
pub(crate) fn steer(expected: &TurnId, error: CallError) -> SteerError {
    let CallError::Rpc(rpc) = error else {
        return SteerError::Call(error);
    };
    match rpc.reason() {
        Some("noActiveTurn") => return SteerError::NoActiveTurn,
        Some("staleTurn") => {
            return SteerError::Stale {
                expected: expected.clone(),
                actual: TurnId::from(text(&rpc, "actual")),
            };
        }
        Some("notSteerable") => {
            return SteerError::NotSteerable { kind: kind(&rpc) };
        }
        Some(_) => return SteerError::Call(CallError::Rpc(rpc)),
        None => {}
    }
    if rpc.code == INVALID_REQUEST {
        if rpc.message == "no active turn to steer" {
            return SteerError::NoActiveTurn;
        }
        if let Some(actual) = stale_actual(&rpc.message) {
            return SteerError::Stale {
                expected: expected.clone(),
                actual: TurnId::from(actual),
            };
        }
        if rpc.message == "active turn cannot be steered" || !kind(&rpc).is_empty() {
            return SteerError::NotSteerable { kind: kind(&rpc) };
        }
    }
    SteerError::Call(CallError::Rpc(rpc))
}

/// The second id of ``expected active turn id `a` but found `b` ``; the words of `turn/interrupt`
/// have no back-ticks.
fn stale_actual(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("expected active turn id ")?;
    let (_, actual) = rest.split_once(" but found ")?;
    Some(actual.trim_matches('`'))
}

/// What a turn that takes no input is: the word of `activeTurnNotSteerable`.
fn kind(error: &RpcError) -> String {
    let found = member(error, "codexErrorInfo")
        .and_then(|info| info.get("activeTurnNotSteerable"))
        .and_then(|turn| turn.get("turnKind"))
        .and_then(Value::as_str);
    found.unwrap_or_default().to_owned()
}

/// Whether an interrupt found nothing to do: the turn has ended, or another one runs.
pub(crate) fn is_nothing_to_interrupt(error: &CallError) -> bool {
    let CallError::Rpc(rpc) = error else {
        return false;
    };
    match rpc.reason() {
        Some(reason) => matches!(reason, "noActiveTurn" | "staleTurn"),
        None => {
            rpc.code == INVALID_REQUEST
                && (rpc.message == "no active turn to interrupt"
                    || stale_actual(&rpc.message).is_some())
        }
    }
}

fn block(error: &RpcError) -> Block {
    Block {
        hook: text(error, "hook").to_owned(),
        phase: text(error, "phase").to_owned(),
        message: text(error, "message").to_owned(),
    }
}

fn member<'a>(error: &'a RpcError, name: &str) -> Option<&'a Value> {
    error.data.as_ref()?.get(name)
}

fn text<'a>(error: &'a RpcError, name: &str) -> &'a str {
    member(error, name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl CallError {
    /// The same error once more, for those who ask again for a result that was given.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Transport(error) => Self::Transport(error.clone()),
            Self::Rpc(error) => Self::Rpc(error.clone()),
            Self::Contract {
                method,
                side,
                reason,
            } => Self::Contract {
                method: method.clone(),
                side: *side,
                reason: reason.clone(),
            },
            Self::Decode(error) => Self::Decode(DecodeError {
                what: error.what.clone(),
                source: serde_json::Error::custom(&error.source),
            }),
            Self::Unsupported { method } => Self::Unsupported {
                method: method.clone(),
            },
            Self::Overloaded { retry_after } => Self::Overloaded {
                retry_after: *retry_after,
            },
            Self::Timeout { method, after } => Self::Timeout {
                method: method.clone(),
                after: *after,
            },
            Self::InvalidArgument { what, reason } => Self::InvalidArgument {
                what,
                reason: reason.clone(),
            },
            Self::ThreadClosed { thread } => Self::ThreadClosed {
                thread: thread.clone(),
            },
            Self::Closed => Self::Closed,
        }
    }
}

impl From<ThreadError> for TurnError {
    fn from(error: ThreadError) -> Self {
        match error {
            ThreadError::Blocked(block) => Self::Blocked(block),
            ThreadError::AttachmentNotFound { path } => Self::AttachmentNotFound { path },
            ThreadError::Policy(error) => Self::Policy(error),
            ThreadError::Call(error) => Self::Call(error),
            ThreadError::Archived { id } => Self::Call(CallError::ThreadClosed { thread: id }),
            error @ (ThreadError::NotFound { .. }
            | ThreadError::InUse { .. }
            | ThreadError::MismatchedThread { .. }
            | ThreadError::NotEnoughTurns { .. }) => Self::Call(CallError::InvalidArgument {
                what: "thread",
                reason: error.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
