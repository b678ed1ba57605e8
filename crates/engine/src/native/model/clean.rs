//! Takes keys out of what a model produced.
//!
//! The invariant here: texts are cleaned as they are read, not as they were escaped, so a key that a
//! provider writes in an unusual way is found too.
//!
//! Texts that grow are cleaned piece by piece where they are told.

use std::borrow::Cow;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use turnlane_protocol::item::{ItemBody, MessagePhase};
use turnlane_protocol::notification::DeltaKind;

use crate::native::redact::Redactor;
use crate::native::stream::{Call, CallKind};

/// Calls `change` for every text of an item that can grow.
pub(super) fn each_text(body: &mut ItemBody, mut change: impl FnMut(DeltaKind, &mut String)) {
    match body {
        ItemBody::AgentMessage(message) => change(DeltaKind::AgentMessage, &mut message.text),
        ItemBody::Reasoning(reasoning) => {
            for (summary_index, text) in (0..).zip(&mut reasoning.summary) {
                change(DeltaKind::ReasoningSummary { summary_index }, text);
            }
            for (content_index, text) in (0..).zip(&mut reasoning.content) {
                change(DeltaKind::ReasoningText { content_index }, text);
            }
        }
        // Nothing else grows in a response.
        _ => {}
    }
}

/// Cleans what of an item does not grow.
pub(super) fn rest(redactor: &Redactor, body: &mut ItemBody) {
    match body {
        ItemBody::AgentMessage(message) => {
            if let Some(MessagePhase::Unlisted(word)) = &mut message.phase {
                text(redactor, word);
            }
        }
        ItemBody::WebSearch(search) => {
            text(redactor, &mut search.query);
            if let Some(action) = &mut search.action {
                value(redactor, action);
            }
        }
        // A response holds nothing else.
        _ => {}
    }
}

/// Cleans a whole item.
pub(super) fn body(redactor: &Redactor, body: &mut ItemBody) {
    each_text(body, |_, grown| {
        text(redactor, grown);
    });
    rest(redactor, body);
}

/// Cleans a call; one that held a key is not as its provider wrote it any more.
pub(super) fn call(redactor: &Redactor, call: &mut Call) {
    let mut found = [
        text(redactor, &mut call.call_id),
        text(redactor, &mut call.name),
        Cleaned::No,
    ];
    // Arguments are JSON: in them a key may be escaped in more ways than the redactor knows.
    match serde_json::from_str::<Value>(&call.arguments) {
        Ok(mut arguments) => {
            if value(redactor, &mut arguments) == Cleaned::Yes {
                call.arguments = arguments.to_string();
                found[2] = Cleaned::Yes;
            }
        }
        Err(_) => found[2] = text(redactor, &mut call.arguments),
    }
    let elsewhere = matches!(redactor.text(call.raw.get()), Cow::Owned(_));
    if elsewhere || found.contains(&Cleaned::Yes) {
        call.raw = rewritten(call).unwrap_or_default();
    }
}

fn rewritten(call: &Call) -> Option<Box<RawValue>> {
    let (kind, content) = match call.kind {
        CallKind::Function => ("function_call", "arguments"),
        CallKind::Custom => ("custom_tool_call", "input"),
    };
    let item = json!({
        "type": kind, "call_id": call.call_id, "name": call.name, content: call.arguments,
    });
    to_raw_value(&item).ok()
}

/// The cleaned value of what a provider wrote; null should it be no JSON.
pub(super) fn raw(redactor: &Redactor, raw: &RawValue) -> Value {
    let mut read = serde_json::from_str(raw.get()).unwrap_or_default();
    value(redactor, &mut read);
    read
}

pub(super) fn text(redactor: &Redactor, text: &mut String) -> Cleaned {
    let cleaned = match redactor.text(text) {
        Cow::Borrowed(_) => return Cleaned::No,
        Cow::Owned(clean) => clean,
    };
    *text = cleaned;
    Cleaned::Yes
}

/// Whether a key was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cleaned {
    Yes,
    No,
}

fn value(redactor: &Redactor, value: &mut Value) -> Cleaned {
    let mut cleaned = Cleaned::No;
    let mut note = |found| {
        if found == Cleaned::Yes {
            cleaned = Cleaned::Yes;
        }
    };
    match value {
        Value::String(said) => note(text(redactor, said)),
        Value::Array(values) => {
            for part in values {
                note(self::value(redactor, part));
            }
        }
        Value::Object(members) => {
            for (name, member) in std::mem::take(members) {
                let (mut name, mut member) = (name, member);
                note(text(redactor, &mut name));
                note(self::value(redactor, &mut member));
                members.insert(name, member);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    cleaned
}
