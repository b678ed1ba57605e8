//! What clients see of a running turn.
//!
//! The invariant here: events carry no thread and no turn, because a sink belongs to exactly one;
//! an engine cannot speak for another's.
//!
//! The runtime itself announces the turn's start, the item of its input, its status, its final
//! error and its end.

use serde_json::{Map, Value};
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::notification::{DeltaKind, PlanStep};
use turnlane_protocol::turn_error::TurnError;
use turnlane_protocol::usage::TokenUsage;

/// Something a turn did.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An item began.
    ItemStarted(Box<ThreadItem>),
    /// The text of an open item grew.
    Delta {
        /// The item.
        item_id: ItemId,
        /// Which of its texts.
        kind: DeltaKind,
        /// What comes after the text so far.
        text: String,
    },
    /// A part was added to the summary of an open reasoning item.
    SummaryPartAdded {
        /// The item.
        item_id: ItemId,
        /// Which part, from 0.
        summary_index: i64,
    },
    /// Something was written to a running command.
    TerminalInteraction {
        /// The item of the command.
        item_id: ItemId,
        /// The engine's name for the process.
        process_id: String,
        /// What was written.
        stdin: String,
    },
    /// An item ended; it is stored as it stands here.
    ItemCompleted(Box<ThreadItem>),
    /// An item ended with what arrived of it, because its answer is asked for again.
    ///
    /// Told like any other end, but not stored.
    ItemDropped(Box<ThreadItem>),
    /// A model call was paid for.
    Usage {
        /// What it used.
        last: TokenUsage,
        /// How many tokens fit into the model's context.
        context_window: Option<i64>,
    },
    /// The plan is another one.
    Plan {
        /// Why.
        explanation: Option<String>,
        /// The whole plan.
        plan: Vec<PlanStep>,
    },
    /// A unified diff of everything the turn changed so far.
    Diff(String),
    /// Something a person should know.
    Warning(String),
    /// A model call failed and is tried again.
    Retry(Box<TurnError>),
    /// The provider said how much may still be used, as Codex writes it.
    RateLimits(Map<String, Value>),
    /// A hook of a foreign engine began or ended.
    Hook {
        /// Which of the two.
        phase: HookPhase,
        /// The run, as Codex writes it.
        run: Map<String, Value>,
    },
}

/// How far the run of a hook is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPhase {
    /// It began.
    Started,
    /// It ended.
    Completed,
}
