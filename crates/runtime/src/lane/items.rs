//! The open items of a running turn, in their present state.
//!
//! The invariant here: an open item holds exactly the text of the deltas told so far, so a client
//! that joins in the middle gets it whole and goes on with the next delta. An item that began is
//! completed exactly once, by the engine or by [`OpenItems::close`].

use std::collections::HashMap;

use turnlane_protocol::ids::ItemId;
use turnlane_protocol::item::{
    CommandOutcome, ItemBody, ItemStatus, McpToolError, Reasoning, ThreadItem,
};
use turnlane_protocol::notification::DeltaKind;

/// An item that has begun and not ended.
#[derive(Clone, Debug)]
pub(crate) struct OpenItem {
    /// Its number within the thread.
    pub ord: i64,
    /// The item with the text so far.
    pub item: ThreadItem,
}

/// The open items of a turn.
#[derive(Debug, Default)]
pub(crate) struct OpenItems {
    open: HashMap<ItemId, OpenItem>,
}

impl OpenItems {
    /// An item began.
    pub(crate) fn start(&mut self, ord: i64, item: ThreadItem) {
        self.open.insert(item.id.clone(), OpenItem { ord, item });
    }

    /// The text of an open item grew; nothing when the item is not open.
    pub(crate) fn grow(&mut self, id: &ItemId, kind: DeltaKind, text: &str) {
        if let Some(open) = self.open.get_mut(id) {
            grow(&mut open.item.body, kind, text);
        }
    }

    /// An item ended; its number if it was open.
    pub(crate) fn end(&mut self, id: &ItemId) -> Option<i64> {
        self.open.remove(id).map(|open| open.ord)
    }

    /// Returns true if a command, a tool or another piece of work is under way: anything but the words of
    /// the model.
    pub(crate) fn has_work(&self) -> bool {
        self.open.values().any(|open| {
            !matches!(
                open.item.body,
                ItemBody::UserMessage(_)
                    | ItemBody::AgentMessage(_)
                    | ItemBody::Reasoning(_)
                    | ItemBody::Plan(_)
            )
        })
    }

    /// All of them, in the order they began.
    pub(crate) fn in_order(&self) -> Vec<OpenItem> {
        let mut items: Vec<_> = self.open.values().cloned().collect();
        items.sort_by_key(|open| open.ord);
        items
    }

    /// Ends all of them as the end of their turn leaves them, in the order they began.
    pub(crate) fn close(&mut self, at_ms: i64) -> Vec<OpenItem> {
        let mut items = self.in_order();
        self.open.clear();
        for open in &mut items {
            open.item.completed_at_ms = Some(at_ms);
            cut_off(&mut open.item.body);
        }
        items
    }
}

fn grow(body: &mut ItemBody, kind: DeltaKind, text: &str) {
    match (body, kind) {
        (ItemBody::AgentMessage(message), DeltaKind::AgentMessage) => message.text.push_str(text),
        (ItemBody::Plan(plan), DeltaKind::Plan) => plan.text.push_str(text),
        (ItemBody::Reasoning(reasoning), kind) => grow_reasoning(reasoning, kind, text),
        (ItemBody::CommandExecution(command), DeltaKind::CommandOutput) => {
            let output = command.aggregated_output.get_or_insert_default();
            output.push_str(text);
        }
        // A delta that does not fit its item changes nothing that is stored.
        _ => {}
    }
}

fn grow_reasoning(reasoning: &mut Reasoning, kind: DeltaKind, text: &str) {
    /// A model counts its parts from 0; one that does not is not followed beyond this.
    const PARTS_MAX: usize = 1_024;

    let (parts, index) = match kind {
        DeltaKind::ReasoningSummary { summary_index } => (&mut reasoning.summary, summary_index),
        DeltaKind::ReasoningText { content_index } => (&mut reasoning.content, content_index),
        DeltaKind::AgentMessage | DeltaKind::Plan | DeltaKind::CommandOutput => return,
    };
    let Some(index) = usize::try_from(index).ok().filter(|at| *at < PARTS_MAX) else {
        return;
    };
    if parts.len() <= index {
        parts.resize(index + 1, String::new());
    }
    parts[index].push_str(text);
}

/// What the end of its turn makes of an item that was not ended by its engine.
fn cut_off(body: &mut ItemBody) {
    match body {
        ItemBody::CommandExecution(command) if command.status == ItemStatus::InProgress => {
            command.status = ItemStatus::Failed;
            command.outcome = Some(CommandOutcome::Interrupted);
        }
        ItemBody::FileChange(change) if change.status == ItemStatus::InProgress => {
            change.status = ItemStatus::Failed;
        }
        ItemBody::McpToolCall(call) if call.status == ItemStatus::InProgress => {
            call.status = ItemStatus::Failed;
            call.error = Some(interrupted_tool());
        }
        ItemBody::DynamicToolCall(call) if call.status == ItemStatus::InProgress => {
            call.status = ItemStatus::Failed;
        }
        ItemBody::CollabAgentToolCall(call) if call.status == ItemStatus::InProgress => {
            call.status = ItemStatus::Interrupted;
        }
        _ => {}
    }
}

fn interrupted_tool() -> McpToolError {
    McpToolError {
        message: "interrupted".to_owned(),
        extra: serde_json::Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn item(value: serde_json::Value) -> ThreadItem {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn deltas_add_up_to_the_text_of_the_open_item() {
        let mut items = OpenItems::default();
        items.start(
            1,
            item(json!({"id": "a", "type": "agentMessage", "text": ""})),
        );
        items.start(2, item(json!({"id": "r", "type": "reasoning"})));
        let (a, r) = (ItemId::from("a".to_owned()), ItemId::from("r".to_owned()));
        items.grow(&a, DeltaKind::AgentMessage, "one ");
        items.grow(&r, DeltaKind::ReasoningSummary { summary_index: 1 }, "why");
        items.grow(&a, DeltaKind::AgentMessage, "two");
        items.grow(&a, DeltaKind::CommandOutput, "not its kind");

        let open = items.in_order();
        let ItemBody::AgentMessage(message) = &open[0].item.body else {
            panic!("the first item is the message");
        };
        assert_eq!(message.text, "one two");
        let ItemBody::Reasoning(reasoning) = &open[1].item.body else {
            panic!("the second item is the reasoning");
        };
        assert_eq!(reasoning.summary, ["", "why"]);
    }

    #[test]
    fn what_the_end_of_a_turn_cuts_off_is_not_in_progress_any_more() {
        let mut items = OpenItems::default();
        items.start(
            1,
            item(
                json!({"id": "c", "type": "commandExecution", "command": "x", "cwd": "/",
                "status": "inProgress", "commandActions": []}),
            ),
        );
        items.start(
            2,
            item(json!({"id": "f", "type": "fileChange", "changes": [], "status": "inProgress"})),
        );
        let closed = items.close(7);
        assert!(items.in_order().is_empty());
        let ItemBody::CommandExecution(command) = &closed[0].item.body else {
            panic!("the first item is the command");
        };
        assert_eq!(command.status, ItemStatus::Failed);
        assert_eq!(command.outcome, Some(CommandOutcome::Interrupted));
        let ItemBody::FileChange(change) = &closed[1].item.body else {
            panic!("the second item is the patch");
        };
        assert_eq!(change.status, ItemStatus::Failed);
        assert_eq!(closed[1].item.completed_at_ms, Some(7));
    }
}
