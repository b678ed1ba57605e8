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
use turnlane_protocol::strict;
use turnlane_runtime::WantedPermissions;

/// No answer is longer; a longer one is not read.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// The decision in an answer; none when there is none that we know.
pub(super) fn decision(raw: &[u8], wanted: Option<&WantedPermissions>) -> Option<Decision> {
    if raw.len() > ANSWER_BYTES_MAX {
        return None;
    }
    let Some(wanted) = wanted else {
        let answer = strict::read_decision::<ApprovalAnswer>(raw).ok()?;
        return Some(answer.decision);
    };
    let answer = strict::read_decision::<PermissionsApprovalAnswer>(raw).ok()?;
    // A grant under review is less than a yes, and an engine cannot be told of it.
    let is_reviewed = answer.strict_auto_review == Some(true);
    let granted = said(&answer.permissions);
    if is_reviewed || granted.is_empty() || granted != said(&wanted.permissions) {
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
    fn an_array_and_an_answer_with_a_member_twice_are_none() {
        let plain = |answer: &str| decision(answer.as_bytes(), None);
        assert_eq!(plain(r#"{"decision":"accept"}"#), Some(Decision::Accept));
        for odd in [
            r#"["accept"]"#,
            r#"{"decision":["accept"]}"#,
            r#"{"decision":{"accept":null}}"#,
            r#"{"decision":"decline","decision":"accept"}"#,
        ] {
            assert_eq!(plain(odd), None, "{odd}");
        }
        let long = format!(r#"{{"decision":"accept"{}}}"#, " ".repeat(ANSWER_BYTES_MAX));
        assert_eq!(plain(&long), None);
        let wanted = WantedPermissions {
            cwd: "/w".to_owned(),
            permissions: Map::from_iter([("network".to_owned(), json!({"enabled": true}))]),
        };
        let granted = |answer: &str| decision(answer.as_bytes(), Some(&wanted));
        let network = r#"{"network":{"enabled":true}}"#;
        let yes = format!(r#"{{"permissions":{network}}}"#);
        assert_eq!(granted(&yes), Some(Decision::Accept));
        assert_eq!(granted(&format!("[{network}]")), None);
        let twice = r#"{"permissions":{"network":{"enabled":false},"network":{"enabled":true}}}"#;
        assert_eq!(granted(twice), None);
        let reviewed = format!(r#"{{"permissions":{network},"strictAutoReview":true}}"#);
        assert_eq!(granted(&reviewed), Some(Decision::Decline));
    }

    #[test]
    fn an_answer_to_another_question_is_none() {
        let wanted = json!({"network": {"enabled": true}});
        assert_eq!(decided(&json!({"decision": "accept"}), &wanted), None);
        let granted = json!({"permissions": {"network": {"enabled": true}}}).to_string();
        assert_eq!(decision(granted.as_bytes(), None), None);
    }
}
