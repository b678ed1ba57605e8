//! Threads in memory: the same lanes, nothing on the disk, gone when they are unloaded.

use std::sync::Arc;
use std::time::Duration;

use turnlane_protocol::ids::ThreadId;
use turnlane_runtime::{
    AddTurn, CreateThread, Error, ForkThread, Life, Options, StartAnswer, StartHow, Subscriber,
};
use turnlane_store::StoreError;
use turnlane_store::thread::ThreadQuery;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{Ear, Home, World, items, params, settings, start, turns};

const SCRIPT: &str = "version: 1
turns:
  - match: slow
    steps: [{say: working}, {await: {gate: go}}, {say: done}]
fallback: {say: \"You said: {input}\"}
";

async fn ephemeral(world: &World) -> ThreadId {
    let create = CreateThread {
        life: Life::Ephemeral,
        ..CreateThread::new("scripted", settings())
    };
    let row = world.handle.create_thread(create).await.unwrap();
    ThreadId::from_uuid(row.id.as_uuid())
}

async fn talk(world: &World, thread: ThreadId, text: &str) {
    let (id, ear) = world.listen(thread).await;
    let answer = world.handle.start(thread, start(text, StartHow::OrSteer));
    let answer = answer.await.unwrap();
    assert!(matches!(answer, StartAnswer::Begun(_)), "{answer:?}");
    ear.hears("turn Completed", 1).await;
    assert_eq!(ear.said(), format!("You said: {text}"));
    world.handle.unsubscribe(thread, id).await;
}

#[tokio::test]
async fn an_ephemeral_thread_works_like_any_other_and_leaves_nothing_on_the_disk() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = ephemeral(&world).await;
    assert!(world.handle.is_ephemeral(thread));
    talk(&world, thread, "one").await;
    talk(&world, thread, "two").await;
    let store = world.handle.store_of(thread);
    assert_eq!(turns(store.as_ref(), thread).await.len(), 2);
    assert_eq!(items(store.as_ref(), thread).await.len(), 4);
    let durable = world.handle.store();
    let listed = durable.threads(ThreadQuery::default()).await.unwrap();
    assert!(listed.rows.is_empty());
    let row = durable.thread(thread.as_uuid().into()).await.unwrap();
    assert_eq!(row, None);
}

#[tokio::test]
async fn an_ephemeral_thread_has_no_queue() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = ephemeral(&world).await;
    let refused = world.handle.add(thread, AddTurn::new(params("x"))).await;
    assert!(matches!(refused, Err(Error::Ephemeral)), "{refused:?}");
    let refused = world.handle.pause(thread, None, None).await;
    assert!(matches!(refused, Err(Error::Ephemeral)), "{refused:?}");
    let refused = world.handle.archive(thread).await;
    assert!(matches!(refused, Err(Error::Ephemeral)), "{refused:?}");
    // A turn that would rather wait starts where nothing waits, and is busy where it would have to.
    let wanted = || world.handle.start(thread, start("slow", StartHow::OrQueue));
    assert!(matches!(wanted().await, Ok(StartAnswer::Begun(_))));
    assert!(matches!(wanted().await, Err(Error::Busy { .. })));
}

#[tokio::test]
async fn an_ephemeral_thread_is_gone_when_nobody_needs_it() {
    let home = Home::new();
    let options = Options {
        unload_after: Duration::ZERO,
        ..Options::default()
    };
    let world = home.start_with(SCRIPT, options).await;
    let watcher = Arc::new(Ear::default());
    world
        .handle
        .watch(Arc::clone(&watcher) as Arc<dyn Subscriber>);
    let thread = ephemeral(&world).await;
    // Nobody ever listened to it, so its lane has gone by itself.
    let gone = async || world.handle.loaded() == 0 && !world.handle.is_ephemeral(thread);
    eventually("nothing is loaded", DEADLINE, gone)
        .await
        .unwrap();
    watcher.hears("thread/closed", 1).await;
    let late = world
        .handle
        .start(thread, start("x", StartHow::OrSteer))
        .await;
    assert!(
        matches!(late, Err(Error::Store(StoreError::ThreadNotFound(_)))),
        "{late:?}"
    );
}

#[tokio::test]
async fn a_deleted_ephemeral_thread_is_gone_at_once() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = ephemeral(&world).await;
    let (_, ear) = world.listen(thread).await;
    talk(&world, thread, "one").await;
    let store = world.handle.store_of(thread);
    world.handle.delete_thread(thread).await.unwrap();
    ear.hears("thread/deleted", 1).await;
    assert_eq!(store.thread(thread.as_uuid().into()).await.unwrap(), None);
}

#[tokio::test]
async fn forks_cross_between_memory_and_disk() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let origin = world.thread().await;
    talk(&world, origin, "one").await;
    let fork = |life| ForkThread {
        life,
        ..ForkThread::new(settings())
    };
    let copy = async |from, life| {
        let row = world.handle.fork(from, fork(life)).await.unwrap();
        ThreadId::from_uuid(row.id.as_uuid())
    };
    let inside = copy(origin, Life::Ephemeral).await;
    talk(&world, inside, "two").await;
    let beside = copy(inside, Life::Ephemeral).await;
    talk(&world, beside, "three").await;
    let outside = copy(beside, Life::Durable).await;
    assert!(!world.handle.is_ephemeral(outside));
    let store = world.handle.store();
    let copied = turns(store.as_ref(), outside).await;
    assert_eq!(copied.len(), 3);
    let history = store.history(outside.as_uuid().into()).await.unwrap();
    assert!(!history.entries.is_empty());
    talk(&world, outside, "four").await;
    assert_eq!(turns(store.as_ref(), origin).await.len(), 1);
}

#[tokio::test]
async fn a_stop_takes_ephemeral_threads_along() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = ephemeral(&world).await;
    let slow = world.handle.start(thread, start("slow", StartHow::OrSteer));
    slow.await.unwrap();
    world.runtime.stop(Duration::ZERO).await.unwrap();
    assert_eq!(world.handle.loaded(), 0);
}
