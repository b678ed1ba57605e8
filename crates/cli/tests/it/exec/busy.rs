//! Several runs of one home, and of one thread: all run, in order, never two at once.

use rustix::process::Signal;
use serde_json::json;
use turnlane_testkit::mock_model::Reply;
use turnlane_testkit::wait::DEADLINE;

use super::daemon::gated;
use super::{World, distinct};

#[tokio::test]
async fn runs_of_one_thread_wait_for_each_other_in_order() {
    let (world, gate) = gated().await;
    let thread = world.run(&["--json", "first"]).await.thread();
    let holding = world
        .begin(&["--json", "resume", &thread, "hold"])
        .without_input();
    gate.reached().await;
    let mut waiting = world
        .begin(&["--json", "resume", &thread, "second"])
        .without_input();
    assert_eq!(waiting.line("thread.started").await["thread_id"], thread);
    let told = |line: &str| line == "waiting: 1 turns ahead";
    waiting
        .process
        .wait_for_stderr_line(told, DEADLINE)
        .await
        .unwrap();
    let third = world
        .begin(&["--json", "resume", &thread, "third"])
        .without_input();
    let told = |line: &str| line == "waiting: 2 turns ahead";
    third
        .process
        .wait_for_stderr_line(told, DEADLINE)
        .await
        .unwrap();
    let refused = world
        .run(&["--json", "resume", &thread, "--no-wait", "never"])
        .await;
    assert_eq!(
        (refused.code, refused.stdout.as_str()),
        (1, ""),
        "{refused:?}"
    );
    let writer = format!("thread {thread} already has an active writer (code -32600)");
    assert!(
        refused.last_of_stderr().ends_with(&writer),
        "{}",
        refused.stderr
    );
    assert_eq!(world.mock.requests().len(), 2, "nobody overtakes");
    gate.release();
    for ran in [holding.end().await, waiting.end().await, third.end().await] {
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(
            ran.types(),
            [
                "thread.started",
                "turn.started",
                "item.completed",
                "turn.completed"
            ]
        );
    }
    let texts: Vec<_> = world
        .mock
        .requests()
        .iter()
        .map(|r| r.last_user_text())
        .collect();
    assert_eq!(texts, ["first", "hold", "second", "third"]);
    let turns = world.turns(&thread).await;
    assert_eq!(turns.len(), 4);
    let ended = |turn: usize| turns[turn]["completedAt"].as_i64().unwrap();
    let begun = |turn: usize| turns[turn]["startedAt"].as_i64().unwrap();
    for turn in 1..4 {
        assert!(ended(turn - 1) <= begun(turn), "{turns:?}");
    }
}

#[tokio::test]
async fn a_run_that_is_killed_while_it_waits_leaves_nothing_to_run() {
    for signal in [Signal::KILL, Signal::TERM] {
        let (world, gate) = gated().await;
        let thread = world.run(&["--json", "first"]).await.thread();
        let holding = world
            .begin(&["--json", "resume", &thread, "hold"])
            .without_input();
        gate.reached().await;
        let waiting = world
            .begin(&["--json", "resume", &thread, "never"])
            .without_input();
        let told = |line: &str| line.starts_with("waiting: ");
        waiting
            .process
            .wait_for_stderr_line(told, DEADLINE)
            .await
            .unwrap();
        waiting.signal(signal);
        let ran = waiting.end().await;
        assert!(ran.code < 0, "{ran:?}");
        if signal == Signal::TERM {
            assert_eq!(ran.last()["error"]["kind"], "interrupted", "{ran:?}");
        }
        gate.release();
        assert_eq!(holding.end().await.code, 0);
        let next = world.run(&["--json", "resume", &thread, "next"]).await;
        assert_eq!(next.code, 0, "{next:?}");
        let texts: Vec<_> = world
            .mock
            .requests()
            .iter()
            .map(|r| r.last_user_text())
            .collect();
        assert_eq!(texts, ["first", "hold", "next"], "{signal:?}");
    }
}

#[tokio::test]
async fn sixteen_at_once_in_one_home_all_succeed() {
    let world = World::new(|request| Reply::text(request.last_user_text())).await;
    let prompts: Vec<_> = (0..16).map(|n| format!("prompt {n}")).collect();
    let runs = prompts
        .iter()
        .map(|prompt| world.begin(&["--json", prompt]).without_input());
    // All are started before the first is waited for.
    let runs: Vec<_> = runs.collect();
    let mut threads = Vec::new();
    for (running, prompt) in runs.into_iter().zip(&prompts) {
        let ran = running.end().await;
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(ran.lines()[2]["item"]["text"], json!(prompt));
        threads.push(ran.thread());
    }
    assert_eq!(distinct(threads.iter().map(String::as_str)), 16);
    assert_eq!(world.threads().await.len(), 16);
}
