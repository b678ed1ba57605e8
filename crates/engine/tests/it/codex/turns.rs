//! Turns: history, usage, steers, compaction, interrupts, many requests.

use serde_json::json;
use turnlane_engine::{CancelReason, Engine as _, OutcomeStatus, TurnKind};
use turnlane_protocol::turn_error::ErrorKind;
use turnlane_testkit::Reply;
use turnlane_testkit::mock_model::{At, Gate};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::support::{Bench, LONG};

#[tokio::test]
async fn a_thread_goes_on_with_its_history_after_a_restart() {
    let Some(mut bench) = Bench::new().await else {
        return;
    };
    let status = bench.engine.check(&bench.request(1, "").settings).await;
    assert!(status.ok, "{status:?}");
    bench.mock.push(Reply::streamed(["fir", "st"]));
    let mut first = bench.start(bench.request(1, "remember the first"));
    let outcome = first.completes().await;
    assert_eq!(outcome.last_agent_message.as_deref(), Some("first"));
    assert!(outcome.usage.is_some());
    assert!(first.count("delta") > 0, "{:#?}", first.lines);
    bench.restart();
    bench.mock.push(Reply::text("second"));
    let mut request = bench.next(2, "and the second", &first);
    request.context = vec!["from a hook".to_owned()];
    let thread = first.thread();
    let mut second = bench.start(request);
    let outcome = second.completes().await;
    let usage = outcome.usage.unwrap();
    let told = second.count("usage ");
    assert_eq!(told, 1, "one call of the model: {:#?}", second.lines);
    assert!(usage.input_tokens > 0);
    let last = bench.mock.requests().last().unwrap().input().to_vec();
    let sent = json!(last).to_string();
    for part in [
        "remember the first",
        "first",
        "and the second",
        "from a hook",
    ] {
        assert!(sent.contains(part), "{part} in {sent}");
    }
    assert_eq!(second.count("state"), 0, "the same thread");
    let turns = bench.servers.turns(&thread, 0).await.unwrap();
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0].client_ids, ["row-2"]);
    assert_eq!(turns[0].user_texts, ["and the second"]);
}

#[tokio::test]
async fn a_continued_turn_asks_the_model_with_the_history_alone() {
    let Some(bench) = Bench::new().await else {
        return;
    };
    bench.mock.push(Reply::text("first"));
    let mut first = bench.start(bench.request(1, "hello"));
    first.completes().await;
    bench.mock.push(Reply::text("went on"));
    let mut request = bench.next(2, "", &first);
    request.kind = TurnKind::Continue;
    request.input.clear();
    let mut second = bench.start(request);
    let outcome = second.completes().await;
    assert_eq!(outcome.last_agent_message.as_deref(), Some("went on"));
}

#[tokio::test]
async fn a_compaction_is_a_turn() {
    let Some(bench) = Bench::new().await else {
        return;
    };
    bench.mock.push(Reply::text("first"));
    let mut first = bench.start(bench.request(1, "hello"));
    first.completes().await;
    bench.mock.push(Reply::text("a summary"));
    let mut request = bench.next(2, "", &first);
    request.kind = TurnKind::Compact;
    request.input.clear();
    let mut second = bench.start(request);
    second.completes().await;
    assert_eq!(second.count("completed contextCompaction"), 1);
}

#[tokio::test]
async fn a_steer_reaches_the_model() {
    let Some(bench) = Bench::new().await else {
        return;
    };
    let gate = Gate::new();
    bench
        .mock
        .push(Reply::text("one").gated_by(At::LastEvent, &gate));
    bench.mock.push(Reply::text("two"));
    let mut lane = bench.start(bench.request(1, "hello"));
    lane.until("accepted").await;
    within("the model", DEADLINE, gate.reached()).await.unwrap();
    lane.steer("the steered words");
    lane.until("completed userMessage").await;
    gate.release();
    let outcome = lane.completes().await;
    assert_eq!(outcome.last_agent_message.as_deref(), Some("two"));
    let sent = json!(bench.mock.requests().last().unwrap().input()).to_string();
    assert!(sent.contains("the steered words"), "{sent}");
}

#[tokio::test]
async fn a_late_steer_becomes_a_further_turn_of_codex() {
    let Some(bench) = Bench::new().await else {
        return;
    };
    bench.mock.push(Reply::text("one"));
    bench.mock.push(Reply::text("two"));
    let mut lane = bench.start(bench.request(1, "hello"));
    lane.until("completed agentMessage").await;
    lane.steer("late words");
    let outcome = lane.completes().await;
    assert_eq!(outcome.last_agent_message.as_deref(), Some("two"));
    assert_eq!(lane.count("completed userMessage"), 1);
}

#[tokio::test]
async fn an_interrupt_ends_the_command_and_completes_its_item() {
    let Some(bench) = Bench::new().await else {
        return;
    };
    let marker = bench.home.workspace().join("running");
    let cmd = format!("echo $$ > running; exec sleep {}", LONG.as_secs());
    let call = json!({"cmd": cmd, "yield_time_ms": 30_000});
    bench.mock.push(Reply::function_call("exec_command", call));
    let mut lane = bench.start(bench.request(1, "hello"));
    lane.until("started commandExecution").await;
    eventually("the command runs", DEADLINE, async || marker.exists())
        .await
        .unwrap();
    let running = || {
        let pid = std::fs::read_to_string(&marker).unwrap_or_default();
        let line = std::fs::read(format!("/proc/{}/cmdline", pid.trim()));
        line.is_ok_and(|line| line.starts_with(b"sleep"))
    };
    eventually("the shell became sleep", DEADLINE, async || running())
        .await
        .unwrap();
    lane.end.cancel.cancel(CancelReason::Interrupt);
    let outcome = lane.finish().await;
    assert_eq!(outcome.status, OutcomeStatus::Interrupted);
    assert!(outcome.outcome_known);
    assert_eq!(lane.item("commandExecution")["status"], "failed");
    eventually("the command ended", DEADLINE, async || !running())
        .await
        .unwrap();
    // The thread takes the next turn.
    bench.mock.push(Reply::text("after"));
    let mut next = bench.start(bench.next(2, "go on", &lane));
    next.completes().await;
}

#[tokio::test]
async fn a_failed_model_call_has_its_kind() {
    let Some(bench) = Bench::new().await else {
        return;
    };
    let body = json!({"error": {"message": "no", "type": "invalid_request_error"}});
    bench.mock.push(Reply::json(401, &body));
    let outcome = bench.start(bench.request(1, "hello")).finish().await;
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    assert_eq!(outcome.error.unwrap().kind, Some(ErrorKind::Auth));
}

#[tokio::test]
async fn a_thousand_requests_through_one_child_are_all_answered() {
    let Some(bench) = Bench::new().await else {
        return;
    };
    bench.mock.push(Reply::text("first"));
    let mut first = bench.start(bench.request(1, "hello"));
    first.completes().await;
    let thread = first.thread();
    let reads: Vec<_> = (0..1_000)
        .map(|_| {
            let (servers, thread) = (bench.servers.clone(), thread.clone());
            tokio::spawn(async move { servers.turns(&thread, 0).await })
        })
        .collect();
    for read in reads {
        let turns = within("an answer", DEADLINE, read).await.unwrap();
        assert_eq!(turns.unwrap().unwrap().len(), 1);
    }
    assert_eq!(bench.pids().len(), 1);
}
