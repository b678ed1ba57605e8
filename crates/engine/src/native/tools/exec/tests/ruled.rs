//! Commands about which the user has rules.

use std::sync::Arc;

use serde_json::json;
use turnlane_protocol::approval::{Decision, OfferedDecision};
use turnlane_protocol::item::ItemStatus;
use turnlane_protocol::policy::{ApprovalPolicy, GranularApproval, SandboxPolicy};

use super::support::{Thread, Turn, decide};
use crate::ApprovalSubject;
use crate::native::rules::{RuleOrigin, RuleSet};
use crate::native::tools::Permission;
use crate::native::tools::exec::exec_command;

const FULL: SandboxPolicy = SandboxPolicy::DangerFullAccess;

fn ruled(approval: ApprovalPolicy, origin: RuleOrigin, text: &str) -> Thread {
    let mut thread = Thread::with_policy(approval, FULL);
    thread.rules = Arc::new(RuleSet::of(origin, text));
    thread
}

fn granular(rules: bool) -> ApprovalPolicy {
    ApprovalPolicy::Granular(GranularApproval {
        mcp_elicitations: true,
        rules,
        sandbox_approval: true,
        request_permissions: true,
        skill_approval: true,
    })
}

fn deciding(decision: &str) -> String {
    format!("prefix_rule(pattern=[\"touch\"], decision=\"{decision}\", justification=\"why not\")")
}

#[tokio::test]
async fn a_forbidden_command_never_runs_whatever_anybody_accepts() {
    for approval in [
        ApprovalPolicy::Never,
        ApprovalPolicy::OnRequest,
        ApprovalPolicy::Untrusted,
        granular(true),
    ] {
        let mut thread = ruled(approval, RuleOrigin::User, &deciding("forbidden"));
        let turn = thread.turn_deciding(decide([Decision::Accept, Decision::Accept]));
        let output = turn.exec("a", json!({"cmd": "touch made"})).await;
        assert!(output.declined && !output.success);
        assert_eq!(output.text, "`/bin/sh -c 'touch made'` rejected: why not");
        let escalated = json!({
            "cmd": "env touch made", "sandbox_permissions": "require_escalated",
            "justification": "please",
        });
        assert!(turn.exec("b", escalated).await.declined);
        let wrapped = json!({"cmd": "sh -c 'touch made'"});
        let called = Turn::called("c", wrapped, Permission::Asked);
        assert!(exec_command(&turn.tools, &called).await.unwrap().declined);
        let told = turn.end().await;
        assert_eq!(told.completed("a").status, ItemStatus::Declined);
        assert!(told.asked.is_empty(), "nobody is asked");
        assert!(!thread.path("made").exists());
        assert_eq!(thread.service.counters().spawned, 0);
    }
}

#[tokio::test]
async fn a_prompt_rule_asks_for_this_time_only() {
    let mut thread = ruled(
        ApprovalPolicy::OnRequest,
        RuleOrigin::User,
        &deciding("prompt"),
    );
    let turn = thread.turn_deciding(decide([Decision::Accept, Decision::Decline]));
    let arguments = json!({"cmd": "touch made", "prefix_rule": ["touch"]});
    assert!(turn.exec("a", arguments).await.success);
    assert!(thread.path("made").exists());
    assert!(!turn.exec("b", json!({"cmd": "touch other"})).await.success);
    assert!(!thread.path("other").exists());
    let told = turn.end().await;
    assert_eq!(told.asked.len(), 2);
    let asked = &told.asked[0];
    assert_eq!(
        asked.reason.as_deref(),
        Some("`/bin/sh -c 'touch made'` requires approval: why not")
    );
    let once = [Decision::Accept, Decision::Decline, Decision::Cancel];
    assert_eq!(
        asked.available_decisions.as_deref(),
        Some(once.map(OfferedDecision::Known).as_slice())
    );
    let ApprovalSubject::Command {
        proposed_amendment, ..
    } = &asked.subject
    else {
        panic!("about a command");
    };
    assert_eq!(*proposed_amendment, None);
}

#[tokio::test]
async fn a_prompt_rule_refuses_where_nobody_may_be_asked() {
    for approval in [ApprovalPolicy::Never, granular(false)] {
        let mut thread = ruled(approval, RuleOrigin::User, &deciding("prompt"));
        let turn = thread.turn_deciding(decide([Decision::Accept]));
        assert!(turn.exec("a", json!({"cmd": "touch made"})).await.declined);
        assert!(turn.end().await.asked.is_empty());
        assert!(!thread.path("made").exists());
    }
}

#[tokio::test]
async fn an_allow_rule_asks_nobody() {
    let mut thread = ruled(
        ApprovalPolicy::Untrusted,
        RuleOrigin::User,
        &deciding("allow"),
    );
    let turn = thread.turn_deciding(decide([Decision::Decline]));
    assert!(turn.exec("a", json!({"cmd": "touch made"})).await.success);
    assert!(thread.path("made").exists());
    assert!(
        !turn
            .exec("b", json!({"cmd": "touch more; true"}))
            .await
            .success
    );
    assert_eq!(turn.end().await.asked.len(), 1, "`true` is not allowed");
}

#[tokio::test]
async fn an_allow_rule_of_a_project_stays_in_the_sandbox() {
    let read_only = SandboxPolicy::ReadOnly {
        network_access: false,
    };
    for (origin, runs) in [(RuleOrigin::User, true), (RuleOrigin::Project, false)] {
        let mut thread = Thread::with_policy(ApprovalPolicy::Never, read_only.clone());
        if let Err(why) = &thread.service.report().landlock {
            turnlane_testkit::skipped(why);
            return;
        }
        thread.rules = Arc::new(RuleSet::of(origin, &deciding("allow")));
        let turn = thread.turn_deciding(decide([]));
        turn.exec("a", json!({"cmd": "touch made"})).await;
        assert_eq!(thread.path("made").exists(), runs, "{origin:?}");
        let escalated = json!({
            "cmd": "touch other", "sandbox_permissions": "require_escalated",
            "justification": "please",
        });
        let output = turn.exec("b", escalated).await;
        assert_eq!(output.declined, !runs, "{origin:?}");
        turn.end().await;
    }
}
