//! Open approvals, for those who are not asked themselves.

use serde_json::{Value, json};
use turnlane::{ApprovalChange, CallError, Decision};
use turnlane_testkit::wait::{DEADLINE, within};

use crate::double::{Double, Kind};
use crate::rig::{T, joined};

fn open_approval(id: &str) -> Value {
    json!({"approvalId": id, "threadId": T, "turnId": "t1", "itemId": "i1", "kind": "command",
        "command": "touch a", "cwd": "/srv", "changes": null, "reason": null,
        "availableDecisions": ["accept"], "requestedAtMs": 1, "expiresAtMs": 2})
}

#[tokio::test]
async fn open_approvals_are_listed_decided_and_followed() {
    let (mut double, client) = Double::plain(Kind::Turnlane).await;
    let approvals = client.approvals();
    let list = tokio::spawn({
        let approvals = approvals.clone();
        async move { approvals.list().await }
    });
    let first = double.expect("approval/list").await;
    assert_eq!(first.params, json!({"limit": 100}));
    first.answer(json!({"data": [open_approval("a1")], "nextCursor": "c"}));
    let second = double.expect("approval/list").await;
    assert_eq!(second.params, json!({"limit": 100, "cursor": "c"}));
    second.answer(json!({"data": [open_approval("a2")], "nextCursor": null}));
    let listed = joined(list).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["a1", "a2"]);
    assert_eq!(listed[0].command.as_deref(), Some("touch a"));

    let respond = tokio::spawn({
        let approvals = approvals.clone();
        async move { approvals.respond("a1", Decision::AcceptForSession).await }
    });
    let call = double.expect("approval/respond").await;
    assert_eq!(
        call.params,
        json!({"approvalId": "a1", "decision": "acceptForSession"})
    );
    let data = json!({"reason": "approvalResolved"});
    call.refuse(-32600, "approval already resolved: a1", &data);
    let error = joined(respond).await.unwrap_err();
    let CallError::Rpc(error) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.code, -32600);

    let mut changes = approvals.changes();
    double.tell("approval/changed", json!({"change": "newer word"}));
    double.tell(
        "approval/changed",
        json!({"change": "requested", "approval": open_approval("a3"), "decision": null,
            "by": null, "reason": null}),
    );
    double.tell(
        "approval/changed",
        json!({"change": "resolved", "approval": open_approval("a3"), "decision": "decline",
            "by": "timeout", "reason": "no one answered"}),
    );
    let next = within("a change", DEADLINE, changes.next()).await.unwrap();
    let Some(ApprovalChange::Requested(asked)) = next else {
        panic!("{next:?}");
    };
    assert_eq!(asked.id.as_str(), "a3");
    let next = within("a change", DEADLINE, changes.next()).await.unwrap();
    let Some(ApprovalChange::Resolved { decision, by, .. }) = next else {
        panic!("{next:?}");
    };
    assert_eq!(decision, Some(json!("decline")));
    assert_eq!(by.as_deref(), Some("timeout"));
}

#[tokio::test]
async fn a_server_without_approvals_says_so() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let list = tokio::spawn(async move { client.approvals().list().await });
    let call = double.expect("approval/list").await;
    let message = "Invalid request: unknown variant `approval/list`, expected one of `initialize`";
    call.refuse(-32600, message, &Value::Null);
    let error = joined(list).await.unwrap_err();
    assert!(matches!(
        error,
        CallError::Unsupported { method } if method == "approval/list"
    ));
}
