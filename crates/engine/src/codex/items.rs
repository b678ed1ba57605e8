//! The items of a turn: their ids in our thread, and which of them are open.
//!
//! The invariants here: an item of ours is named `<our turn>/<Codex's item>`, because providers repeat
//! their ids in later turns, and the name is the same when the item is read back after a crash; every
//! item that was started is completed once, at the latest when the turn ends.

use std::collections::{BTreeMap, HashSet};

use turnlane_protocol::ids::{ItemId, TurnId};
use turnlane_protocol::item::{
    CommandOutcome, FileUpdate, ItemBody, ItemStatus, McpToolError, ThreadItem,
};
use turnlane_protocol::notification::DeltaKind;

use crate::event::Event;

/// Bytes of streamed text that are kept of an open item, for the case that the turn is cut.
const OPEN_TEXT_BYTES_MAX: usize = 256 * 1024;

/// The items of one turn.
#[derive(Debug)]
pub(super) struct ItemLog {
    turn: TurnId,
    open: BTreeMap<ItemId, ThreadItem>,
    ended: HashSet<ItemId>,
    last_message: Option<String>,
}

impl ItemLog {
    pub(super) fn new(turn: TurnId) -> Self {
        Self {
            turn,
            open: BTreeMap::new(),
            ended: HashSet::new(),
            last_message: None,
        }
    }

    /// Our name of an item.
    pub(super) fn id(&self, of_codex: &str) -> ItemId {
        ItemId::from(format!("{}/{of_codex}", self.turn))
    }

    /// The text of the last completed message of the agent.
    pub(super) fn last_message(&self) -> Option<&str> {
        self.last_message.as_deref()
    }

    /// How many items were told.
    pub(super) fn count(&self) -> usize {
        self.open.len() + self.ended.len()
    }

    /// Notes an item that began. None: it has been told before.
    pub(super) fn start(&mut self, mut item: ThreadItem) -> Option<Event> {
        item.id = self.id(item.id.as_str());
        if self.open.contains_key(&item.id) || self.ended.contains(&item.id) {
            return None;
        }
        self.open.insert(item.id.clone(), item.clone());
        Some(Event::ItemStarted(Box::new(item)))
    }

    /// Notes an item that ended; its begin is told too if it was not told before.
    pub(super) fn complete(&mut self, mut item: ThreadItem) -> Vec<Event> {
        item.id = self.id(item.id.as_str());
        if !self.ended.insert(item.id.clone()) {
            return Vec::new();
        }
        if let ItemBody::AgentMessage(message) = &item.body {
            self.last_message = Some(message.text.clone());
        }
        let began = self.open.remove(&item.id);
        let mut events = Vec::with_capacity(2);
        if began.is_none() {
            let item = ThreadItem {
                completed_at_ms: None,
                ..item.clone()
            };
            events.push(Event::ItemStarted(Box::new(item)));
        }
        events.push(Event::ItemCompleted(Box::new(item)));
        events
    }

    /// Notes more text of an item. None: the item is not open.
    pub(super) fn grow(&mut self, of_codex: &str, kind: DeltaKind, text: String) -> Option<Event> {
        let item_id = self.id(of_codex);
        let item = self.open.get_mut(&item_id)?;
        match (&mut item.body, kind) {
            (ItemBody::AgentMessage(message), DeltaKind::AgentMessage) => {
                append(&mut message.text, &text);
            }
            (ItemBody::Plan(plan), DeltaKind::Plan) => append(&mut plan.text, &text),
            (ItemBody::CommandExecution(command), DeltaKind::CommandOutput) => {
                append(command.aggregated_output.get_or_insert_default(), &text);
            }
            _ => {}
        }
        Some(Event::Delta {
            item_id,
            kind,
            text,
        })
    }

    /// What an open patch does.
    pub(super) fn changes(&self, id: &ItemId) -> Vec<FileUpdate> {
        match self.open.get(id).map(|item| &item.body) {
            Some(ItemBody::FileChange(change)) => change.changes.clone(),
            _ => Vec::new(),
        }
    }

    /// Completes what is open as failed.
    pub(super) fn cut_off(&mut self, now_ms: i64) -> Vec<Event> {
        let open = std::mem::take(&mut self.open);
        let closed = open.into_values().map(|mut item| {
            cut_off(&mut item, now_ms);
            self.ended.insert(item.id.clone());
            Event::ItemCompleted(Box::new(item))
        });
        closed.collect()
    }
}

