//! The examples, run and compared with what they say.
//!
//! Each file of `examples/` is part of this binary, so none can rot: it is compiled with the tests, and
//! its output is here.

#[path = "../../examples/approvals.rs"]
#[expect(dead_code, reason = "its main is the example's")]
mod approvals;
#[path = "../../examples/ask.rs"]
#[expect(dead_code, reason = "its main is the example's")]
mod ask;
#[path = "../../examples/automation.rs"]
#[expect(dead_code, reason = "its main is the example's")]
mod automation;
#[path = "../../examples/embedded.rs"]
#[expect(dead_code, reason = "its main is the example's")]
mod embedded;
#[path = "../../examples/stream.rs"]
#[expect(dead_code, reason = "its main is the example's")]
mod stream;

use turnlane_testkit::wait::{DEADLINE, within};

/// What an example writes.
async fn output(
    example: impl AsyncFnOnce(&mut Vec<u8>) -> Result<(), Box<dyn std::error::Error>>,
) -> String {
    let mut out = Vec::new();
    within("the example", DEADLINE, example(&mut out))
        .await
        .unwrap()
        .unwrap();
    String::from_utf8(out).unwrap()
}

#[tokio::test]
async fn ask_answers() {
    let said = output(async |out| ask::example(out).await).await;
    let expected = "A small program in Rust.\nitems: 3\ntokens: 438\n\
        You said: And the slowest test?\nYou said: Thank you\n";
    assert_eq!(said, expected);
}

#[tokio::test]
async fn stream_shows_what_happens_and_interrupts() {
    let said = output(async |out| stream::example(out).await).await;
    let expected = "2 passed\n$ make test\nAll tests pass.\nended: Completed\nended: Interrupted\n";
    assert_eq!(said, expected);
}

#[tokio::test]
async fn approvals_are_decided_by_the_reviewer() {
    let said = output(async |out| approvals::example(out).await).await;
    let expected = "Please test: The tests ran.\n\
        Please hurry: I did neither.\n\
        Please clean up: I left the build directory as it is.\n";
    assert_eq!(said, expected);
}

#[tokio::test]
async fn automation_runs_three_times_and_stops() {
    let said = output(async |out| automation::example(out).await).await;
    let expected = "Stopped after 3 runs\nrun 1: Completed\nrun 2: Completed\nrun 3: Completed\n\
        Stopped after 1 run\n";
    assert_eq!(said, expected);
}

#[tokio::test]
async fn embedded_keeps_a_queue_over_a_restart() {
    let said = output(async |out| embedded::example(out).await).await;
    assert_eq!(said, "waiting: 1\nYou said: Are you there?\nwaiting: 0\n");
}
