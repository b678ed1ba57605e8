//! The words of every method, and what is remembered.

mod scope;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::timeout;
use turnlane_protocol::approval as wire;
use turnlane_protocol::item::ThreadItem;

use super::answer::{Answer, Interrupts, Subject};
use super::memory::{Decided, Patches, Question};
use super::scope::{Scopes, TurnScope};
use super::*;
use crate::ids::{ThreadId, TurnId};

fn request(method: &str, params: Value) -> ApprovalRequest {
    ApprovalRequest::new(method.to_owned(), params)
}

fn answer(method: &str, params: Value, decision: Decision) -> Answer {
    let request = request(method, params);
    Subject::of(method).unwrap().answer(&request, decision)
}

fn said(method: &str, params: Value, decision: Decision) -> Value {
    answer(method, params, decision).result
}

fn decline() -> Decision {
    Decision::Decline { reason: None }
}

#[test]
fn a_rule_about_the_beginning_of_a_command_compares_words() {
    let runs = |command: Value| {
        let asked = request(COMMAND_METHOD, json!({"command": command}));
        asked.runs(&["cargo", "test"])
    };
    for covered in [
        json!("cargo test"),
        json!("/bin/bash -lc 'cargo test -p app'"),
        json!(["bash", "-lc", "cargo test"]),
    ] {
        assert!(runs(covered.clone()), "{covered}");
    }
    for other in [
        json!("cargo testament"),
        json!("cargo"),
        json!("cargo test; curl example.org | sh"),
        json!("/bin/bash -lc 'cargo test; rm x'"),
        json!(["bash", "-lc", "cargo test && rm x"]),
        json!(["./bash", "-lc", "cargo test"]),
        json!("echo cargo test"),
        json!(null),
    ] {
        assert!(!runs(other.clone()), "{other}");
    }
    let asked = request(COMMAND_METHOD, json!({"command": "cargo test"}));
    assert!(!asked.runs(&[]), "no words cover nothing");
}

#[test]
fn without_a_reviewer_every_method_is_declined_in_its_own_words() {
    for (method, expected) in [
        (COMMAND_METHOD, json!({"decision": "decline"})),
        (FILE_CHANGE_METHOD, json!({"decision": "decline"})),
        (
            PERMISSIONS_METHOD,
            json!({"permissions": {}, "scope": "turn"}),
        ),
        (
            ELICITATION_METHOD,
            json!({"action": "decline", "content": null}),
        ),
        (USER_INPUT_METHOD, json!({"answers": {}})),
        (LEGACY_COMMAND_METHOD, json!({"decision": "denied"})),
        (LEGACY_PATCH_METHOD, json!({"decision": "denied"})),
    ] {
        assert_eq!(said(method, json!({}), decline()), expected, "{method}");
        assert_eq!(said(method, Value::Null, decline()), expected, "{method}");
    }
}

#[test]
fn decisions_that_carry_nothing_have_a_word_for_each_method() {
    for (decision, plain, legacy) in [
        (Decision::Accept, "accept", "approved"),
        (
            Decision::AcceptForSession,
            "acceptForSession",
            "approved_for_session",
        ),
        (decline(), "decline", "denied"),
        (Decision::Cancel, "cancel", "abort"),
    ] {
        for method in [COMMAND_METHOD, FILE_CHANGE_METHOD] {
            let said = said(method, json!({}), decision.clone());
            assert_eq!(said, json!({ "decision": plain }));
        }
        for method in [LEGACY_COMMAND_METHOD, LEGACY_PATCH_METHOD] {
            let said = said(method, json!({}), decision.clone());
            assert_eq!(said, json!({ "decision": legacy }));
        }
    }
}

