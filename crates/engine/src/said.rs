//! Everything an engine says to its lane, in the order it was said.
//!
//! The invariant here: there is one channel. What stands before a question in it was said before,
//! so a lane that answers [`Said::Commit`] knows what has to be durable, and nothing overtakes
//! [`Said::Ended`].
//!
//! Answers go back through the reply of each question. A reply that is dropped is an answer too:
//! the lane has gone, and the asking call ends as its documentation says.

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use turnlane_protocol::approval::{Decision, OfferedDecision};
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::item::{CommandAction, FileUpdate};

use crate::entry::Entry;
use crate::event::Event;
use crate::outcome::TurnOutcome;

/// One thing an engine says.
#[derive(Debug)]
pub enum Said {
    /// Something clients see.
    Event(Event),
    /// More history, written with the lane's next write.
    Record(Vec<Entry>),
    /// Everything said before shall be durable, and the fence still ours.
    Commit(Reply<Result<(), Fenced>>),
    /// Somebody has to decide.
    Approve {
        /// About what.
        request: Box<ApprovalRequest>,
        /// The reply's [`is_closed`](oneshot::Sender::is_closed) says that the turn was cancelled
        /// meanwhile.
        reply: Reply<Decided>,
    },
    /// The turn would end now: is there a steer that it has not taken?
    CloseSteer(Reply<Steering>),
    /// The model calls a tool of the runtime.
    CallTool {
        /// Which, and with what.
        call: ToolCall,
        /// What came of it.
        reply: Reply<ToolAnswer>,
    },
    /// The input is about to leave us; foreign engines.
    HandingOver {
        /// The process it goes to, where there is one of ours.
        process: Option<ChildRecord>,
        /// Given when mark and record are durable.
        reply: Reply<Result<(), Fenced>>,
    },
    /// The engine has taken the turn; foreign engines.
    Accepted(Reply<Result<(), Fenced>>),
    /// What the engine wants to know in later turns of the thread; foreign engines.
    SaveState {
        /// Opaque to everybody else.
        state: Box<RawValue>,
        /// Given when it is durable.
        reply: Reply<Result<(), Fenced>>,
    },
    /// The turn has ended. The last word; whatever follows is to be passed over.
    Ended(Box<TurnOutcome>),
}

/// Where an answer goes.
pub type Reply<T> = oneshot::Sender<T>;

/// Another worker owns the lane, or the lane has gone: stop at once, end processes, say no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lane belongs to another worker")]
pub struct Fenced;

/// Something that somebody has to decide; its item has been announced.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalRequest {
    /// The item.
    pub item_id: ItemId,
    /// What is asked.
    pub subject: ApprovalSubject,
    /// Why the agent asks.
    pub reason: Option<String>,
    /// What may be answered; none: the runtime's usual four.
    pub available_decisions: Option<Vec<OfferedDecision>>,
}

/// What an approval is about.
#[derive(Clone, Debug, PartialEq)]
pub enum ApprovalSubject {
    /// To run a command.
    Command {
        /// The command line.
        command: String,
        /// Its directory.
        cwd: String,
        /// What it does, as far as its text tells.
        actions: Vec<CommandAction>,
        /// The words of the one simple command that would run. None for everything else: an accepted
        /// beginning of a command never covers it.
        words: Option<Vec<String>>,
        /// The text to write to the command, which runs already; none: the command is to be started.
        stdin: Option<String>,
        /// Whether it would run outside of the sandbox.
        escalated: bool,
        /// The beginning of the command that could be allowed from now on.
        proposed_amendment: Option<Vec<String>>,
    },
    /// To apply a patch.
    FileChange {
        /// What it does, file by file.
        changes: Vec<FileUpdate>,
        /// A directory the agent wants to write in from now on.
        grant_root: Option<String>,
        /// True if it changes files that commands in the sandbox may not change.
        escalated: bool,
    },
    /// To be allowed more than the sandbox allows.
    Permissions {
        /// The directory that relative paths are meant from.
        cwd: String,
        /// What is wanted, as Codex writes it; an accept grants all of it.
        permissions: Map<String, Value>,
    },
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The decision.
    pub decision: Decision,
    /// Why, where the decider said so; the model is told.
    pub reason: Option<String>,
    /// Whether somebody decided, or a time limit did.
    pub by: DecidedBy,
}

/// Whether somebody decided about an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// A client, a hook or a policy did.
    Somebody,
    /// Nobody did within the limit: the call is declined, and the turn ends as failed.
    TimeLimit,
}

impl Decided {
    /// A decision without a reason.
    pub fn new(decision: Decision) -> Self {
        Self {
            decision,
            reason: None,
            by: DecidedBy::Somebody,
        }
    }
}

impl Decided {
    /// The same with a reason, if there is one.
    #[must_use]
    pub fn because(self, reason: Option<String>) -> Self {
        Self { reason, ..self }
    }

    /// A call that is declined because nobody answered within the limit.
    pub fn by_time_limit(reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            by: DecidedBy::TimeLimit,
            ..Self::new(Decision::Decline)
        }
    }

    /// Returns true if nobody answered within the limit.
    pub fn is_timed_out(&self) -> bool {
        self.by == DecidedBy::TimeLimit
    }
}

/// Whether a turn still takes input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steering {
    /// No more: from now on steers are refused.
    Closed,
    /// A steer is accepted and not yet taken; nothing is closed.
    More,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The call, as the model names it.
    pub call_id: String,
    /// The item that shows it.
    pub item_id: ItemId,
    /// The tool.
    pub tool: String,
    /// What it is called with.
    pub arguments: Value,
}

/// What a tool of the runtime answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolAnswer {
    /// What the model is told.
    pub text: String,
    /// Whether the tool did what it should.
    pub success: bool,
    /// Whether the turn ends after this response's other calls, without another model call.
    pub end_turn: bool,
}

/// A process by which a dead worker's successor knows it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildRecord {
    /// Its id.
    pub pid: u32,
    /// When it started, in the system's own ticks.
    pub start_time: u64,
    /// The boot it started in.
    pub boot_id: String,
    /// Its process group.
    pub group: u32,
}
