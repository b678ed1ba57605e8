//! Ends of turns: what a success is, what an outcome holds, and what is refused before it begins.

use serde_json::{Value, json};
use turnlane::{CallError, Client, TransportError, TurnError, TurnEvent, TurnStatus};
use turnlane_testkit::wait::within;

use crate::double::{Double, Kind, turn_event, turn_value};
use crate::rig::{T, joined, nothing_else_is_sent, reason, rig, run, said, with_thread};

#[tokio::test]
async fn an_interrupted_turn_is_never_a_success_and_keeps_what_it_said() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let turn = run(&thread, "hello");
    double.start_turn(T, "t1").await;
    double.item(
        T,
        "t1",
        "item/completed",
        &said("a", "partial", json!(null)),
    );
    double.tell("turn/completed", turn_event(T, "t1", "interrupted"));
    match joined(turn).await {
        Err(TurnError::Interrupted { turn, outcome }) => {
            assert_eq!(turn.as_str(), "t1");
            assert_eq!(outcome.text.as_deref(), Some("partial"));
            assert_eq!(outcome.status, TurnStatus::Interrupted);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_failed_turn_says_why_and_keeps_what_it_said() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let turn = run(&thread, "hello");
    double.start_turn(T, "t1").await;
    double.item(
        T,
        "t1",
        "item/completed",
        &said("a", "partial", json!(null)),
    );
    let mut params = turn_event(T, "t1", "failed");
    params["turn"]["error"] = json!({"message": "no more", "codexErrorInfo": "usageLimitExceeded"});
    double.tell("turn/completed", params);
    match joined(turn).await {
        Err(TurnError::Failed { info, outcome, .. }) => {
            assert_eq!(info.message, "no more");
            assert_eq!(outcome.text.as_deref(), Some("partial"));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_stream_gives_the_outcome_of_every_end() {
    for (word, status) in [
        ("completed", TurnStatus::Completed),
        ("failed", TurnStatus::Failed),
        ("interrupted", TurnStatus::Interrupted),
    ] {
        let (mut double, _client, thread) = rig(Kind::Codex).await;
        let stream = thread.turn("hello").stream().await.unwrap();
        let outcome = tokio::spawn(stream.outcome());
        double.start_turn(T, "t1").await;
        double.tell("turn/completed", turn_event(T, "t1", word));
        assert_eq!(joined(outcome).await.unwrap().status, status);
    }
}

#[tokio::test]
async fn a_turn_that_only_used_tools_is_a_success_without_text() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let turn = run(&thread, "hello");
    double.start_turn(T, "t1").await;
    let command = json!({"type": "commandExecution", "id": "c", "command": "true", "cwd": "/srv",
        "status": "completed", "commandActions": [], "aggregatedOutput": "", "exitCode": 0});
    double.item(T, "t1", "item/completed", &command);
    double.tell("turn/completed", turn_event(T, "t1", "completed"));
    let outcome = joined(turn).await.unwrap();
    assert_eq!(outcome.text, None);
    assert_eq!(outcome.items.len(), 2);
}

#[tokio::test]
async fn the_text_is_the_last_final_answer_else_the_last_message() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let messages = [
        said("a", "the answer", json!("final_answer")),
        said("b", "by the way", json!("commentary")),
    ];
    let turn = run(&thread, "hello");
    double.start_turn(T, "t1").await;
    for message in &messages {
        double.item(T, "t1", "item/completed", message);
    }
    double.tell("turn/completed", turn_event(T, "t1", "completed"));
    assert_eq!(
        joined(turn).await.unwrap().text.as_deref(),
        Some("the answer")
    );
    let turn = run(&thread, "again");
    double.start_turn(T, "t2").await;
    for word in ["one", "two"] {
        double.item(
            T,
            "t2",
            "item/completed",
            &said(word, word, json!("a word of later")),
        );
    }
    double.tell("turn/completed", turn_event(T, "t2", "completed"));
    assert_eq!(joined(turn).await.unwrap().text.as_deref(), Some("two"));
}

#[tokio::test]
async fn a_status_nobody_knows_is_no_success_and_one_in_progress_is_no_end() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let turn = run(&thread, "hello");
    double.start_turn(T, "t1").await;
    double.tell("turn/completed", turn_event(T, "t1", "inProgress"));
    double.tell("turn/completed", turn_event(T, "t1", "evaporated"));
    match joined(turn).await {
        Err(TurnError::Failed { outcome, .. }) => {
            assert_eq!(outcome.status, TurnStatus::Unknown("evaporated".to_owned()));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_answer_that_was_not_seen_is_read_from_the_history_once() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let turn = run(&thread, "hello");
    let params = double.start_turn(T, "t1").await;
    let mut end = turn_event(T, "t1", "completed");
    end["turn"]["items"] = json!([said("a", "short", json!(null))]);
    double.tell("turn/completed", end);
    let asked = double.expect("thread/items/list").await;
    assert_eq!(asked.params["turnId"], "t1");
    let entry = |item: Value| json!({"turnId": "t1", "item": item});
    let user = json!({"type": "userMessage", "id": "t1-user",
        "clientId": params["clientUserMessageId"], "content": []});
    asked.answer(json!({"data": [entry(user)], "nextCursor": "more"}));
    let asked = double.expect("thread/items/list").await;
    assert_eq!(asked.params["cursor"], "more");
    let rest = json!([
        entry(said("b", "before", json!(null))),
        entry(said("a", "whole", json!(null)))
    ]);
    asked.answer(json!({"data": rest, "nextCursor": null}));
    let outcome = joined(turn).await.unwrap();
    assert_eq!(outcome.text.as_deref(), Some("whole"));
    let ids: Vec<_> = outcome.items.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(ids, ["t1-user", "b", "a"]);
}

#[tokio::test]
async fn where_the_history_cannot_be_read_the_end_itself_is_enough() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let turn = run(&thread, "hello");
    double.start_turn(T, "t1").await;
    let mut end = turn_event(T, "t1", "completed");
    end["turn"]["items"] = json!([said("a", "short", json!(null))]);
    double.tell("turn/completed", end);
    double
        .expect("thread/items/list")
        .await
        .refuse(-32601, "no", &json!(null));
    assert_eq!(joined(turn).await.unwrap().text.as_deref(), Some("short"));
}

#[tokio::test]
async fn an_empty_input_and_a_closed_thread_are_refused_before_anything_is_sent() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let empty = thread.turn(" \n").run().await;
    match empty {
        Err(TurnError::Call(CallError::InvalidArgument { reason, .. })) => {
            assert_eq!(reason, "turn input must not be empty");
        }
        other => panic!("{other:?}"),
    }
    nothing_else_is_sent(&mut double, &client).await;
    double.tell("thread/archived", json!({"threadId": T}));
    nothing_else_is_sent(&mut double, &client).await;
    let closed = thread.turn("hello").run().await;
    assert!(matches!(
        closed,
        Err(TurnError::Call(CallError::ThreadClosed { .. }))
    ));
    nothing_else_is_sent(&mut double, &client).await;
}

#[tokio::test]
async fn a_turn_that_waits_in_the_client_ends_with_its_thread() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let first = run(&thread, "one");
    double.start_turn(T, "t1").await;
    let second = run(&thread, "two");
    nothing_else_is_sent(&mut double, &client).await;
    double.tell("thread/deleted", json!({"threadId": T}));
    assert!(matches!(
        joined(second).await,
        Err(TurnError::Call(CallError::ThreadClosed { .. }))
    ));
    // The history decides about the one that ran.
    let asked = double.expect("thread/turns/list").await;
    asked.refuse(-32600, "thread not loaded: T", &json!(null));
    assert!(matches!(
        joined(first).await,
        Err(TurnError::Call(CallError::ThreadClosed { .. }))
    ));
}

