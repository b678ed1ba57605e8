//! Claims that meet, rows that are out of reach, and times and archives that hold a queue.

use serde_json::{Value, json};
use turnlane_testkit::mock_model::{At, Gate, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::{list, pairs, said};
use crate::app_server::{Served, ok, refused, thread};
use crate::serve::{Daemon, add, drained, turns};

const CONNECTIONS: usize = 20;
const STARTS_EACH: usize = 5;

#[tokio::test]
async fn of_a_hundred_starts_of_a_row_one_wins_and_the_row_is_out_of_reach() {
    let gate = Gate::new();
    let kept = gate.clone();
    let served = Served::new(move |_| Reply::text("ok").gated_by(At::Request, &kept)).await;
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let id = thread(&mut client, &served.work(), json!({})).await;
    ok(&mut client, "thread/queue/pause", json!({"threadId": id})).await;
    let mut rows = Vec::new();
    for text in ["a", "b", "c", "d"] {
        rows.push(add(&mut client, &id, text, json!({})).await);
    }
    let named = json!({"threadId": id, "queuedSubmissionId": rows[1]});
    let mut clients = Vec::new();
    for number in 0..CONNECTIONS {
        clients.push(match number % 2 {
            0 => daemon.unix().await,
            _ => daemon.websocket().await,
        });
    }
    let mut asked = Vec::new();
    for _ in 0..STARTS_EACH {
        for (number, client) in clients.iter_mut().enumerate() {
            let request = client.request("thread/queue/start", named.clone()).await;
            asked.push((number, request.unwrap()));
        }
    }
    let mut won = Vec::new();
    for (number, request) in asked {
        let answer = clients[number].answer(request).await.unwrap();
        if answer.get("result").is_some() {
            won.push(answer["result"]["turn"].clone());
            continue;
        }
        let text = answer["error"]["message"].as_str().unwrap();
        let hidden = format!("queued submission not found: {}", rows[1]);
        let busy = "thread already has an active or pending turn";
        assert!(text == busy || text == hidden, "{answer}");
    }
    assert_eq!(won.len(), 1, "{won:?}");
    assert_eq!(won[0]["queuedTurnId"], rows[1].as_str());
    gate.reached().await;

    // Taken, it is in nobody's view and reach; the others are.
    let shown = list(&mut client, &id).await;
    assert_eq!(said(&shown["data"]), ["a", "c", "d"]);
    assert_eq!(shown["running"]["queuedTurnId"], rows[1].as_str());
    let taken = json!({"threadId": id, "queuedTurnId": rows[1]});
    let deleted = ok(&mut client, "thread/queue/delete", taken.clone()).await;
    assert_eq!(deleted["deleted"], false);
    let all = json!({"threadId": id, "queuedTurnIds": [rows[3], rows[1], rows[2], rows[0]]});
    let error = refused(&mut client, "thread/queue/reorder", all).await;
    assert_eq!(error["data"]["reason"], "staleOrder");
    let mut to = taken;
    to["position"] = json!(0);
    let error = refused(&mut client, "thread/queue/move", to).await;
    assert_eq!(error["data"]["reason"], "queuedTurnNotFound");
    let others = json!({"threadId": id, "queuedTurnIds": [rows[3], rows[2], rows[0]]});
    ok(&mut client, "thread/queue/reorder", others).await;
    let named = json!({"threadId": id, "queuedTurnId": rows[2]});
    let deleted = ok(&mut client, "thread/queue/delete", named).await;
    assert_eq!(deleted["deleted"], true);
    // The start has ended the pause.
    gate.release();
    drained(&mut client, &id).await;
    let ran = ["b", "d", "a"].map(|text| (text, "completed"));
    assert_eq!(turns(&mut client, &id).await, pairs(&ran));
    assert_eq!(served.mock.requests().len(), 3);
}

#[tokio::test]
async fn a_row_is_started_past_the_head_of_a_queue_that_a_server_has_not_loaded() {
    let gate = Gate::new();
    let kept = gate.clone();
    let served = Served::new(move |request| {
        let text = request.last_user_text();
        let reply = Reply::text(text.clone());
        if text == "hold" {
            reply.gated_by(At::Request, &kept)
        } else {
            reply
        }
    })
    .await;
    let mut server = served.stdio().await;
    let id = thread(&mut server.client, &served.work(), json!({})).await;
    let on_crash = json!({"onCrash": "continue"});
    add(&mut server.client, &id, "hold", on_crash).await;
    gate.reached().await;
    let mut rows = Vec::new();
    for text in ["a", "b", "c"] {
        rows.push(add(&mut server.client, &id, text, json!({})).await);
    }
    server.process.kill9().await.unwrap();

    let mut server = served.stdio().await;
    let client = &mut server.client;
    let shown = list(client, &id).await;
    assert_eq!(
        (shown["depth"].clone(), shown["running"].clone()),
        (json!(3), Value::Null)
    );
    let named = json!({"threadId": id, "queuedTurnId": rows[2]});
    let answer = ok(client, "thread/queue/start", named).await;
    assert_eq!(answer["turn"]["queuedTurnId"], rows[2].as_str());
    drained(client, &id).await;
    let ran = ["c", "a", "b"].map(|text| (text, "completed"));
    assert_eq!(turns(client, &id).await[1..], pairs(&ran));
}

/// A time that is so many milliseconds behind that of a row.
fn behind(row: &Value, ms: i64) -> i64 {
    row["createdAtMs"].as_i64().unwrap() + ms
}

#[tokio::test]
async fn a_time_holds_a_queue_in_order_and_an_archive_beyond_it() {
    let served = Served::new(|request| Reply::text(request.last_user_text())).await;
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let probe = thread(&mut client, &served.work(), json!({})).await;
    ok(
        &mut client,
        "thread/queue/pause",
        json!({"threadId": probe}),
    )
    .await;
    add(&mut client, &probe, "probe", json!({})).await;
    let now = list(&mut client, &probe).await["data"][0].clone();
    let (archived, open) = (behind(&now, 2_000), behind(&now, 2_500));

    let away = thread(&mut client, &served.work(), json!({})).await;
    let late = json!({"notBeforeMs": archived});
    add(&mut client, &away, "away", late).await;
    add(&mut client, &away, "away too", json!({})).await;
    ok(&mut client, "thread/archive", json!({"threadId": away})).await;
    let here = thread(&mut client, &served.work(), json!({})).await;
    add(&mut client, &here, "late", json!({"notBeforeMs": open})).await;
    add(&mut client, &here, "in order", json!({})).await;
    let shown = list(&mut client, &here).await;
    assert_eq!(said(&shown["data"]), ["late", "in order"]);
    assert_eq!(shown["data"][0]["notBeforeMs"], open);
    drained(&mut client, &here).await;
    let ran = ["late", "in order"].map(|text| (text, "completed"));
    assert_eq!(turns(&mut client, &here).await, pairs(&ran));
    let asked: Vec<_> = served
        .mock
        .requests()
        .iter()
        .map(|it| it.last_user_text())
        .collect();
    assert_eq!(
        asked,
        ["late", "in order"],
        "an archived queue waits, due or not"
    );

    let error = refused(&mut client, "thread/queue/list", json!({"threadId": away})).await;
    let text = format!(
        "session {away} is archived. Run `turnlane unarchive {away}` to unarchive it first."
    );
    assert_eq!(error["message"], text);
    ok(&mut client, "thread/unarchive", json!({"threadId": away})).await;
    drained(&mut client, &away).await;
    let ran = ["away", "away too"].map(|text| (text, "completed"));
    assert_eq!(turns(&mut client, &away).await, pairs(&ran));
}

#[tokio::test]
async fn what_is_told_of_large_rows_stays_small_and_says_that_more_is_there() {
    let served = Served::new(|_| Reply::text("ok")).await;
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.websocket().await;
    let id = thread(&mut client, &served.work(), json!({})).await;
    ok(&mut client, "thread/queue/pause", json!({"threadId": id})).await;
    for letter in ["x", "y", "z"] {
        let long = letter.repeat(400_000);
        add(&mut client, &id, &long, json!({})).await;
    }
    let told = |message: &Value| {
        message["method"] == "thread/queue/changed" && message["params"]["depth"] == 3
    };
    let told = client.find("the third row", told).await.unwrap();
    assert_eq!(told["params"]["truncated"], true);
    assert!(told.to_string().len() <= 1024 * 1024);
    assert!(!said(&told["params"]["queuedTurns"]).is_empty());
    assert_eq!(said(&list(&mut client, &id).await["data"]).len(), 3);
    ok(&mut client, "thread/queue/resume", json!({"threadId": id})).await;
    let empty = async || served.mock.requests().len() == 3;
    eventually("three turns", DEADLINE, empty).await.unwrap();
    drained(&mut client, &id).await;
}
