//! What a client answered, as a decision.
//!
//! The invariant here: only what is surely meant as a yes is one. Permissions are granted as they
//! were asked for or not at all: an engine is told of a yes and a no, and a part of what it asked
//! for would be a yes to all of it.
//!
//! Whether the answer still counts is the broker's business.

use serde_json::{Map, Value};
use turnlane_protocol::approval::{
    ApprovalAnswer, Decision, GrantScope, PermissionsApprovalAnswer,
};
use turnlane_runtime::WantedPermissions;

/// The decision in an answer; none when there is none that we know.
pub(super) fn decision(raw: &[u8], wanted: Option<&WantedPermissions>) -> Option<Decision> {
    let Some(wanted) = wanted else {
        let answer = serde_json::from_slice::<ApprovalAnswer>(raw).ok()?;
        return Some(answer.decision);
    };
    let answer = serde_json::from_slice::<PermissionsApprovalAnswer>(raw).ok()?;
    let granted = said(&answer.permissions);
    if granted.is_empty() || granted != said(&wanted.permissions) {
        return Some(Decision::Decline);
    }
    Some(match answer.scope {
        GrantScope::Turn => Decision::Accept,
        GrantScope::Session => Decision::AcceptForSession,
    })
}

/// Without members that say nothing: null and absent are the same to everybody who writes these.
fn said(members: &Map<String, Value>) -> Map<String, Value> {
    let kept = members.iter().filter(|(_, member)| !member.is_null());
    let kept = kept.map(|(key, member)| match member {
        Value::Object(inner) => (key.clone(), Value::Object(said(inner))),
        other => (key.clone(), other.clone()),
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decided(answer: &Value, wanted: &Value) -> Option<Decision> {
        let wanted = WantedPermissions {
            cwd: "/w".to_owned(),
            permissions: wanted.as_object().cloned().unwrap_or_default(),
        };
        decision(answer.to_string().as_bytes(), Some(&wanted))
    }

    #[test]
    fn permissions_are_granted_whole_or_not_at_all() {
        let wanted = json!({"network": {"enabled": true},
            "fileSystem": {"write": ["/a", "/b"], "read": null}});
        let whole = json!({"permissions": {"network": {"enabled": true},
            "fileSystem": {"write": ["/a", "/b"]}}});
        assert_eq!(decided(&whole, &wanted), Some(Decision::Accept));
        let mut session = whole;
        session["scope"] = json!("session");
        assert_eq!(decided(&session, &wanted), Some(Decision::AcceptForSession));
        for less in [
            json!({}),
            json!({"network": null, "fileSystem": null}),
            json!({"network": {"enabled": true}}),
            json!({"network": {"enabled": true}, "fileSystem": {"write": ["/"]}}),
        ] {
            let answer = json!({"permissions": less});
            assert_eq!(decided(&answer, &wanted), Some(Decision::Decline), "{less}");
        }
    }

    #[test]
    fn an_answer_to_another_question_is_none() {
        let wanted = json!({"network": {"enabled": true}});
        assert_eq!(decided(&json!({"decision": "accept"}), &wanted), None);
        let granted = json!({"permissions": {"network": {"enabled": true}}}).to_string();
        assert_eq!(decision(granted.as_bytes(), None), None);
    }
}