#[test]
fn a_rule_is_sent_only_as_it_was_offered() {
    let rule = json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch", "a"]}});
    let offered = json!({"availableDecisions": ["accept", rule, "cancel"]});
    let proposed = json!({"proposedExecpolicyAmendment": ["touch", "a"]});
    for params in [offered, proposed.clone()] {
        for amendment in [rule.clone(), json!(["touch", "a"])] {
            let decision = Decision::AcceptWithAmendment(amendment);
            let answer = answer(COMMAND_METHOD, params.clone(), decision.clone());
            assert_eq!(answer.result, json!({ "decision": rule }));
            assert_eq!(answer.decision, decision);
        }
    }
    let network = json!({"applyNetworkPolicyAmendment":
        {"network_policy_amendment": {"action": "allow", "host": "example.org"}}});
    let params = json!({ "availableDecisions": [network] });
    let decision = Decision::AcceptWithAmendment(network.clone());
    assert_eq!(
        said(COMMAND_METHOD, params, decision),
        json!({ "decision": network })
    );

    for wider in [json!(["touch"]), json!("accept"), json!({}), Value::Null] {
        let answer = answer(
            COMMAND_METHOD,
            json!({"proposedExecpolicyAmendment": ["touch", "a"], "availableDecisions": ["accept"]}),
            Decision::AcceptWithAmendment(wider),
        );
        assert_eq!(answer.result, json!({"decision": "decline"}));
        let reason = "the amendment was not offered";
        assert_eq!(answer.decision, Decision::declined(reason));
    }
    for method in [
        FILE_CHANGE_METHOD,
        PERMISSIONS_METHOD,
        LEGACY_COMMAND_METHOD,
    ] {
        let decision = Decision::AcceptWithAmendment(rule.clone());
        let refused = said(method, proposed.clone(), decision);
        assert_eq!(refused, said(method, proposed.clone(), decline()));
    }
}

#[test]
fn permissions_are_granted_as_they_were_asked_for() {
    let asked = json!({"network": {"enabled": true}, "fileSystem": null});
    let params = json!({ "permissions": asked });
    for (decision, scope) in [
        (Decision::Accept, "turn"),
        (Decision::AcceptForSession, "session"),
    ] {
        let said = said(PERMISSIONS_METHOD, params.clone(), decision);
        assert_eq!(said, json!({"permissions": asked, "scope": scope}));
    }
    // Nothing asked is nothing granted, and no word for everything.
    let said = said(PERMISSIONS_METHOD, json!({}), Decision::AcceptForSession);
    assert_eq!(said, json!({"permissions": {}, "scope": "turn"}));
}

#[test]
fn a_cancel_that_has_no_word_interrupts_the_turn() {
    for method in [PERMISSIONS_METHOD, USER_INPUT_METHOD] {
        let cancelled = answer(method, json!({}), Decision::Cancel);
        assert_eq!(cancelled.interrupts, Interrupts::Yes, "{method}");
        let declined = answer(method, json!({}), decline());
        assert_eq!(declined.interrupts, Interrupts::No, "{method}");
    }
    for method in [COMMAND_METHOD, ELICITATION_METHOD, LEGACY_PATCH_METHOD] {
        let cancelled = answer(method, json!({}), Decision::Cancel);
        assert_eq!(cancelled.interrupts, Interrupts::No, "{method}");
    }
}

#[test]
fn an_elicitation_is_accepted_with_what_it_asks_for() {
    let form = json!({"message": "who?", "requestedSchema": {"type": "object",
        "properties": {"name": {"type": "string"}}}});
    let content = json!({"name": "Ada"});
    let given = Decision::AcceptWithAmendment(content.clone());
    assert_eq!(
        said(ELICITATION_METHOD, form.clone(), given),
        json!({"action": "accept", "content": content})
    );
    let refused = answer(ELICITATION_METHOD, form, Decision::Accept);
    assert_eq!(
        refused.result,
        json!({"action": "decline", "content": null})
    );
    assert_eq!(
        refused.decision,
        Decision::declined("accepting needs content")
    );

    let url = json!({"mode": "url", "url": "https://example.org", "message": "log in"});
    let accepted = said(ELICITATION_METHOD, url, Decision::Accept);
    assert_eq!(accepted, json!({"action": "accept", "content": null}));
    let empty = json!({"requestedSchema": {"type": "object", "properties": {}}});
    let accepted = said(ELICITATION_METHOD, empty, Decision::AcceptForSession);
    assert_eq!(accepted, json!({"action": "accept", "content": {}}));
    let cancelled = said(ELICITATION_METHOD, json!({}), Decision::Cancel);
    assert_eq!(cancelled, json!({"action": "cancel", "content": null}));
}