#[tokio::test]
async fn the_end_of_a_turn_can_be_waited_for_by_its_id_during_and_after_it() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let stream = thread.turn("hello").stream().await.unwrap();
    double.start_turn(T, "t1").await;
    nothing_else_is_sent(&mut double, &client).await;
    let turn = stream.detach().unwrap();
    let waiting = turn.clone();
    let during = tokio::spawn(async move { waiting.outcome().await });
    let asked = double.expect("thread/turns/list").await;
    asked.answer(json!({"data": [turn_value("t1", "inProgress")], "nextCursor": null}));
    nothing_else_is_sent(&mut double, &client).await;
    double.end_turn(T, "t1", "hi");
    let asked = double.expect("thread/items/list").await;
    asked.refuse(-32601, "no", &json!(null));
    assert_eq!(joined(during).await.unwrap().text.as_deref(), Some("hi"));
    let after = tokio::spawn(async move { turn.outcome().await });
    let mut view = turn_value("t1", "completed");
    view["items"] = json!([said("a", "hi", json!(null))]);
    let asked = double.expect("thread/turns/list").await;
    asked.answer(json!({"data": [turn_value("t0", "completed"), view], "nextCursor": null}));
    assert_eq!(joined(after).await.unwrap().text.as_deref(), Some("hi"));
}

