//! `kill -9` of the child at the moments of a turn: nothing is lost, nothing is done twice.
//!
//! The command of the turn appends a line to a file, so a turn that ran twice is seen on disk.

use serde_json::json;
use turnlane_engine::{Engine as _, OutcomeStatus, Reconciled};
use turnlane_testkit::Reply;
use turnlane_testkit::mock_model::{At, Gate};
use turnlane_testkit::wait::{DEADLINE, within};

use super::support::{Bench, size};

/// Before the hand-over, after it, and when Codex has accepted: the turn runs once or is known as cut.
#[tokio::test]
async fn a_child_killed_around_the_hand_over_loses_and_doubles_nothing() {
    let Some(bench) = Bench::new().await else {
        return;
    };
    for moment in ["state", "handing over", "accepted"] {
        for round in 0..size(2, 200) {
            let _ = std::fs::remove_file(bench.home.workspace().join("done"));
            bench.mock.choose_with(|request| {
                let is_told = request.tool_output("c1").is_some();
                let call = json!({"cmd": "echo once >> done"});
                let item = turnlane_testkit::mock_model::Item::function_call("exec_command", call);
                Some(if is_told {
                    Reply::text("told")
                } else {
                    Reply::of([item.call_id("c1")])
                })
            });
            let mut request = bench.request(1, "hello");
            request.thread_id = turnlane_protocol::ids::ThreadId::new(round as u64 + 1);
            let thread = request.thread_id;
            let mut lane = bench.start(request);
            lane.until(moment).await;
            bench.kill();
            let outcome = lane.finish().await;
            let done = std::fs::read_to_string(bench.home.workspace().join("done"));
            let done = done.unwrap_or_default().lines().count();
            match outcome.status {
                OutcomeStatus::Completed => assert_eq!(done, 1, "{moment}"),
                OutcomeStatus::Interrupted | OutcomeStatus::Failed => {
                    assert!(!outcome.outcome_known, "{moment}: {outcome:?}");
                    assert!(done <= 1, "{moment}");
                }
            }
            bench.engine.close(thread).await;
        }
    }
}

/// In the model call: Codex has the message, so the turn is cut and is not sent again.
#[tokio::test]
async fn a_child_killed_in_the_model_call_leaves_a_turn_that_is_known_as_cut() {
    let Some(bench) = Bench::new().await else {
        return;
    };
    for round in 0..size(2, 200) {
        let gate = Gate::new();
        bench
            .mock
            .push(Reply::text("x").gated_by(At::Request, &gate));
        let mut request = bench.request(1, "hello");
        request.thread_id = turnlane_protocol::ids::ThreadId::new(round as u64 + 1);
        let thread = request.thread_id;
        let mut lane = bench.start(request);
        lane.until("accepted").await;
        within("the model", DEADLINE, gate.reached()).await.unwrap();
        let asked = bench.mock.requests().len();
        bench.kill();
        let outcome = lane.finish().await;
        assert_eq!(outcome.status, OutcomeStatus::Interrupted, "{outcome:?}");
        assert!(!outcome.outcome_known);
        assert_eq!(bench.mock.requests().len(), asked, "asked once");
        gate.release();
        bench.engine.close(thread).await;
    }
}

/// The worker dies with the child: another engine reads back what became of the turn.
#[tokio::test]
async fn a_new_worker_learns_what_became_of_a_turn() {
    let Some(mut bench) = Bench::new().await else {
        return;
    };
    bench.mock.push(Reply::text("whole"));
    let mut first = bench.start(bench.request(1, "hello"));
    first.completes().await;
    let gate = Gate::new();
    bench
        .mock
        .push(Reply::text("cut").gated_by(At::Request, &gate));
    let mut second = bench.start(bench.next(2, "again", &first));
    second.until("accepted").await;
    within("the model", DEADLINE, gate.reached()).await.unwrap();
    bench.kill();
    second.engine.abort();
    bench.restart();

    let ended = bench.engine.reconcile(bench.next(1, "hello", &first)).await;
    let Reconciled::Ended { outcome, items } = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    assert_eq!(outcome.last_agent_message.as_deref(), Some("whole"));
    assert_eq!(
        items, first.completed,
        "the same items under the same names"
    );
    let cut = bench.engine.reconcile(bench.next(2, "again", &first)).await;
    let Reconciled::Ended { outcome, .. } = cut else {
        panic!("{cut:?}");
    };
    assert_eq!(outcome.status, OutcomeStatus::Interrupted);
    assert!(!outcome.outcome_known);
    let never = bench.engine.reconcile(bench.next(3, "never", &first)).await;
    assert_eq!(never, Reconciled::Absent);
    gate.release();
}

/// After the end of a turn: the thread is resumed by another child and keeps its history.
#[tokio::test]
async fn a_child_killed_between_two_turns_loses_no_history() {
    let Some(bench) = Bench::new().await else {
        return;
    };
    bench.mock.push(Reply::text("first"));
    let mut before = bench.start(bench.request(1, "the first words"));
    before.completes().await;
    for _round in 0..size(2, 200) {
        bench.kill();
        bench.mock.push(Reply::text("next"));
        let mut lane = bench.start(bench.next(2, "more", &before));
        lane.completes().await;
        assert_eq!(lane.count("state"), 0, "the same thread");
        let sent = json!(bench.mock.requests().last().unwrap().input()).to_string();
        assert!(sent.contains("the first words"), "{sent}");
    }
}
