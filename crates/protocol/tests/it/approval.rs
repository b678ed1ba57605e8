//! Questions, decisions, and what is never read as a yes.

use serde_json::{Value, json};
use turnlane_protocol::approval::{
    Approval, ApprovalAnswer, ApprovalKind, ApprovalListAnswer, ApprovalListParams,
    ApprovalRespondParams, CommandApprovalKind, CommandApprovalParams, Decision,
    DynamicToolCallAnswer, DynamicToolCallParams, FileChangeApprovalParams, GrantScope,
    OfferedDecision, PermissionsApprovalAnswer, PermissionsApprovalParams, UserInputAnswers,
    UserInputParams,
};

use crate::example::{reads_as, refusal, whole, with};
use crate::thread::THREAD;
use crate::turn::TURN;

const APPROVAL: &str = "0198c0de-0000-7000-8000-000000000004";

pub(crate) fn approval(members: Value) -> Value {
    let all = json!({"approvalId": APPROVAL, "threadId": THREAD, "turnId": TURN, "itemId": "call_2",
        "kind": "command", "command": "ls", "cwd": "/w", "changes": null, "reason": null,
        "availableDecisions": ["accept", "decline"], "requestedAtMs": 5, "expiresAtMs": 6});
    with(all, members)
}

fn command_params(members: Value) -> Value {
    let all = json!({"kind": "command", "threadId": THREAD, "turnId": TURN, "itemId": "call_2",
        "startedAtMs": 5, "environmentId": "local", "reason": "needs network", "command": "curl",
        "cwd": "/w", "commandActions": [{"type": "unknown", "command": "curl"}],
        "proposedExecpolicyAmendment": null,
        "availableDecisions": ["accept", "acceptForSession", "decline", "cancel"]});
    with(all, members)
}

#[test]
fn every_decision_comes_back_whole() {
    for (json, accepts) in [
        (json!("accept"), true),
        (json!("acceptForSession"), true),
        (
            json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["git", "log"]}}),
            true,
        ),
        (json!("decline"), false),
        (json!("cancel"), false),
    ] {
        assert_eq!(
            whole::<Decision>(json.clone()).is_accept(),
            accepts,
            "{json}"
        );
        whole::<ApprovalAnswer>(json!({"decision": json}));
        whole::<ApprovalRespondParams>(json!({"approvalId": "a", "decision": json}));
        assert!(matches!(
            whole::<OfferedDecision>(json),
            OfferedDecision::Known(_)
        ));
    }
}

#[test]
fn nothing_else_is_a_decision() {
    assert_eq!(
        refusal::<ApprovalAnswer>(json!({"decision": "approved"})),
        "Invalid request: unknown variant `approved`, expected one of `accept`, \
         `acceptForSession`, `acceptWithExecpolicyAmendment`, `decline`, `cancel`"
    );
    assert_eq!(
        refusal::<ApprovalAnswer>(json!({})),
        "Invalid request: missing field `decision`"
    );
    for odd in [
        json!(null),
        json!(true),
        json!("Accept"),
        json!(["accept"]),
        json!({"acceptWithExecpolicyAmendment": {}}),
        json!({"accept": 1, "decline": 2}),
        json!({"accept": null}),
        json!({"acceptForSession": {}}),
        json!("acceptWithExecpolicyAmendment"),
        json!({"acceptWithExecpolicyAmendment": [["git"]]}),
        json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": "git"}}),
        json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["git", 1]}}),
        json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["git"], "more": 1}}),
        json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["git"]}, "accept": 1}),
    ] {
        assert!(
            serde_json::from_value::<Decision>(odd.clone()).is_err(),
            "{odd}"
        );
    }
}

#[test]
fn what_another_engine_offers_is_kept() {
    let offer = json!({"applyNetworkPolicyAmendment": {"network_policy_amendment": {"host": "h"}}});
    assert_eq!(
        whole::<OfferedDecision>(offer.clone()),
        OfferedDecision::Unlisted(offer.clone())
    );
    whole::<CommandApprovalParams>(command_params(
        json!({"availableDecisions": ["accept", offer],
        "networkApprovalContext": {"host": "h", "protocol": "https"}}),
    ));
    let read = whole::<CommandApprovalParams>(command_params(json!({"kind": "readMind"})));
    assert_eq!(read.kind, CommandApprovalKind::Unlisted("readMind".into()));
}

