//! A history that gets shorter: by itself, after an overflow, by request, or not at all.

use serde_json::json;
use turnlane_engine::{CancelReason, Entry, EntryKind, OutcomeStatus, TurnKind};
use turnlane_protocol::turn_error::CodexErrorInfo;
use turnlane_testkit::mock_model::{ApiError, At, Item, Reply, Usage};
use turnlane_testkit::wait::{DEADLINE, within};

use super::support::{Bench, Seen};

fn large() -> Usage {
    Usage {
        input: 30_000,
        ..Usage::SAMPLE
    }
}

fn plan() -> Item {
    let plan = json!({"plan": [{"step": "look", "status": "pending"}]});
    Item::function_call("update_plan", plan).call_id("p")
}

fn overflow() -> Reply {
    Reply::http_error(ApiError::context_length_exceeded())
}

async fn bench() -> Bench {
    Bench::with(
        &json!({"model_auto_compact_token_limit": 20_000}),
        &json!({}),
    )
    .await
}

fn compactions(seen: &Seen) -> Vec<&Entry> {
    let entries = seen.entries.iter();
    entries
        .filter(|entry| entry.kind == EntryKind::Compaction)
        .collect()
}

#[tokio::test]
async fn it_comes_by_itself_at_the_threshold() {
    let bench = bench().await;
    bench.mock.push(Reply::of([plan()]).usage(large()));
    bench
        .mock
        .push(Reply::text("They want tests.").usage(large()));
    bench.mock.push(Reply::text("done"));
    let seen = bench.turn("write tests").await;
    seen.assert_completed();
    assert_eq!(seen.items("contextCompaction").len(), 1);
    assert_eq!(
        seen.items("agentMessage").len(),
        1,
        "the summary is not shown"
    );
    assert_eq!(compactions(&seen).len(), 1);
    assert_eq!(seen.outcome().usage.unwrap().input_tokens, 60_100);

    let requests = bench.mock.requests();
    let asked = &requests[1];
    assert_eq!(asked.body.get("tools"), None);
    assert!(asked.last_user_text().contains("summary"));
    let texts = texts(&bench, 2);
    assert_eq!(texts.len(), 2);
    assert_eq!(texts[0], "write tests");
    assert!(texts[1].ends_with("They want tests."), "{}", texts[1]);
}

fn texts(bench: &Bench, request: usize) -> Vec<String> {
    let request = &bench.mock.requests()[request];
    let texts = request.input().iter();
    let texts = texts.map(|item| item["content"][0]["text"].as_str().unwrap_or_default());
    texts.map(str::to_owned).collect()
}

#[tokio::test]
async fn the_count_of_an_earlier_turn_is_enough_if_it_can_be_of_this_history() {
    let bench = bench().await;
    bench.mock.push(Reply::text("hello"));
    bench.mock.push(Reply::text("summary"));
    bench.mock.push(Reply::text("done"));
    let said = "words ".repeat(10_000);
    let first = bench.turn(&said).await;
    let mut next = bench.request(2, "more", first.entries.clone());
    let mut usage = turnlane_protocol::usage::ThreadTokenUsage::default();
    usage.last.total_tokens = 19_999;
    next.thread_usage = Some(usage);
    let seen = bench.start(next).finish().await;
    seen.assert_completed();
    assert_eq!(compactions(&seen).len(), 1);

    // A count that this history cannot have is one of a history that is gone.
    bench.mock.push(Reply::text("done"));
    let mut short = bench.request(2, "more", vec![]);
    usage.last.total_tokens = 250_000;
    short.thread_usage = Some(usage);
    let seen = bench.start(short).finish().await;
    assert!(compactions(seen.assert_completed()).is_empty());
}

#[tokio::test]
async fn after_an_overflow_the_turn_still_completes() {
    let bench = bench().await;
    bench.mock.push(overflow());
    bench.mock.push(Reply::text("summary"));
    bench.mock.push(Reply::text("done"));
    let seen = bench.turn("go").await;
    seen.assert_completed();
    assert_eq!(compactions(&seen).len(), 1);
}

#[tokio::test]
async fn a_second_overflow_without_a_response_between_fails_the_turn() {
    let bench = bench().await;
    bench.mock.push(overflow());
    bench.mock.push(Reply::text("summary"));
    bench.mock.push(overflow());
    let seen = bench.turn("go").await;
    let outcome = seen.assert_whole().outcome();
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    let info = outcome.error.as_ref().unwrap().codex_error_info.clone();
    assert_eq!(info, Some(CodexErrorInfo::ContextWindowExceeded));
    assert_eq!(bench.mock.requests().len(), 3);
}

