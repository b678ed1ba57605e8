//! What one try has brought so far.
//!
//! The invariant here: what is gathered holds no keys and stands in the order of the output, in
//! whatever order it ended. Of a response that did not complete only what ends with a message is
//! kept: a provider refuses reasoning whose message or call is missing.

use serde_json::{Value, json};
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::item::{AgentMessage, ItemBody};
use turnlane_protocol::usage::TokenUsage;

use super::Response;
use crate::native::history::Produced;
use crate::native::stream::{Call, CallKind, Terminal};

/// What one try has brought so far.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    produced: Vec<(u64, Produced)>,
    calls: Vec<Call>,
    /// The place of the last message, and the message.
    last: Option<(u64, ItemId, String)>,
    pub(super) usage: Option<TokenUsage>,
    pub(super) terminal: Option<Terminal>,
    /// Items that were open when the try was given up.
    pub(super) left_open: Vec<(ItemId, ItemBody)>,
}

/// Whether something may be sent to the model again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replay {
    Yes,
    No,
}

impl Gathered {
    /// A message ended.
    pub(super) fn message(
        &mut self,
        place: u64,
        item_id: &ItemId,
        message: &AgentMessage,
        replay: Replay,
    ) {
        let text = &message.text;
        if text.is_empty() {
            return;
        }
        let later = |(last, ..): &(u64, ItemId, String)| *last <= place;
        if self.last.as_ref().is_none_or(later) {
            self.last = Some((place, item_id.clone(), text.clone()));
        }
        if replay == Replay::Yes {
            let phase = message.phase.as_ref().map(|phase| json!(phase));
            let message = Produced::Message {
                item_id: item_id.clone(),
                text: text.clone(),
                phase: phase.and_then(|phase| phase.as_str().map(str::to_owned)),
            };
            self.produced.push((place, message));
        }
    }

    /// Reasoning ended that may be sent again.
    pub(super) fn reasoning(&mut self, place: u64, item: Value) {
        self.produced.push((place, Produced::Reasoning(item)));
    }

    /// A call is to be run.
    pub(super) fn call(&mut self, call: Call) {
        let arguments = match call.kind {
            CallKind::Function => call.arguments.clone(),
            // Sent again as a call of a function, which is what we offer.
            CallKind::Custom => json!({"input": call.arguments}).to_string(),
        };
        let produced = Produced::Call {
            call_id: call.call_id.clone(),
            name: call.name.clone(),
            arguments,
        };
        self.produced.push((call.place, produced));
        self.calls.push(call);
    }

    /// What a response that completed brought.
    pub(super) fn response(mut self, end_turn: Option<bool>) -> Response {
        self.produced.sort_by_key(|(place, _)| *place);
        self.calls.sort_by_key(|call| call.place);
        Response {
            produced: self.produced.into_iter().map(|(_, made)| made).collect(),
            calls: self.calls,
            last_message: self.last.map(|(_, item_id, text)| (item_id, text)),
            usage: self.usage,
            usage_failed: Vec::new(),
            goes_on: end_turn == Some(false),
        }
    }

    /// What is recorded of a response that did not complete.
    pub(super) fn kept(&mut self) -> Vec<Produced> {
        let mut produced = std::mem::take(&mut self.produced);
        produced.retain(|(_, made)| !matches!(made, Produced::Call { .. }));
        produced.sort_by_key(|(place, _)| *place);
        let message = |(_, made): &(u64, Produced)| matches!(made, Produced::Message { .. });
        let length = produced.iter().rposition(message).map_or(0, |at| at + 1);
        produced.truncate(length);
        produced.into_iter().map(|(_, made)| made).collect()
    }

    /// The last words of a response that did not complete, be they cut.
    pub(super) fn last_message(&self) -> Option<(ItemId, String)> {
        let cut = self.left_open.iter().rev().find_map(|(item_id, body)| {
            let ItemBody::AgentMessage(message) = body else {
                return None;
            };
            (!message.text.is_empty()).then(|| (item_id.clone(), message.text.clone()))
        });
        let whole = self.last.as_ref();
        cut.or_else(|| whole.map(|(_, item_id, text)| (item_id.clone(), text.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(gathered: &mut Gathered, place: u64, text: &str) {
        let message = AgentMessage {
            text: text.to_owned(),
            ..AgentMessage::default()
        };
        gathered.message(place, &format!("i{place}").into(), &message, Replay::Yes);
    }

    fn call(place: u64) -> Call {
        Call {
            call_id: format!("c{place}"),
            name: "f".to_owned(),
            arguments: "{}".to_owned(),
            kind: CallKind::Function,
            place,
            raw: Box::default(),
        }
    }

    fn places(produced: &[Produced]) -> Vec<String> {
        let place = |made: &Produced| match made {
            Produced::Message { item_id, .. } => item_id.to_string(),
            Produced::Reasoning(item) => item["id"].as_str().unwrap().to_owned(),
            Produced::Call { call_id, .. } => call_id.clone(),
        };
        produced.iter().map(place).collect()
    }

    /// Ended in another order than that of the output.
    fn disordered() -> Gathered {
        let mut gathered = Gathered::default();
        message(&mut gathered, 3, "late");
        gathered.reasoning(4, json!({"id": "r4"}));
        message(&mut gathered, 1, "early");
        gathered.call(call(5));
        gathered.call(call(2));
        gathered.reasoning(0, json!({"id": "r0"}));
        gathered
    }

    #[test]
    fn what_completed_stands_in_the_order_of_the_output() {
        let response = disordered().response(Some(true));
        let order = ["r0", "i1", "c2", "i3", "r4", "c5"];
        assert_eq!(places(&response.produced), order);
        let calls: Vec<u64> = response.calls.iter().map(|call| call.place).collect();
        assert_eq!(calls, [2, 5]);
        assert_eq!(response.last_message.unwrap().1, "late");
        assert!(!response.goes_on);
    }

    #[test]
    fn what_did_not_complete_ends_with_a_message() {
        let mut gathered = disordered();
        assert_eq!(places(&gathered.kept()), ["r0", "i1", "i3"]);
        let mut thoughts = Gathered::default();
        thoughts.reasoning(0, json!({"id": "r0"}));
        assert!(thoughts.kept().is_empty());
    }

    #[test]
    fn an_empty_message_is_no_last_word() {
        let mut gathered = Gathered::default();
        message(&mut gathered, 0, "words");
        message(&mut gathered, 1, "");
        assert_eq!(gathered.last_message().unwrap().1, "words");
        let empty = ItemBody::AgentMessage(AgentMessage::default());
        gathered.left_open.push(("i2".into(), empty));
        assert_eq!(gathered.last_message().unwrap().1, "words");
    }
}
