//! A provider that is down, or has no allowance left: the queue says so, waits, and loses nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use turnlane_testkit::Provider;
use turnlane_testkit::mock_model::{ApiError, Item, RecordedRequest, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::{held, list, pairs, said, short};
use crate::app_server::{Served, ok, thread};
use crate::serve::{Daemon, add, drained, turns};

/// A model whose allowance is used up until `0` stands here; else the seconds of its reset.
fn limited(resets_at_s: &Arc<AtomicU64>) -> impl Fn(&RecordedRequest) -> Reply + use<> {
    let resets_at_s = Arc::clone(resets_at_s);
    move |request| {
        let text = request.last_user_text();
        let input = request.input();
        let ran = input
            .last()
            .is_some_and(|item| item["type"] == "function_call_output");
        let resets_at_s = resets_at_s.load(Ordering::SeqCst);
        if text == "command" && !ran {
            let arguments = json!({"cmd": "echo done >> effect"});
            Reply::of([Item::function_call("exec_command", arguments).call_id("call_1")])
        } else if resets_at_s > 0 {
            Reply::http_error(ApiError::usage_limit_reached(resets_at_s))
        } else {
            Reply::text(text)
        }
    }
}

/// Now, in seconds since 1970, as the server sees it.
async fn now_s(client: &mut turnlane_testkit::TestClient, thread: &str, row: &str) -> u64 {
    let rows = list(client, thread).await["data"].clone();
    let mine = rows.as_array().unwrap().iter().find(|it| it["id"] == row);
    mine.unwrap()["createdAtMs"].as_u64().unwrap() / 1_000
}

#[tokio::test]
async fn a_used_up_allowance_is_waited_out_over_a_restart_and_the_turn_runs_once() {
    let reset = Arc::new(AtomicU64::new(0));
    let served = Served::new(limited(&reset)).await;
    let mut daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let id = thread(&mut client, &served.work(), json!({})).await;
    let lane = json!({"threadId": id});
    ok(&mut client, "thread/queue/pause", lane.clone()).await;
    let first = add(&mut client, &id, "first", json!({})).await;
    add(&mut client, &id, "second", json!({})).await;
    let resets_at_s = now_s(&mut client, &id, &first).await + 4;
    reset.store(resets_at_s, Ordering::SeqCst);
    ok(&mut client, "thread/queue/resume", lane.clone()).await;

    let shown = held(&served, &mut client, &id, "waiting").await;
    let waiting = &shown.list["waiting"];
    assert_eq!(waiting["kind"], "quota");
    assert_eq!(waiting["untilMs"], resets_at_s * 1_000);
    let rows = &shown.changed["queuedTurns"];
    assert_eq!(said(rows), ["first", "second"]);
    assert_eq!(rows[0]["id"], first.as_str());
    assert_eq!(rows[0]["status"]["type"], "pending");
    assert_eq!(rows[0]["notBeforeMs"], waiting["untilMs"]);
    let next = format!("\n         try: turnlane queue resume {}\n", short(&id));
    assert!(shown.text.contains("waiting  "), "{}", shown.text);
    assert!(shown.text.contains(&next), "{}", shown.text);
    let asked = served.mock.take_requests();
    assert!(
        asked
            .iter()
            .all(|request| request.last_user_text() == "first")
    );

    daemon.process.kill9().await.unwrap();
    reset.store(0, Ordering::SeqCst);
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let still = list(&mut client, &id).await;
    if still["depth"] == 2 {
        assert_eq!(still["waiting"]["untilMs"], resets_at_s * 1_000, "{still}");
    }
    drained(&mut client, &id).await;
    let ran = [
        ("first", "failed"),
        ("first", "completed"),
        ("second", "completed"),
    ];
    assert_eq!(turns(&mut client, &id).await, pairs(&ran));
    let read = json!({"threadId": id, "includeTurns": true});
    let read = ok(&mut client, "thread/read", read).await;
    let begun = read["thread"]["turns"][1]["startedAt"].as_f64().unwrap();
    let begun_s = if begun > 1e11 { begun / 1_000.0 } else { begun };
    let reset_s = f64::from(u32::try_from(resets_at_s).unwrap());
    assert!(begun_s >= reset_s, "{begun_s} is before {reset_s}");
    let asked: Vec<_> = served
        .mock
        .requests()
        .iter()
        .map(|it| it.last_user_text())
        .collect();
    assert_eq!(asked, ["first", "second"], "the reset is not asked for");
    assert_eq!(list(&mut client, &id).await["waiting"], Value::Null);
    // The model was not told twice.
    let said = served.mock.requests()[1].input().to_vec();
    let firsts = said
        .iter()
        .filter(|item| item.to_string().contains("\"first\""));
    assert_eq!(
        firsts.count(),
        2,
        "once by the user and once as the answer: {said:?}"
    );
}

#[tokio::test]
async fn after_a_command_a_limit_ends_its_turn_and_the_rest_waits_until_it_is_resumed() {
    let reset = Arc::new(AtomicU64::new(4_000_000_000));
    let served = Served::new(limited(&reset)).await;
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.websocket().await;
    let free = json!({"sandbox": "danger-full-access", "approvalPolicy": "never"});
    let id = thread(&mut client, &served.work(), free).await;
    add(&mut client, &id, "command", json!({})).await;
    add(&mut client, &id, "rest", json!({})).await;
    let shown = held(&served, &mut client, &id, "waiting").await;
    assert_eq!(said(&shown.list["data"]), ["rest"]);
    assert_eq!(shown.list["data"][0]["notBeforeMs"], Value::Null);
    assert_eq!(
        turns(&mut client, &id).await,
        pairs(&[("command", "failed")])
    );

    // A row that does not want to wait fails, and so does not hold whoever comes behind.
    let other = thread(&mut client, &served.work(), json!({})).await;
    add(&mut client, &other, "one", json!({"onLimit": "fail"})).await;
    add(&mut client, &other, "two", json!({"onLimit": "fail"})).await;
    drained(&mut client, &other).await;
    let failed = [("one", "failed"), ("two", "failed")];
    assert_eq!(turns(&mut client, &other).await, pairs(&failed));
    assert_eq!(list(&mut client, &other).await["waiting"], Value::Null);

    reset.store(0, Ordering::SeqCst);
    let state = ok(&mut client, "thread/queue/resume", json!({"threadId": id})).await;
    assert_eq!(state["waiting"], Value::Null);
    drained(&mut client, &id).await;
    let ran = [("command", "failed"), ("rest", "completed")];
    assert_eq!(turns(&mut client, &id).await, pairs(&ran));
    let effect = std::fs::read_to_string(served.work().join("effect")).unwrap();
    assert_eq!(effect, "done\n", "the command ran once");
}

/// Lets connections to a port through to the model, from now on.
async fn open(port: u16, model: std::net::SocketAddr) -> tokio::task::JoinHandle<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut inside, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut outside = TcpStream::connect(model).await.unwrap();
                // Either side may go first.
                let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
            });
        }
    })
}

