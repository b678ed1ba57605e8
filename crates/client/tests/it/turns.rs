//! Turns: whose answer is whose, what an end is, and what happens to those who leave.

mod steering;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use serde_json::{Value, json};
use turnlane::{CallError, SteerError, TurnError, TurnStatus, WhenBusy};
use turnlane_rpc::{Incoming, Peer};

use crate::double::{Double, Kind, turn_event, turn_value};
use crate::rig::{BOTH, T, joined, nothing_else_is_sent, reason, rig, run, said};

fn idle(double: &Double) {
    let status = json!({"threadId": T, "status": {"type": "idle"}});
    double.tell("thread/status/changed", status);
}

fn active(double: &Double) {
    let status = json!({"threadId": T, "status": {"type": "active", "activeFlags": []}});
    double.tell("thread/status/changed", status);
}

#[tokio::test]
async fn a_turn_carries_its_input_its_key_and_the_safe_defaults() {
    for kind in BOTH {
        let (mut double, _client, thread) = rig(kind).await;
        let turn = run(&thread, "hello");
        let params = double.start_turn(T, "t1").await;
        assert_eq!(params["threadId"], T);
        assert_eq!(params["input"][0]["text"], "hello");
        assert_eq!(params["approvalPolicy"], "never");
        assert_eq!(params["sandboxPolicy"]["type"], "readOnly");
        assert_eq!(params["effort"], "medium");
        let key = params["clientUserMessageId"].as_str().unwrap();
        assert_eq!(key.len(), 36);
        match kind {
            Kind::Turnlane => {
                assert_eq!(params["whenBusy"], "queue");
                assert_eq!(params["idempotencyKey"], key);
            }
            Kind::Codex => {
                assert_eq!(params.get("whenBusy"), None);
                assert_eq!(params.get("idempotencyKey"), None);
            }
        }
        assert_eq!(params.get("boundTo"), None);
        double.end_turn(T, "t1", "hi");
        let outcome = joined(turn).await.unwrap();
        assert_eq!(outcome.text.as_deref(), Some("hi"));
        assert_eq!(outcome.turn.as_str(), "t1");
        assert_eq!(outcome.thread.as_str(), T);
        assert_eq!(outcome.items.len(), 2);
        assert_eq!(outcome.status, TurnStatus::Completed);
    }
}

#[tokio::test]
async fn a_key_of_the_caller_and_the_bond_to_its_connection_are_sent() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let turn = thread
        .turn("hello")
        .idempotency_key("mine")
        .bound_to_connection()
        .when_busy(WhenBusy::Reject);
    let turn = tokio::spawn(turn.run());
    let params = double.start_turn(T, "t1").await;
    assert_eq!(params["clientUserMessageId"], "mine");
    assert_eq!(params["idempotencyKey"], "mine");
    assert_eq!(params["boundTo"], "connection");
    assert_eq!(params["whenBusy"], "reject");
    double.end_turn(T, "t1", "hi");
    joined(turn).await.unwrap();
}

#[tokio::test]
async fn two_asks_at_once_are_two_turns_with_two_answers_in_order_on_codex() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let (first, second) = (run(&thread, "one"), run(&thread, "two"));
    let params = double.start_turn(T, "t1").await;
    assert_eq!(params["input"][0]["text"], "one");
    // Codex 0.166 would make the second one part of the first.
    nothing_else_is_sent(&mut double, &client).await;
    double.end_turn(T, "t1", "answer one");
    let params = double.start_turn(T, "t2").await;
    assert_eq!(params["input"][0]["text"], "two");
    double.end_turn(T, "t2", "answer two");
    let (first, second) = (joined(first).await.unwrap(), joined(second).await.unwrap());
    assert_eq!(first.text.as_deref(), Some("answer one"));
    assert_eq!(second.text.as_deref(), Some("answer two"));
    assert_ne!(first.turn, second.turn);
}

#[tokio::test]
async fn two_asks_at_once_are_both_sent_in_order_to_turnlane() {
    let (mut double, client, thread) = rig(Kind::Turnlane).await;
    let (first, second) = (run(&thread, "one"), run(&thread, "two"));
    let asked = double.expect("turn/start").await;
    assert_eq!(asked.params["input"][0]["text"], "one");
    // The order of the answers is the order of the lane, so the second waits for the first's.
    nothing_else_is_sent(&mut double, &client).await;
    let key_one = asked.params["clientUserMessageId"].clone();
    asked.answer(json!({"turn": turn_value("t1", "inProgress")}));
    let asked = double.expect("turn/start").await;
    assert_eq!(asked.params["input"][0]["text"], "two");
    let key_two = asked.params["clientUserMessageId"].clone();
    asked.answer(json!({"turn": turn_value("t2", "inProgress"), "queuedTurn": {"id": "r2"}}));
    for (turn, key) in [("t1", key_one), ("t2", key_two)] {
        double.tell("turn/started", turn_event(T, turn, "inProgress"));
        let user = json!({"type": "userMessage", "id": format!("u-{turn}"), "clientId": key,
            "content": []});
        double.item(T, turn, "item/started", &user);
        double.item(T, turn, "item/completed", &user);
        double.end_turn(T, turn, &format!("answer {turn}"));
    }
    assert_eq!(
        joined(first).await.unwrap().text.as_deref(),
        Some("answer t1")
    );
    assert_eq!(
        joined(second).await.unwrap().text.as_deref(),
        Some("answer t2")
    );
}

