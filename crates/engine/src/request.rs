//! What a turn is made from.
//!
//! The invariant here: a request is complete. An engine that keeps nothing between turns can run
//! it after a restart exactly as before, because history and settings are in it.
//!
//! Which settings apply to a turn is decided by the runtime; engines read the result.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use turnlane_protocol::ids::{ItemId, ThreadId, TurnId};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::method::ReasoningSummary;
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
use turnlane_protocol::thread::ThreadEnvironment;
use turnlane_protocol::usage::ThreadTokenUsage;

use crate::entry::Entry;

/// One turn to run.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// What the turn is for.
    pub kind: TurnKind,
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
    /// The row's own id for its message, by which a foreign engine knows the turn again; from the
    /// second attempt on it ends in `#N`.
    pub client_id: String,
    /// Which try of its row this is, from 1.
    pub attempt: u32,
    /// When the lane accepted the turn, in Unix milliseconds. A foreign engine looks for the turn
    /// among those that began at this time or later.
    pub accepted_ms: i64,
    /// Texts that hooks gave, in order; each becomes a note of the history.
    pub context: Vec<String>,
    /// What the engine last saved for this thread; only foreign engines save anything.
    pub engine_state: Option<Box<RawValue>>,
    /// The thread so far, from the last compaction on. Shared, so that whoever keeps it from turn to
    /// turn need not copy it.
    pub history: Arc<Vec<Entry>>,
    /// Messages of earlier turns that never became entries, oldest first: a crash or a late steer
    /// came in between. The engine renders and records each at the end of its turn's entries.
    pub unrecorded: Vec<UnrecordedMessage>,
    /// What is said to the agent.
    pub input: Vec<UserInput>,
    /// The userMessage item of the input, already announced; none: there is no user message.
    pub item_id: Option<ItemId>,
    /// What the turn is run with.
    pub settings: TurnSettings,
    /// Tools that the runtime offers to the model.
    pub runtime_tools: Vec<RuntimeTool>,
    /// Environment variables of every command of the turn, besides those that the configuration
    /// gives.
    pub command_variables: Vec<(String, String)>,
    /// What the thread has used so far, where that is known.
    pub thread_usage: Option<ThreadTokenUsage>,
}

/// A message that never became an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct UnrecordedMessage {
    /// Its turn.
    pub turn_id: TurnId,
    /// Its userMessage item.
    pub item: ThreadItem,
}

/// What a turn is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnKind {
    /// To answer its input.
    Turn,
    /// To make the history shorter: `thread/compact/start`.
    Compact,
    /// To go on from the history, without input: a graceful stop cut the turn before.
    Continue,
}

/// What a turn is run with.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnSettings {
    /// The model.
    pub model: String,
    /// Who serves it.
    pub provider: String,
    /// The working directory.
    pub cwd: String,
    /// Directories the agent works in.
    pub runtime_workspace_roots: Vec<String>,
    /// Where commands of this turn run; none: nobody said, empty: no commands and no files.
    pub environments: Option<Vec<ThreadEnvironment>>,
    /// Keys of the shared configuration that the thread was started with.
    pub config: Map<String, Value>,
    /// When the agent asks.
    pub approval_policy: ApprovalPolicy,
    /// Where commands may write.
    pub sandbox_policy: SandboxPolicy,
    /// No command of this turn leaves its sandbox, whatever a rule says: its caller may run nothing
    /// unconfined.
    pub requires_sandbox: bool,
    /// How hard the model thinks.
    pub effort: Option<String>,
    /// How much of its reasoning it sums up.
    pub summary: Option<ReasoningSummary>,
    /// The provider's class of service.
    pub service_tier: Option<String>,
    /// What the last message has to look like.
    pub output_schema: Option<Value>,
    /// What the model is told before everything else, in place of the default.
    pub base_instructions: Option<String>,
    /// What the model is told besides.
    pub developer_instructions: Option<String>,
}

/// A tool that the runtime offers to the model; calls go to [`crate::TurnControl::call_tool`].
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeTool {
    /// Its name.
    pub name: String,
    /// What the model is told about it.
    pub description: String,
    /// A JSON Schema of its arguments.
    pub parameters: Value,
}
