//! The running turn as its lane sees it: numbers, open items, what is not written yet.
//!
//! The invariant here: items and entries are numbered when they begin, so it does not matter when
//! they are written; what was not written yet is in `put` and nowhere else, and goes into the next
//! write, at the latest into the turn's end.
//!
//! What is told and what is submitted is the actor's business.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::AbortHandle;
use tokio::time::Instant;
use turnlane_engine::limits::has_effect;
use turnlane_engine::{Entry, LaneEnd, Reply, Steering, TurnOutcome};
use turnlane_protocol::ids::{ItemId, TurnId};
use turnlane_protocol::item::{ItemBody, ThreadItem};
use turnlane_protocol::usage::{ThreadTokenUsage, TokenCounts, TokenUsage};
use turnlane_store::turn::{AcceptedTurn, EntryRow, ItemRow, Put};

use super::approvals::Approvals;
use super::event::CancelWhy;
use super::fate::HandOver;
use super::items::OpenItems;
use super::rights::TurnRights;
use super::rows;
use crate::ids;
use crate::runtime_tools::TurnTools;

/// A turn that has begun and is not ended in the store.
pub(crate) struct RunningTurn {
    /// What the store said when it began.
    pub accepted: AcceptedTurn,
    /// The model it runs with; empty where its request cannot be read.
    pub model: String,
    /// The lane's end of the channel to the engine; none once the engine was given up.
    pub end: Option<LaneEnd>,
    /// The engine's task, or the one that asks the engine.
    pub task: AbortHandle,
    /// Items that have begun and not ended.
    pub items: OpenItems,
    /// What is not written yet.
    pub put: Put,
    /// Whether something was done that must not be done twice.
    pub had_effect: bool,
    /// The last message of the agent.
    pub last_message: Option<ThreadItem>,
    /// What the thread has used.
    pub usage: ThreadTokenUsage,
    /// What the turn has used; none before the first model call.
    pub turn_usage: Option<TokenCounts>,
    /// Steers that are on disk or on their way there and not told yet, by item.
    pub untold: BTreeMap<ItemId, ThreadItem>,
    /// How the engine said it ended.
    pub outcome: Option<TurnOutcome>,
    /// Why the engine was told to stop.
    pub cancelled: Option<CancelWhy>,
    /// Whether a client answered an approval with `cancel`.
    pub cancelled_by_answer: bool,
    /// Who stopped it, for the pause it may leave.
    pub stopped_by: Option<String>,
    /// Where the answer to the engine's last question about steering goes.
    pub close_steer: Option<Reply<Steering>>,
    /// The rights it was accepted with.
    pub rights: TurnRights,
    /// What waits for somebody.
    pub approvals: Approvals,
    /// The tools that the runtime offers to it.
    pub tools: Option<Arc<TurnTools>>,
    /// When it has taken too long.
    pub timeout_at: Option<Instant>,
    /// Whether a foreign engine may have seen it.
    pub hand_over: HandOver,
    /// Who began it.
    pub begun_by: BegunBy,
    next_item_ord: i64,
    next_entry_ord: i64,
}

/// The worker that began a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BegunBy {
    /// This one, which runs it.
    ThisWorker,
    /// One that is dead: the engine is asked what became of the turn.
    DeadWorker,
}

/// A turn that its lane forgets has ended, whatever its engine thinks.
impl Drop for RunningTurn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RunningTurn {
    pub(crate) fn new(accepted: AcceptedTurn, end: Option<LaneEnd>, task: AbortHandle) -> Self {
        let usage = accepted.thread.usage.as_ref();
        Self {
            model: String::new(),
            end,
            task,
            items: OpenItems::default(),
            put: Put::default(),
            had_effect: false,
            last_message: None,
            usage: usage
                .and_then(|usage| rows::read(usage).ok())
                .unwrap_or_default(),
            turn_usage: None,
            untold: BTreeMap::new(),
            outcome: None,
            cancelled: None,
            cancelled_by_answer: false,
            stopped_by: None,
            close_steer: None,
            rights: TurnRights::of(&accepted),
            approvals: Approvals::default(),
            tools: None,
            timeout_at: None,
            hand_over: HandOver::NotSent,
            begun_by: BegunBy::ThisWorker,
            next_item_ord: accepted.next_item_ord,
            next_entry_ord: accepted.next_entry_ord,
            accepted,
        }
    }

