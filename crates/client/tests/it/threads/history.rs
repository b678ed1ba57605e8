//! Lists, reads and rollbacks: pages in the right order, as many as there are.

mod rollback;

use futures_util::StreamExt;
use serde_json::{Value, json};
use turnlane::{
    CallError, Client, ThreadError, ThreadId, ThreadListParams, ThreadLoadedListParams,
    ThreadReadParams, ThreadRollbackParams, ThreadSortKey,
};

use super::{answered, nothing_was_sent, refused};
use crate::double::{Double, Kind, thread_answer, turn_value};
use crate::rig::{Site, T, rig};

fn read(include_turns: bool) -> ThreadReadParams {
    ThreadReadParams {
        thread_id: ThreadId::from(T),
        include_turns,
    }
}

fn rollback(num_turns: u32) -> ThreadRollbackParams {
    ThreadRollbackParams {
        thread_id: ThreadId::from(T),
        num_turns,
    }
}

fn turns(ids: &[&str]) -> Vec<Value> {
    ids.iter().map(|id| turn_value(id, "completed")).collect()
}

fn page(data: &[Value], next: Option<&str>) -> Value {
    json!({"data": data, "nextCursor": next, "backwardsCursor": null})
}

fn entry(turn: &str, item: &str) -> Value {
    json!({"turnId": turn, "item": {"type": "agentMessage", "id": item, "text": item}})
}

/// Answers one page and shows what was asked for.
async fn page_of(double: &mut Double, method: &str, expected: Value, answer: Value) {
    let asked = double.expect(method).await;
    assert_eq!(asked.params, expected);
    asked.answer(answer);
}

#[tokio::test]
async fn a_thread_is_read_without_its_turns() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let call = client.thread_read(read(false));
    let (sent, view) = answered(&mut double, "thread/read", thread_answer(T), call).await;
    assert_eq!(sent, json!({"threadId": T, "includeTurns": false}));
    let view = view.unwrap();
    assert_eq!((view.id().as_str(), view.turns.len()), (T, 0));
    let missing = (-32600, "thread not loaded: T", Value::Null);
    let result = refused(
        &mut double,
        "thread/read",
        missing,
        client.thread_read(read(false)),
    )
    .await;
    assert!(matches!(result, Err(ThreadError::NotFound { .. })));
}

#[tokio::test]
async fn turns_and_items_are_read_in_pages_and_put_together() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let call = client.thread_read(read(true));
    let play = async {
        double.expect("thread/read").await.answer(thread_answer(T));
        let list = |cursor: Option<&str>| {
            let mut params = json!({"threadId": T, "sortDirection": "asc",
                "itemsView": "notLoaded", "limit": 100});
            if let Some(cursor) = cursor {
                params["cursor"] = json!(cursor);
            }
            params
        };
        let first = page(&turns(&["a", "b"]), Some("2"));
        page_of(&mut double, "thread/turns/list", list(None), first).await;
        let last = page(&turns(&["c"]), None);
        page_of(&mut double, "thread/turns/list", list(Some("2")), last).await;
        let items = json!({"threadId": T, "sortDirection": "asc", "limit": 100});
        let first = page(
            &[entry("a", "1"), entry("a", "2"), entry("c", "3")],
            Some("x"),
        );
        page_of(&mut double, "thread/items/list", items.clone(), first).await;
        let mut next = items;
        next["cursor"] = json!("x");
        let last = page(&[entry("c", "4"), entry("later", "5")], None);
        page_of(&mut double, "thread/items/list", next, last).await;
    };
    let ((), view) = tokio::join!(play, call);
    let view = view.unwrap();
    let shown: Vec<_> = view
        .turns
        .iter()
        .map(|turn| {
            let items = turn.items.iter().map(|item| item.id.to_string());
            (turn.id.to_string(), items.collect::<Vec<_>>())
        })
        .collect();
    let expected = [
        ("a".to_owned(), vec!["1".to_owned(), "2".to_owned()]),
        ("b".to_owned(), vec![]),
        ("c".to_owned(), vec!["3".to_owned(), "4".to_owned()]),
    ];
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn a_server_without_pages_is_asked_for_everything_at_once() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let mut whole = thread_answer(T);
    whole["thread"]["turns"] = json!(turns(&["a", "b"]));
    for is_known in [false, true] {
        let call = client.thread_read(read(true));
        let play = async {
            double.expect("thread/read").await.answer(thread_answer(T));
            if !is_known {
                let asked = double.expect("thread/turns/list").await;
                asked.refuse(-32601, "Method not found", &Value::Null);
            }
            let asked = double.expect("thread/read").await;
            assert_eq!(asked.params, json!({"threadId": T, "includeTurns": true}));
            asked.answer(whole.clone());
        };
        let ((), view) = tokio::join!(play, call);
        assert_eq!(view.unwrap().turns.len(), 2);
    }
}

