//! Changes of items, for clients that read them and for one that does not.

use std::cell::Cell;

use serde_json::json;

use super::{SCRIPT, created, filled, names};
use crate::support::{Client, World};

/// Reads until so many changes of items were told or counted as dropped; how many were dropped.
async fn dropped_of(client: &mut Client, wanted: u64) -> u64 {
    let (told, dropped) = (Cell::new(0), Cell::new(0));
    let is_all = |message: &serde_json::Value| {
        if message["method"] == "fanout/item/updated" {
            match message["params"]["dropped"].as_u64() {
                Some(count) => dropped.set(dropped.get() + count),
                None => told.set(told.get() + 1),
            }
        }
        told.get() + dropped.get() >= wanted
    };
    client.0.find("all changes of items", is_all).await.unwrap();
    assert_eq!(told.get() + dropped.get(), wanted, "told and dropped");
    dropped.get()
}

/// The sleeping client reads nothing until the other one has seen the end of the job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_that_does_not_read_is_told_what_it_missed_and_slows_no_one() {
    // More than a socket and the queue of a connection hold.
    const ITEMS: usize = 1_500;
    let world = World::start(SCRIPT).await;
    let path = world.listen().await;
    let capabilities = json!({"experimentalApi": true, "turnlane": {"version": 1}});
    let mut client = world.knowing_client().await;
    let mut sleeper = World::unix_client_with(&path, capabilities).await;
    let members = json!({"limits": {"concurrency": 64}});
    let id = created(&mut client, members).await;
    filled(&world, &id, &names(ITEMS)).await;
    let all = json!({"jobId": id, "items": true});
    sleeper.ok("fanout/subscribe", all.clone()).await;
    client.ok("fanout/subscribe", all).await;
    client.ok("fanout/start", json!({"jobId": id})).await;
    let end = json!({"job": {"id": id, "state": "succeeded"}});
    client.told("fanout/ended", end.clone()).await;
    client.ok("fanout/read", json!({"jobId": id})).await;
    // It wakes, and the end is there although it read nothing while the job ran.
    sleeper.told("fanout/ended", end).await;
    // Every item begins and ends.
    let changes = 2 * u64::try_from(ITEMS).unwrap();
    let dropped = dropped_of(&mut sleeper, changes).await;
    assert!(dropped > 0, "the test is too small");
    dropped_of(&mut client, changes).await;
    let updates = |client: &Client| {
        let told = client.0.received().iter();
        let told = told.filter(|message| message["method"] == "fanout/updated");
        told.count()
    };
    assert!(updates(&sleeper) <= updates(&client) + 1);
}

#[tokio::test]
async fn a_change_of_an_item_names_the_cell_of_its_id_column() {
    let world = World::start(SCRIPT).await;
    let mut client = world.knowing_client().await;
    let id = created(&mut client, json!({"idColumn": "name"})).await;
    filled(&world, &id, &names(2)).await;
    let all = json!({"jobId": id, "items": true});
    client.ok("fanout/subscribe", all).await;
    client.ok("fanout/start", json!({"jobId": id})).await;
    for (item, cell) in [("row-1", "n0"), ("row-2", "n1")] {
        let ended = json!({"jobId": id, "item": {"itemId": item, "state": "succeeded"}});
        let told = client.told("fanout/item/updated", ended).await;
        assert_eq!(told["params"]["item"]["sourceId"], cell, "{told}");
    }
}
