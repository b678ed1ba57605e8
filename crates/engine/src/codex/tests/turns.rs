//! What a turn sends, tells and returns.

use serde_json::{Value, json};

use super::double::{Bench, THREAD};
use super::lane::{Lane, request, state};
use crate::{Accepted, CancelReason, OutcomeStatus, TurnKind};
use turnlane_protocol::turn_error::ErrorKind;

#[tokio::test(start_paused = true)]
async fn a_turn_is_saved_handed_over_accepted_told_and_completed() {
    let mut bench = Bench::new();
    let mut asked = request("hello");
    asked.context = vec!["from a hook".to_owned()];
    let mut lane = Lane::start(&bench, asked);
    let play = async {
        let mut child = bench.child().await;
        let thread = child.start_thread().await;
        assert!(thread.get("model").is_none(), "not named: {thread}");
        let turn = child.start_turn("t1").await;
        assert_eq!(turn["threadId"], THREAD);
        assert_eq!(turn["clientUserMessageId"], "row");
        assert_eq!(turn["input"][0]["text"], "hello");
        assert_eq!(turn["additionalContext"]["hook-1"]["value"], "from a hook");
        let ours = json!({"type": "userMessage", "id": "u", "clientId": "row", "content": []});
        child.item("item/started", "t1", &ours);
        child.item("item/completed", "t1", &ours);
        let message = json!({"type": "agentMessage", "id": "m", "text": ""});
        child.item("item/started", "t1", &message);
        let piece = json!({"threadId": THREAD, "turnId": "t1", "itemId": "m", "delta": "hel"});
        child.tell("item/agentMessage/delta", &piece);
        child.say("t1", "m", "hello you");
        let unknown = json!({"type": "later", "id": "x", "more": [1]});
        child.item("item/completed", "t1", &unknown);
        child.usage("t1", 12, 12);
        child.usage("t1", 12, 12);
        let limits = json!({"rateLimits": {"limitId": "codex"}});
        child.tell("account/rateLimits/updated", &limits);
        let hook = json!({"threadId": THREAD, "turnId": "t1", "run": {"id": "h"}});
        child.tell("hook/started", &hook);
        let warning = json!({"threadId": THREAD, "message": "careful"});
        child.tell("warning", &warning);
        child.tell("some/thing", &json!({"threadId": THREAD, "turnId": "t1"}));
        child.turn("turn/completed", "t1", "completed");
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(
        lane.lines,
        [
            "state",
            "handing over",
            "accepted",
            "started agentMessage",
            "delta hel",
            "completed agentMessage",
            "started later",
            "completed later",
            "usage 12",
            "limits",
            "hook Started",
            "warning careful",
            "close steer Closed",
            "state",
            "ended Completed",
        ]
    );
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    assert_eq!(outcome.accepted, Accepted::Yes);
    assert_eq!(outcome.last_agent_message.as_deref(), Some("hello you"));
    assert_eq!(outcome.usage.unwrap().input_tokens, 12);
    let unknown = json!(lane.completed[1]);
    assert_eq!(unknown["more"], json!([1]), "kept as it came");
    let id = lane.completed[0].id.to_string();
    assert_eq!(id, format!("{}/m", request("").turn_id));
    let saved: Value = serde_json::from_str(&lane.states[0]).unwrap();
    assert_eq!(saved, json!({"v": 1, "threadId": THREAD, "total": null}));
    let saved: Value = serde_json::from_str(&lane.states[1]).unwrap();
    assert_eq!(saved["total"]["inputTokens"], 12);
}

#[tokio::test(start_paused = true)]
async fn messages_of_other_turns_and_threads_change_nothing() {
    let mut bench = Bench::new();
    let mut asked = request("hello");
    asked.engine_state = Some(state(THREAD, Some(7)));
    let mut lane = Lane::start(&bench, asked);
    let play = async {
        let mut child = bench.child().await;
        child.resume_thread().await;
        child.usage("older", 100, 10);
        child.start_turn("t1").await;
        child.say("older", "m", "late");
        child.turn("turn/completed", "older", "failed");
        child.turn("turn/started", "other", "inProgress");
        child.turn("turn/completed", "t1", "inProgress");
        let elsewhere = json!({
            "threadId": "elsewhere", "turn": {"id": "t1", "status": "completed", "items": []},
        });
        child.tell("turn/completed", &elsewhere);
        child.tell("turn/completed", &json!({"threadId": THREAD, "turn": 7}));
        child.tell("item/completed", &json!([1, 2]));
        child.say("t1", "m", "mine");
        child.usage("t1", 130, 30);
        child.turn("turn/completed", "t1", "completed");
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    assert_eq!(outcome.last_agent_message.as_deref(), Some("mine"));
    assert_eq!(
        outcome.usage.unwrap().input_tokens,
        30,
        "growth of the total"
    );
    assert_eq!(lane.count("completed"), 1, "{:#?}", lane.lines);
    assert_eq!(lane.count("state"), 0, "known already");
}

#[tokio::test(start_paused = true)]
async fn a_failed_turn_has_kind_and_reset_time_from_structured_data() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, request("hello"));
    let play = async {
        let mut child = bench.child().await;
        child.start_thread().await;
        child.start_turn("t1").await;
        let window = json!({"usedPercent": 100, "resetsAt": 1_900_000_000});
        let limits = json!({"rateLimits": {"primary": window, "secondary": null}});
        child.tell("account/rateLimits/updated", &limits);
        let error = |info: &str, will_retry: bool| {
            json!({
                "threadId": THREAD, "turnId": "t1", "willRetry": will_retry,
                "error": {"message": info, "codexErrorInfo": info, "additionalDetails": null},
            })
        };
        child.tell("error", &error("serverOverloaded", true));
        child.tell("error", &error("usageLimitExceeded", false));
        child.turn("turn/completed", "t1", "failed");
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    assert_eq!(lane.count("retry serverOverloaded"), 1);
    let error = outcome.error.unwrap();
    assert_eq!(error.kind, Some(ErrorKind::Quota));
    assert_eq!(error.retry_at, Some(1_900_000_000));
}

#[tokio::test(start_paused = true)]
async fn an_end_that_does_not_come_after_an_error_is_read_back() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, request("hello"));
    let play = async {
        let mut child = bench.child().await;
        child.start_thread().await;
        child.start_turn("t1").await;
        let error = json!({
            "threadId": THREAD, "turnId": "t1", "willRetry": false,
            "error": {"message": "m", "codexErrorInfo": "badRequest", "additionalDetails": null},
        });
        child.tell("error", &error);
        child
            .list(json!([super::double::recorded("t1", "row", "inProgress")]))
            .await;
        child
            .list(json!([super::double::recorded("t1", "row", "failed")]))
            .await;
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    let error = outcome.error.unwrap();
    assert_eq!(error.kind, Some(ErrorKind::BadRequest));
}

