//! What became of a turn that a dead worker left.

use serde_json::{Value, json};
use turnlane_protocol::error::ErrorObject;

use super::double::{Bench, NOW_MS, THREAD, recorded};
use super::lane::{request, state};
use crate::codex::{HistoryError, RecordedStatus};
use crate::{Engine as _, OutcomeStatus, Reconciled, TurnKind, TurnRequest};

fn left(total: Option<i64>) -> TurnRequest {
    let mut left = request("hello");
    left.engine_state = Some(state(THREAD, total));
    left
}

async fn reconciled(left: TurnRequest, turns: Value) -> Reconciled {
    let mut bench = Bench::new();
    let engine = bench.engine.clone();
    let (reconciled, _child) = tokio::join!(engine.reconcile(left), async {
        let mut child = bench.child().await;
        child.list(turns).await;
        child
    });
    reconciled
}

#[tokio::test(start_paused = true)]
async fn the_table_of_the_contract_holds() {
    for (status, expected, is_known) in [
        ("completed", OutcomeStatus::Completed, true),
        ("failed", OutcomeStatus::Failed, true),
        ("interrupted", OutcomeStatus::Interrupted, false),
        ("inProgress", OutcomeStatus::Interrupted, false),
    ] {
        let turns = json!([recorded("t1", "row", status)]);
        let Reconciled::Ended { outcome, items } = reconciled(left(Some(7)), turns).await else {
            panic!("{status}");
        };
        assert_eq!(
            (outcome.status, outcome.outcome_known),
            (expected, is_known)
        );
        assert_eq!(items.len(), 1, "the user message is the lane's");
        let name = format!("{}/m", request("").turn_id);
        assert_eq!(items[0].id.as_str(), name);
    }
    let turns = json!([recorded("t1", "row#2", "completed")]);
    assert_eq!(reconciled(left(Some(7)), turns).await, Reconciled::Absent);
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_thread_was_never_started_is_absent() {
    let bench = Bench::new();
    let answer = bench.engine.reconcile(request("hello")).await;
    assert_eq!(answer, Reconciled::Absent);
    assert_eq!(bench.launches(), 0, "no child is needed");
}

#[tokio::test(start_paused = true)]
async fn a_thread_without_history_is_absent_only_if_it_never_had_one() {
    for (total, expected) in [(None, Reconciled::Absent), (Some(7), Reconciled::Unknown)] {
        let mut bench = Bench::new();
        let engine = bench.engine.clone();
        let (answer, _child) = tokio::join!(engine.reconcile(left(total)), async {
            let mut child = bench.child().await;
            let text = "thread not loaded: codex-thread";
            child.refuse("thread/turns/list", text).await;
            child
        });
        assert_eq!(answer, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_history_is_tried_three_times() {
    let mut bench = Bench::new();
    let engine = bench.engine.clone();
    let (answer, ()) = tokio::join!(engine.reconcile(left(Some(7))), async {
        let mut child = bench.child().await;
        child.refuse("thread/turns/list", "broken").await;
        let _unanswered = child.request("thread/turns/list").await;
        child.die();
        let mut child = bench.child().await;
        child.refuse("thread/turns/list", "broken").await;
    });
    assert_eq!(answer, Reconciled::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_compaction_is_found_without_a_message() {
    let mut compacting = left(Some(7));
    compacting.kind = TurnKind::Compact;
    let turn = json!({
        "id": "t2", "status": "completed", "startedAt": NOW_MS / 1_000, "items": [],
    });
    let older = json!({
        "id": "t1", "status": "failed", "startedAt": NOW_MS / 1_000 - 60, "items": [],
    });
    let answer = reconciled(compacting.clone(), json!([turn, older])).await;
    let Reconciled::Ended { outcome, .. } = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    let answer = reconciled(compacting, json!([older])).await;
    assert_eq!(answer, Reconciled::Absent, "older than the acceptance");
}

#[tokio::test(start_paused = true)]
async fn turns_are_read_page_by_page_and_from_older_servers_whole() {
    let mut bench = Bench::new();
    let servers = bench.servers.clone();
    let (turns, _child) = tokio::join!(servers.turns(THREAD, 0), async {
        let mut child = bench.child().await;
        let page = json!({
            "data": [recorded("t2", "b", "completed")], "nextCursor": "next",
        });
        child.answer("thread/turns/list", page).await;
        let request = child.request("thread/turns/list").await;
        let params: Value = request.params.parse().unwrap();
        assert_eq!(params["cursor"], "next");
        let page = json!({"data": [recorded("t1", "a", "failed")], "nextCursor": null});
        request.responder.result(&page);
        child
    });
    let turns = turns.unwrap();
    let ids: Vec<_> = turns.iter().map(|turn| turn.id.as_str()).collect();
    assert_eq!(ids, ["t2", "t1"]);
    assert_eq!(turns[1].client_ids, ["a"]);
    assert_eq!(turns[1].status, RecordedStatus::Failed);

    let mut bench = Bench::new();
    let servers = bench.servers.clone();
    let (turns, _child) = tokio::join!(servers.turns(THREAD, 0), async {
        let mut child = bench.child().await;
        let request = child.request("thread/turns/list").await;
        let error = ErrorObject::bare(-32601, "list_turns is not supported yet");
        request.responder.error(&error);
        let turns = json!([
            recorded("t1", "a", "failed"),
            recorded("t2", "b", "completed")
        ]);
        let thread = json!({"thread": {"turns": turns}});
        child.answer("thread/read", thread).await;
        child
    });
    let turns = turns.unwrap();
    assert_eq!(turns[0].id, "t2", "the newest first");

    let bench = Bench::new();
    for _ in 0..3 {
        let error = crate::codex::LaunchError::Unavailable("no file".to_owned());
        bench.refuse_start(error);
    }
    let turns = bench.servers.turns(THREAD, 0).await;
    assert!(matches!(turns, Err(HistoryError::Launch(_))), "{turns:?}");
}