#[tokio::test]
async fn codex_says_of_a_new_thread_that_its_turns_are_not_supported() {
    let text = "list_turns is not supported yet";
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let call = client.thread_read(read(true));
    let play = async {
        double.expect("thread/read").await.answer(thread_answer(T));
        let asked = double.expect("thread/turns/list").await;
        asked.refuse(-32601, text, &Value::Null);
    };
    let ((), view) = tokio::join!(play, call);
    assert!(view.unwrap().turns.is_empty());
    // And the method is not struck out by it.
    let mut stream = thread.turns();
    let page = page(&turns(&["a"]), None);
    let (_, turn) = answered(&mut double, "thread/turns/list", page, stream.next()).await;
    assert_eq!(turn.unwrap().unwrap().id.as_str(), "a");
}

#[tokio::test]
async fn without_the_experimental_methods_there_are_no_pages_and_no_queue() {
    let builder = Client::builder().experimental_api(false);
    let (mut double, client) = Double::connect(Kind::Codex, builder).await;
    let start = client.threads().start("/srv").into_future();
    let (thread, _) = tokio::join!(start, double.start_thread(T));
    let thread = thread.unwrap();
    let turn = thread.turns().next().await.unwrap();
    assert!(matches!(turn, Err(CallError::Unsupported { .. })));
    let queue = thread.queue().await;
    assert!(matches!(queue, Err(CallError::Unsupported { .. })));
    let rollback = client.thread_rollback(rollback(1)).await;
    assert!(matches!(
        rollback,
        Err(ThreadError::Call(CallError::Unsupported { .. }))
    ));
    nothing_was_sent(&mut double, &client).await;
    let call = client.thread_read(read(true));
    let play = async {
        double.expect("thread/read").await.answer(thread_answer(T));
        let asked = double.expect("thread/read").await;
        assert_eq!(asked.params["includeTurns"], json!(true));
        asked.answer(thread_answer(T));
    };
    let ((), view) = tokio::join!(play, call);
    view.unwrap();
}

#[tokio::test]
async fn a_page_too_large_for_a_frame_is_asked_for_in_smaller_pieces() {
    let limits = turnlane::Limits {
        max_frame: 4_096,
        ..turnlane::Limits::default()
    };
    // Memory has no frames to be too large; a socket has.
    let mut site = Site::open().await;
    let connect = Client::builder()
        .endpoint(turnlane::Endpoint::Unix(site.path()))
        .limits(limits)
        .connect();
    let (client, mut double) = tokio::join!(connect, site.accept(Kind::Codex));
    let client = client.unwrap();
    let start = client.threads().start("/srv").into_future();
    let (thread, _) = tokio::join!(start, double.start_thread(T));
    let mut stream = thread.unwrap().turns();
    let play = async {
        let asked = double.expect("thread/turns/list").await;
        assert_eq!(asked.params["limit"], json!(25));
        let mut large = turn_value("a", "completed");
        large["items"] = json!([{"type": "plan", "id": "p", "text": "x".repeat(8_192)}]);
        asked.answer(page(&[large], None));
        let asked = double.expect("thread/turns/list").await;
        assert_eq!(asked.params["limit"], json!(12));
        asked.answer(page(&turns(&["a"]), None));
    };
    let ((), turn) = tokio::join!(play, stream.next());
    assert_eq!(turn.unwrap().unwrap().id.as_str(), "a");
}

#[tokio::test]
async fn a_list_is_sorted_by_the_last_change_unless_asked_otherwise() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let answer = page(&[json!({"id": "a"}), json!({"id": "b"})], Some("c"));
    let call = client.thread_list(ThreadListParams::default());
    let (sent, list) = answered(&mut double, "thread/list", answer.clone(), call).await;
    assert_eq!(sent, json!({"sortKey": "updated_at"}));
    let list = list.unwrap();
    assert_eq!(list.next_cursor.as_deref(), Some("c"));
    let ids: Vec<_> = list.data.iter().map(|thread| thread.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
    let query = ThreadListParams {
        archived: Some(true),
        cursor: Some("x".to_owned()),
        limit: Some(7),
        sort_key: Some(ThreadSortKey::CreatedAt),
        sort_direction: Some(turnlane::SortDirection::Asc),
        cwd: Some(turnlane::CwdFilter::One("/srv".to_owned())),
        search_term: Some("s".to_owned()),
        model_providers: Some(vec!["p".to_owned()]),
        ..ThreadListParams::default()
    };
    let call = client.thread_list(query);
    let (sent, _) = answered(&mut double, "thread/list", answer, call).await;
    assert_eq!(
        sent,
        json!({"archived": true, "cursor": "x", "limit": 7, "sortKey": "created_at",
            "sortDirection": "asc", "cwd": "/srv", "searchTerm": "s", "modelProviders": ["p"]})
    );
}