#[tokio::test]
async fn a_provider_that_is_down_is_waited_for_and_everything_runs_once_when_it_is_back() {
    let served = Served::new(|request| Reply::text(request.last_user_text())).await;
    // A port of our own that nobody listens to.
    let reserved = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = reserved.local_addr().unwrap().port();
    drop(reserved);
    let provider = Provider {
        request_max_retries: Some(0),
        stream_max_retries: Some(0),
        ..Provider::default()
    };
    let url = format!("http://127.0.0.1:{port}/v1");
    served.home.use_provider(&url, &provider).unwrap();
    let mut daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let mut threads = Vec::new();
    for _ in 0..2 {
        let id = thread(&mut client, &served.work(), json!({})).await;
        for text in ["one", "two", "three"] {
            add(&mut client, &id, text, json!({})).await;
        }
        let shown = held(&served, &mut client, &id, "waiting").await;
        let waiting = &shown.list["waiting"];
        assert_eq!(waiting["kind"], "network", "{waiting}");
        let (since, until) = (waiting["sinceMs"].as_i64(), waiting["untilMs"].as_i64());
        let wait_ms = until.unwrap() - since.unwrap();
        assert!((24_000..=36_000).contains(&wait_ms), "{wait_ms}");
        assert_eq!(said(&shown.list["data"]), ["one", "two", "three"]);
        assert!(shown.text.contains("; goes on in "), "{}", shown.text);
        threads.push(id);
    }
    assert_eq!(daemon.metric("turnlane_lanes{state=\"waiting\"}").await, 2);

    // A restart does not end the wait; a person may. One lane is left to the clock.
    daemon.process.kill9().await.unwrap();
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    for id in &threads {
        assert_eq!(list(&mut client, id).await["waiting"]["kind"], "network");
    }
    let tunnel = open(port, served.mock.address()).await;
    ok(
        &mut client,
        "thread/queue/resume",
        json!({"threadId": threads[0]}),
    )
    .await;
    drained(&mut client, &threads[0]).await;
    let over = async || {
        let state = list(&mut client, &threads[1]).await;
        state["depth"] == 0 && state["running"].is_null()
    };
    eventually("the end of the wait", DEADLINE, over)
        .await
        .unwrap();
    let ran = pairs(&[
        ("one", "failed"),
        ("one", "completed"),
        ("two", "completed"),
        ("three", "completed"),
    ]);
    for id in &threads {
        assert_eq!(turns(&mut client, id).await, ran);
    }
    assert_eq!(served.mock.requests().len(), 6, "each was asked once");
    tunnel.abort();
}
