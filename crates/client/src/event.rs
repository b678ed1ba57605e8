//! What servers tell: notifications, decoded without loss.
//!
//! The invariant here: no notification is refused. A method or shape we do not know is
//! [`EventBody::Unknown`] with everything it carried; ids are any text. Decoding runs in the reader
//! task, so it never waits and never panics.
//!
//! Who gets an event is decided in [`crate::feed`].

mod decode;
mod item;
mod queue;
#[cfg(test)]
mod tests;

use serde_json::Value;
use serde_json::value::RawValue;
pub use turnlane_protocol::item::{ItemBody, ThreadItem as Item};
pub use turnlane_protocol::notification::PlanStep;

pub(crate) use self::item::item_from_json;
pub(crate) use self::queue::Place;
pub use self::queue::QueueNotice;
use crate::feed::{Class, Weight};
use crate::ids::{QueuedTurnId, ThreadId, TurnId};
use crate::outcome::{ErrorInfo, TurnStatus, TurnView, Usage};

/// A notification of the server.
#[derive(Clone, Debug)]
pub struct Event {
    /// The method; empty for what this client tells by itself.
    pub method: String,
    /// The thread it is about.
    pub thread: Option<ThreadId>,
    /// The turn it is about.
    pub turn: Option<TurnId>,
    /// Its number among the events of its thread; Turnlane counts them.
    pub seq: Option<u64>,
    /// What happened.
    pub body: EventBody,
    /// How long its params were.
    pub(crate) bytes: usize,
}

/// What happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventBody {
    /// A turn runs.
    TurnStarted(Box<TurnView>),
    /// A turn has ended.
    TurnCompleted(Box<TurnView>),
    /// An item has begun.
    ItemStarted(Box<Item>),
    /// An item has ended.
    ItemCompleted(Box<Item>),
    /// More text of an item.
    Delta(Delta),
    /// The plan is another one.
    Plan(Plan),
    /// The files differ otherwise from the beginning of the turn than before.
    Diff(String),
    /// More tokens were used.
    Usage(Usage),
    /// A hook of the server runs or has ended: its run, as the server told it.
    Hook(Value),
    /// A model call failed; `will_retry` says whether the turn goes on.
    Error(Box<ErrorInfo>),
    /// The thread does something else than before: the word of its status, as `active`.
    Status(String),
    /// The thread was archived, deleted, closed: [`Event::method`] says which.
    ThreadGone,
    /// The queue of the thread is another one, as the server told it.
    Queue(QueueNotice),
    /// A request of the server needs no answer any more: its id.
    RequestResolved(Value),
    /// A reviewer of this client is asked, or has decided; told by this client, not by the server.
    Approval(ApprovalNotice),
    /// A warning for people.
    Warning(String),
    /// Events of progress were left out: by this client when they were not read, or by the server.
    Lagged {
        /// How many, at least.
        missed: u64,
    },
    /// The connection is another one; what happened between is not told again.
    Reconnected {
        /// Which one it is, from 1.
        generation: u64,
    },
    /// Too much lay unread: the last event of its stream.
    TooSlow,
    /// Everything else, as it came.
    Unknown(RawEvent),
}

/// A notification we have no type for.
#[derive(Clone, Debug)]
pub struct RawEvent {
    /// The method.
    pub method: String,
    /// Its params.
    pub params: Box<RawValue>,
}

/// More text of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The item.
    pub item: String,
    /// What kind of text grows.
    pub kind: DeltaKind,
    /// Which part of it, from 0; reasoning and its summaries have parts.
    pub part: Option<i64>,
    /// What comes after the text so far.
    pub text: String,
}

impl Delta {
    /// What comes after the text so far.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Which text grows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeltaKind {
    /// That of a message.
    Message,
    /// That of a plan.
    Plan,
    /// A summary of reasoning.
    ReasoningSummary,
    /// The reasoning itself.
    Reasoning,
    /// The output of a command.
    CommandOutput,
}

