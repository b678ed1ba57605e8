//! A server inside the process: several connections, a folder that keeps, an end that is sure.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use turnlane_runtime::store::sqlite::{Options, SqliteStore};
use turnlane_runtime::{SystemClock, this_worker};
use turnlane_server::{Embedded, EmbeddedConfig};
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{Client, ECHO, scripted};

fn config() -> EmbeddedConfig {
    EmbeddedConfig::new(Arc::new(scripted(ECHO)))
}

async fn client(server: &Embedded) -> Client {
    Client::greeted(server.connect()).await
}

#[tokio::test]
async fn all_connections_of_an_embedded_server_see_the_same_threads() {
    let server = Embedded::start(config()).await.unwrap();
    let (mut one, mut other) = (client(&server).await, client(&server.clone()).await);
    let thread = one.thread().await;
    let turn = one.turn(&thread, "hello").await;
    assert_eq!(one.ended(&turn).await["status"], "completed");
    other
        .told("thread/started", json!({"thread": {"id": thread}}))
        .await;
    let read = other.ok("thread/read", json!({"threadId": thread})).await;
    assert_eq!(read["thread"]["preview"], "hello");
    server.stop(Duration::ZERO).await.unwrap();
    one.0.ending().await.unwrap();
    other.0.ending().await.unwrap();
}

#[tokio::test]
async fn an_embedded_server_grants_nothing_that_nobody_asked_for() {
    let server = Embedded::start(config()).await.unwrap();
    let mut client = client(&server).await;
    let answer = client.ok("thread/start", json!({})).await;
    assert_eq!(answer["sandbox"]["type"], "readOnly");
    assert_eq!(answer["approvalPolicy"], "on-request");
    assert_eq!(answer["model"], "default");
    let config = config().settings(|settings| settings.model = "mine".to_owned());
    let server = Embedded::start(config).await.unwrap();
    let mut client = self::client(&server).await;
    let answer = client.ok("thread/start", json!({})).await;
    assert_eq!(answer["model"], "mine");
}

#[tokio::test]
async fn a_folder_keeps_the_threads_of_an_embedded_server() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("made/for/it");
    let server = Embedded::start(config().folder(&place)).await.unwrap();
    let mut before = client(&server).await;
    let thread = before.thread().await;
    let turn = before.turn(&thread, "remember").await;
    before.ended(&turn).await;
    server.stop(Duration::from_secs(5)).await.unwrap();
    // Again says nothing new.
    server.stop(Duration::ZERO).await.unwrap();

    let server = Embedded::start(config().folder(&place)).await.unwrap();
    let mut after = client(&server).await;
    let params = json!({"threadId": thread, "includeTurns": true});
    let read = after.ok("thread/read", params).await;
    assert_eq!(read["thread"]["turns"][0]["id"], turn.as_str());
}

#[tokio::test]
async fn a_connection_outlives_the_handle_and_the_server_ends_with_the_last_of_both() {
    let folder = tempfile::tempdir().unwrap();
    let duplex = Embedded::start(config().folder(folder.path()))
        .await
        .unwrap()
        .connect();
    let mut client = Client::greeted(duplex).await;
    let thread = client.thread().await;
    let turn = client.turn(&thread, "still here").await;
    assert_eq!(client.ended(&turn).await["status"], "completed");
    assert_eq!(workers(folder.path()), 1);
    drop(client);
    eventually("the worker leaves the store", DEADLINE, async || {
        workers(folder.path()) == 0
    })
    .await
    .unwrap();
    // And the database is anybody's.
    let options = Options::new(
        folder.path().join("turnlane.db"),
        this_worker("test", &SystemClock),
    );
    SqliteStore::open(options).unwrap();
}

/// How many workers hold a lock beside the database.
fn workers(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("turnlane.db.workers")).map_or(0, Iterator::count)
}