/// The items of a turn that is read back after a crash, with our names and all ended.
pub(super) fn recovered(turn: TurnId, items: Vec<ThreadItem>, now_ms: i64) -> Vec<ThreadItem> {
    let mut log = ItemLog::new(turn);
    let events = items.into_iter().flat_map(|mut item| {
        if item.completed_at_ms.is_none() {
            cut_off(&mut item, now_ms);
        }
        log.complete(item)
    });
    let completed = events.filter_map(|event| match event {
        Event::ItemCompleted(item) => Some(*item),
        _ => None,
    });
    completed.collect()
}

fn append(text: &mut String, more: &str) {
    if text.len() + more.len() <= OPEN_TEXT_BYTES_MAX {
        text.push_str(more);
    }
}

fn cut_off(item: &mut ThreadItem, now_ms: i64) {
    item.completed_at_ms.get_or_insert(now_ms);
    match &mut item.body {
        ItemBody::CommandExecution(command) if command.status == ItemStatus::InProgress => {
            command.status = ItemStatus::Failed;
            command.outcome = Some(CommandOutcome::Interrupted);
        }
        ItemBody::FileChange(change) if change.status == ItemStatus::InProgress => {
            change.status = ItemStatus::Failed;
        }
        ItemBody::McpToolCall(call) if call.status == ItemStatus::InProgress => {
            call.status = ItemStatus::Failed;
            call.error = Some(McpToolError {
                message: "interrupted".to_owned(),
                extra: serde_json::Map::new(),
            });
        }
        ItemBody::DynamicToolCall(call) if call.status == ItemStatus::InProgress => {
            call.status = ItemStatus::Failed;
        }
        ItemBody::CollabAgentToolCall(call) if call.status == ItemStatus::InProgress => {
            call.status = ItemStatus::Failed;
        }
        ItemBody::Other(members) => {
            if let Some(status) = members.get_mut("status")
                && status == "inProgress"
            {
                *status = "failed".into();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn turn() -> TurnId {
        TurnId::at(2, [7; 10])
    }

    fn item(members: Value) -> ThreadItem {
        serde_json::from_value(members).unwrap()
    }

    fn written(events: &[Event]) -> Vec<String> {
        let line = |event: &Event| match event {
            Event::ItemStarted(item) => format!("started {}", item.id),
            Event::ItemCompleted(item) => format!("completed {}", json!(item)["status"]),
            other => format!("{other:?}"),
        };
        events.iter().map(line).collect()
    }

    #[test]
    fn every_item_is_started_and_completed_once() {
        let mut log = ItemLog::new(turn());
        let call = || item(json!({"id": "c", "type": "new", "status": "inProgress"}));
        assert_eq!(log.count(), 0);
        assert!(log.start(call()).is_some());
        assert!(log.start(call()).is_none());
        assert_eq!(log.complete(call()).len(), 1);
        assert!(log.complete(call()).is_empty());
        assert!(log.start(call()).is_none());
        let late = log.complete(item(json!({"id": "d", "type": "new", "status": "x"})));
        assert_eq!(
            written(&late),
            [
                format!("started {}/d", turn()),
                "completed \"x\"".to_owned()
            ]
        );
    }

    #[test]
    fn open_items_end_as_failed_with_the_text_so_far() {
        let mut log = ItemLog::new(turn());
        let message = item(json!({"id": "m", "type": "agentMessage", "text": ""}));
        let unknown = item(json!({"id": "u", "type": "later", "status": "inProgress"}));
        let _ = log.start(message);
        let _ = log.start(unknown);
        let grown = log.grow("m", DeltaKind::AgentMessage, "half".to_owned());
        assert!(grown.is_some());
        assert!(log.grow("z", DeltaKind::Plan, "?".to_owned()).is_none());
        let events = log.cut_off(9);
        let Event::ItemCompleted(message) = &events[0] else {
            panic!("{events:?}");
        };
        assert_eq!(json!(message)["text"], "half");
        assert_eq!(message.completed_at_ms, Some(9));
        assert_eq!(written(&events)[1], "completed \"failed\"");
        assert!(log.cut_off(10).is_empty());
    }
}
