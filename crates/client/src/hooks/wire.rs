//! Hooks about tools in JSON: what a server asks, and what it is answered.
//!
//! The invariant here: a no is always answered as one, and what a hook may not do is told to people
//! rather than dropped in silence.

use serde_json::{Value, json};
use turnlane_protocol::hook::HookEvent;

use super::{HookAction, HookPatch, HookPhase};

/// What a hook said, and what is wrong with it beside.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Said {
    pub(super) action: HookAction,
    pub(super) wrong: Vec<String>,
}

/// The phase that a server's question is about.
pub(super) fn phase(event_name: &str) -> Option<HookPhase> {
    match HookEvent::from_name(event_name)? {
        HookEvent::PreToolUse => Some(HookPhase::PreToolUse),
        HookEvent::PostToolUse => Some(HookPhase::PostToolUse),
        _ => None,
    }
}

/// The answer to a server that asked about a tool.
pub(super) fn answer(phase: HookPhase, action: HookAction, mut wrong: Vec<String>) -> Value {
    let name = phase.as_str();
    let mut answer = match (phase, action) {
        (HookPhase::PreToolUse, HookAction::Block { message }) => json!({"hookSpecificOutput":
            {"hookEventName": name, "permissionDecision": "deny",
                "permissionDecisionReason": message}}),
        (
            HookPhase::PreToolUse,
            HookAction::Mutate(HookPatch {
                tool_input: Some(input),
                ..
            }),
        ) => {
            json!({"hookSpecificOutput": {"hookEventName": name, "updatedInput": input}})
        }
        (_, HookAction::Block { .. }) => {
            wrong.push(format!("block is not allowed in {phase}"));
            json!({})
        }
        (_, HookAction::Noop | HookAction::Mutate(_)) => json!({}),
    };
    if let (false, Value::Object(members)) = (wrong.is_empty(), &mut answer) {
        members.insert("systemMessage".to_owned(), json!(wrong.join("; ")));
    }
    answer
}