/// A server that answers every turn with its own text, one at a time like Codex, and fails if a turn
/// is sent while another one runs.
async fn echo(kind: Kind, mut inbox: turnlane_rpc::Inbox, peer: Peer) {
    let mut next = 0;
    while let Some(message) = inbox.next().await {
        let Incoming::Request(request) = message else {
            continue;
        };
        let params: Value = request.params.parse().unwrap();
        assert_eq!(request.method, "turn/start");
        next += 1;
        let turn = format!("t{next}");
        request
            .responder
            .result(&json!({"turn": turn_value(&turn, "inProgress")}));
        let tell = |method: &str, params: Value| peer.tell(method, &params).unwrap();
        tell("turn/started", turn_event(T, &turn, "inProgress"));
        if kind == Kind::Codex {
            // Whoever were to send another turn now would have had the time to.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            assert!(
                inbox.next().now_or_never().is_none(),
                "sent while {turn} runs"
            );
        }
        let user = json!({"type": "userMessage", "id": format!("u{turn}"),
            "clientId": params["clientUserMessageId"], "content": params["input"]});
        let agent = said(
            &format!("a{turn}"),
            params["input"][0]["text"].as_str().unwrap(),
            json!(null),
        );
        for item in [user, agent] {
            tell(
                "item/completed",
                json!({"threadId": T, "turnId": turn, "item": item}),
            );
        }
        tell("turn/completed", turn_event(T, &turn, "completed"));
    }
}

#[tokio::test]
async fn a_hundred_turns_at_once_are_sent_in_call_order_and_answered_with_their_own_text() {
    for kind in BOTH {
        let (double, _client, thread) = rig(kind).await;
        let (peer, inbox) = double.into_parts();
        let server = tokio::spawn(echo(kind, inbox, peer));
        let ended = Arc::new(AtomicUsize::new(0));
        let turns: Vec<_> = (0..100)
            .map(|n| {
                let (thread, ended) = (thread.clone(), Arc::clone(&ended));
                tokio::spawn(async move {
                    let outcome = thread.turn(format!("question {n}")).await.unwrap();
                    (outcome, ended.fetch_add(1, Ordering::Relaxed))
                })
            })
            .collect();
        for (n, turn) in turns.into_iter().enumerate() {
            let (outcome, place) = joined(turn).await;
            assert_eq!(outcome.text, Some(format!("question {n}")));
            assert_eq!(outcome.turn.as_str(), format!("t{}", n + 1));
            if kind == Kind::Codex {
                assert_eq!(place, n);
            }
        }
        server.abort();
    }
}

#[tokio::test]
async fn a_turn_whose_first_message_is_another_ones_is_not_ours() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let turn = run(&thread, "hello");
    let asked = double.expect("turn/start").await;
    asked.answer(json!({"turn": turn_value("theirs", "inProgress")}));
    double.tell("turn/started", turn_event(T, "theirs", "inProgress"));
    let user = json!({"type": "userMessage", "id": "u", "clientId": "other", "content": []});
    double.item(T, "theirs", "item/started", &user);
    match joined(turn).await {
        Err(TurnError::Merged { into }) => assert_eq!(into.as_str(), "theirs"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn our_message_in_the_middle_of_a_turn_of_somebody_else_is_found_out() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let turn = run(&thread, "hello");
    let asked = double.expect("turn/start").await;
    let ours = asked.params["clientUserMessageId"].clone();
    asked.answer(json!({"turn": turn_value("theirs", "inProgress")}));
    let user = json!({"type": "userMessage", "id": "u2", "clientId": ours, "content": []});
    double.item(T, "theirs", "item/completed", &user);
    let asked = double.expect("thread/turns/list").await;
    let mut view = turn_value("theirs", "inProgress");
    view["items"] =
        json!([{"type": "userMessage", "id": "u1", "clientId": "other", "content": []}, user]);
    asked.answer(json!({"data": [view], "nextCursor": null}));
    assert!(matches!(joined(turn).await, Err(TurnError::Merged { .. })));
    // Somebody else's turn is left alone.
    nothing_else_is_sent(&mut double, &client).await;
}

#[tokio::test]
async fn a_server_that_does_not_say_whose_message_it_is_is_believed() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let turn = run(&thread, "hello");
    let asked = double.expect("turn/start").await;
    asked.answer(json!({"turn": turn_value("t1", "inProgress")}));
    double.tell("turn/started", turn_event(T, "t1", "inProgress"));
    let user = json!({"type": "userMessage", "id": "u", "clientId": null, "content": []});
    double.item(T, "t1", "item/completed", &user);
    double.end_turn(T, "t1", "hi");
    assert_eq!(joined(turn).await.unwrap().text.as_deref(), Some("hi"));
}

