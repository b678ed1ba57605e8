//! The log of a server: one line for each approval that is asked for or decided.
//!
//! The invariant here: a line holds ids and words of the protocol. It never holds a command or a text of
//! a client. Ends of turns and holds of lanes are logged by the runtime.

use serde::Serialize;
use turnlane_protocol::approval::{Approval, Decision};
use turnlane_protocol::notification::Decider;

/// An approval is asked for.
pub(crate) fn asked(approval: &Approval) {
    tracing::info!(
        thread = %approval.thread_id, turn = %approval.turn_id, approval = %approval.approval_id,
        kind = word(&approval.kind), "an approval is asked for"
    );
}

/// An approval was decided.
pub(crate) fn decided(approval: &Approval, decision: &Decision, by: Decider) {
    tracing::info!(
        thread = %approval.thread_id, approval = %approval.approval_id, decision = word(decision),
        by = word(&by), "an approval was decided"
    );
}

/// The word that the protocol has for a value; what is no word has none here.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        // Of a decision with members only its name: the members are a client's or a command's.
        Ok(serde_json::Value::Object(members)) => {
            members.keys().next().cloned().unwrap_or_default()
        }
        Ok(_) | Err(_) => String::new(),
    }
}
