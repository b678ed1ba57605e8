//! A stop of the server at every place where a turn can be, and the turn that continues it.

use serde_json::{Value, json};
use turnlane_engine::{CancelReason, EntryKind, OutcomeStatus, Said, TurnKind, TurnRequest};
use turnlane_testkit::mock_model::{At, Item, Reply};
use turnlane_testkit::wait::{DEADLINE, within};

use super::support::{Bench, Lane, Seen};

/// Stops the turn, continues it, and checks what the model is sent; that input.
async fn continued(bench: &Bench, lane: Lane) -> (Seen, Vec<Value>) {
    lane.end.cancel.cancel(CancelReason::Shutdown);
    let seen = lane.finish().await;
    assert_eq!(seen.outcome().status, OutcomeStatus::Interrupted);
    seen.assert_whole();

    bench.mock.push(Reply::text("it goes on"));
    let next = TurnRequest {
        kind: TurnKind::Continue,
        input: Vec::new(),
        item_id: None,
        ..bench.request(2, "", seen.entries.clone())
    };
    let next = bench.start(next).finish().await;
    next.assert_completed();
    let kinds: Vec<_> = next.entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::Output], "it records no message");
    let sent = bench.mock.requests().pop().unwrap();
    let input = sent.input().to_vec();
    let texts = input
        .iter()
        .filter(|item| item["content"][0]["text"] == "go");
    assert_eq!(texts.count(), 1, "{input:#?}");
    let last = input.last().unwrap()["content"][0]["text"]
        .as_str()
        .unwrap();
    assert!(last.starts_with("<turn_stopped>"), "{last}");
    (seen, input)
}

#[tokio::test]
async fn a_turn_that_is_stopped_in_a_model_call_goes_on_from_its_history() {
    let bench = Bench::new().await;
    let (reply, gate) = Reply::text("never").gated(At::Request);
    bench.mock.push(reply);
    let lane = bench.start(bench.request(1, "go", vec![]));
    within("the request", DEADLINE, gate.reached())
        .await
        .unwrap();
    continued(&bench, lane).await;
}

#[tokio::test]
async fn a_turn_that_is_stopped_under_its_commands_has_an_output_of_each() {
    let bench = Bench::new().await;
    let cmd = json!({"cmd": "echo started; tail -f /dev/null"});
    let call = |id: &str| Item::function_call("exec_command", cmd.clone()).call_id(id);
    bench.mock.push(Reply::of([call("c"), call("d")]));
    let mut lane = bench.start(bench.request(1, "go", vec![]));
    lane.until("delta \"started").await;
    let (seen, input) = continued(&bench, lane).await;
    assert_eq!(seen.items("commandExecution")[0]["status"], "failed");
    for id in ["c", "d"] {
        let mut outputs = input.iter().filter(|item| item["call_id"] == id);
        assert_eq!(outputs.next().unwrap()["type"], "function_call");
        let output = outputs.next().unwrap()["output"].as_str().unwrap();
        assert!(
            output.starts_with("stopped with the server after "),
            "{output}"
        );
        assert!(output.ends_with(" s; it may have partly run"), "{output}");
    }
}

#[tokio::test]
async fn a_turn_that_is_stopped_after_its_last_message_is_completed_and_not_repeated() {
    let bench = Bench::new().await;
    bench.mock.push(Reply::text("done"));
    let mut lane = bench.start(bench.request(1, "go", vec![]));
    let open = loop {
        let said = lane.hear().await.unwrap();
        if matches!(said, Said::CloseSteer(_)) {
            break said;
        }
        lane.reply(said);
    };
    lane.end.cancel.cancel(CancelReason::Shutdown);
    let seen = lane.finish().await;
    drop(open);
    seen.assert_completed();
    let message = seen.outcome().last_agent_message.as_deref();
    assert_eq!(message, Some("done"));
    assert_eq!(bench.mock.requests().len(), 1);
}

#[tokio::test]
async fn a_turn_that_is_stopped_with_a_steer_waiting_is_continued() {
    let bench = Bench::new().await;
    bench.mock.push(Reply::text("done"));
    let mut lane = bench.start(bench.request(1, "go", vec![]));
    let open = loop {
        let said = lane.hear().await.unwrap();
        if matches!(said, Said::CloseSteer(_)) {
            break said;
        }
        lane.reply(said);
    };
    lane.steer("more").unwrap();
    lane.end.cancel.cancel(CancelReason::Shutdown);
    let seen = lane.finish().await;
    drop(open);
    assert_eq!(seen.outcome().status, OutcomeStatus::Interrupted);
}
