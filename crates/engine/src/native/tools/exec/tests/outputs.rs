//! Output that is long, broken or slow.

use serde_json::json;

use super::support::{Thread, told_output};

/// Ten megabytes in lines of a hundred bytes.
const LINES: usize = 100_000;

#[tokio::test]
async fn ten_megabytes_are_shown_whole_and_kept_in_part() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    let cmd = format!("yes {} | head -n {LINES}", "x".repeat(99));
    let arguments = json!({"cmd": cmd, "yield_time_ms": 30_000});
    let output = turn.exec("a", arguments).await;
    let bytes = LINES * 100;
    assert!(
        output
            .text
            .contains(&format!("Original token count: {}\n", bytes / 4))
    );
    let told = told_output(&output);
    let missing = bytes / 4 - 10_000;
    assert!(told.starts_with(&format!("Total output lines: {LINES}\n\nxxx")));
    assert!(told.contains(&format!("…{missing} tokens truncated…")));
    assert!(output.text.len() < 41_000);
    let told = turn.end().await;
    let deltas = told.deltas("a");
    assert_eq!(deltas.iter().map(|delta| delta.len()).sum::<usize>(), bytes);
    assert!(deltas.iter().all(|delta| delta.len() <= 8 * 1024));
    let aggregated = told.completed("a").aggregated_output.unwrap();
    let kept = 256 * 1024;
    assert!(
        (kept..kept + 64).contains(&aggregated.len()),
        "{}",
        aggregated.len()
    );
    assert!(aggregated.contains(&format!("\n[... {} bytes omitted ...]\n", bytes - kept)));
    assert!(aggregated.starts_with("xxx") && aggregated.ends_with("xxx\n"));
    // Nothing of it is held when the model was told.
    assert!(thread.sessions.is_forgotten(Thread::id()));
}

#[tokio::test]
async fn the_model_may_want_less() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    let arguments = json!({"cmd": "echo 0123456789abcdef", "max_output_tokens": 2.0});
    let output = turn.exec("a", arguments).await;
    assert_eq!(
        told_output(&output),
        "Total output lines: 1\n\n0123…3 tokens truncated…def\n"
    );
    turn.end().await;
}

#[tokio::test]
async fn bytes_that_are_no_text_are_replaced() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    let output = turn
        .exec("a", json!({"cmd": r"printf 'a\303\251\377b\342\202'"}))
        .await;
    assert_eq!(told_output(&output), "aé\u{FFFD}b\u{FFFD}");
    let told = turn.end().await;
    assert_eq!(told.deltas("a").concat(), "aé\u{FFFD}b\u{FFFD}");
}

#[tokio::test]
async fn a_flood_goes_on_unseen_after_its_turn_and_keeps_its_bounds() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    let output = turn
        .exec("a", json!({"cmd": "yes", "yield_time_ms": 250}))
        .await;
    assert!(output.text.contains("Process running with session ID 1000"));
    let told = turn.end().await;
    assert_eq!(told.words().last().unwrap(), "a completed");
    let turn = thread.turn();
    let session = turn.tools.sessions.get(1000).unwrap();
    // It is read on although nobody is shown anything.
    let before = session.process.listed().total_bytes;
    let grows = async || session.process.listed().total_bytes > before + (10 << 20);
    let deadline = turnlane_testkit::wait::DEADLINE;
    turnlane_testkit::wait::eventually("more output", deadline, grows)
        .await
        .unwrap();
    // All that is held of it, here and on its way here.
    assert!(session.unreported().len() <= (1 << 20) + 64);
    assert!(session.process.listed().undelivered_bytes <= 2 << 20);
    drop(session);
    turn.end().await;
    thread.sessions.close(Thread::id()).await;
    assert_eq!(thread.running(), 0);
    assert!(thread.sessions.is_forgotten(Thread::id()));
}
