//! The words of each method for each decision: pure, and the one place that knows them.
//!
//! The invariant here: every answer has the shape of its method, and none says more than the reviewer
//! did: what cannot be said exactly is said as a no, with the reason why.
//!
//! Who decides is `scope.rs`'s business; sending is `desk.rs`'s.

use serde_json::{Value, json};
use turnlane_protocol::approval::{
    COMMAND_METHOD, ELICITATION_METHOD, FILE_CHANGE_METHOD, PERMISSIONS_METHOD, USER_INPUT_METHOD,
};

use super::{ApprovalRequest, Decision, LEGACY_COMMAND_METHOD, LEGACY_PATCH_METHOD};

/// What a method asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Command,
    Patch,
    Permissions,
    Elicitation,
    Questions,
    Legacy,
}

/// An answer, and the decision that it says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) result: Value,
    pub(super) decision: Decision,
    /// Whether the turn must be stopped by other means, because the answer cannot say it.
    pub(super) interrupts: Interrupts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupts {
    No,
    Yes,
}

impl Subject {
    /// None for requests that no reviewer decides.
    pub(super) fn of(method: &str) -> Option<Self> {
        Some(match method {
            COMMAND_METHOD => Self::Command,
            FILE_CHANGE_METHOD => Self::Patch,
            PERMISSIONS_METHOD => Self::Permissions,
            ELICITATION_METHOD => Self::Elicitation,
            USER_INPUT_METHOD => Self::Questions,
            LEGACY_COMMAND_METHOD | LEGACY_PATCH_METHOD => Self::Legacy,
            _ => return None,
        })
    }

    /// The answer that says `decision`, or says no and why it could not.
    pub(super) fn answer(self, request: &ApprovalRequest, decision: Decision) -> Answer {
        match self.said(request, &decision) {
            Ok(result) => Answer {
                result,
                interrupts: self.interrupts(&decision),
                decision,
            },
            Err(why) => {
                let decision = Decision::declined(why);
                let result = self.said(request, &decision).unwrap_or(Value::Null);
                Answer {
                    result,
                    decision,
                    interrupts: Interrupts::No,
                }
            }
        }
    }

    fn interrupts(self, decision: &Decision) -> Interrupts {
        match (self, decision) {
            (Self::Permissions | Self::Questions, Decision::Cancel) => Interrupts::Yes,
            _ => Interrupts::No,
        }
    }

    fn said(self, request: &ApprovalRequest, decision: &Decision) -> Result<Value, &'static str> {
        match self {
            Self::Command => command(request, decision),
            Self::Patch => Ok(json!({ "decision": plain(decision).ok_or(NO_AMENDMENT)? })),
            Self::Permissions => permissions(request, decision),
            Self::Elicitation => elicitation(request, decision),
            Self::Questions => Ok(questions(decision)?),
            Self::Legacy => Ok(json!({ "decision": legacy(decision).ok_or(NO_AMENDMENT)? })),
        }
    }
}

/// The server has no word for what the reviewer said.
const NO_AMENDMENT: &str = "the server offers no amendment here";
/// A rule other than the one that was offered could allow more than anybody saw.
const NOT_OFFERED: &str = "the amendment was not offered";
const NOTHING_ASKED: &str = "no permissions were asked for";
const CONTENT_NEEDED: &str = "accepting needs content";
const ANSWERS_NEEDED: &str = "answers must be an object with `answers`";

/// The word of a decision that carries nothing.
fn plain(decision: &Decision) -> Option<&'static str> {
    Some(match decision {
        Decision::Accept => "accept",
        Decision::AcceptForSession => "acceptForSession",
        Decision::AcceptWithAmendment(_) => return None,
        Decision::Decline { .. } => "decline",
        Decision::Cancel => "cancel",
    })
}

fn legacy(decision: &Decision) -> Option<&'static str> {
    Some(match decision {
        Decision::Accept => "approved",
        Decision::AcceptForSession => "approved_for_session",
        Decision::AcceptWithAmendment(_) => return None,
        Decision::Decline { .. } => "denied",
        Decision::Cancel => "abort",
    })
}

fn command(request: &ApprovalRequest, decision: &Decision) -> Result<Value, &'static str> {
    let Decision::AcceptWithAmendment(amendment) = decision else {
        return Ok(json!({ "decision": plain(decision) }));
    };
    let wanted = amended(amendment);
    let mut offered = request.available_decisions().iter();
    let proposed = request.params.get("proposedExecpolicyAmendment");
    let is_offered = offered.any(|offer| *offer == wanted)
        || proposed.is_some_and(|words| words.is_array() && amended(words) == wanted);
    if is_offered && wanted.is_object() {
        Ok(json!({ "decision": wanted }))
    } else {
        Err(NOT_OFFERED)
    }
}

/// The decision with a rule: itself, or made of the words of the rule alone.
fn amended(amendment: &Value) -> Value {
    match amendment {
        Value::Array(words) => {
            json!({ "acceptWithExecpolicyAmendment": { "execpolicy_amendment": words } })
        }
        decision => decision.clone(),
    }
}

/// A decision as `approval/respond` takes it.
pub(crate) fn wire_decision(decision: &Decision) -> Value {
    match decision {
        Decision::AcceptWithAmendment(amendment) => amended(amendment),
        decision => json!(plain(decision)),
    }
}

fn permissions(request: &ApprovalRequest, decision: &Decision) -> Result<Value, &'static str> {
    let scope = match decision {
        Decision::Accept => "turn",
        Decision::AcceptForSession => "session",
        Decision::AcceptWithAmendment(_) => return Err(NO_AMENDMENT),
        Decision::Decline { .. } | Decision::Cancel => {
            return Ok(json!({ "permissions": {}, "scope": "turn" }));
        }
    };
    let asked = request.permissions().filter(|asked| asked.is_object());
    let asked = asked.ok_or(NOTHING_ASKED)?;
    Ok(json!({ "permissions": asked, "scope": scope }))
}

fn elicitation(request: &ApprovalRequest, decision: &Decision) -> Result<Value, &'static str> {
    let (action, content) = match decision {
        Decision::Accept | Decision::AcceptForSession => ("accept", contentless(request)?),
        Decision::AcceptWithAmendment(content) => ("accept", content.clone()),
        Decision::Decline { .. } => ("decline", Value::Null),
        Decision::Cancel => ("cancel", Value::Null),
    };
    Ok(json!({ "action": action, "content": content }))
}

/// What an elicitation is accepted with that asks for nothing: a URL to be opened, or an empty form.
fn contentless(request: &ApprovalRequest) -> Result<Value, &'static str> {
    let Some(schema) = request.schema() else {
        return Ok(Value::Null);
    };
    let fields = schema.get("properties").and_then(Value::as_object);
    let is_empty = fields.is_some_and(serde_json::Map::is_empty);
    is_empty.then(|| json!({})).ok_or(CONTENT_NEEDED)
}

fn questions(decision: &Decision) -> Result<Value, &'static str> {
    match decision {
        Decision::AcceptWithAmendment(given) => match given.get("answers") {
            Some(Value::Object(answers)) => Ok(json!({ "answers": answers })),
            _ => Err(ANSWERS_NEEDED),
        },
        Decision::Accept
        | Decision::AcceptForSession
        | Decision::Decline { .. }
        | Decision::Cancel => Ok(json!({ "answers": {} })),
    }
}