#[tokio::test]
async fn an_answer_that_names_the_turn_that_ran_before_is_merged() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let turn = run(&thread, "hello");
    // It begins between our look and our call.
    let asked = double.expect("turn/start").await;
    asked.answer(json!({"turn": turn_value("t1", "inProgress")}));
    double.tell("turn/started", turn_event(T, "t1", "inProgress"));
    double.end_turn(T, "t1", "hi");
    let outcome = joined(turn).await.unwrap();
    assert_eq!(outcome.turn.as_str(), "t1");
}

#[tokio::test]
async fn on_codex_a_turn_waits_until_the_thread_is_idle() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    active(&double);
    double.tell("turn/started", turn_event(T, "theirs", "inProgress"));
    nothing_else_is_sent(&mut double, &client).await;
    let turn = run(&thread, "hello");
    nothing_else_is_sent(&mut double, &client).await;
    idle(&double);
    double.tell("turn/completed", turn_event(T, "theirs", "completed"));
    double.start_turn(T, "t1").await;
    double.end_turn(T, "t1", "hi");
    assert_eq!(joined(turn).await.unwrap().turn.as_str(), "t1");
}

#[tokio::test]
async fn on_codex_a_turn_that_would_not_wait_is_refused_with_the_one_that_runs() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    active(&double);
    double.tell("turn/started", turn_event(T, "theirs", "inProgress"));
    nothing_else_is_sent(&mut double, &client).await;
    let turn = thread.turn("hello").when_busy(WhenBusy::Reject).run().await;
    match turn {
        Err(TurnError::Busy { active }) => assert_eq!(active.as_str(), "theirs"),
        other => panic!("{other:?}"),
    }
    nothing_else_is_sent(&mut double, &client).await;
}

#[tokio::test]
async fn turnlane_refuses_a_turn_that_would_not_wait_by_its_word() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let turn = tokio::spawn(thread.turn("hello").when_busy(WhenBusy::Reject).run());
    let data = json!({"reason": "busy", "turnId": "theirs"});
    let asked = double.expect("turn/start").await;
    asked.refuse(
        -32600,
        "thread already has an active or pending turn",
        &data,
    );
    match joined(turn).await {
        Err(TurnError::Busy { active }) => assert_eq!(active.as_str(), "theirs"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_thread_of_turnlane_without_a_queue_is_waited_for_in_the_client() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let turn = run(&thread, "hello");
    let data = json!({"reason": "busy", "turnId": "theirs"});
    let first = double.expect("turn/start").await;
    let key = first.params["idempotencyKey"].clone();
    first.refuse(
        -32600,
        "thread already has an active or pending turn",
        &data,
    );
    let params = double.start_turn(T, "t1").await;
    assert_eq!(params["idempotencyKey"], key);
    double.end_turn(T, "t1", "hi");
    assert_eq!(joined(turn).await.unwrap().text.as_deref(), Some("hi"));
}

#[tokio::test]
async fn on_codex_the_next_turn_waits_also_while_the_first_has_been_answered_and_not_begun() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let (first, second) = (run(&thread, "one"), run(&thread, "two"));
    let asked = double.expect("turn/start").await;
    let key = asked.params["clientUserMessageId"].clone();
    asked.answer(json!({"turn": turn_value("t1", "inProgress")}));
    // Codex would make a second start part of the first turn, whose begin it has not told yet.
    for _ in 0..3 {
        nothing_else_is_sent(&mut double, &client).await;
    }
    double.tell("turn/started", turn_event(T, "t1", "inProgress"));
    let user = json!({"type": "userMessage", "id": "u", "clientId": key, "content": []});
    double.item(T, "t1", "item/completed", &user);
    double.end_turn(T, "t1", "first");
    assert_eq!(joined(first).await.unwrap().text.as_deref(), Some("first"));
    double.start_turn(T, "t2").await;
    double.end_turn(T, "t2", "second");
    assert_eq!(
        joined(second).await.unwrap().text.as_deref(),
        Some("second")
    );
}