#[tokio::test]
async fn a_summary_that_does_not_fit_is_asked_for_without_the_oldest_entry() {
    let bench = bench().await;
    bench.mock.push(Reply::text("hello"));
    let first = bench.turn("the oldest words").await;
    bench.mock.push(overflow());
    bench.mock.push(Reply::text("summary"));
    let mut request = bench.request(2, "", first.entries.clone());
    request.kind = TurnKind::Compact;
    request.item_id = None;
    let seen = bench.start(request).finish().await;
    seen.assert_completed();
    assert_eq!(texts(&bench, 1)[0], "the oldest words");
    assert_eq!(texts(&bench, 2)[0], "hello");
    // The user's words survive all the same.
    assert!(compactions(&seen)[0].items.contains("the oldest words"));
}

#[tokio::test]
async fn it_comes_by_request_as_a_turn_of_one_item() {
    let bench = Bench::with(&json!({"compact_prompt": "Sum it up."}), &json!({})).await;
    bench.mock.push(Reply::text("hello"));
    let first = bench.turn("hi").await;
    bench.mock.push(Reply::text("They said hi."));
    let mut request = bench.request(2, "", first.entries.clone());
    request.kind = TurnKind::Compact;
    request.item_id = None;
    let seen = bench.start(request).finish().await;
    seen.assert_completed();
    assert_eq!(seen.completed.len(), 1);
    assert_eq!(seen.items("contextCompaction").len(), 1);
    assert_eq!(bench.mock.requests()[1].last_user_text(), "Sum it up.");

    // The next turn starts from the compaction; reverting to before it takes the old entries.
    for (history, count) in [(seen.entries.clone(), 3), (first.entries.clone(), 3)] {
        bench.mock.push(Reply::text("done"));
        let next = bench.request(3, "next", history);
        bench.start(next).finish().await.assert_completed();
        let request = bench.mock.requests().pop().unwrap();
        assert_eq!(request.input().len(), count);
    }
    let after = texts(&bench, 2);
    assert!(after[1].ends_with("They said hi."), "{after:?}");
    assert_eq!(texts(&bench, 3), ["hi", "hello", "next"]);
}

#[tokio::test]
async fn a_failure_leaves_the_history_as_it_was() {
    let bench = bench().await;
    bench.mock.push(Reply::of([plan()]).usage(large()));
    bench.mock.push(Reply::http_error(ApiError::unauthorized()));
    let seen = bench.turn("go").await;
    assert_eq!(seen.assert_whole().outcome().status, OutcomeStatus::Failed);
    assert!(compactions(&seen).is_empty());
    bench.mock.push(Reply::text("fine"));
    let next = bench.request(2, "again", seen.entries.clone());
    bench.start(next).finish().await.assert_completed();
    assert_eq!(bench.mock.requests()[2].input().len(), 4);
}

#[tokio::test]
async fn an_interrupt_leaves_the_history_as_it_was() {
    let bench = bench().await;
    bench.mock.push(Reply::of([plan()]).usage(large()));
    let (summary, gate) = Reply::text("summary").gated(At::LastEvent);
    bench.mock.push(summary);
    let mut lane = bench.start(bench.request(1, "go", vec![]));
    lane.until("started contextCompaction").await;
    within("the summary", DEADLINE, gate.reached())
        .await
        .unwrap();
    lane.end.cancel.cancel(CancelReason::Interrupt);
    let seen = lane.finish().await;
    assert_eq!(
        seen.assert_whole().outcome().status,
        OutcomeStatus::Interrupted
    );
    assert!(compactions(&seen).is_empty());
    assert_eq!(seen.entries.last().unwrap().kind, EntryKind::Note);
}

#[tokio::test]
async fn a_thread_without_history_has_nothing_to_sum_up() {
    let bench = bench().await;
    let mut request = bench.request(1, "", vec![]);
    request.kind = TurnKind::Compact;
    request.item_id = None;
    let seen = bench.start(request).finish().await;
    seen.assert_completed();
    assert_eq!(seen.items("contextCompaction").len(), 1);
    assert!(seen.entries.is_empty());
    assert!(bench.mock.requests().is_empty());
}