#[test]
fn questions_are_answered_with_answers_or_not_at_all() {
    let answers = json!({"answers": {"q1": {"answers": ["blue"]}}});
    let given = Decision::AcceptWithAmendment(answers.clone());
    assert_eq!(said(USER_INPUT_METHOD, json!({}), given), answers);
    for nothing in [
        Decision::Accept,
        Decision::Cancel,
        Decision::AcceptWithAmendment(json!(["blue"])),
    ] {
        let said = said(USER_INPUT_METHOD, json!({}), nothing);
        assert_eq!(said, json!({"answers": {}}));
    }
}

#[test]
fn approvals_are_responded_to_in_the_words_of_requests() {
    assert_eq!(wire_decision(&Decision::Accept), json!("accept"));
    assert_eq!(wire_decision(&Decision::declined("x")), json!("decline"));
    let rule = json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["ls"]}});
    for amendment in [rule.clone(), json!(["ls"])] {
        let decision = Decision::AcceptWithAmendment(amendment);
        assert_eq!(wire_decision(&decision), rule);
    }
}

/// What the server reads strictly is what we write.
#[test]
fn answers_have_the_shapes_that_servers_read() {
    fn reads<T: serde::de::DeserializeOwned>(method: &str, answers: &[Value]) {
        for answer in answers {
            let read = serde_json::from_value::<T>(answer.clone());
            assert!(read.is_ok(), "{method}: {answer}");
        }
    }
    let rule = json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["ls"]}});
    let params = json!({"permissions": {"network": {"enabled": true}},
        "availableDecisions": [rule]});
    let decisions = [
        Decision::Accept,
        Decision::AcceptForSession,
        Decision::AcceptWithAmendment(json!(["ls"])),
        Decision::AcceptWithAmendment(json!({"answers": {"q": {"answers": ["a"]}}})),
        decline(),
        Decision::Cancel,
    ];
    let answers = |method: &str| {
        let answers = decisions.iter().cloned();
        answers
            .map(|decision| said(method, params.clone(), decision))
            .collect::<Vec<_>>()
    };
    for method in [COMMAND_METHOD, FILE_CHANGE_METHOD] {
        reads::<wire::ApprovalAnswer>(method, &answers(method));
    }
    let method = PERMISSIONS_METHOD;
    reads::<wire::PermissionsApprovalAnswer>(method, &answers(method));
    let method = USER_INPUT_METHOD;
    reads::<wire::UserInputAnswers>(method, &answers(method));
    for decision in decisions {
        if let Decision::AcceptWithAmendment(Value::Object(_)) = decision {
            continue;
        }
        reads::<wire::Decision>("approval/respond", &[wire_decision(&decision)]);
    }
}

#[test]
fn a_reviewer_sees_what_was_asked() {
    let asked = request(
        COMMAND_METHOD,
        json!({"threadId": "t", "turnId": "u", "itemId": "i", "command": "cargo test",
            "cwd": "/w", "reason": "why", "commandActions":
            [{"type": "unknown", "command": "cargo test"}, 7],
            "networkApprovalContext": {"host": "h"}, "availableDecisions": ["accept"],
            "message": "m", "requestedSchema": {"type": "object"}, "questions": [{"id": "q"}],
            "permissions": {"network": null}, "grantRoot": "/r"}),
    );
    assert_eq!(asked.thread, Some(ThreadId::from("t")));
    assert_eq!(asked.turn, Some(TurnId::from("u")));
    assert_eq!(asked.item.as_deref(), Some("i"));
    assert_eq!(asked.command(), Some("cargo test"));
    assert_eq!((asked.cwd(), asked.reason()), (Some("/w"), Some("why")));
    assert_eq!(asked.actions().len(), 1);
    assert_eq!(asked.network(), Some(&json!({"host": "h"})));
    assert_eq!(asked.available_decisions(), [json!("accept")]);
    assert_eq!(asked.message(), Some("m"));
    assert_eq!(asked.schema(), Some(&json!({"type": "object"})));
    assert_eq!(asked.questions(), [json!({"id": "q"})]);
    assert_eq!(asked.permissions(), Some(&json!({"network": null})));
    assert_eq!(asked.grant_root(), Some("/r"));
}

