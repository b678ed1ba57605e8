//! Commands in a sandbox, where this machine has one.

use serde_json::json;
use turnlane_process::Sandbox;
use turnlane_protocol::approval::Decision;
use turnlane_protocol::item::ItemStatus;
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};

use super::support::{Thread, decide};
use crate::native::policy::Escalation;
use crate::native::tools::exec::sandbox_for;

fn read_only(approval: ApprovalPolicy) -> Option<Thread> {
    let policy = SandboxPolicy::ReadOnly {
        network_access: false,
    };
    let thread = Thread::with_policy(approval, policy);
    let (policy, cwd) = (&thread.settings.sandbox_policy, &thread.settings.cwd);
    match turnlane_exec_server::policy::check(thread.service.report(), policy, cwd.as_ref()) {
        Ok(()) => Some(thread),
        Err(why) => {
            turnlane_testkit::skipped(&why);
            None
        }
    }
}

#[tokio::test]
async fn a_denied_command_is_told_to_the_model_or_asked_about() {
    let cmd = json!({"cmd": "touch made"});
    let Some(mut thread) = read_only(ApprovalPolicy::OnRequest) else {
        return;
    };
    let turn = thread.turn();
    let output = turn.exec("a", cmd.clone()).await;
    assert!(
        !output.success && output.text.contains("touch"),
        "{}",
        output.text
    );
    let told = turn.end().await;
    assert_eq!(told.completed("a").status, ItemStatus::Failed);
    assert!(told.asked.is_empty());

    // The first question is whether it may run at all, the second whether without a sandbox.
    thread.settings.approval_policy = ApprovalPolicy::Untrusted;
    let turn = thread.turn_deciding(decide([Decision::Accept, Decision::Decline]));
    let output = turn.exec("a", cmd.clone()).await;
    assert!(
        output.text.contains("Process exited with code 1"),
        "{}",
        output.text
    );
    let told = turn.end().await;
    assert_eq!(told.words(), ["a started", "a grew", "a completed"]);
    assert_eq!(told.completed("a").status, ItemStatus::Failed);
    assert!(!thread.path("made").exists());

    let turn = thread.turn_deciding(decide([Decision::Accept, Decision::Accept]));
    let output = turn.exec("a", cmd.clone()).await;
    assert!(output.success && thread.path("made").exists());
    let told = turn.end().await;
    assert_eq!(told.words(), ["a started", "a grew", "a completed"]);
    assert_eq!(told.completed("a").status, ItemStatus::Completed);
    assert_eq!(told.asked.len(), 2);
    let escalated = |index: usize| match &told.asked[index].subject {
        crate::ApprovalSubject::Command { escalated, .. } => *escalated,
        crate::ApprovalSubject::FileChange { .. } | crate::ApprovalSubject::Permissions { .. } => {
            panic!("about a command")
        }
    };
    assert!(!escalated(0) && escalated(1));
    assert!(thread.sessions.is_forgotten(Thread::id()));

    let turn = thread.turn_deciding(decide([Decision::Accept, Decision::Cancel]));
    std::fs::remove_file(thread.path("made")).unwrap();
    let stopped = turn.call("a", cmd).await;
    assert_eq!(
        stopped.unwrap_err(),
        crate::native::tools::Stop::Interrupted
    );
    let told = turn.interrupt().await;
    assert_eq!(told.completed("a").status, ItemStatus::Failed);
    assert!(!thread.path("made").exists());
}

#[tokio::test]
async fn an_escalated_command_leaves_the_sandbox() {
    let Some(mut thread) = read_only(ApprovalPolicy::OnRequest) else {
        return;
    };
    let turn = thread.turn_deciding(decide([Decision::Accept]));
    let arguments = json!({"cmd": "touch made", "sandbox_permissions": "require_escalated",
        "justification": "to make it"});
    assert!(turn.exec("a", arguments).await.success);
    assert!(thread.path("made").exists());
    turn.end().await;
}

#[tokio::test]
async fn what_confines_a_command_is_its_policy_until_it_is_escalated() {
    let mut thread = Thread::new();
    thread.settings.sandbox_policy = SandboxPolicy::ReadOnly {
        network_access: true,
    };
    let sandbox = |escalation| sandbox_for(&thread.settings, escalation);
    let confined = Sandbox::ReadOnly { network: true };
    assert_eq!(sandbox(Escalation::Confined), confined);
    assert_eq!(sandbox(Escalation::Escalated), Sandbox::DangerFullAccess);
}