#[tokio::test]
async fn a_lost_connection_ends_a_turn_and_those_that_wait_behind_it() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let mut first = thread.turn("one").stream().await.unwrap();
    let second = run(&thread, "two");
    double.start_turn(T, "t1").await;
    let started = first.next().await.unwrap().unwrap();
    assert!(matches!(started, TurnEvent::Started(_)), "{started:?}");
    let turn = first.turn().unwrap();
    let by_id = tokio::spawn(async move { turn.outcome().await });
    let first = tokio::spawn(first.outcome());
    double
        .expect("thread/turns/list")
        .await
        .answer(json!({"data": [turn_value("t1", "inProgress")], "nextCursor": null}));
    let call = tokio::spawn({
        let client = client.clone();
        async move {
            let options = turnlane::CallOptions::default();
            client.call_raw("a/b", json!({}), options).await
        }
    });
    let unanswered = double.expect("a/b").await;
    let mut events = client.events(turnlane::Filter::all());
    // From the loss on everybody has a second.
    unanswered.leave();
    drop(double);
    let all = async {
        for turn in [first, second, by_id] {
            assert!(matches!(
                turn.await.unwrap(),
                Err(TurnError::Call(CallError::Transport(_) | CallError::Closed))
            ));
        }
        assert!(matches!(
            call.await.unwrap(),
            Err(CallError::Transport(TransportError::Closed { .. }))
        ));
        while events.next().await.is_some() {}
    };
    let second = std::time::Duration::from_secs(1);
    within("the end of all who wait", second, all)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_refusal_of_the_server_is_told_as_it_is() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let turn = run(&thread, "hello");
    let data = json!({"reason": "blockedByHook", "hook": "guard", "phase": "UserPromptSubmit",
        "message": "not today"});
    double
        .expect("turn/start")
        .await
        .refuse(-32600, "no", &data);
    match joined(turn).await {
        Err(TurnError::Blocked(block)) => assert_eq!(block.hook, "guard"),
        other => panic!("{other:?}"),
    }
    let turn = run(&thread, "hello");
    double
        .expect("turn/start")
        .await
        .refuse(-32603, "store is full", &reason("diskFull"));
    assert!(matches!(
        joined(turn).await,
        Err(TurnError::Call(CallError::Rpc(error))) if error.code == -32603
    ));
}

#[tokio::test]
async fn a_repeated_key_whose_turn_has_ended_gives_its_outcome() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let turn = tokio::spawn(thread.turn("hello").idempotency_key("k").run());
    let asked = double.expect("turn/start").await;
    asked.answer(json!({"turn": turn_value("t1", "completed")}));
    let asked = double.expect("thread/items/list").await;
    let item = said("a", "as before", json!(null));
    asked.answer(json!({"data": [{"turnId": "t1", "item": item}], "nextCursor": null}));
    assert_eq!(
        joined(turn).await.unwrap().text.as_deref(),
        Some("as before")
    );
}

#[tokio::test]
async fn a_hook_that_blocks_keeps_the_turn_from_being_sent_and_frees_its_place() {
    use turnlane::{HookAction, HookContext, HookPhase, HookSet, Matcher};
    let block = |context: &HookContext| {
        Ok(match context.prompt.as_deref() {
            Some("bad") => HookAction::Block {
                message: "no".to_owned(),
            },
            _ => HookAction::Noop,
        })
    };
    let hooks = HookSet::new().on(Matcher::phases([HookPhase::PreTurn]), ("guard", block));
    let (double, client) = Double::connect(Kind::Codex, Client::builder().hooks(hooks)).await;
    let (mut double, client, thread) = with_thread(double, client).await;
    let blocked = thread.turn("bad").run().await;
    assert!(matches!(blocked, Err(TurnError::Blocked(block)) if block.hook == "guard"));
    nothing_else_is_sent(&mut double, &client).await;
    let turn = run(&thread, "good");
    double.start_turn(T, "t1").await;
    double.end_turn(T, "t1", "hi");
    let outcome = joined(turn).await.unwrap();
    assert_eq!(outcome.hooks.runs.len(), 1);
}
