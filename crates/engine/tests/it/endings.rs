//! A turn that is stopped, or left alone, at any point.

use std::os::unix::process::ExitStatusExt;

use tokio::time::timeout;
use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
use turnlane_engine::{CANCEL_GRACE, CancelReason, EntryKind, OutcomeStatus, Said};
use turnlane_testkit::wait::{DEADLINE, within};
use turnlane_testkit::{ProcessSpec, TestProcess};

use crate::support::{Lane, clock, request, steps};

/// Every kind of step, each with something to wait for.
const EVERYTHING: &str = r#"
      - reasoning: {text: "one two three", chunk: 4, delta_ms: 5}
      - say: {text: "four five six", chunk: 4, delta_ms: 5}
      - exec: {cmd: "make", output: "a\nb\n", ms: 20}
      - patch: {input: "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch", ms: 5}
      - approve: {cmd: "touch x", output: "c\n", ms: 5, accepted: [{say: {text: "done", delta_ms: 5}}]}
      - approve: {input: "*** Begin Patch\n*** Delete File: a\n*** End Patch", ms: 5}
      - plan: [{step: "look", status: completed}]
      - usage: {input: 100}
      - await: {ms: 5}
      - await: {gate: "never", ms: 5}
      - await: {steer: true, ms: 5}
      - error: {info: rateLimitExceeded, retry_after_ms: 5, will_retry: true}
      - end: hang
"#;

/// How many things that script says until it hangs.
async fn words_until_hang() -> usize {
    let mut lane = Lane::start(steps(EVERYTHING), request("x"));
    let mut words = 0;
    while timeout(DEADLINE / 2, lane.step()).await.is_ok() {
        words += 1;
    }
    assert!(words > 40, "{words}");
    words
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_after_any_word_ends_the_turn_whole() {
    for words in 0..=words_until_hang().await {
        let mut lane = Lane::start(steps(EVERYTHING), request("x"));
        let mut open = None;
        for heard in 1..=words {
            let said = lane.hear().await.unwrap();
            // The last question stays open: the interrupt comes while the engine waits for it.
            // Only a commit is always answered, as a lane that lives does.
            if heard < words || matches!(said, Said::Commit(_)) {
                lane.reply(said);
            } else {
                open = Some(said);
            }
        }
        let first = lane.end.cancel.cancel(CancelReason::Interrupt);
        assert_eq!(lane.end.cancel.cancel(CancelReason::Timeout), first);
        let seen = timeout(CANCEL_GRACE, lane.finish()).await.unwrap();
        drop(open);
        seen.assert_whole();
        assert_eq!(seen.outcome().status, OutcomeStatus::Interrupted, "{words}");
        assert_eq!(seen.outcome().error, None);

        // No call without its answer, and the model is told at last.
        let calls = |kind| seen.entries.iter().filter(move |entry| entry.kind == kind);
        let made = calls(EntryKind::Output).flat_map(|entry| &entry.call_ids);
        let answered = calls(EntryKind::ToolOutput).flat_map(|entry| &entry.call_ids);
        assert!(made.eq(answered), "{:#?}", seen.lines);
        let last = seen.entries.last().unwrap();
        assert!(last.items.contains("<turn_aborted>"), "{last:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_command_has_failed_with_its_output_so_far() {
    let engine = steps("      - exec: {cmd: make, output: \"a\\nb\\n\", ms: 20}");
    let mut lane = Lane::start(engine, request("x"));
    while !lane
        .seen
        .lines
        .iter()
        .any(|line| line.ends_with("\"a\\n\""))
    {
        lane.step().await.unwrap();
    }
    lane.end.cancel.cancel(CancelReason::Interrupt);
    let seen = lane.finish().await;
    let completed = seen.lines.iter().find(|line| line.starts_with("completed"));
    let completed = completed.unwrap();
    for member in [
        "\"status\":\"failed\"",
        "\"outcome\":\"interrupted\"",
        "\"exitCode\":null",
        "\"aggregatedOutput\":\"a\\n\"",
    ] {
        assert!(completed.contains(member), "{member} in {completed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_goes_away_leaves_no_engine_waiting() {
    for words in 0..=words_until_hang().await {
        let mut lane = Lane::start(steps(EVERYTHING), request("x"));
        for heard in 1..=words {
            let said = lane.hear().await.unwrap();
            if heard < words {
                lane.reply(said);
            }
        }
        let Lane { end, engine, .. } = lane;
        drop(end);
        let ended = within("the engine's end", CANCEL_GRACE, engine).await;
        ended.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_fenced_engine_says_nothing_more() {
    let engine = steps("      - exec: {cmd: make}\n      - say: never");
    let mut lane = Lane::start(engine, request("x"));
    loop {
        match lane.hear().await.unwrap() {
            Said::Commit(reply) => break reply.send(Err(turnlane_engine::Fenced)).unwrap(),
            said => lane.reply(said),
        }
    }
    let words = lane.seen.lines.len();
    let seen = lane.finish().await;
    assert_eq!(seen.lines[words..], ["ended Interrupted"]);
}

/// Plays the part of the child when it is told to.
#[tokio::test]
async fn a_script_that_may_abort_ends_the_process() {
    const CHILD: &str = "TURNLANE_TEST_ABORT";
    if std::env::var_os(CHILD).is_some() {
        let text = "version: 1\nturns: [{steps: [{end: abort}]}]";
        let script = Script::parse("abort.yaml", text, AbortSteps::Allowed).unwrap();
        let engine = Scripted::new(script, clock());
        Lane::start(engine, request("x")).finish().await;
        panic!("the script ended without an abort");
    }
    let name = "endings::a_script_that_may_abort_ends_the_process";
    let spec = ProcessSpec::new(std::env::current_exe().unwrap()).args(["--exact", name]);
    let output = TestProcess::run(spec.env(CHILD, "1"), DEADLINE)
        .await
        .unwrap();
    // SIGABRT.
    assert_eq!(output.status.signal(), Some(6), "{}", output.stderr_tail);
}
