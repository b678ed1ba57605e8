//! What a client needs to follow its row: where it stands, when it leaves, which turn it became.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::queue::{HOLD, said, whole};
use crate::support::{Dice, ECHO, World, size, turn};

#[tokio::test]
async fn a_turn_that_waits_is_answered_with_its_row_and_its_place_changes_in_view() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, running) = client.busy().await;
    client.add(&thread, "ahead").await;
    client
        .told("thread/queue/changed", json!({"depth": 1}))
        .await;
    let from = client.0.received().len();
    let mut params = turn(&thread, "mine");
    params["whenBusy"] = json!("queue");
    params["idempotencyKey"] = json!("k");
    let answer = client.ok("turn/start", params.clone()).await;
    let row = &answer["queuedTurn"];
    assert_eq!(answer["turn"]["id"], row["turnId"]);
    assert_eq!(answer["turn"]["queuedTurnId"], row["id"]);
    assert_eq!(answer["turn"]["status"], "inProgress");
    assert_eq!(row["position"], 1);
    assert_eq!(row["source"], "direct");
    let again = client.ok("turn/start", params.clone()).await;
    assert_eq!(
        again["queuedTurn"], *row,
        "a repeat is the same row in its place"
    );

    world.gates.open("go");
    client.ended(&running).await;
    let turn = row["turnId"].as_str().unwrap().to_owned();
    let ended = client.ended(&turn).await;
    assert_eq!(ended["queuedTurnId"], row["id"]);
    // Its places in the order they were told, until it is gone.
    let place = |message: &Value| {
        let rows = message["params"]["queuedTurns"].as_array()?;
        let mine = rows.iter().find(|other| other["id"] == row["id"]);
        Some(mine.map(|mine| mine["position"].as_u64().unwrap()))
    };
    let mut places: Vec<_> = client.0.received()[from..]
        .iter()
        .filter_map(place)
        .collect();
    places.dedup();
    assert_eq!(places, [Some(1), Some(0), None]);
    let words = client.words(from);
    assert_eq!(words[..2], ["answer", "thread/queue/changed"]);
    let started = client
        .told("turn/started", json!({"turn": {"id": turn}}))
        .await;
    assert_eq!(started["params"]["turn"]["queuedTurnId"], row["id"]);
    let repeated = client.ok("turn/start", params).await;
    assert_eq!(repeated["turn"]["id"], turn.as_str());
    assert_eq!(repeated["turn"]["status"], "completed");
    assert!(repeated.get("queuedTurn").is_none());
}

#[tokio::test]
async fn a_turn_that_waits_is_taken_back_by_deleting_its_row() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, running) = client.busy().await;
    let mut params = turn(&thread, "mine");
    params["whenBusy"] = json!("queue");
    let row = client.ok("turn/start", params).await["queuedTurn"].clone();
    let named = json!({"threadId": thread, "queuedTurnId": row["id"]});
    let deleted = client.ok("thread/queue/delete", named).await;
    assert_eq!(deleted["deleted"], true);
    world.gates.open("go");
    client.ended(&running).await;
    client.settle().await;
    assert_eq!(client.history(&thread).await, ["hold"]);
}

#[tokio::test]
async fn a_turn_with_rows_before_it_waits_behind_them_also_when_nothing_runs() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    client
        .ok("thread/queue/pause", json!({"threadId": thread}))
        .await;
    client.add(&thread, "ahead").await;
    let mut params = turn(&thread, "behind");
    params["whenBusy"] = json!("queue");
    let answer = client.ok("turn/start", params).await;
    assert_eq!(answer["queuedTurn"]["position"], 1);
    client
        .ok("thread/queue/resume", json!({"threadId": thread}))
        .await;
    client.ended(answer["turn"]["id"].as_str().unwrap()).await;
    assert_eq!(client.history(&thread).await, ["ahead", "behind"]);
}

