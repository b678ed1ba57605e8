//! Time limits, and waiting for another writer of the thread.

use std::time::Duration;

use turnlane_engine::codex_exec::CodexExecLimits;
use turnlane_engine::{Accepted, CancelReason, OutcomeStatus};
use turnlane_protocol::turn_error::ErrorKind;

use super::support::{Fake, FakeOptions};

const BUSY: &str = "echo 'Error: thread/resume failed: thread T already has an active writer (code \
    -32600)' >&2; exit 1";

fn with_limits(script: &str, limits: CodexExecLimits) -> Fake {
    let options = FakeOptions {
        limits,
        ..FakeOptions::default()
    };
    Fake::with(script, options)
}

fn busy_waits(waits: &[Duration]) -> CodexExecLimits {
    CodexExecLimits {
        busy_waits: waits.to_vec(),
        ..CodexExecLimits::default()
    }
}

#[test]
fn the_limits_are_those_of_the_contract() {
    let limits = CodexExecLimits::default();
    assert_eq!(
        (limits.first_event.as_secs(), limits.silence.as_secs()),
        (60, 600)
    );
    let waits: Vec<_> = limits.busy_waits.iter().map(Duration::as_secs).collect();
    assert_eq!(waits, [1, 2, 5, 10, 30]);
}

#[tokio::test]
async fn a_child_that_prints_nothing_is_ended_and_the_turn_did_not_start() {
    let limits = CodexExecLimits {
        first_event: Duration::from_millis(300),
        ..CodexExecLimits::default()
    };
    let fake = with_limits("echo $$ > pid; exec sleep 1000", limits.clone());
    let seen = fake.turn("x").await;
    let outcome = seen.assert_failed(ErrorKind::Timeout);
    assert_eq!((outcome.accepted, outcome.begun), (Accepted::No, false));
    // Under load the script may have been ended before its first line.
    if fake.path("pid").exists() && !fake.text("pid").is_empty() {
        fake.assert_gone_now("pid");
    }
    let fake = with_limits(
        "yes nonsense | head -c 100; exec sleep 1000",
        CodexExecLimits {
            first_event: Duration::from_secs(3),
            ..limits
        },
    );
    let seen = fake.turn("x").await;
    let outcome = seen.assert_failed(ErrorKind::Timeout);
    assert_eq!((outcome.accepted, outcome.begun), (Accepted::Unknown, true));
}

#[tokio::test]
async fn silence_is_told_once_and_ends_nothing_and_retries_are_silence() {
    let limits = CodexExecLimits {
        first_event: Duration::ZERO,
        silence: Duration::from_secs(1),
        ..CodexExecLimits::default()
    };
    let fake = with_limits(
        "begin; while [ ! -e go ]; do sleep 0.1; \
         echo '{\"type\":\"error\",\"message\":\"Reconnecting... waiting for network (x)\"}'; done; \
         done_with ok",
        limits,
    );
    let mut lane = fake.start(fake.request("x"));
    lane.until("warning Codex has told nothing for 1 s").await;
    let retries = lane.seen.count("retry");
    while lane.seen.count("retry") < retries + 15 {
        lane.step().await.unwrap();
    }
    std::fs::write(fake.path("go"), "").unwrap();
    let seen = lane.finish().await;
    assert_eq!(
        seen.assert_completed().count("warning"),
        1,
        "{:#?}",
        seen.lines
    );
}

#[tokio::test]
async fn a_busy_thread_is_tried_again_until_it_is_free() {
    let script = format!(
        "echo x >> tries; if [ \"$(wc -l < tries)\" -lt 3 ]; then {BUSY}; fi; cat > prompt; begin; \
         done_with ok"
    );
    let fake = with_limits(&script, busy_waits(&[Duration::from_millis(10); 5]));
    let seen = fake.start(fake.resumed("hello")).finish().await;
    seen.assert_completed();
    assert_eq!(
        (
            seen.count("retry thread/resume failed"),
            seen.count("handing over")
        ),
        (2, 3)
    );
    assert_eq!(fake.text("prompt"), "hello");
}

#[tokio::test]
async fn a_thread_that_stays_busy_is_the_outcome() {
    let fake = with_limits(BUSY, busy_waits(&[Duration::from_millis(1); 2]));
    let seen = fake.start(fake.resumed("x")).finish().await;
    let outcome = seen.assert_failed(ErrorKind::Busy);
    assert_eq!((outcome.accepted, outcome.begun), (Accepted::No, false));
    assert_eq!(seen.count("handing over"), 3);
}

#[tokio::test]
async fn an_interrupt_ends_the_wait_for_a_busy_thread() {
    let fake = with_limits(BUSY, busy_waits(&[Duration::from_hours(1)]));
    let mut lane = fake.start(fake.resumed("x"));
    lane.until("retry").await;
    lane.end.cancel.cancel(CancelReason::Interrupt);
    let seen = lane.finish().await;
    let outcome = seen.outcome();
    assert_eq!(
        (outcome.status, outcome.accepted),
        (OutcomeStatus::Interrupted, Accepted::No)
    );
}
