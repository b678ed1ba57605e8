//! What a turn shows: its items, one open at a time, and the tokens it claims.
//!
//! The invariant here: every item that was started is completed, whatever ends the turn, and the
//! deltas of an item joined are the text it is completed with. Ids come from the turn's id and a
//! count, so the same turn has the same ids on every run.
//!
//! Which items there are is decided by the neighbours `play` and `tools`.

use turnlane_protocol::ids::{ItemId, TurnId};
use turnlane_protocol::item::{CommandOutcome, ItemBody, ItemStatus, ThreadItem};
use turnlane_protocol::notification::DeltaKind;
use turnlane_protocol::usage::{TokenCounts, TokenUsage};

use super::Clock;
use crate::entry::Entry;
use crate::event::Event;
use crate::said::Fenced;
use crate::sink::Sink;

pub(super) struct Stage {
    sink: Sink,
    clock: Clock,
    turn_id: TurnId,
    items_made: u32,
    open: Option<ThreadItem>,
    used: Option<TokenCounts>,
}

impl Stage {
    pub(super) fn new(sink: Sink, clock: Clock, turn_id: TurnId) -> Self {
        Self {
            sink,
            clock,
            turn_id,
            items_made: 0,
            open: None,
            used: None,
        }
    }

    pub(super) fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    pub(super) fn next_item_id(&mut self) -> ItemId {
        self.items_made += 1;
        format!("{}-{}", self.turn_id, self.items_made).into()
    }

    pub(super) async fn emit(&self, event: Event) -> Result<(), Fenced> {
        self.sink.emit(event).await
    }

    pub(super) async fn record(&self, entries: Vec<Entry>) -> Result<(), Fenced> {
        self.sink.record(entries).await
    }

    pub(super) async fn commit(&self) -> Result<(), Fenced> {
        self.sink.commit().await
    }

    /// Starts an item.
    pub(super) async fn start(&mut self, id: ItemId, body: ItemBody) -> Result<(), Fenced> {
        debug_assert!(self.open.is_none(), "one item at a time");
        let item = ThreadItem::started(id, self.now_ms(), body);
        // Open before it is told: an item nobody heard of may be completed, not the reverse.
        self.open = Some(item.clone());
        self.emit(Event::ItemStarted(Box::new(item))).await
    }

    /// Adds to the text of the open item.
    pub(super) async fn grow(&mut self, text: &str) -> Result<(), Fenced> {
        let Some(item) = &mut self.open else {
            return Ok(());
        };
        let kind = match &mut item.body {
            ItemBody::AgentMessage(message) => {
                message.text.push_str(text);
                DeltaKind::AgentMessage
            }
            ItemBody::Reasoning(reasoning) => {
                match reasoning.summary.first_mut() {
                    Some(summary) => summary.push_str(text),
                    None => reasoning.summary.push(text.to_owned()),
                }
                DeltaKind::ReasoningSummary { summary_index: 0 }
            }
            ItemBody::CommandExecution(command) => {
                let output = command.aggregated_output.get_or_insert_default();
                output.push_str(text);
                DeltaKind::CommandOutput
            }
            // The script opens no others with text that grows.
            _ => return Ok(()),
        };
        let item_id = item.id.clone();
        let text = text.to_owned();
        self.emit(Event::Delta {
            item_id,
            kind,
            text,
        })
        .await
    }

    /// Completes the open item, after a last change.
    pub(super) async fn complete(
        &mut self,
        change: impl FnOnce(&mut ItemBody),
    ) -> Result<(), Fenced> {
        let Some(mut item) = self.open.take() else {
            return Ok(());
        };
        let now = self.now_ms();
        item.completed_at_ms = Some(now);
        if let ItemBody::CommandExecution(command) = &mut item.body {
            command.duration_ms = item.started_at_ms.map(|started| now - started);
        }
        change(&mut item.body);
        self.emit(Event::ItemCompleted(Box::new(item))).await
    }

    /// Completes what an interrupt left open.
    pub(super) async fn cut_off(&mut self) -> Result<(), Fenced> {
        self.complete(|body| match body {
            ItemBody::CommandExecution(command) => {
                command.status = ItemStatus::Failed;
                command.outcome = Some(CommandOutcome::Interrupted);
            }
            ItemBody::FileChange(change) => change.status = ItemStatus::Failed,
            // Words stay as far as they came.
            _ => {}
        })
        .await
    }

    /// Claims tokens.
    pub(super) async fn use_tokens(&mut self, counts: TokenCounts) -> Result<(), Fenced> {
        let sum = self.used.get_or_insert_default();
        sum.input_tokens += counts.input_tokens;
        sum.cached_input_tokens += counts.cached_input_tokens;
        sum.output_tokens += counts.output_tokens;
        sum.reasoning_output_tokens += counts.reasoning_output_tokens;
        let last = TokenUsage {
            total_tokens: counts.input_tokens + counts.output_tokens,
            input_tokens: counts.input_tokens,
            cached_input_tokens: counts.cached_input_tokens,
            cache_write_input_tokens: counts.cache_write_input_tokens,
            output_tokens: counts.output_tokens,
            reasoning_output_tokens: counts.reasoning_output_tokens,
        };
        let context_window = None;
        self.emit(Event::Usage {
            last,
            context_window,
        })
        .await
    }

    pub(super) fn used(&self) -> Option<TokenCounts> {
        self.used
    }
}
