//! What is said to a turn that runs.

use serde_json::json;
use turnlane_engine::{OutcomeStatus, Steer};
use turnlane_testkit::mock_model::{At, Item, Reply};
use turnlane_testkit::wait::{DEADLINE, within};

use super::support::{Bench, tool};

#[tokio::test]
async fn a_steer_while_an_answer_streams_reaches_the_next_call() {
    let bench = Bench::new().await;
    let (reply, gate) = Reply::text("first").gated(At::AfterEvents(2));
    bench.mock.push(reply);
    bench.mock.push(Reply::text("second"));
    let mut lane = bench.start(bench.request(1, "go", vec![]));
    within("the stream", DEADLINE, gate.reached())
        .await
        .unwrap();
    lane.steer("s1").unwrap();
    lane.end
        .steer
        .reserve(Steer::Note("a hook's note".to_owned()))
        .unwrap()
        .hand_over();
    gate.release();
    let seen = lane.finish().await;
    let outcome = seen.assert_completed().outcome();
    assert_eq!(outcome.last_agent_message.as_deref(), Some("second"));
    assert_eq!(seen.items("userMessage")[0]["id"], "s1");
    let texts: Vec<_> = bench.mock.requests()[1].input()[2..]
        .iter()
        .map(|item| item["content"][0]["text"].clone())
        .collect();
    assert_eq!(texts, ["words of s1", "a hook's note"]);
}

#[tokio::test]
async fn a_steer_while_a_tool_runs_stands_behind_its_answer() {
    let bench = Bench::new().await;
    bench
        .mock
        .push(Reply::of([Item::function_call("slow", "{}").call_id("c")]));
    bench.mock.push(Reply::text("done"));
    let mut request = bench.request(1, "go", vec![]);
    request.runtime_tools = vec![tool("slow")];
    let mut lane = bench.start(request);
    lane.until("started dynamicToolCall").await;
    lane.steer("s1").unwrap();
    let seen = lane.finish().await;
    seen.assert_completed();
    let input = bench.mock.requests()[1].input().to_vec();
    assert_eq!(input[2]["type"], "function_call_output");
    assert_eq!(input[3]["content"][0]["text"], "words of s1");
}

#[tokio::test]
async fn a_steer_that_an_interrupted_turn_did_not_take_stays_with_the_lane() {
    let bench = Bench::new().await;
    let (reply, gate) = Reply::text("never").gated(At::Request);
    bench.mock.push(reply);
    let mut lane = bench.start(bench.request(1, "go", vec![]));
    within("the request", DEADLINE, gate.reached())
        .await
        .unwrap();
    lane.steer("s1").unwrap();
    lane.end
        .cancel
        .cancel(turnlane_engine::CancelReason::Interrupt);
    let seen = lane.finish().await;
    assert_eq!(seen.outcome().status, OutcomeStatus::Interrupted);
    assert!(seen.items("userMessage").is_empty());
}

#[tokio::test]
async fn a_steer_at_any_moment_is_answered_or_refused() {
    let bench = Bench::new().await;
    let plan = json!({"plan": [{"step": "look", "status": "pending"}]});
    bench.mock.choose_with(move |request| {
        let asked = request
            .input()
            .iter()
            .any(|item| item["type"] == "function_call");
        Some(if asked {
            Reply::text("done")
        } else {
            Reply::function_call("update_plan", plan.clone())
        })
    });
    // A generator of our own, so that every run has the same moments.
    let mut random = 1_u64;
    let mut refused = 0;
    for _ in 0..1000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let moment = (random >> 33) % 24;
        let mut lane = bench.start(bench.request(1, "go", vec![]));
        for _ in 0..moment {
            if lane.step().await.is_none() {
                break;
            }
        }
        let accepted = lane.steer("s1").is_ok();
        let seen = lane.finish().await;
        seen.assert_completed();
        let recorded = seen
            .entries
            .iter()
            .filter(|entry| entry.item_id.as_ref().is_some_and(|id| id.as_str() == "s1"));
        assert_eq!(recorded.count(), usize::from(accepted), "{:#?}", seen.lines);
        let last = bench.mock.take_requests().pop().unwrap();
        let sent = last.body.to_string().contains("words of s1");
        assert_eq!(sent, accepted, "answered in the same turn, or refused");
        refused += usize::from(!accepted);
    }
    assert!(refused > 0 && refused < 1000, "{refused} were refused");
}