#[tokio::test]
async fn a_long_queue_is_shown_in_part_and_says_so() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, _) = client.busy().await;
    for number in 0..101 {
        client.add(&thread, &number.to_string()).await;
    }
    let told = client
        .told("thread/queue/changed", json!({"depth": 101}))
        .await;
    assert_eq!(told["params"]["truncated"], true);
    assert_eq!(told["params"]["queuedTurns"].as_array().unwrap().len(), 100);
    let told = client
        .told("thread/queue/changed", json!({"depth": 100}))
        .await;
    assert_eq!(told["params"]["truncated"], false);

    let (thread, _) = client.busy().await;
    let long = "x".repeat(400_000);
    for _ in 0..3 {
        client.add(&thread, &long).await;
    }
    let told = json!({"threadId": thread, "depth": 3});
    let told = client.told("thread/queue/changed", told).await;
    assert_eq!(told["params"]["truncated"], true);
    assert!(told.to_string().len() <= 1024 * 1024);
    assert!(!told["params"]["queuedTurns"].as_array().unwrap().is_empty());
    let listed = client.queue(&thread).await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 3);
}

/// Two clients order, move and delete whatever they see while the lane runs it.
#[tokio::test]
async fn changes_that_meet_a_draining_lane_are_done_or_refused_and_lose_nothing() {
    let world = World::start(ECHO).await;
    let mut dice = Dice::new(7);
    let (mut one, mut two) = (world.client().await, world.client().await);
    let thread = one.thread().await;
    let (mut added, mut deleted) = (Vec::new(), HashSet::new());
    let (mut done, mut stale) = (0, 0);
    for round in 0..size(60, 600) {
        for part in 0..3 {
            let text = format!("{round}.{part}");
            one.add(&thread, &text).await;
            added.push(text);
        }
        let listed = two.queue(&thread).await;
        let rows = listed["data"].as_array().unwrap().clone();
        for _ in 0..dice.below(20) {
            tokio::task::yield_now().await;
        }
        let mut ids: Vec<_> = rows.iter().map(|row| row["id"].clone()).collect();
        ids.reverse();
        let Some(last) = rows.last() else {
            continue;
        };
        let named = json!({"threadId": thread, "queuedTurnId": last["id"]});
        let (method, params) = match dice.below(3) {
            0 => (
                "thread/queue/reorder",
                json!({"threadId": thread, "queuedTurnIds": ids}),
            ),
            1 => ("thread/queue/delete", named),
            _ => {
                let mut to = named;
                to["position"] = json!(0);
                ("thread/queue/move", to)
            }
        };
        let answer = two.0.call(method, params).await.unwrap();
        match answer["error"]["data"]["reason"].as_str() {
            None => done += 1,
            Some("staleOrder" | "queuedTurnNotFound") => stale += 1,
            Some(_) => panic!("{answer}"),
        }
        if answer["result"]["deleted"] == true {
            deleted.extend(said(&json!([last])));
        }
    }
    let last = one.ok("thread/queue/add", whole(&thread, "the end")).await;
    one.ended(last["queuedTurn"]["turnId"].as_str().unwrap())
        .await;
    crate::support::say(&format!("{done} changes done, {stale} too late"));
    added.push("the end".to_owned());
    let mut ran = history_in_pages(&mut one, &thread).await;
    ran.sort();
    let mut expected: Vec<_> = added
        .into_iter()
        .filter(|text| !deleted.contains(text))
        .collect();
    expected.sort();
    assert_eq!(ran, expected, "each row ran once, but for the deleted ones");
}

/// The texts of all turns of a thread.
async fn history_in_pages(client: &mut crate::support::Client, thread: &str) -> Vec<String> {
    let (mut texts, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let params = json!({"threadId": thread, "limit": 100, "cursor": cursor,
            "sortDirection": "asc", "itemsView": "full"});
        let page = client.ok("thread/turns/list", params).await;
        for turn in page["data"].as_array().unwrap() {
            let text = &turn["items"][0]["content"][0]["text"];
            texts.push(text.as_str().unwrap().to_owned());
        }
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            return texts;
        }
    }
}
