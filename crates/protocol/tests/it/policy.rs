//! Both spellings of policies, and the words that are refused.

use serde_json::{Value, json};
use turnlane_protocol::method::TurnStartParams;
use turnlane_protocol::policy::{
    ApprovalPolicy, ApprovalsReviewer, SandboxDisagreement, SandboxPolicy,
};

use crate::example::{reads_as, refusal, whole};

#[test]
fn approval_policies_come_back_whole() {
    for word in ["untrusted", "on-request", "never"] {
        whole::<ApprovalPolicy>(json!(word));
    }
    whole::<ApprovalPolicy>(
        json!({"granular": {"mcp_elicitations": true, "rules": false,
        "sandbox_approval": true, "request_permissions": true, "skill_approval": false}}),
    );
    reads_as::<ApprovalPolicy>(
        json!({"granular": {"mcp_elicitations": true, "rules": true, "sandbox_approval": true}}),
        &json!({"granular": {"mcp_elicitations": true, "rules": true, "sandbox_approval": true,
            "request_permissions": false, "skill_approval": false}}),
    );
}

#[test]
fn the_policy_of_earlier_clients_is_echoed_as_todays() {
    reads_as::<TurnStartParams>(
        json!({"threadId": "t", "input": [], "approvalPolicy": "on-failure"}),
        &json!({"threadId": "t", "input": [], "approvalPolicy": "on-request"}),
    );
}

#[test]
fn other_approval_policies_are_refused_with_the_list() {
    assert_eq!(
        refusal::<ApprovalPolicy>(json!("sometimes")),
        "Invalid request: unknown variant `sometimes`, expected one of `untrusted`, `on-failure`, \
         `on-request`, `never`, `granular`"
    );
    assert_eq!(
        refusal::<ApprovalPolicy>(json!({"granular": {"rules": true, "sandbox_approval": true}})),
        "Invalid request: missing field `mcp_elicitations`"
    );
}

#[test]
fn reviewers_come_back_whole_and_others_are_refused() {
    for word in ["user", "auto_review"] {
        whole::<ApprovalsReviewer>(json!(word));
    }
    // A former name, echoed as the new one.
    let former = serde_json::from_value::<ApprovalsReviewer>(json!("guardian_subagent"));
    assert_eq!(former.unwrap(), ApprovalsReviewer::AutoReview);
    assert_eq!(
        refusal::<ApprovalsReviewer>(json!("nobody")),
        "Invalid request: unknown variant `nobody`, expected one of `user`, `auto_review`, \
         `guardian_subagent`"
    );
}

/// Mode word, object form.
fn spellings() -> Vec<(&'static str, Value)> {
    vec![
        (
            "read-only",
            json!({"type": "readOnly", "networkAccess": false}),
        ),
        (
            "workspace-write",
            json!({"type": "workspaceWrite", "writableRoots": [], "networkAccess": false,
                "excludeTmpdirEnvVar": false, "excludeSlashTmp": false}),
        ),
        ("danger-full-access", json!({"type": "dangerFullAccess"})),
    ]
}

#[test]
fn both_spellings_of_a_sandbox_are_read_everywhere_and_the_object_is_written() {
    for (word, object) in spellings() {
        let policy = whole::<SandboxPolicy>(object.clone());
        assert_eq!(SandboxPolicy::from_mode(word), Some(policy));
        for member in ["sandbox", "sandboxPolicy"] {
            let written = json!({"threadId": "t", "input": [], member: object});
            reads_as::<TurnStartParams>(
                json!({"threadId": "t", "input": [], member: word}),
                &written,
            );
            whole::<TurnStartParams>(written);
        }
    }
}

#[test]
fn sandbox_objects_come_back_whole_and_short_ones_completed() {
    whole::<SandboxPolicy>(json!({"type": "readOnly", "networkAccess": true}));
    whole::<SandboxPolicy>(json!({"type": "externalSandbox", "networkAccess": "enabled"}));
    whole::<SandboxPolicy>(
        json!({"type": "workspaceWrite", "writableRoots": ["/a", "/b"],
        "networkAccess": true, "excludeTmpdirEnvVar": true, "excludeSlashTmp": true}),
    );
    for (_, object) in spellings() {
        reads_as::<SandboxPolicy>(json!({"type": object["type"]}), &object);
    }
    reads_as::<SandboxPolicy>(
        json!({"type": "externalSandbox"}),
        &json!({"type": "externalSandbox", "networkAccess": "restricted"}),
    );
}

#[test]
fn other_sandboxes_are_refused_with_the_list_of_the_spelling_used() {
    assert_eq!(
        refusal::<SandboxPolicy>(json!("readOnly")),
        "Invalid request: unknown variant `readOnly`, expected one of `read-only`, \
         `workspace-write`, `danger-full-access`"
    );
    assert_eq!(
        refusal::<SandboxPolicy>(json!({"type": "read-only"})),
        "Invalid request: unknown variant `read-only`, expected one of `readOnly`, \
         `workspaceWrite`, `dangerFullAccess`, `externalSandbox`"
    );
    assert_eq!(
        refusal::<SandboxPolicy>(json!({"networkAccess": true})),
        "Invalid request: missing field `type`"
    );
    assert_eq!(
        refusal::<SandboxPolicy>(json!(5)),
        "Invalid request: invalid type: integer `5`, expected a sandbox mode or a sandbox policy \
         object"
    );
}

#[test]
fn two_sandboxes_must_mean_the_same() {
    let params = |sandbox: Value, sandbox_policy: Value| -> TurnStartParams {
        let json = json!({"threadId": "t", "input": [],
            "sandbox": sandbox, "sandboxPolicy": sandbox_policy});
        serde_json::from_value(json).unwrap()
    };
    let (word, object) = ("read-only", json!({"type": "readOnly"}));
    let read_only = SandboxPolicy::from_mode(word).unwrap();
    for agreeing in [
        params(json!(word), object.clone()),
        params(json!(word), Value::Null),
        params(Value::Null, object),
    ] {
        assert_eq!(agreeing.chosen_sandbox(), Ok(Some(&read_only)));
    }
    assert_eq!(params(Value::Null, Value::Null).chosen_sandbox(), Ok(None));
    let disagreeing = params(json!(word), json!("danger-full-access"));
    assert_eq!(disagreeing.chosen_sandbox(), Err(SandboxDisagreement));
    assert_eq!(
        SandboxDisagreement.to_string(),
        "sandbox and sandboxPolicy disagree"
    );
}

#[test]
fn only_open_policies_reach_the_network() {
    let allows = |json: Value| {
        serde_json::from_value::<SandboxPolicy>(json)
            .unwrap()
            .allows_network()
    };
    assert!(allows(json!("danger-full-access")));
    assert!(allows(json!({"type": "readOnly", "networkAccess": true})));
    assert!(allows(
        json!({"type": "workspaceWrite", "networkAccess": true})
    ));
    assert!(allows(
        json!({"type": "externalSandbox", "networkAccess": "enabled"})
    ));
    assert!(!allows(json!("read-only")));
    assert!(!allows(json!("workspace-write")));
    assert!(!allows(json!({"type": "externalSandbox"})));
}