#[tokio::test]
async fn the_stream_of_threads_asks_page_after_page_as_it_is_read() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let query = ThreadListParams {
        limit: Some(2),
        ..ThreadListParams::default()
    };
    let mut stream = client.threads().list(query);
    nothing_was_sent(&mut double, &client).await;
    let threads = |ids: &[&str]| -> Vec<_> { ids.iter().map(|id| json!({ "id": id })).collect() };
    let first = page(&threads(&["a", "b"]), Some("2"));
    let (sent, thread) = answered(&mut double, "thread/list", first, stream.next()).await;
    assert_eq!(sent, json!({"limit": 2, "sortKey": "updated_at"}));
    assert_eq!(thread.unwrap().unwrap().id.as_str(), "a");
    assert_eq!(stream.next().await.unwrap().unwrap().id.as_str(), "b");
    nothing_was_sent(&mut double, &client).await;
    let second = page(&threads(&["c"]), Some("3"));
    let (sent, thread) = answered(&mut double, "thread/list", second, stream.next()).await;
    assert_eq!(sent["cursor"], json!("2"));
    assert_eq!(thread.unwrap().unwrap().id.as_str(), "c");
    // The same place once more is the end.
    let again = page(&threads(&["d"]), Some("3"));
    let (_, thread) = answered(&mut double, "thread/list", again, stream.next()).await;
    assert_eq!(thread.unwrap().unwrap().id.as_str(), "d");
    assert!(stream.next().await.is_none());
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_stream_that_fails_says_so_once_and_ends() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let mut stream = client.threads().list(ThreadListParams::default());
    let error = (-32600, "invalid cursor: x", Value::Null);
    let failed = refused(&mut double, "thread/list", error, stream.next()).await;
    assert!(matches!(failed, Some(Err(CallError::Rpc(_)))));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn turns_come_newest_first_with_their_items() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let stream = thread.turns().map(|turn| turn.unwrap().id.to_string());
    let play = async {
        let first =
            json!({"threadId": T, "sortDirection": "desc", "itemsView": "full", "limit": 25});
        let mut second = first.clone();
        second["cursor"] = json!("2");
        let answer = page(&turns(&["c", "b"]), Some("2"));
        page_of(&mut double, "thread/turns/list", first, answer).await;
        let answer = page(&turns(&["a"]), None);
        page_of(&mut double, "thread/turns/list", second, answer).await;
    };
    let ((), ids) = tokio::join!(play, stream.collect::<Vec<_>>());
    assert_eq!(ids, ["c", "b", "a"]);
}

#[tokio::test]
async fn open_threads_are_listed_by_id() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let call = client.thread_loaded_list(ThreadLoadedListParams {
        cursor: Some("a".to_owned()),
        limit: Some(2),
    });
    let answer = json!({"data": ["b", "c"], "nextCursor": "c"});
    let (sent, ids) = answered(&mut double, "thread/loaded/list", answer, call).await;
    assert_eq!(sent, json!({"cursor": "a", "limit": 2}));
    let ids = ids.unwrap();
    assert_eq!(ids.data, ["b", "c"].map(ThreadId::from));
    assert_eq!(ids.next_cursor.as_deref(), Some("c"));
}

#[tokio::test]
async fn skills_are_listed_by_directory() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let call = client.skills_list(turnlane::SkillsListParams {
        cwds: vec!["/srv".to_owned()],
        force_reload: true,
    });
    let answer = json!({"data": [{"cwd": "/srv", "skills": [{"name": "s", "new": 1}],
        "errors": [{"path": "/x", "message": "m"}]}]});
    let (sent, list) = answered(&mut double, "skills/list", answer, call).await;
    assert_eq!(sent, json!({"cwds": ["/srv"], "forceReload": true}));
    let list = list.unwrap();
    assert_eq!(list.data[0].skills[0]["name"], json!("s"));
    assert_eq!(list.data[0].errors.len(), 1);
}
