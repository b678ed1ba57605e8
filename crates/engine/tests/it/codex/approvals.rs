//! Decisions about commands reach the real Codex.

use serde_json::json;
use turnlane_engine::{Decided, OutcomeStatus};
use turnlane_protocol::approval::Decision;
use turnlane_protocol::policy::SandboxPolicy;
use turnlane_protocol::turn_error::ErrorKind;
use turnlane_testkit::Reply;
use turnlane_testkit::mock_model::Item;

use super::support::{Bench, Lane};

/// A turn whose command asks to leave the sandbox.
async fn asked(bench: &Bench, decided: Decided) -> Lane {
    bench.mock.choose_with(|request| {
        let call = json!({
            "cmd": "touch made", "sandbox_permissions": "require_escalated",
            "justification": "need it",
        });
        let is_told = request.input().iter().any(|item| item["call_id"] == "c1");
        Some(if is_told {
            Reply::text("told")
        } else {
            Reply::of([Item::function_call("exec_command", call).call_id("c1")])
        })
    });
    let mut request = bench.request(1, "hello");
    request.settings.sandbox_policy = SandboxPolicy::ReadOnly {
        network_access: false,
    };
    let mut lane = bench.start(request);
    lane.decided = decided;
    lane.finish().await;
    assert_eq!(lane.count("approve"), 1, "{:#?}", lane.lines);
    lane
}

#[tokio::test]
async fn a_yes_runs_the_command() {
    for decision in [Decision::Accept, Decision::AcceptForSession] {
        let Some(bench) = Bench::new().await else {
            return;
        };
        let lane = asked(&bench, Decided::new(decision)).await;
        let outcome = lane.outcome.as_ref().unwrap();
        assert_eq!(outcome.status, OutcomeStatus::Completed);
        assert_eq!(lane.item("commandExecution")["status"], "completed");
        assert!(bench.home.workspace().join("made").exists());
    }
}

#[tokio::test]
async fn a_no_declines_the_command_and_the_turn_goes_on() {
    let Some(bench) = Bench::new().await else {
        return;
    };
    let lane = asked(&bench, Decided::new(Decision::Decline)).await;
    let outcome = lane.outcome.as_ref().unwrap();
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    assert_eq!(lane.item("commandExecution")["status"], "declined");
    assert!(!bench.home.workspace().join("made").exists());
}

#[tokio::test]
async fn a_cancel_stops_the_turn() {
    let Some(bench) = Bench::new().await else {
        return;
    };
    let lane = asked(&bench, Decided::new(Decision::Cancel)).await;
    let outcome = lane.outcome.as_ref().unwrap();
    assert_eq!(outcome.status, OutcomeStatus::Interrupted);
    assert!(!bench.home.workspace().join("made").exists());
}

#[tokio::test]
async fn an_unanswered_question_fails_the_turn() {
    let Some(bench) = Bench::new().await else {
        return;
    };
    let lane = asked(&bench, Decided::by_time_limit("late")).await;
    let outcome = lane.outcome.as_ref().unwrap();
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    let kind = outcome.error.as_ref().unwrap().kind.clone();
    assert_eq!(kind, Some(ErrorKind::ApprovalTimeout));
    assert!(!bench.home.workspace().join("made").exists());
}

#[tokio::test]
async fn a_yes_for_the_session_spares_the_second_question() {
    for (decision, questions) in [(Decision::Accept, 2), (Decision::AcceptForSession, 1)] {
        let Some(bench) = Bench::new().await else {
            return;
        };
        // The same command twice.
        bench.mock.choose_with(|request| {
            let is_told = |id: &str| request.input().iter().any(|item| item["call_id"] == id);
            let next = ["c1", "c2"].into_iter().find(|id| !is_told(id));
            let call = json!({
                "cmd": "touch made", "sandbox_permissions": "require_escalated",
                "justification": "need it",
            });
            Some(next.map_or_else(
                || Reply::text("told"),
                |id| Reply::of([Item::function_call("exec_command", call).call_id(id)]),
            ))
        });
        let mut request = bench.request(1, "hello");
        request.settings.sandbox_policy = SandboxPolicy::ReadOnly {
            network_access: false,
        };
        let mut lane = bench.start(request);
        lane.decided = Decided::new(decision.clone());
        lane.finish().await;
        let outcome = lane.outcome.as_ref().unwrap();
        assert_eq!(outcome.status, OutcomeStatus::Completed);
        assert_eq!(
            lane.count("approve"),
            questions,
            "{decision:?}: {:#?}",
            lane.lines
        );
    }
}
