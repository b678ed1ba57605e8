//! Commands that somebody has to decide about.

use serde_json::json;
use turnlane_protocol::approval::Decision;
use turnlane_protocol::item::{CommandOutcome, CommandSource, ItemStatus};
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::support::{KEY, Thread, Turn, decide};
use crate::native::tools::exec::exec_command;
use crate::native::tools::{Permission, Stop};
use crate::{ApprovalSubject, Decided};

const FULL: SandboxPolicy = SandboxPolicy::DangerFullAccess;

fn untrusting() -> Thread {
    Thread::with_policy(ApprovalPolicy::Untrusted, FULL)
}

#[tokio::test]
async fn what_is_accepted_runs() {
    for decision in [
        Decision::Accept,
        Decision::AcceptForSession,
        Decision::AcceptWithExecpolicyAmendment {
            execpolicy_amendment: vec!["touch".to_owned()],
        },
    ] {
        let mut thread = untrusting();
        let turn = thread.turn_deciding(decide([decision]));
        let cmd = format!("touch made {KEY}");
        let output = turn
            .exec("a", json!({"cmd": cmd, "prefix_rule": ["touch", "made"]}))
            .await;
        assert!(output.success && thread.path("made").exists());
        let told = turn.end().await;
        assert_eq!(told.words(), ["a started", "a completed"]);
        let started = told.started("a");
        assert_eq!(
            (started.source, started.process_id),
            (Some(CommandSource::Agent), None)
        );
        let completed = told.completed("a");
        assert_eq!(completed.source, Some(CommandSource::UnifiedExecStartup));
        assert_eq!(completed.process_id.as_deref(), Some("1000"));
        let [asked] = told.asked.as_slice() else {
            panic!("asked once");
        };
        assert_eq!(asked.item_id.as_str(), "a");
        let ApprovalSubject::Command {
            command,
            escalated,
            proposed_amendment,
            ..
        } = &asked.subject
        else {
            panic!("about a command");
        };
        assert_eq!(command, "/bin/sh -c 'touch made [redacted]'");
        assert!(!escalated);
        let amendment = vec!["touch".to_owned(), "made".to_owned()];
        assert_eq!(proposed_amendment.as_ref(), Some(&amendment));
    }
}

#[tokio::test]
async fn what_is_declined_did_not_run() {
    let mut thread = untrusting();
    let mut decisions = decide([Decision::Decline]);
    decisions.push_back(Decided {
        reason: Some("no one answered".to_owned()),
        ..Decided::new(Decision::Decline)
    });
    let turn = thread.turn_deciding(decisions);
    let output = turn.exec("a", json!({"cmd": "touch made"})).await;
    assert_eq!(
        (output.text.as_str(), output.success),
        ("exec command rejected by user", false)
    );
    let output = turn.exec("b", json!({"cmd": "touch made"})).await;
    assert_eq!(output.text, "no one answered");
    let told = turn.end().await;
    assert_eq!(
        told.words(),
        ["a started", "a completed", "b started", "b completed"]
    );
    let item = told.completed("a");
    assert_eq!(item.status, ItemStatus::Declined);
    assert_eq!(item.outcome, Some(CommandOutcome::Declined));
    assert_eq!(
        (item.source, item.process_id),
        (Some(CommandSource::Agent), None)
    );
    assert_eq!(item.duration_ms, None);
    assert!(!thread.path("made").exists());
    assert_eq!(thread.service.counters().spawned, 0);
}

#[tokio::test]
async fn a_command_that_nobody_decided_about_in_time_is_declined_and_fails_the_turn() {
    let mut thread = untrusting();
    let turn = thread.turn_deciding([Decided::by_time_limit("no one answered")]);
    let stopped = turn.call("a", json!({"cmd": "touch made"})).await;
    assert_eq!(stopped.unwrap_err(), Stop::Unanswered);
    let told = turn.end().await;
    assert_eq!(told.completed("a").status, ItemStatus::Declined);
    assert_eq!(thread.service.counters().spawned, 0);
}

#[tokio::test]
async fn cancel_declines_and_stops_the_turn() {
    let mut thread = untrusting();
    let turn = thread.turn_deciding(decide([Decision::Cancel]));
    let stopped = turn.call("a", json!({"cmd": "touch made"})).await;
    assert_eq!(stopped.unwrap_err(), Stop::Interrupted);
    let told = turn.interrupt().await;
    assert_eq!(told.completed("a").status, ItemStatus::Declined);
    assert_eq!(thread.service.counters().spawned, 0);
}