#[test]
fn questions_come_back_whole() {
    whole::<CommandApprovalParams>(command_params(json!({})));
    whole::<CommandApprovalParams>(command_params(json!({"kind": "writeStdin",
        "approvalId": APPROVAL, "expiresAtMs": 6, "proposedExecpolicyAmendment": ["curl"]})));
    reads_as::<CommandApprovalParams>(
        json!({"threadId": THREAD, "turnId": TURN, "itemId": "c", "startedAtMs": 5}),
        &json!({"kind": "command", "threadId": THREAD, "turnId": TURN, "itemId": "c",
            "startedAtMs": 5, "environmentId": null, "reason": null, "command": null, "cwd": null,
            "commandActions": null, "proposedExecpolicyAmendment": null,
            "availableDecisions": null}),
    );
    let patch = json!({"threadId": THREAD, "turnId": TURN, "itemId": "c", "startedAtMs": 5,
        "reason": null, "grantRoot": null});
    whole::<FileChangeApprovalParams>(patch.clone());
    whole::<FileChangeApprovalParams>(with(
        patch,
        json!({"reason": "r", "grantRoot": "/w",
        "approvalId": APPROVAL, "expiresAtMs": 6, "later": 1}),
    ));
}

#[test]
fn the_list_of_open_questions_comes_back_whole() {
    whole::<Approval>(approval(json!({})));
    whole::<Approval>(approval(
        json!({"kind": "fileChange", "command": null, "cwd": null,
        "changes": [{"path": "a", "kind": {"type": "add"}, "diff": ""}], "reason": "r"}),
    ));
    for kind in ["command", "fileChange", "permissions"] {
        whole::<ApprovalKind>(json!(kind));
    }
    whole::<ApprovalListParams>(json!({}));
    whole::<ApprovalListParams>(json!({"threadId": "t", "cursor": "c", "limit": 5}));
    whole::<ApprovalListAnswer>(json!({"data": [approval(json!({}))], "nextCursor": null}));
}

#[test]
fn questions_that_are_no_decision_come_back_whole() {
    let place = json!({"threadId": THREAD, "turnId": TURN, "itemId": "c"});
    whole::<PermissionsApprovalParams>(with(
        place.clone(),
        json!({"startedAtMs": 5, "environmentId": "local", "cwd": "/w", "reason": null,
            "permissions": {"network": {"enabled": true}}, "approvalId": APPROVAL,
            "expiresAtMs": 6, "later": 1}),
    ));
    for scope in ["turn", "session"] {
        whole::<PermissionsApprovalAnswer>(
            json!({"permissions": {}, "scope": scope, "strictAutoReview": true}),
        );
    }
    let short = reads_as::<PermissionsApprovalAnswer>(
        json!({"permissions": {}}),
        &json!({"permissions": {}, "scope": "turn"}),
    );
    assert_eq!(short.scope, GrantScope::Turn);
    assert!(serde_json::from_value::<PermissionsApprovalAnswer>(json!({"scope": "turn"})).is_err());
    whole::<UserInputParams>(with(
        place,
        json!({"isBlocking": true, "autoResolutionMs": null, "later": 1, "questions": [
            {"id": "q", "header": "h", "question": "?", "isOther": true, "isSecret": false,
                "options": [{"label": "l", "description": "d"}]},
            {"id": "r", "header": "h", "question": "?", "isOther": false, "isSecret": true,
                "options": null}]}),
    ));
    whole::<UserInputAnswers>(json!({"answers": {"q": {"answers": ["l"]}}}));
    whole::<DynamicToolCallParams>(json!({"threadId": THREAD, "turnId": TURN, "callId": "c",
        "namespace": null, "tool": "t", "arguments": {"a": 1}}));
    whole::<DynamicToolCallAnswer>(json!({"success": true, "contentItems": [
        {"type": "inputText", "text": "t"}, {"type": "inputImage", "imageUrl": "data:"},
        {"type": "inputAudio", "audioUrl": "data:"}]}));
    assert!(
        serde_json::from_value::<DynamicToolCallAnswer>(json!({"contentItems": [{"type": "x"}],
            "success": true}))
        .is_err()
    );
}