#[tokio::test(start_paused = true)]
async fn a_compaction_and_a_continued_turn_have_no_message() {
    let mut bench = Bench::new();
    let mut asked = request("");
    asked.kind = TurnKind::Compact;
    asked.engine_state = Some(state(THREAD, Some(7)));
    let mut lane = Lane::start(&bench, asked);
    let play = async {
        let mut child = bench.child().await;
        child.resume_thread().await;
        child.answer("thread/compact/start", json!({})).await;
        child.turn("turn/started", "t1", "inProgress");
        let item = json!({"type": "contextCompaction", "id": "c"});
        child.item("item/completed", "t1", &item);
        child.turn("turn/completed", "t1", "completed");
        child
    };
    let (outcome, mut child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    assert_eq!(lane.count("completed contextCompaction"), 1);

    let mut asked = request("");
    asked.kind = TurnKind::Continue;
    asked.input.clear();
    asked.engine_state = Some(state(THREAD, Some(7)));
    let mut lane = Lane::start(&bench, asked);
    let play = async {
        let turn = child.start_turn("t2").await;
        assert_eq!(turn["input"], json!([]));
        child.turn("turn/completed", "t2", "completed");
    };
    let (outcome, ()) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_cancelled_before_its_hand_over_was_never_sent() {
    let bench = Bench::new();
    let mut lane = Lane::start(&bench, request("hello"));
    lane.end.cancel.cancel(CancelReason::Interrupt);
    let outcome = lane.finish().await;
    assert_eq!(outcome.status, OutcomeStatus::Interrupted);
    assert_eq!(outcome.accepted, Accepted::No);
    assert!(outcome.outcome_known);
    assert_eq!(lane.count("handing over"), 0);
}