/// The agent's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Why it is another one.
    pub explanation: Option<String>,
    /// All steps.
    pub steps: Vec<PlanStep>,
}

/// What happens in a turn, as its stream tells it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TurnEvent {
    /// The turn waits.
    Queued {
        /// How many are before it.
        position: u32,
        /// The row it waits in; none when it waits in this client.
        row: Option<QueuedTurnId>,
    },
    /// The turn runs.
    Started(TurnId),
    /// An item has begun.
    ItemStarted(Box<Item>),
    /// An item has ended; carries its whole text.
    ItemCompleted(Box<Item>),
    /// More text of an item.
    Delta(Delta),
    /// The plan is another one.
    Plan(Plan),
    /// The files differ otherwise from the beginning of the turn than before.
    Diff(String),
    /// More tokens were used.
    Usage(Usage),
    /// A hook of the server runs or has ended.
    Hook(Value),
    /// Somebody is asked for an approval, or it was decided.
    Approval(ApprovalNotice),
    /// A model call failed and is tried again.
    Retrying(Box<ErrorInfo>),
    /// A warning for people.
    Warning(String),
    /// Events of progress were left out here.
    Lagged {
        /// How many; 0 when the stream began in the middle of an item.
        missed: u64,
    },
    /// The connection was lost and found again; the turn goes on.
    Reattached {
        /// Which connection it is, from 1.
        generation: u64,
    },
    /// The turn has ended; the last event.
    Ended(TurnStatus),
    /// Everything else, as it came.
    Unknown(RawEvent),
}

/// Somebody is asked for an approval, or it was decided.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalNotice {
    /// The item it is about.
    pub item: String,
    /// The request's method.
    pub method: String,
    /// What this client answered; none while its reviewer thinks.
    pub decision: Option<crate::review::Decision>,
}

impl Event {
    /// Decodes a notification; whatever does not fit is kept as it came.
    pub(crate) fn decode(method: String, params: &[u8], seq: Option<u64>) -> Self {
        decode::event(method, params, seq)
    }

    /// Something this client tells by itself.
    pub(crate) fn told_here(thread: Option<ThreadId>, body: EventBody) -> Self {
        Self {
            method: String::new(),
            thread,
            turn: None,
            seq: None,
            body,
            bytes: 0,
        }
    }

    /// Whether it may be left out when nobody reads.
    pub(crate) fn is_progress(&self) -> bool {
        match &self.body {
            EventBody::Delta(_)
            | EventBody::Plan(_)
            | EventBody::Diff(_)
            | EventBody::Usage(_)
            | EventBody::Lagged { .. } => true,
            EventBody::Unknown(raw) => is_growth(&raw.method),
            EventBody::TurnStarted(_)
            | EventBody::TurnCompleted(_)
            | EventBody::ItemStarted(_)
            | EventBody::ItemCompleted(_)
            | EventBody::Approval(_)
            | EventBody::Hook(_)
            | EventBody::Error(_)
            | EventBody::Status(_)
            | EventBody::ThreadGone
            | EventBody::Queue(_)
            | EventBody::RequestResolved(_)
            | EventBody::Warning(_)
            | EventBody::Reconnected { .. }
            | EventBody::TooSlow => false,
        }
    }

    /// What it counts for in a buffer.
    pub(crate) fn weight(&self) -> Weight {
        let class = if self.is_progress() {
            Class::Progress
        } else {
            Class::Lossless
        };
        Weight {
            class,
            bytes: self.bytes,
        }
    }
}

/// Whether a method without a type of ours says how far an item is. The item's end says it again, so
/// it may be left out; output of commands that a client runs by itself is told only once and may not.
fn is_growth(method: &str) -> bool {
    if matches!(method, "fanout/updated" | "fanout/item/updated") {
        return true;
    }
    method.starts_with("item/")
        && (method.ends_with("Delta")
            || method.ends_with("/delta")
            || method.ends_with("/progress"))
}
