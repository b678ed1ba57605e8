//! Rows that are too long to be read inside the transaction that claims them.

use turnlane_runtime::AddTurn;
use turnlane_store::Json;
use turnlane_store::queue::{RowState, Update};
use turnlane_store::turn::TurnStatus;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{Home, params};

const SCRIPT: &str = "version: 1\nfallback: {say: heard}\n";
const LONG: usize = 512 * 1024;

#[tokio::test]
async fn a_long_row_runs_like_any_other_in_its_order() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let long = "long ".repeat(LONG / 5);
    for text in ["before", &long, "behind"] {
        world.add_with(thread, AddTurn::new(params(text))).await;
    }
    let turns = world.ended(thread, 3).await;
    assert!(
        turns
            .iter()
            .all(|turn| turn.status == TurnStatus::Completed)
    );
    let items = world.items(thread).await;
    let messages = items.iter().filter(|item| item.kind == "userMessage");
    let lengths: Vec<_> = messages
        .map(|item| item.body.as_str().len() > LONG / 2)
        .collect();
    assert_eq!(lengths, [false, true, false]);
    assert!(turns.iter().all(|turn| turn.attempt == 1));
}

#[tokio::test]
async fn a_long_row_that_cannot_be_read_holds_the_lane() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    world.handle.pause(thread, None, None).await.unwrap();
    let row = world.add(thread, "broken").await;
    let broken = format!("{{\"input\": \"{}", "x".repeat(LONG));
    let update = Update {
        thread: thread.as_uuid().into(),
        row: row.id,
        params: Json::from(broken.clone()).into(),
        at_ms: 1,
    };
    world.handle.store().update_row(update).await.unwrap();
    world.handle.resume(thread).await.unwrap();
    let held = async || {
        let rows = world.queue(thread).await.rows;
        rows.first()
            .is_some_and(|row| row.state == RowState::Blocked)
    };
    eventually("the failed row", DEADLINE, held).await.unwrap();
    let rows = world.queue(thread).await.rows;
    let failure = rows[0].failure.as_ref().unwrap().as_str();
    assert!(
        failure.contains("queued turn payload could not be read: "),
        "{failure}"
    );
    assert_eq!(rows[0].params.as_str(), broken, "it is kept");
    assert!(world.turns(thread).await.is_empty());
}
