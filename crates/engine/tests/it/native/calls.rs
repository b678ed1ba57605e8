//! The calls of a response: beside each other, in order, and never before they are durable.

use serde_json::json;
use turnlane_engine::{Fenced, OutcomeStatus, Reply as Answer, Said, ToolAnswer};
use turnlane_testkit::mock_model::{Item, Reply};

use super::support::{Bench, Lane, tool};

fn slow(id: &str) -> Item {
    Item::function_call("slow", "{}").call_id(id)
}

fn slow_calls(count: usize) -> Reply {
    Reply::of((0..count).map(|nth| slow(&format!("c{nth}"))))
}

/// Listens until so many calls wait for an answer.
async fn waiting(lane: &mut Lane, count: usize) -> Vec<(String, Answer<ToolAnswer>)> {
    let mut waiting = Vec::new();
    while waiting.len() < count {
        match lane.hear().await.unwrap() {
            Said::CallTool { call, reply } => waiting.push((call.call_id, reply)),
            said => lane.reply(said),
        }
    }
    waiting
}

fn answer(text: &str) -> ToolAnswer {
    ToolAnswer {
        text: text.to_owned(),
        success: true,
        end_turn: false,
    }
}

/// Lets everybody else go on as far as they can.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn three_calls_run_at_once_and_are_answered_in_call_order() {
    let bench = Bench::new().await;
    bench.mock.push(slow_calls(3));
    bench.mock.push(Reply::text("done"));
    let mut request = bench.request(1, "go", vec![]);
    request.runtime_tools = vec![tool("slow")];
    let mut lane = bench.start(request);
    let mut calls = waiting(&mut lane, 3).await;
    calls.reverse();
    for (id, reply) in calls {
        reply.send(answer(&format!("of {id}"))).unwrap();
        settle().await;
    }
    let seen = lane.finish().await;
    seen.assert_completed();
    let request = &bench.mock.requests()[1];
    let outputs: Vec<_> = request.input()[4..]
        .iter()
        .map(|item| (item["call_id"].clone(), item["output"].clone()))
        .collect();
    let expected = ["c0", "c1", "c2"].map(|id| (json!(id), json!(format!("of {id}"))));
    assert_eq!(outputs, expected);
    assert_eq!(seen.items("dynamicToolCall").len(), 3);
    assert!(seen.place("record output") < seen.place("commit"));
    assert!(seen.place("commit") < seen.place("started dynamicToolCall"));
}

#[tokio::test]
async fn the_ninth_call_waits_for_a_place() {
    let bench = Bench::new().await;
    bench.mock.push(slow_calls(9));
    bench.mock.push(Reply::text("done"));
    let mut request = bench.request(1, "go", vec![]);
    request.runtime_tools = vec![tool("slow")];
    let mut lane = bench.start(request);
    let mut calls = waiting(&mut lane, 8).await;
    settle().await;
    assert!(lane.end.said.try_recv().is_err(), "eight at once");
    let (_, first) = calls.remove(0);
    first.send(answer("one is done")).unwrap();
    let ninth = waiting(&mut lane, 1).await;
    assert_eq!(ninth[0].0, "c8");
    for (_, reply) in calls.into_iter().chain(ninth) {
        reply.send(answer("done")).unwrap();
    }
    lane.finish().await.assert_completed();
}

#[tokio::test]
async fn a_plan_waits_for_what_was_called_before_it_and_holds_up_what_was_called_behind_it() {
    let bench = Bench::new().await;
    let plan = json!({"plan": [{"step": "look", "status": "pending"}]});
    let plan = Item::function_call("update_plan", plan).call_id("p");
    bench.mock.push(Reply::of([slow("c0"), plan, slow("c1")]));
    bench.mock.push(Reply::text("done"));
    let mut request = bench.request(1, "go", vec![]);
    request.runtime_tools = vec![tool("slow")];
    let mut lane = bench.start(request);
    let mut calls = waiting(&mut lane, 1).await;
    settle().await;
    assert!(lane.end.said.try_recv().is_err(), "neither plan nor call");
    calls.remove(0).1.send(answer("done")).unwrap();
    let later = waiting(&mut lane, 1).await;
    assert_eq!(lane.seen.count("plan"), 1);
    for (_, reply) in later {
        reply.send(answer("done")).unwrap();
    }
    let seen = lane.finish().await;
    seen.assert_completed();
    let input = bench.mock.requests()[1].input()[4..].to_vec();
    let ids: Vec<_> = input.iter().map(|item| item["call_id"].clone()).collect();
    assert_eq!(ids, ["c0", "p", "c1"]);
}

#[tokio::test]
async fn a_call_that_cannot_be_made_is_answered_in_words() {
    let bench = Bench::new().await;
    let many =
        (0..63).map(|nth| Item::function_call("update_plan", "{}").call_id(format!("p{nth}")));
    let items = [
        Item::function_call("unheard_of", "{}").call_id("unknown"),
        Item::function_call("exec_command", "{not json").call_id("broken"),
    ];
    bench.mock.push(Reply::of(items.into_iter().chain(many)));
    bench.mock.push(Reply::text("done"));
    let seen = bench.turn("go").await;
    seen.assert_completed();
    let request = &bench.mock.requests()[1];
    let output = |id: &str| request.tool_output(id).unwrap();
    assert_eq!(output("unknown"), "unsupported call: unheard_of");
    let broken = output("broken");
    assert!(
        broken.starts_with("failed to parse function arguments: "),
        "{broken}"
    );
    assert!(output("p61").starts_with("failed to parse function arguments: "));
    assert_eq!(output("p62"), "too many tool calls in one response");
    assert_eq!(seen.started.len(), 1, "only the message");
}

#[tokio::test]
async fn a_tool_of_the_runtime_may_end_the_turn() {
    let bench = Bench::new().await;
    bench.mock.push(slow_calls(2));
    let mut request = bench.request(1, "go", vec![]);
    request.runtime_tools = vec![tool("slow")];
    let mut lane = bench.start(request);
    lane.answer = Box::new(|call| ToolAnswer {
        end_turn: call.call_id == "c0",
        ..answer("ok")
    });
    let seen = lane.finish().await;
    seen.assert_completed();
    assert_eq!(bench.mock.requests().len(), 1);
    let answered: usize = seen
        .entries
        .iter()
        .filter(|entry| entry.kind.as_str() == "toolOutput")
        .map(|entry| entry.call_ids.len())
        .sum();
    assert_eq!(answered, 2, "the other call is finished and recorded");
}

#[tokio::test]
async fn a_worker_that_lost_its_lane_starts_no_command() {
    let bench = Bench::new().await;
    let cmd = json!({"cmd": "touch ran"});
    bench.mock.push(Reply::function_call("exec_command", cmd));
    let mut lane = bench.start(bench.request(1, "go", vec![]));
    lane.fence = Err(Fenced);
    let seen = lane.finish().await;
    assert_eq!(seen.outcome().status, OutcomeStatus::Interrupted);
    assert!(!bench.cwd.path().join("ran").exists());
    assert_eq!(seen.lines.last().unwrap(), "ended Interrupted");
    assert_eq!(
        seen.lines[seen.lines.len() - 2],
        "commit",
        "not another word"
    );
    assert_eq!(bench.mock.requests().len(), 1);
}
