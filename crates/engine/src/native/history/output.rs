//! What a model produced, in the form in which it is sent back to a model.
//!
//! The invariant here: every item is one that the strictest known server takes: messages have our
//! id, a status and content, calls have no id and arguments that are an object, and reasoning is
//! there only in the form that its provider can read again.
//!
//! How items arise from a stream is not known here.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use turnlane_protocol::ids::ItemId;

/// One thing of a response.
#[derive(Clone, Debug, PartialEq)]
pub enum Produced {
    /// Words for the user; a refusal is one, too.
    Message {
        /// The agentMessage item of it.
        item_id: ItemId,
        /// The words.
        text: String,
        /// The phase, where the provider named one.
        phase: Option<String>,
    },
    /// The reasoning item of `output_item.done`, as the provider sent it.
    Reasoning(Value),
    /// A call of a function.
    Call {
        /// The id that the answer repeats.
        call_id: String,
        /// The function.
        name: String,
        /// The arguments as the model wrote them.
        arguments: String,
    },
}

/// What a call brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The call.
    pub call_id: String,
    /// What the model is told.
    pub text: String,
}

/// The id under which a message is sent: ours, because those of providers repeat.
pub fn message_id(item_id: &ItemId) -> String {
    let id = item_id.as_str();
    let hex = |byte: u8| byte.is_ascii_hexdigit();
    let mut name = "msg_".to_owned();
    if id.bytes().any(hex) && id.bytes().all(|byte| byte == b'-' || hex(byte)) {
        name.extend(id.chars().filter(|&char| char != '-'));
    } else {
        for byte in id.bytes() {
            // Writing to a text cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
    }
    name
}

/// The item that is sent; none when there is nothing that may be sent.
pub(super) fn item(produced: &Produced) -> Option<Value> {
    match produced {
        Produced::Message {
            item_id,
            text,
            phase,
        } => message(item_id, text, phase.as_deref()),
        Produced::Reasoning(item) => reasoning(item),
        Produced::Call {
            call_id,
            name,
            arguments,
        } => Some(json!({
            "type": "function_call",
            "call_id": call_id,
            "name": name,
            "arguments": object_or_empty(arguments),
        })),
    }
}

/// The call in it, if it is one.
pub(super) fn call_id(produced: &Produced) -> Option<String> {
    match produced {
        Produced::Call { call_id, .. } => Some(call_id.clone()),
        Produced::Message { .. } | Produced::Reasoning(_) => None,
    }
}

/// The item that answers a call.
pub(super) fn answer(answer: &Answer) -> Value {
    let Answer { call_id, text } = answer;
    json!({"type": "function_call_output", "call_id": call_id, "output": text})
}

fn message(item_id: &ItemId, text: &str, phase: Option<&str>) -> Option<Value> {
    if text.is_empty() {
        return None;
    }
    let mut item = json!({
        "type": "message",
        "id": message_id(item_id),
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    });
    if let Some(phase) = phase {
        item["phase"] = phase.into();
    }
    Some(item)
}

fn reasoning(item: &Value) -> Option<Value> {
    let encrypted = item["encrypted_content"].as_str()?;
    if encrypted.is_empty() {
        return None;
    }
    let summary = item["summary"].as_array().cloned().unwrap_or_default();
    let mut sent = json!({
        "type": "reasoning",
        "summary": summary,
        "encrypted_content": encrypted,
    });
    if let Some(id) = item["id"].as_str() {
        sent["id"] = id.into();
    }
    Some(sent)
}

fn object_or_empty(arguments: &str) -> &str {
    match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(_) => arguments,
        Err(_) => "{}",
    }
}
