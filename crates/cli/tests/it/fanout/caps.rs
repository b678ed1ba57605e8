//! The cap of tokens, which every request of an item has to pass.

use serde_json::json;
use turnlane_testkit::mock_model::{Item, Reply, Usage};

use super::{World, ends_with, report, tool_answers};

/// The tokens of one request.
const EACH: u64 = Usage::SAMPLE.input + Usage::SAMPLE.output;
/// Requests of one item: commands, then its report.
const REQUESTS: usize = 10;
const CONCURRENCY: u64 = 2;

#[tokio::test]
async fn a_cap_of_tokens_stops_items_between_their_requests_and_is_not_reset() {
    // The cap is reached within the first two items.
    const CAP: u64 = 6 * EACH;
    let world = World::new(|request| {
        let answered = tool_answers(request);
        if answered + 1 == REQUESTS {
            return Reply::of([report(request)]);
        }
        let command = json!({"cmd": "true"});
        let call = Item::function_call("exec_command", command);
        Reply::of([call.call_id(format!("call_{answered}"))])
    })
    .await;
    world.write_rows("in.csv", 20);
    let (cap, concurrency) = (CAP.to_string(), CONCURRENCY.to_string());
    let flags = ["-j", &concurrency, "--max-tokens", &cap];
    let ran = world
        .run(&[&flags[..], &["-s", "danger-full-access"]].concat())
        .await;
    ends_with(&ran, 4);
    let job = world.job().await;
    assert_eq!(job["state"], "paused", "{job}");
    assert_eq!(job["reason"], "budget", "{job}");
    assert_eq!(job["counts"]["failed"], 0, "{job}");
    let spent = job["usage"]["totalTokens"].as_u64().unwrap();
    let sent = u64::try_from(world.mock.requests().len()).unwrap();
    assert_eq!(spent, sent * EACH, "all requests count: {job}");
    assert!(spent >= CAP, "{job}");
    // A request that has begun when the cap is reached is paid for: one per item in flight.
    assert!(spent <= CAP + (CONCURRENCY - 1) * EACH, "{job}");
    for item in world.items().await {
        assert_eq!(item["state"], "pending", "{item}");
    }
    // What was spent stays spent: a resume pauses the job without a request.
    for _ in 0..2 {
        ends_with(&world.fanout(&["resume", "in"]).await, 4);
        let job = world.job().await;
        assert_eq!(job["reason"], "budget", "{job}");
        assert_eq!(job["usage"]["totalTokens"], spent, "{job}");
    }
    assert_eq!(world.mock.requests().len() as u64, sent);
}
