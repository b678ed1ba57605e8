//! An interrupt at every place where a turn can be.

use serde_json::json;
use turnlane_engine::{CancelReason, Engine as _, OutcomeStatus, Said};
use turnlane_testkit::mock_model::{ApiError, At, Item, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::support::{Bench, Lane, Seen, thread};

/// Interrupts the turn, and checks what every interrupted turn leaves.
async fn interrupted(bench: &Bench, lane: Lane) -> Seen {
    lane.end.cancel.cancel(CancelReason::Interrupt);
    let seen = lane.finish().await;
    assert_eq!(seen.outcome().status, OutcomeStatus::Interrupted);
    seen.assert_whole();

    // The next turn works, and the model is told.
    bench.mock.on_text("go on", Reply::text("as you wish"));
    let next = bench.request(2, "go on", seen.entries.clone());
    bench.start(next).finish().await.assert_completed();
    let request = bench.mock.requests().pop().unwrap();
    let input = request.input();
    let note = &input[input.len() - 2]["content"][0]["text"];
    assert!(
        note.as_str().unwrap().starts_with("<turn_aborted>"),
        "{note}"
    );
    seen
}

#[tokio::test]
async fn while_it_waits_for_an_answer_to_begin() {
    let bench = Bench::new().await;
    let (reply, gate) = Reply::text("never").gated(At::Request);
    bench.mock.push(reply);
    let lane = bench.start(bench.request(1, "go", vec![]));
    within("the request", DEADLINE, gate.reached())
        .await
        .unwrap();
    interrupted(&bench, lane).await;
    bench.mock.wait_for_abandoned(1, DEADLINE).await.unwrap();
}

#[tokio::test]
async fn while_an_answer_streams() {
    let bench = Bench::new().await;
    let (reply, _gate) = Reply::streamed(["zwölf ", "Boxkämpfer"]).gated(At::AfterEvents(5));
    bench.mock.push(reply);
    let mut lane = bench.start(bench.request(1, "go", vec![]));
    lane.until("delta \"zwölf \"").await;
    let seen = interrupted(&bench, lane).await;
    let message = &seen.items("agentMessage")[0]["text"];
    assert!(message.as_str().unwrap().starts_with("zwölf "), "{message}");
    let sent = bench.mock.requests().pop().unwrap();
    assert!(!sent.body.to_string().contains("zwölf"), "stored, not sent");
    bench.mock.wait_for_abandoned(1, DEADLINE).await.unwrap();
}

#[tokio::test]
async fn while_it_waits_to_try_again() {
    let bench = Bench::with(&json!({"mock": {"request_max_retries": 4}}), &json!({})).await;
    let limited = ApiError::rate_limited().retry_after_s(30);
    bench.mock.push(Reply::http_error(limited));
    let mut lane = bench.start(bench.request(1, "go", vec![]));
    lane.until("retry").await;
    interrupted(&bench, lane).await;
}

#[tokio::test]
async fn while_a_command_runs() {
    let bench = Bench::new().await;
    let cmd = json!({"cmd": "echo $$ > pid; echo started; tail -f /dev/null"});
    let call = Item::function_call("exec_command", cmd).call_id("c");
    bench.mock.push(Reply::of([call]));
    let mut lane = bench.start(bench.request(1, "go", vec![]));
    lane.until("delta \"started").await;
    let seen = interrupted(&bench, lane).await;
    let command = &seen.items("commandExecution")[0];
    assert_eq!(command["status"], "failed");
    assert_eq!(command["aggregatedOutput"], "started\n");
    let sent = bench.mock.requests().pop().unwrap();
    let output = sent.tool_output("c").unwrap();
    assert!(output.starts_with("aborted by user after "), "{output}");
    assert!(output.contains("it may have partly run"), "{output}");

    let pid = std::fs::read_to_string(bench.cwd.path().join("pid")).unwrap();
    let process = std::path::Path::new("/proc").join(pid.trim());
    let gone = async || !process.exists();
    eventually("the command's end", DEADLINE, gone)
        .await
        .unwrap();
}

#[tokio::test]
async fn while_a_command_of_the_same_turn_goes_on_in_a_session() {
    let bench = Bench::new().await;
    let cmd = json!({"cmd": "tail -f /dev/null", "yield_time_ms": 250});
    bench.mock.push(Reply::function_call("exec_command", cmd));
    let (reply, gate) = Reply::text("never").gated(At::Request);
    bench.mock.push(reply);
    let mut lane = bench.start(bench.request(1, "go", vec![]));
    lane.until("record toolOutput").await;
    within("the request", DEADLINE, gate.reached())
        .await
        .unwrap();
    let seen = interrupted(&bench, lane).await;
    assert_eq!(seen.items("commandExecution")[0]["status"], "failed");
    let left = bench.engine.background(thread()).await;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn while_somebody_is_asked() {
    let bench = Bench::new().await;
    std::fs::write(bench.cwd.path().join("kept"), "").unwrap();
    let cmd = json!({"cmd": "rm -rf kept"});
    let call = Item::function_call("exec_command", cmd).call_id("c");
    bench.mock.push(Reply::of([call]));
    let mut lane = bench.start(bench.request(1, "go", vec![]));
    let asked = loop {
        match lane.hear().await.unwrap() {
            Said::Approve { reply, .. } => break reply,
            said => lane.reply(said),
        }
    };
    let seen = interrupted(&bench, lane).await;
    assert!(asked.is_closed(), "the question is withdrawn");
    assert_eq!(seen.items("commandExecution").len(), 1);
    assert!(bench.cwd.path().join("kept").exists());
    let sent = bench.mock.requests().pop().unwrap();
    assert!(sent.tool_output("c").is_some());
}

#[tokio::test]
async fn a_decision_to_cancel_interrupts_the_turn_and_its_other_calls() {
    let bench = Bench::new().await;
    let call =
        |id: &str, cmd: &str| Item::function_call("exec_command", json!({"cmd": cmd})).call_id(id);
    bench.mock.push(Reply::of([
        call("runs", "echo started; tail -f /dev/null"),
        call("asks", "rm -rf kept"),
    ]));
    let mut lane = bench.start(bench.request(1, "go", vec![]));
    lane.decide =
        Box::new(|_| turnlane_engine::Decided::new(turnlane_protocol::approval::Decision::Cancel));
    let seen = lane.finish().await;
    assert_eq!(seen.outcome().status, OutcomeStatus::Interrupted);
    seen.assert_whole();
    let commands = seen.items("commandExecution");
    let mut statuses: Vec<_> = commands.iter().map(|item| item["status"].clone()).collect();
    statuses.sort_by_key(ToString::to_string);
    assert_eq!(statuses, ["declined", "failed"]);
    let answered = seen.entries.iter().flat_map(|entry| &entry.call_ids);
    assert_eq!(answered.count(), 4, "two calls, two answers");
}

#[tokio::test]
async fn a_turn_that_is_dropped_leaves_no_process() {
    let bench = Bench::new().await;
    let cmd = json!({"cmd": "echo $$ > pid; echo started; tail -f /dev/null"});
    bench.mock.push(Reply::function_call("exec_command", cmd));
    let mut lane = bench.start(bench.request(1, "go", vec![]));
    lane.until("delta \"started").await;
    lane.engine.abort();
    drop(lane);
    let pid = std::fs::read_to_string(bench.cwd.path().join("pid")).unwrap();
    let process = std::path::Path::new("/proc").join(pid.trim());
    let gone = async || !process.exists();
    eventually("the command's end", DEADLINE, gone)
        .await
        .unwrap();
}
