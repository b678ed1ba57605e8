//! Threads that are found by a name, and threads that take over from others.

use turnlane_protocol::ids::ThreadId;
use turnlane_runtime::{AddTurn, CreateThread, Error, Life};
use turnlane_store::StoreError;
use turnlane_store::queue::Appended;
use turnlane_store::thread::BoundThread;

use crate::support::{Home, World, params, settings};

const GATED: &str = "version: 1\nturns:\n  - match: slow\n    steps:\n      - await: {gate: go}\n      \
    - say: done\nfallback: {say: \"You said: {input}\"}\n";

fn bound() -> CreateThread {
    CreateThread {
        binding: Some("key".to_owned()),
        ..CreateThread::new("scripted", settings())
    }
}

async fn bind(world: &World) -> ThreadId {
    let row = match world.handle.bind(bound()).await.unwrap() {
        BoundThread::Made(row) | BoundThread::Existing(row) => row,
    };
    ThreadId::from_uuid(row.id.as_uuid())
}

async fn supersede(world: &World, old: ThreadId) -> ThreadId {
    let successor = world.handle.supersede(old, bound()).await.unwrap();
    ThreadId::from_uuid(successor.thread.id.as_uuid())
}

#[tokio::test]
async fn a_binding_is_found_again_by_the_next_worker() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let thread = bind(&world).await;
    assert_eq!(bind(&world).await, thread);
    world.runtime.stop(std::time::Duration::ZERO).await.unwrap();
    let world = home.start(GATED).await;
    assert_eq!(bind(&world).await, thread);
}

#[tokio::test]
async fn an_ephemeral_thread_has_no_binding() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let thread = bind(&world).await;
    let ephemeral = CreateThread {
        life: Life::Ephemeral,
        ..bound()
    };
    let refused = world.handle.bind(ephemeral.clone()).await.unwrap_err();
    assert!(matches!(refused, Error::Ephemeral), "{refused:?}");
    let refused = world.handle.supersede(thread, ephemeral).await.unwrap_err();
    assert!(matches!(refused, Error::Ephemeral), "{refused:?}");
}

#[tokio::test]
async fn a_busy_lane_keeps_its_turn_and_the_successor_runs_the_rest() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let old = bind(&world).await;
    let (_, ear) = world.listen(old).await;
    world.add(old, "slow").await;
    ear.hears("turn/started", 1).await;
    let mut rows = Vec::new();
    for text in ["one", "two", "three"] {
        rows.push(world.add(old, text).await);
    }
    ear.hears("queue 3", 1).await;
    let told = ear.words().len();

    let new = supersede(&world, old).await;
    // Nothing but the successor's own lane is needed to run what has moved.
    let turns = world.ended(new, 3).await;
    let ran: Vec<_> = turns.iter().map(|turn| turn.row.unwrap()).collect();
    let added: Vec<_> = rows.iter().map(|row| row.id).collect();
    assert_eq!(ran, added);
    for (turn, row) in turns.iter().zip(&rows) {
        assert_eq!(turn.id, row.turn, "the reserved turn id is used");
    }
    ear.hears("queue 0", 2).await;
    assert!(ear.words()[told..].contains(&"queue 0".to_owned()));

    world.gates.open("go");
    assert_eq!(world.ended(old, 1).await.len(), 1);
    assert!(world.queue(old).await.rows.is_empty());
}

#[tokio::test]
async fn a_lane_that_is_not_loaded_is_superseded_too() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let old = bind(&world).await;
    world
        .handle
        .pause(old, Some("shim".to_owned()), None)
        .await
        .unwrap();
    world.add(old, "one").await;
    world.handle.unload(old).await.unwrap();
    let new = supersede(&world, old).await;
    let queue = world.queue(new).await;
    assert_eq!(queue.rows.len(), 1);
    assert_eq!(queue.lane.paused.unwrap().reason, "shim");
    let lane = world
        .handle
        .end_pause(new, "other".to_owned())
        .await
        .unwrap();
    assert!(lane.paused.is_some());
    world
        .handle
        .end_pause(new, "shim".to_owned())
        .await
        .unwrap();
    world.ended(new, 1).await;
}

#[tokio::test]
async fn a_thread_that_was_superseded_is_not_superseded_again() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let old = bind(&world).await;
    supersede(&world, old).await;
    let refused = world.handle.supersede(old, bound()).await.unwrap_err();
    let Error::Store(StoreError::BindingNotHeld { key, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(key, "key");
}

#[tokio::test]
async fn a_message_repeated_with_another_time_limit_is_the_same_message() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let thread = world.thread().await;
    let add = |text: &str, timeout_ms| {
        let mut params = params(text);
        params.timeout_ms = timeout_ms;
        AddTurn {
            key: Some("m1".to_owned()),
            ..AddTurn::new(params)
        }
    };
    let row = world.add_with(thread, add("hello", Some(1_000))).await;
    for timeout_ms in [None, Some(9_000)] {
        let again = world.handle.add(thread, add("hello", timeout_ms)).await;
        let Appended::Repeated(repeated) = again.unwrap() else {
            panic!("a second row");
        };
        assert_eq!(repeated.row.id, row.id);
    }
    let other = world.handle.add(thread, add("other", Some(1_000))).await;
    let refused = other.unwrap_err();
    assert!(matches!(refused, Error::Store(StoreError::KeyTaken { .. })));
}