    pub(crate) fn turn_id(&self) -> TurnId {
        ids::wire_turn(self.accepted.turn.id)
    }

    /// The number that the next item gets.
    pub(crate) fn next_item_ord(&self) -> i64 {
        self.next_item_ord
    }

    /// The number for an item that begins.
    pub(crate) fn item_ord(&mut self) -> i64 {
        let ord = self.next_item_ord;
        self.next_item_ord += 1;
        ord
    }

    /// Adds entries to what is not written yet.
    pub(crate) fn record(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            let ord = self.next_entry_ord;
            self.next_entry_ord += 1;
            self.put.entries.push(EntryRow {
                ord,
                turn_ord: self.accepted.turn.ord,
                turn: self.accepted.turn.id,
                kind: entry.kind.as_str().to_owned(),
                provider: Some(entry.provider),
                model: Some(entry.model),
                item_id: entry.item_id.map(|id| id.as_str().to_owned()),
                call_ids: serde_json::to_string(&entry.call_ids).ok(),
                items: entry.items.into(),
            });
        }
    }

    /// Adds an item that has ended to what is not written yet.
    pub(crate) fn finish(&mut self, ord: i64, item: &ThreadItem, at_ms: i64) {
        self.had_effect |= has_effect(item);
        if matches!(item.body, ItemBody::AgentMessage(_)) {
            self.last_message = Some(item.clone());
        }
        let row = self.item_row(ord, item, at_ms);
        self.put.items.push(row);
    }

    /// The item as it is stored.
    pub(crate) fn item_row(&self, ord: i64, item: &ThreadItem, at_ms: i64) -> ItemRow {
        ItemRow {
            ord,
            turn_ord: self.accepted.turn.ord,
            id: item.id.as_str().to_owned(),
            kind: item.type_word().to_owned(),
            body: rows::write(item),
            started_ms: item.started_at_ms.unwrap_or(at_ms),
            completed_ms: item.completed_at_ms.unwrap_or(at_ms),
        }
    }

    /// A model call was paid for.
    pub(crate) fn used(&mut self, last: TokenUsage, context_window: Option<i64>) {
        let total = &mut self.usage.total;
        total.total_tokens += last.total_tokens;
        total.input_tokens += last.input_tokens;
        total.cached_input_tokens += last.cached_input_tokens;
        total.cache_write_input_tokens += last.cache_write_input_tokens;
        total.output_tokens += last.output_tokens;
        total.reasoning_output_tokens += last.reasoning_output_tokens;
        self.usage.last = last;
        self.usage.model_context_window = context_window.or(self.usage.model_context_window);
        let turn = self.turn_usage.get_or_insert_default();
        turn.input_tokens += last.input_tokens;
        turn.cached_input_tokens += last.cached_input_tokens;
        turn.cache_write_input_tokens += last.cache_write_input_tokens;
        turn.output_tokens += last.output_tokens;
        turn.reasoning_output_tokens += last.reasoning_output_tokens;
        self.put.thread_usage = Some(rows::write(&self.usage));
    }

    /// Puts back what could not be written, in front of what came since.
    pub(crate) fn write_again(&mut self, mut failed: Put) {
        failed.items.append(&mut self.put.items);
        failed.entries.append(&mut self.put.entries);
        failed.asked.append(&mut self.put.asked);
        failed.resolved.append(&mut self.put.resolved);
        failed.thread_usage = self.put.thread_usage.take().or(failed.thread_usage);
        failed.engine_state = self.put.engine_state.take().or(failed.engine_state);
        self.put = failed;
    }
}
