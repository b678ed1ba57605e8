//! Several workers on one database, within one process: owners, deaths, changes by others.

use std::sync::Arc;
use std::time::Duration;

use turnlane_protocol::ids::{QueuedTurnId, TurnId};
use turnlane_runtime::{Drain, Error, Options, StartAnswer, StartHow};
use turnlane_store::StoreError;
use turnlane_store::turn::TurnStatus;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{Ear, Home, start};

const SCRIPT: &str = "version: 1
turns:
  - match: slow
    steps:
      - await: {gate: go}
      - say: done
fallback: {say: \"You said: {input}\"}
";

fn loaded() -> Options {
    Options {
        drain: Drain::Loaded,
        ..Options::default()
    }
}

#[tokio::test]
async fn a_lane_that_somebody_listens_to_is_owned_and_others_may_only_add() {
    let home = Home::new();
    let one = home.start_with(SCRIPT, loaded()).await;
    let two = home.start_with(SCRIPT, loaded()).await;
    let thread = one.thread().await;
    let (_, ear) = one.listen(thread).await;
    let refused = two
        .handle
        .subscribe(thread, Arc::new(Ear::default()), None)
        .await;
    assert!(matches!(
        refused,
        Err(Error::Store(StoreError::OwnedElsewhere { .. }))
    ));
    let refused = two
        .handle
        .start(thread, start("no", StartHow::OrSteer))
        .await;
    assert!(
        matches!(
            refused,
            Err(Error::Store(StoreError::OwnedElsewhere { .. }))
        ),
        "{refused:?}"
    );
    let queued = two
        .handle
        .start(thread, start("row", StartHow::OrQueue))
        .await;
    assert!(matches!(queued.unwrap(), StartAnswer::Queued(_)));
    ear.hears("turn Completed", 1).await;
    two.add(thread, "from the other").await;
    ear.hears("turn Completed", 2).await;
    assert!(
        ear.words().contains(&"queue 1".to_owned()),
        "the row was shown"
    );
}

#[tokio::test]
async fn a_lane_nobody_listens_to_goes_to_whoever_asks() {
    let home = Home::new();
    let one = home.start_with(SCRIPT, loaded()).await;
    let two = home.start_with(SCRIPT, loaded()).await;
    let thread = one.thread().await;
    let (id, _) = one.listen(thread).await;
    one.handle.unsubscribe(thread, id).await;
    let (_, ear) = loop {
        // The release is under way; nothing announces it to others.
        let ear = Arc::new(Ear::default());
        match two
            .handle
            .subscribe(thread, Arc::clone(&ear) as _, None)
            .await
        {
            Ok((id, _)) => break (id, ear),
            Err(Error::Store(StoreError::OwnedElsewhere { .. })) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    one.add(thread, "hello").await;
    ear.hears("turn Completed", 1).await;
}

#[tokio::test]
async fn a_worker_that_drains_all_finds_rows_that_others_added() {
    let home = Home::new();
    let serve = home.start(SCRIPT).await;
    let other = home.start_with(SCRIPT, loaded()).await;
    let thread = serve.thread().await;
    let store = other.handle.store();
    let row = turnlane_store::queue::NewRow {
        id: uuid::Uuid::from_u128(7).into(),
        turn: uuid::Uuid::from_u128(8).into(),
        source: "queue".to_owned(),
        params: turnlane_store::Json::new(
            serde_json::to_string(&crate::support::params("hello")).unwrap(),
        ),
        client_id: "c".to_owned(),
        key: None,
        content_hash: [0; 32],
        not_before_ms: 0,
        policies: turnlane_store::queue::Policies::default(),
        bound: None,
    };
    store
        .append(turnlane_store::queue::Append {
            thread: thread.as_uuid().into(),
            row,
            key_window_ms: 0,
            at_ms: 1,
        })
        .await
        .unwrap();
    let turns = serve.ended(thread, 1).await;
    assert_eq!(turns[0].status, TurnStatus::Completed);
}

#[tokio::test]
async fn a_message_that_never_became_an_entry_is_given_to_the_next_turn() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    let begun = world
        .handle
        .start(thread, start("slow", StartHow::OrSteer))
        .await;
    let StartAnswer::Begun(turn) = begun.unwrap() else {
        panic!("the turn begins");
    };
    let turn = TurnId::from_uuid(turn.id.as_uuid());
    ear.hears("turn/started", 1).await;
    // Steered and interrupted before the engine took it: stored, and in no entry.
    let input = vec![turnlane_protocol::input::UserInput::text("remember me")];
    world.handle.steer(thread, turn, input, None).await.unwrap();
    let queue = turnlane_runtime::AfterInterrupt::Continue;
    world
        .handle
        .interrupt(thread, Some(turn), queue, None)
        .await
        .unwrap();
    let recorded = async || {
        let history = world.handle.store().history(thread.as_uuid().into()).await;
        let history = history.unwrap();
        let entry = |text: &str| {
            history
                .entries
                .iter()
                .any(|e| e.items.as_str().contains(text))
        };
        (entry("remember me"), history.unrecorded.len())
    };
    world
        .handle
        .start(thread, start("next", StartHow::OrSteer))
        .await
        .unwrap();
    world.ended(thread, 2).await;
    assert_eq!(recorded().await, (true, 0));
}

/// A subscriber that cannot take a certain notice.
struct Bomb;

impl turnlane_runtime::Subscriber for Bomb {
    fn tell(&self, notice: &Arc<turnlane_runtime::Notice>) {
        if let turnlane_runtime::NoticeBody::Delta { .. } = notice.body {
            panic!("a bomb");
        }
    }
}

#[tokio::test]
async fn a_lane_whose_task_panics_is_decided_as_after_a_crash_and_goes_on() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    world
        .handle
        .subscribe(thread, Arc::new(Bomb), None)
        .await
        .unwrap();
    let row = world.add(thread, "boom").await;
    let turns = world.ended(thread, 1).await;
    assert_eq!(turns[0].status, TurnStatus::Interrupted);
    let page = world.queue(thread).await;
    assert_eq!(page.rows[0].id, row.id);
    assert_eq!(page.rows[0].state, turnlane_store::queue::RowState::Blocked);
    world.handle.retry(thread, None).await.unwrap();
    let turns = world.ended(thread, 2).await;
    assert_eq!(turns[1].status, TurnStatus::Completed);
}

#[tokio::test]
async fn no_more_queued_turns_run_than_there_are_slots_and_all_lanes_get_their_turn() {
    let home = Home::new();
    let options = Options {
        max_running: 2,
        ..Options::default()
    };
    let world = home.start_with(SCRIPT, options).await;
    let mut threads = Vec::new();
    let watcher = Arc::new(Ear::default());
    world.handle.watch(Arc::clone(&watcher) as _);
    for _ in 0..6 {
        let thread = world.thread().await;
        world.add(thread, "slow").await;
        world.add(thread, "quick").await;
        threads.push(thread);
    }
    watcher.hears("status active", 2).await;
    // Direct turns need no slot, and lanes that are loaded are still looked after.
    let direct = world.thread().await;
    world
        .handle
        .start(direct, start("now", StartHow::OrSteer))
        .await
        .unwrap();
    world.ended(direct, 1).await;
    let mut running = 0;
    for thread in &threads {
        running += world.turns(*thread).await.len();
    }
    assert_eq!(running, 2);
    world.gates.open("go");
    for thread in threads {
        world.ended(thread, 2).await;
    }
    let (mut active, mut most) = (0, 0);
    for word in watcher.words() {
        match word.as_str() {
            "status active" => active += 1,
            "status idle" => active -= 1,
            _ => {}
        }
        most = most.max(active);
    }
    assert!(most <= 3, "two queued turns and a direct one, not {most}");
}

#[tokio::test]
async fn a_worker_without_slots_leaves_queued_turns_to_another() {
    let home = Home::new();
    let options = Options {
        max_running: 0,
        ..loaded()
    };
    let desk = home.start_with(SCRIPT, options).await;
    let thread = desk.thread().await;
    let row = desk.add(thread, "hello").await;
    assert_eq!(desk.queue(thread).await.rows[0].id, row.id);
    let worker = home.start_with(SCRIPT, Options::default()).await;
    worker.ended(thread, 1).await;
    assert_eq!(desk.queue(thread).await.rows, []);
}

#[tokio::test]
async fn a_worker_without_slots_gives_up_a_lane_it_listens_to_when_rows_wait() {
    let home = Home::new();
    let options = Options {
        max_running: 0,
        ..loaded()
    };
    let desk = home.start_with(SCRIPT, options).await;
    let thread = desk.thread().await;
    desk.listen(thread).await;
    desk.handle
        .start(thread, start("mine", StartHow::OrSteer))
        .await
        .unwrap();
    desk.ended(thread, 1).await;
    desk.add(thread, "hello").await;
    let worker = home.start_with(SCRIPT, Options::default()).await;
    worker.ended(thread, 2).await;
    // It is taken back for what only this worker is asked for.
    let back = async || {
        let again = start("mine again", StartHow::OrReject);
        desk.handle.start(thread, again).await.is_ok()
    };
    eventually("the lane is free again", DEADLINE, back)
        .await
        .unwrap();
    desk.ended(thread, 3).await;
}

#[tokio::test]
async fn a_row_is_started_first_on_a_lane_that_this_loads() {
    let home = Home::new();
    let before = home.start_with(SCRIPT, loaded()).await;
    let thread = before.thread().await;
    before.handle.pause(thread, None, None).await.unwrap();
    for text in ["a", "b", "c"] {
        before.add(thread, text).await;
    }
    let rows = before.queue(thread).await.rows;
    before.runtime.stop(Duration::ZERO).await.unwrap();
    // Resumed by somebody who runs nothing: every head is due from now on.
    let desk = Options {
        max_running: 0,
        ..loaded()
    };
    let desk = home.start_with(SCRIPT, desk).await;
    desk.handle.resume(thread).await.unwrap();
    desk.runtime.stop(Duration::ZERO).await.unwrap();

    let world = home.start_with(SCRIPT, loaded()).await;
    let ear = Arc::new(Ear::default());
    let last = QueuedTurnId::from_uuid(rows[2].id.as_uuid());
    let (joined, started) = world
        .handle
        .subscribe_and_start_row(thread, Arc::clone(&ear) as _, Some(last))
        .await;
    joined.unwrap();
    let StartAnswer::Begun(turn) = started.unwrap() else {
        panic!("the turn begins");
    };
    assert_eq!(turn.id, rows[2].turn);
    let turns = world.ended(thread, 3).await;
    let ran: Vec<_> = turns.iter().map(|turn| turn.id).collect();
    assert_eq!(ran, [rows[2].turn, rows[0].turn, rows[1].turn]);
    ear.hears("turn Completed", 3).await;
}
