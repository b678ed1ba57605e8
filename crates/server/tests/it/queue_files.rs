//! Files that queued turns name: kept as they were, and gone with their row.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::queue::HOLD;
use crate::support::World;

fn picture(thread: &str, path: &Path) -> Value {
    json!({"threadId": thread, "clientUserMessageId": path,
        "input": [{"type": "localImage", "path": path}]})
}

/// Where the copies of a row are.
fn copies(world: &World, row: &Value) -> PathBuf {
    let folder = world.folder.path().join("attachments");
    folder.join(row["id"].as_str().unwrap())
}

/// How many rows have copies.
fn kept(world: &World) -> usize {
    let folder = world.folder.path().join("attachments");
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

#[tokio::test]
async fn a_row_keeps_its_file_as_it_was_when_it_was_added() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, running) = client.busy().await;
    let file = world.folder.path().join("shot.png");
    std::fs::write(&file, "as it was").unwrap();
    let params = picture(&thread, &file);
    let answer = client.ok("thread/queue/add", params.clone()).await;
    let row = answer["queuedTurn"].clone();
    std::fs::write(&file, "changed").unwrap();

    // A repeat is the same row, though the file is another one now.
    let again = client.ok("thread/queue/add", params.clone()).await;
    assert_eq!(again["deduplicated"], true);
    assert_eq!(again["queuedTurn"]["id"], row["id"]);
    eventually(
        "the copies of the repeat are removed",
        DEADLINE,
        async || kept(&world) == 1,
    )
    .await
    .unwrap();
    std::fs::remove_file(&file).unwrap();

    let copy = PathBuf::from(row["input"][0]["path"].as_str().unwrap());
    assert!(copy.starts_with(copies(&world, &row)), "{}", copy.display());
    assert_eq!(copy.extension().unwrap(), "png");
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "as it was");
    assert_eq!(row["turnStartParams"]["input"], row["input"]);
    world.gates.open("go");
    client.ended(&running).await;
    let ended = client.ended(row["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "completed");
    assert!(copy.exists(), "kept as long as the row is");
}

#[tokio::test]
async fn the_files_of_a_deleted_row_are_removed_and_an_update_brings_its_own() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, _) = client.busy().await;
    let file = world.folder.path().join("one.png");
    std::fs::write(&file, "one").unwrap();
    let row = client.add(&thread, "only words").await;
    assert_eq!(kept(&world), 0);
    let named = json!({"threadId": thread, "queuedTurnId": row["id"]});
    let mut update = named.clone();
    update["input"] = json!([{"type": "localAudio", "path": file}]);
    let answer = client.ok("thread/queue/update", update).await;
    let copy = answer["queuedTurn"]["input"][0]["path"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(copy).unwrap(), "one");
    assert!(Path::new(copy).starts_with(copies(&world, &row)));
    let deleted = client.ok("thread/queue/delete", named).await;
    assert_eq!(deleted["deleted"], true);
    eventually("the copies are removed", DEADLINE, async || {
        kept(&world) == 0
    })
    .await
    .unwrap();
    assert!(file.exists(), "the sender's own stays");
}

#[tokio::test]
async fn nothing_is_left_of_an_add_that_was_refused() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let answer = client.ok("thread/start", json!({"queueMaxDepth": 1})).await;
    let thread = answer["thread"]["id"].as_str().unwrap().to_owned();
    client.turn(&thread, "hold").await;
    client.add(&thread, "fills it").await;
    let file = world.folder.path().join("one.png");
    std::fs::write(&file, "one").unwrap();
    let error = client
        .err("thread/queue/add", picture(&thread, &file))
        .await;
    assert_eq!(error["data"]["reason"], "queueFull");
    let mut two = picture(&thread, &file);
    let missing = json!({"type": "localImage", "path": "/nowhere/at/all"});
    two["input"].as_array_mut().unwrap().push(missing);
    let error = client.err("thread/queue/add", two).await;
    assert_eq!(error["data"]["reason"], "invalidInput");
    eventually("nothing is left", DEADLINE, async || kept(&world) == 0)
        .await
        .unwrap();
}

#[tokio::test]
async fn copies_whose_row_never_came_are_swept_out_later() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, _) = client.busy().await;
    // What a crash between copy and row leaves, an hour and more ago; and one that is too young.
    let all = world.folder.path().join("attachments");
    let old = all.join("01890000-0000-7000-8000-000000000001");
    let young = all.join(
        client.add(&thread, "tells the time").await["id"]
            .as_str()
            .unwrap(),
    );
    for folder in [&old, &young] {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("thread"), &thread).unwrap();
    }
    let file = world.folder.path().join("one.png");
    std::fs::write(&file, "one").unwrap();
    client.ok("thread/queue/add", picture(&thread, &file)).await;
    eventually("the old ones are gone", DEADLINE, async || !old.exists())
        .await
        .unwrap();
    assert!(young.exists());
    assert_eq!(kept(&world), 2);
}

#[tokio::test]
async fn copies_go_with_a_thread_that_no_request_deleted() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, other) = (client.thread().await, client.thread().await);
    let file = world.folder.path().join("one.png");
    std::fs::write(&file, "one").unwrap();
    for id in [&thread, &other] {
        client
            .ok("thread/queue/pause", json!({"threadId": id}))
            .await;
        client.ok("thread/queue/add", picture(id, &file)).await;
    }
    assert_eq!(kept(&world), 2);
    // As `store.retention` does.
    let runtime = world.handle();
    let deleted = runtime.delete_thread(thread.parse().unwrap());
    deleted.await.unwrap();
    eventually("the copies", DEADLINE, async || kept(&world) == 1)
        .await
        .unwrap();
}