#[tokio::test]
async fn a_stop_while_somebody_is_asked_is_no_decision() {
    let mut thread = untrusting();
    let turn = thread.turn();
    let asked = turn.heard.asked.clone();
    let (stopped, ()) = tokio::join!(turn.call("a", json!({"cmd": "touch made"})), async {
        let is_asked = async || !asked.lock().unwrap().is_empty();
        eventually("the question", DEADLINE, is_asked)
            .await
            .unwrap();
        turn.stop();
    });
    assert!(matches!(stopped.unwrap_err(), Stop::Cancelled(_)));
    let told = turn.interrupt().await;
    let item = told.completed("a");
    assert_eq!(item.status, ItemStatus::Failed);
    assert_eq!(item.outcome, Some(CommandOutcome::Interrupted));
    assert_eq!(thread.service.counters().spawned, 0);
}

#[tokio::test]
async fn a_worker_that_lost_the_lane_while_asking_starts_nothing() {
    let mut thread = untrusting();
    let turn = thread.turn_deciding(decide([Decision::Accept]));
    *turn.heard.is_fenced.lock().unwrap() = true;
    let stopped = turn.call("a", json!({"cmd": "touch made"})).await;
    assert_eq!(stopped.unwrap_err(), Stop::Fenced);
    turn.lose().await;
    assert_eq!(thread.service.counters().spawned, 0);
}

#[tokio::test]
async fn a_policy_that_lets_nobody_be_asked_refuses() {
    let mut thread = Thread::with_policy(ApprovalPolicy::Never, FULL);
    let turn = thread.turn();
    std::fs::write(thread.path("kept"), "").unwrap();
    let dangerous = turn.exec("a", json!({"cmd": "rm -rf kept"})).await;
    let refused = "refused: needs approval and approvalPolicy is never";
    assert_eq!(dangerous.text, refused);
    let escalated = json!({"cmd": "true", "sandbox_permissions": "require_escalated",
        "justification": "why not"});
    assert_eq!(turn.exec("b", escalated).await.text, refused);
    let told = turn.end().await;
    for item in ["a", "b"] {
        assert_eq!(told.started(item).source, Some(CommandSource::Agent));
        assert_eq!(told.completed(item).status, ItemStatus::Declined);
    }
    assert!(told.asked.is_empty() && thread.path("kept").exists());
    thread.tools.dangerous = crate::native::tools::Dangerous::Ordinary;
    let turn = thread.turn();
    assert!(turn.exec("a", json!({"cmd": "rm -rf kept"})).await.success);
    assert!(!thread.path("kept").exists());
    turn.end().await;
}

#[tokio::test]
async fn an_escalation_is_asked_about_with_its_justification() {
    let mut thread = Thread::new();
    let turn = thread.turn_deciding(decide([Decision::Accept]));
    let escalated = json!({"cmd": "true", "sandbox_permissions": "require_escalated",
        "justification": "needs the network", "prefix_rule": ["bash"]});
    assert!(turn.exec("a", escalated).await.success);
    let told = turn.end().await;
    assert_eq!(told.asked[0].reason.as_deref(), Some("needs the network"));
    let ApprovalSubject::Command {
        escalated,
        proposed_amendment,
        ..
    } = &told.asked[0].subject
    else {
        panic!("about a command");
    };
    assert!(escalated);
    assert_eq!(*proposed_amendment, None);
}

#[tokio::test]
async fn hooks_block_and_force_a_question() {
    let mut thread = Thread::with_policy(ApprovalPolicy::Never, FULL);
    let turn = thread.turn_deciding(decide([Decision::Decline, Decision::Accept]));
    let blocked = Permission::Blocked(format!("not {KEY} today"));
    let called = |item: &str, permission| Turn::called(item, json!({"cmd": "touch x"}), permission);
    let output = exec_command(&turn.tools, &called("a", blocked))
        .await
        .unwrap();
    assert_eq!(output.text, "not [redacted] today");
    let output = exec_command(&turn.tools, &called("b", Permission::Asked))
        .await
        .unwrap();
    assert_eq!(output.text, "exec command rejected by user");
    assert!(!thread.path("x").exists());
    let output = exec_command(&turn.tools, &called("c", Permission::Asked))
        .await
        .unwrap();
    assert!(output.success && thread.path("x").exists());
    let told = turn.end().await;
    assert_eq!(told.completed("a").status, ItemStatus::Declined);
    assert_eq!(told.completed("b").status, ItemStatus::Declined);
    assert_eq!(told.completed("c").status, ItemStatus::Completed);
    assert_eq!(told.asked.len(), 2);
}
