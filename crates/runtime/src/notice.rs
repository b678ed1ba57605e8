//! What subscribers are told, and who they are.
//!
//! The invariant here: notices of one thread are numbered without a gap while it is loaded, and
//! every subscriber gets the same notice under the same number. A notice is made once and shared.
//!
//! How it looks on a wire, and what happens to a client that reads too slowly, is the server's
//! business: telling never waits.

use std::sync::Arc;

use turnlane_protocol::approval::{Approval, Decision};
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::notification::{Decider, DeltaKind, ItemPlace, ServerNotification};
use turnlane_store::queue::{QueuePage, Row};

use crate::approvals::Asking;
use crate::settings::Settings;

/// Something that happened on a thread.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The thread.
    pub thread: ThreadId,
    /// Its number among the notices of the thread, from 1, while it is loaded; 0 when it is not.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// What.
    pub body: NoticeBody,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum NoticeBody {
    /// Anything that has a notification of its own.
    Said(Box<ServerNotification>),
    /// The text of an open item grew.
    Delta {
        /// Which text.
        kind: DeltaKind,
        /// Whose.
        place: ItemPlace,
        /// What comes after the text so far.
        text: String,
    },
    /// The visible queue, or what holds it, is another.
    Queue(Box<QueuePage>),
    /// The next turn will be run with other settings: all of them.
    Settings(Box<Settings>),
    /// Somebody has to decide.
    ApprovalRequested(Box<Asking>),
    /// Somebody or something has decided.
    ApprovalResolved {
        /// What was asked.
        approval: Box<Approval>,
        /// What was decided.
        decision: Decision,
        /// Who decided.
        by: Decider,
        /// Why.
        reason: Option<String>,
    },
}

impl NoticeBody {
    /// About how much memory it takes, for bounds.
    pub(crate) fn weight(&self) -> usize {
        const BASE: usize = 256;
        match self {
            Self::Delta { text, .. } => BASE + text.len(),
            Self::Queue(page) => BASE + page.rows.iter().map(row_weight).sum::<usize>(),
            Self::Said(said) => match said.as_ref() {
                ServerNotification::ItemCompleted(done) => BASE + item_weight(&done.item),
                ServerNotification::ItemStarted(started) => BASE + item_weight(&started.item),
                _ => 2 * BASE,
            },
            Self::Settings(_) | Self::ApprovalRequested(_) | Self::ApprovalResolved { .. } => {
                4 * BASE
            }
        }
    }
}

fn row_weight(row: &Row) -> usize {
    let failure = row.failure.as_ref().map_or(0, |why| why.as_str().len());
    let key = row.key.as_ref().map_or(0, String::len);
    let texts = row.source.len() + row.client_id.len() + row.params.as_str().len() + failure + key;
    size_of::<Row>() + texts
}

fn item_weight(item: &turnlane_protocol::item::ThreadItem) -> usize {
    use turnlane_protocol::item::ItemBody;
    match &item.body {
        ItemBody::AgentMessage(message) => message.text.len(),
        ItemBody::CommandExecution(command) => {
            command.aggregated_output.as_ref().map_or(0, String::len)
        }
        _ => 1024,
    }
}

/// Somebody who wants to know what happens on threads.
pub trait Subscriber: Send + Sync {
    /// Takes a notice in; never waits and never blocks.
    fn tell(&self, notice: &Arc<Notice>);

    /// Whether it can answer when somebody has to decide; asked when it joins and when others do.
    fn answers(&self) -> Answers {
        Answers::Yes
    }
}

/// Whether a subscriber can decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// It can.
    Yes,
    /// It only listens: with nobody else there, nobody is there.
    No,
}

/// Names a subscriber within a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubscriberId(pub(crate) u64);
