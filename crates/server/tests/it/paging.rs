//! A thousand threads in pages of seven, both ways, while others are made.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::{Client, ECHO, World, turn};

const THREADS: usize = 1_000;

async fn pages(client: &mut Client, maker: &mut Client, direction: &str) -> Vec<String> {
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let params = json!({"limit": 7, "sortDirection": direction, "cursor": cursor});
        let page = client.ok("thread/list", params).await;
        for thread in page["data"].as_array().unwrap() {
            seen.push(thread["id"].as_str().unwrap().to_owned());
        }
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            return seen;
        }
        if seen.len() % 70 == 0 {
            let thread = maker.thread().await;
            let id = maker.turn(&thread, "late").await;
            maker.ended(&id).await;
        }
    }
}

#[tokio::test]
async fn every_old_thread_is_on_exactly_one_page_in_both_directions() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let mut maker = world.client().await;
    let mut old = HashSet::new();
    let mut starts = Vec::new();
    for _ in 0..THREADS {
        starts.push(client.0.request("thread/start", json!({})).await.unwrap());
    }
    let mut turns = Vec::new();
    for start in starts {
        let answer = client.0.answer(start).await.unwrap();
        let id = answer["result"]["thread"]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        turns.push(
            client
                .0
                .request("turn/start", turn(&id, "hello"))
                .await
                .unwrap(),
        );
        old.insert(id);
    }
    for turn in turns {
        client.0.answer(turn).await.unwrap();
    }
    let mut reader = world.client().await;
    for direction in ["desc", "asc"] {
        let seen = pages(&mut reader, &mut maker, direction).await;
        let distinct: HashSet<&String> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len(), "none twice, {direction}");
        assert!(old.iter().all(|id| distinct.contains(id)), "{direction}");
    }
    let page = reader.ok("thread/list", json!({"limit": 7})).await;
    let next = json!({"limit": 7, "cursor": page["nextCursor"]});
    let next = reader.ok("thread/list", next).await;
    let back = json!({"limit": 8, "cursor": next["backwardsCursor"], "sortDirection": "asc"});
    let back = reader.ok("thread/list", back).await;
    let ids = |page: &Value| -> Vec<Value> {
        let rows = page["data"].as_array().unwrap().iter();
        rows.map(|row| row["id"].clone()).collect()
    };
    let mut wanted = vec![ids(&next)[0].clone()];
    wanted.extend(ids(&page).into_iter().rev());
    assert_eq!(
        ids(&back),
        wanted,
        "back from the first row, which comes again"
    );
    let one = json!({"searchTerm": "HELL", "limit": 0, "sectionId": null});
    let one = reader.ok("thread/list", one).await;
    assert_eq!(one["data"].as_array().unwrap().len(), 1);
    let none = reader.ok("thread/list", json!({"sectionId": "s"})).await;
    assert_eq!(none["data"], json!([]));
}
