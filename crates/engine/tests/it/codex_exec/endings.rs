//! Children that end badly or not at all, and what they leave behind.

use turnlane_engine::{Accepted, CancelReason, OutcomeStatus};
use turnlane_protocol::turn_error::ErrorKind;

use super::support::Fake;

/// Leaves a process in a session of its own, and waits until it runs.
const DAEMON: &str = "(setsid sh -c 'echo $$ > daemon; trap \"\" INT TERM; exec sleep 1000' \
    REDIRECTION &); while [ ! -s daemon ]; do sleep 0.01; done; ";

/// A child that is cancelled in the middle of its turn.
async fn interrupted(script: &str) -> (Fake, super::support::Seen) {
    let fake = Fake::new(&format!("echo $$ > pid; {script}"));
    let mut lane = fake.start(fake.request("x"));
    lane.until("accepted").await;
    lane.end.cancel.cancel(CancelReason::Interrupt);
    let seen = lane.finish().await;
    assert_eq!(
        seen.outcome().status,
        OutcomeStatus::Interrupted,
        "{:?}",
        seen.lines
    );
    assert_eq!(seen.outcome().accepted, Accepted::Yes);
    fake.assert_gone_now("pid");
    (fake, seen)
}

#[tokio::test]
async fn an_interrupt_reaches_codex_alone_and_first() {
    // The command of the fake would note a signal to the group.
    let (fake, _) = interrupted(
        "sh -c 'trap \"echo hit > hit\" INT; while :; do sleep 0.05; done' & echo $! > command; \
         trap 'kill -9 $(cat command); wait; echo clean > clean; exit 1' INT; begin; \
         while :; do sleep 0.05; done",
    )
    .await;
    assert_eq!(fake.text("clean").trim(), "clean");
    assert!(!fake.path("hit").exists());
    fake.assert_gone_now("command");
}

#[tokio::test]
async fn a_child_that_ignores_signals_is_killed_within_the_grace() {
    let begin = tokio::time::Instant::now();
    let script = "trap '' INT TERM; begin; while :; do sleep 0.05; done";
    interrupted(script).await;
    let took = begin.elapsed();
    assert!(took.as_secs() >= 4, "both graces are given: {took:?}");
}

#[tokio::test]
async fn an_interrupted_child_leaves_no_daemon() {
    let daemon = DAEMON.replace("REDIRECTION", ">/dev/null 2>&1");
    let (fake, _) = interrupted(&format!("{daemon} begin; while :; do sleep 0.05; done")).await;
    fake.assert_gone_now("daemon");
}

#[tokio::test]
async fn a_completed_turn_leaves_no_daemon() {
    let daemon = DAEMON.replace("REDIRECTION", ">/dev/null 2>&1");
    let fake = Fake::new(&format!("{daemon} begin; done_with ok"));
    fake.turn("x").await.assert_completed();
    fake.assert_gone_now("daemon");
}

#[tokio::test]
async fn a_daemon_that_holds_standard_output_does_not_hold_the_turn() {
    let fake = Fake::new(&format!(
        "{} begin; done_with ok",
        DAEMON.replace("REDIRECTION", "")
    ));
    fake.turn("x").await.assert_completed();
    fake.assert_gone_now("daemon");
}

#[tokio::test]
async fn a_child_that_is_killed_in_its_turn_has_crashed() {
    let fake = Fake::new("begin; echo '{\"type\":\"error\",\"message\":\"broken\"}'; kill -9 $$");
    let seen = fake.turn("x").await;
    let outcome = seen.assert_failed(ErrorKind::EngineCrashed);
    assert_eq!(outcome.accepted, Accepted::Yes);
    assert!(outcome.begun && !outcome.outcome_known);
    let error = outcome.error.as_ref().unwrap();
    assert_eq!(error.outcome_known, Some(false));
    assert!(
        error.message.ends_with("middle of the turn: broken"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn exit_zero_without_a_terminal_line_is_never_a_success() {
    let seen = Fake::new("exit 0").turn("x").await;
    let outcome = seen.assert_failed(ErrorKind::Protocol);
    assert_eq!(outcome.accepted, Accepted::Unknown);
    let seen = Fake::new("thread; exit 0").turn("x").await;
    let outcome = seen.assert_failed(ErrorKind::EngineCrashed);
    assert_eq!(
        (outcome.accepted, outcome.outcome_known),
        (Accepted::Unknown, false)
    );
    let seen = Fake::new("begin; exit 0").turn("x").await;
    let outcome = seen.assert_failed(ErrorKind::EngineCrashed);
    assert_eq!(
        (outcome.accepted, outcome.outcome_known),
        (Accepted::Yes, false)
    );
}

#[tokio::test]
async fn a_failed_turn_has_the_kind_of_its_text() {
    let fake = Fake::new(
        "begin; echo '{\"type\":\"turn.failed\",\"error\":{\"message\":\"Selected model is at \
         capacity.\"}}'; exit 1",
    );
    let seen = fake.turn("x").await;
    let outcome = seen.assert_failed(ErrorKind::Overloaded);
    assert!(outcome.begun && outcome.outcome_known);
    assert_eq!(outcome.usage, None);
}

#[tokio::test]
async fn another_thread_ends_the_child_and_is_never_saved() {
    let fake = Fake::new(
        "echo $$ > pid; trap '' INT TERM; \
         echo '{\"type\":\"thread.started\",\"thread_id\":\"01a1e099-0000-7000-8000-000000000000\"}'; \
         echo '{\"type\":\"turn.started\"}'; while :; do sleep 0.05; done",
    );
    let seen = fake.start(fake.resumed("x")).finish().await;
    seen.assert_failed(ErrorKind::ResumeMismatch);
    assert_eq!(seen.lines, ["handing over", "ended Failed"]);
    fake.assert_gone_now("pid");
}

#[tokio::test]
async fn a_lane_that_goes_away_takes_the_child_along() {
    let fake = Fake::new("echo $$ > pid; trap '' INT TERM; begin; while :; do sleep 0.05; done");
    let mut lane = fake.start(fake.request("x"));
    lane.until("accepted").await;
    drop(lane.end);
    let ended =
        turnlane_testkit::wait::within("the engine", turnlane_testkit::wait::DEADLINE, lane.engine);
    ended.await.unwrap().unwrap();
    fake.assert_gone_now("pid");
}

#[tokio::test]
async fn a_dropped_turn_ends_its_child() {
    let daemon = DAEMON.replace("REDIRECTION", ">/dev/null 2>&1");
    let script =
        format!("echo $$ > pid; trap '' INT TERM; {daemon} begin; while :; do sleep 0.05; done");
    let fake = Fake::new(&script);
    let mut lane = fake.start(fake.request("x"));
    lane.until("accepted").await;
    lane.engine.abort();
    fake.assert_gone("pid").await;
    fake.assert_gone("daemon").await;
}