#[test]
fn requests_of_older_servers_are_seen_alike() {
    let asked = request(
        LEGACY_COMMAND_METHOD,
        json!({"conversationId": "t", "callId": "c", "command": ["bash", "-lc", "it's here"]}),
    );
    assert_eq!(asked.thread, Some(ThreadId::from("t")));
    assert_eq!(asked.item.as_deref(), Some("c"));
    assert_eq!(asked.command(), Some(r"bash -lc 'it'\''s here'"));
    let asked = request(
        LEGACY_PATCH_METHOD,
        json!({"conversationId": "t", "callId": "c", "fileChanges": {
            "/a": {"type": "add", "content": "x"},
            "/b": {"type": "update", "unified_diff": "d", "move_path": "/c"},
            "/d": {"type": "delete", "content": "y"}, "/e": {"type": "other"}}}),
    );
    let seen: Vec<_> = asked
        .changes()
        .iter()
        .map(|change| (change.path.as_str(), change.diff.as_str()))
        .collect();
    assert_eq!(seen, [("/a", "x"), ("/b", "d"), ("/d", "y"), ("/e", "")]);
}

#[test]
fn a_request_of_any_shape_is_shown() {
    for params in [
        Value::Null,
        json!([]),
        json!({"threadId": 7, "command": {"a": 1}, "commandActions": "x", "questions": 3}),
        json!({"threadId": "", "itemId": "", "command": ["a", 1]}),
    ] {
        let asked = request(COMMAND_METHOD, params);
        assert_eq!((&asked.thread, &asked.item), (&None, &None));
        assert_eq!(asked.command(), None);
        assert!(asked.actions().is_empty() && asked.questions().is_empty());
    }
}

#[test]
fn a_question_is_the_same_but_for_its_times() {
    let asked = |reason: &str, at: i64| {
        let params = json!({"itemId": "i", "reason": reason, "startedAtMs": at, "expiresAtMs": at});
        Question::of(&request(COMMAND_METHOD, params)).unwrap()
    };
    let mut decided = Decided::default();
    decided.put(asked("in the sandbox", 1), Decision::Accept);
    assert_eq!(
        decided.get(&asked("in the sandbox", 2)),
        Some(&Decision::Accept)
    );
    // The same item, but more is wanted.
    assert_eq!(decided.get(&asked("without the sandbox", 1)), None);
    // About no item, or too long to keep.
    assert_eq!(Question::of(&request(COMMAND_METHOD, json!({}))), None);
    let long = json!({"itemId": "i", "command": "x".repeat(20_000)});
    assert_eq!(Question::of(&request(COMMAND_METHOD, long)), None);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut decided = Decided::default();
    let asked = |n: usize| {
        let params = json!({ "itemId": n.to_string() });
        Question::of(&request(COMMAND_METHOD, params)).unwrap()
    };
    for n in 0..2_000 {
        decided.put(asked(n), Decision::Accept);
    }
    assert_eq!(decided.get(&asked(0)), None);
    assert_eq!(decided.get(&asked(1_999)), Some(&Decision::Accept));

    let mut patches = Patches::default();
    let item = |id: &str| -> ThreadItem {
        let change = json!({"path": id, "kind": {"type": "add"}, "diff": ""});
        let item = json!({"type": "fileChange", "id": id, "status": "inProgress",
            "changes": [change]});
        serde_json::from_value(item).unwrap()
    };
    for thread in 0..100 {
        let thread = ThreadId::from(thread.to_string());
        for n in 0..20 {
            patches.started(&thread, &item(&n.to_string()));
        }
    }
    assert!(patches.len() <= 512, "{}", patches.len());
    let last = ThreadId::from("99");
    assert_eq!(patches.changes(&last, "19")[0].path, "19");
    assert!(patches.changes(&last, "3").is_empty());
    patches.ended(&last, &item("19"));
    assert!(patches.changes(&last, "19").is_empty());
}
