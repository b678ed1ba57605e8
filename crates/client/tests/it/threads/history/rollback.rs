//! Rollbacks, and threads that are put away: what is sent for them, and when nothing is.

use super::*;

#[tokio::test]
async fn d13_a_rollback_is_a_list_and_a_revert() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let call = client.thread_rollback(rollback(2));
    let play = async {
        let list = json!({"threadId": T, "sortDirection": "desc", "limit": 2});
        let answer = page(&turns(&["c", "b"]), Some("more"));
        page_of(&mut double, "thread/turns/list", list, answer).await;
        let revert = json!({"threadId": T, "beforeTurnId": "b"});
        page_of(&mut double, "thread/revert", revert, thread_answer(T)).await;
    };
    let ((), view) = tokio::join!(play, call);
    assert_eq!(view.unwrap().id().as_str(), T);
}

#[tokio::test]
async fn a_rollback_of_more_than_a_page_goes_on() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let call = client.thread_rollback(rollback(3));
    let play = async {
        let asked = double.expect("thread/turns/list").await;
        asked.answer(page(&turns(&["d", "c"]), Some("2")));
        let asked = double.expect("thread/turns/list").await;
        assert_eq!(asked.params["cursor"], json!("2"));
        asked.answer(page(&turns(&["b", "a"]), None));
        let asked = double.expect("thread/revert").await;
        assert_eq!(asked.params["beforeTurnId"], json!("b"));
        asked.answer(thread_answer(T));
    };
    let ((), view) = tokio::join!(play, call);
    view.unwrap();
}

#[tokio::test]
async fn a_rollback_that_cannot_be_is_refused() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let none = client.thread_rollback(rollback(0)).await;
    assert!(matches!(
        none,
        Err(ThreadError::Call(CallError::InvalidArgument { .. }))
    ));
    nothing_was_sent(&mut double, &client).await;
    let call = client.thread_rollback(rollback(3));
    let answer = page(&turns(&["b", "a"]), None);
    let (_, few) = answered(&mut double, "thread/turns/list", answer, call).await;
    assert!(matches!(few, Err(ThreadError::NotEnoughTurns { have: 2 })));
    let call = client.thread_rollback(rollback(1));
    let play = async {
        let asked = double.expect("thread/turns/list").await;
        asked.answer(page(&turns(&["a"]), None));
        let asked = double.expect("thread/revert").await;
        let busy = json!({"reason": "busy", "turnId": "a"});
        asked.refuse(
            -32600,
            "thread already has an active or pending turn",
            &busy,
        );
    };
    let ((), busy) = tokio::join!(play, call);
    let Err(ThreadError::Call(CallError::Rpc(error))) = busy else {
        panic!("{busy:?}");
    };
    assert_eq!(error.reason(), Some("busy"));
}

#[tokio::test]
async fn a_thread_is_put_away_and_taken_back() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let call = client.thread_archive(T);
    let (sent, result) = answered(&mut double, "thread/archive", json!({}), call).await;
    assert_eq!(sent, json!({"threadId": T}));
    result.unwrap();
    assert!(thread.is_closed());
    let call = client.thread_unarchive(T);
    let answer = thread_answer(T);
    let (sent, view) = answered(&mut double, "thread/unarchive", answer, call).await;
    assert_eq!(sent, json!({"threadId": T}));
    assert_eq!(view.unwrap().id().as_str(), T);
    assert!(thread.is_closed());
    let missing = (
        -32600,
        "no archived rollout found for thread id T",
        Value::Null,
    );
    let result = refused(
        &mut double,
        "thread/unarchive",
        missing,
        client.thread_unarchive(T),
    )
    .await;
    assert!(matches!(result, Err(ThreadError::NotFound { .. })));
}
