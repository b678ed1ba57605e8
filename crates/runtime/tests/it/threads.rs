//! Threads as a whole: copied, named, put away, shortened, deleted, unloaded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_protocol::thread::ThreadStatus;
use turnlane_runtime::{
    AfterInterrupt, Error, ForkThread, Notice, Options, Reply, RevertTo, StartAnswer, StartHow,
    Subscriber,
};
use turnlane_store::StoreError;
use turnlane_store::thread::UpTo;
use turnlane_store::turn::TurnStatus;
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use crate::support::{Ear, Home, World, params, settings, start};

const SCRIPT: &str = "version: 1
turns:
  - match: slow
    steps:
      - say: working
      - await: {gate: go}
      - say: done
  - match: fails
    steps: [{end: failed}]
fallback: {say: \"You said: {input}\"}
";

/// Runs a direct turn to its end; its id.
async fn talk(world: &World, thread: ThreadId, text: &str) -> TurnId {
    let before = world.turns(thread).await.len();
    let answer = world.handle.start(thread, start(text, StartHow::OrReject));
    let StartAnswer::Begun(turn) = answer.await.unwrap() else {
        panic!("nothing stands in its way");
    };
    world.ended(thread, before + 1).await;
    // The store knows it first; the lane goes on when it does.
    let rests = async || !matches!(world.handle.status(thread), ThreadStatus::Active { .. });
    eventually("a lane at rest", DEADLINE, rests).await.unwrap();
    TurnId::from_uuid(turn.id.as_uuid())
}

/// Begins a turn that waits for its gate.
async fn begin(world: &World, thread: ThreadId) -> TurnId {
    let answer = world
        .handle
        .start(thread, start("slow", StartHow::OrReject));
    let StartAnswer::Begun(turn) = answer.await.unwrap() else {
        panic!("nothing stands in its way");
    };
    world.gates.reached_by("go", 1).await;
    TurnId::from_uuid(turn.id.as_uuid())
}

fn wire(row: &turnlane_store::thread::ThreadRow) -> ThreadId {
    ThreadId::from_uuid(row.id.as_uuid())
}

#[tokio::test]
async fn a_fork_goes_on_from_what_its_origin_said() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    talk(&world, thread, "one").await;
    let two = talk(&world, thread, "two").await;
    world.handle.pause(thread, None, None).await.unwrap();
    world.add(thread, "waits").await;
    let mut fork = ForkThread::new(settings());
    fork.upto = UpTo::Before(two.as_uuid().into());
    let row = world.handle.fork(thread, fork).await.unwrap();
    assert_eq!(row.parent, Some(thread.as_uuid().into()));
    assert_eq!(row.engine, "scripted");
    let copy = wire(&row);
    assert_eq!(world.turns(copy).await.len(), 1);
    assert!(
        world.queue(copy).await.rows.is_empty(),
        "rows are not copied"
    );
    talk(&world, copy, "three").await;
    assert_eq!(world.turns(copy).await.len(), 2);
    assert_eq!(world.turns(thread).await.len(), 2);
}

#[tokio::test]
async fn a_fork_does_not_end_in_a_turn_that_runs_and_leaves_it_out() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    talk(&world, thread, "one").await;
    let running = begin(&world, thread).await;
    let mut fork = ForkThread::new(settings());
    fork.upto = UpTo::Turn(running.as_uuid().into());
    let refused = world.handle.fork(thread, fork.clone()).await;
    assert!(
        matches!(refused, Err(Error::Store(StoreError::TurnInProgress(_)))),
        "{refused:?}"
    );
    fork.upto = UpTo::LastEnded;
    let row = world.handle.fork(thread, fork).await.unwrap();
    assert_eq!(world.turns(wire(&row)).await.len(), 1);
}

#[tokio::test]
async fn archiving_stops_the_turn_and_keeps_the_rows() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    begin(&world, thread).await;
    world.add(thread, "waits").await;
    let heard = Arc::clone(&ear);
    let (sender, answered) = tokio::sync::oneshot::channel();
    let told = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&told);
    let reply = Reply::new(move |answer| {
        counting.store(heard.words().len(), Ordering::SeqCst);
        drop(sender.send(answer));
    });
    world.handle.archive_with(thread, reply).await;
    within("the answer", DEADLINE, answered)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    ear.hears("thread/archived", 1).await;
    let words = ear.words();
    let at = |word: &str| words.iter().position(|told| told == word).unwrap();
    assert!(at("turn Interrupted") < at("status notLoaded"));
    assert_eq!(
        at("thread/archived"),
        told.load(Ordering::SeqCst),
        "told after the answer"
    );
    assert_eq!(world.turns(thread).await.len(), 1);
    assert_eq!(world.handle.status(thread), ThreadStatus::NotLoaded);

    let twice = world.handle.archive(thread).await;
    assert!(
        matches!(twice, Err(Error::Store(StoreError::Archived(_)))),
        "{twice:?}"
    );
    let refused = world.handle.start(thread, start("x", StartHow::OrReject));
    let refused = refused.await;
    assert!(
        matches!(refused, Err(Error::Store(StoreError::Archived(_)))),
        "{refused:?}"
    );
    world.handle.unarchive(thread).await.unwrap();
    let twice = world.handle.unarchive(thread).await;
    assert!(
        matches!(twice, Err(Error::Store(StoreError::NotArchived(_)))),
        "{twice:?}"
    );
    let turns = world.ended(thread, 2).await;
    assert_eq!(turns[1].status, TurnStatus::Completed, "the row was kept");
}

#[tokio::test]
async fn a_start_that_comes_while_a_thread_is_being_archived_never_runs() {
    for _ in 0..20 {
        let home = Home::new();
        let world = home.start(SCRIPT).await;
        let thread = world.thread().await;
        begin(&world, thread).await;
        let handle = world.handle.clone();
        let archive = tokio::spawn(async move { handle.archive(thread).await });
        let started = world
            .handle
            .start(thread, start("late", StartHow::OrSteer))
            .await;
        archive.await.unwrap().unwrap();
        match started {
            // It was faster, and part of the turn that was stopped; or it came too late.
            Ok(StartAnswer::Steered(_))
            | Err(Error::Closing | Error::Store(StoreError::Archived(_))) => {}
            other => panic!("{other:?}"),
        }
        let turns = world.ended(thread, 1).await;
        assert_eq!(turns.len(), 1, "{turns:?}");
    }
}

#[tokio::test]
async fn deleting_stops_the_turn_and_leaves_nothing() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let watcher = Arc::new(Ear::default());
    world
        .handle
        .watch(Arc::clone(&watcher) as Arc<dyn Subscriber>);
    begin(&world, thread).await;
    world.add(thread, "waits").await;
    world.handle.delete_thread(thread).await.unwrap();
    watcher.hears("thread/deleted", 1).await;
    let store = world.handle.store();
    assert_eq!(store.thread(thread.as_uuid().into()).await.unwrap(), None);
    let again = world.handle.delete_thread(thread).await;
    assert!(
        matches!(again, Err(Error::Store(StoreError::ThreadNotFound(_)))),
        "{again:?}"
    );
    let words = watcher.words();
    assert_eq!(
        words
            .iter()
            .filter(|word| *word == "thread/deleted")
            .count(),
        1
    );
    eventually("no lane", DEADLINE, async || world.handle.loaded() == 0)
        .await
        .unwrap();
}

#[tokio::test]
async fn reverting_takes_turns_back_and_numbers_anew() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    talk(&world, thread, "one").await;
    let two = talk(&world, thread, "two").await;
    talk(&world, thread, "three").await;
    let (_, ear) = world.listen(thread).await;
    let snapshot = |ear: Arc<Ear>| async {
        let subscriber: Arc<dyn Subscriber> = ear;
        let joined = world.handle.subscribe(thread, subscriber, None).await;
        joined.unwrap().1
    };
    let before = snapshot(Arc::new(Ear::default())).await;
    world
        .handle
        .revert(thread, RevertTo::Before(two))
        .await
        .unwrap();
    assert_eq!(world.turns(thread).await.len(), 1);
    ear.hears("thread/reverted", 1).await;
    let last: Vec<_> = ear.words().into_iter().rev().take(3).collect();
    assert_eq!(last, ["thread/reverted", "status idle", "status notLoaded"]);
    let after = snapshot(Arc::new(Ear::default())).await;
    assert_ne!(before.epoch, after.epoch);
    assert_eq!(after.seq, 3, "numbers begin again");
    // Those who listened still do.
    talk(&world, thread, "four").await;
    ear.hears("turn Completed", 1).await;
    assert_eq!(ear.said(), "You said: four");

    world
        .handle
        .revert(thread, RevertTo::Last(9))
        .await
        .unwrap();
    assert!(world.turns(thread).await.is_empty());
    world
        .handle
        .revert(thread, RevertTo::Last(1))
        .await
        .unwrap();
    let unknown = world.handle.revert(thread, RevertTo::Before(two)).await;
    assert!(
        matches!(unknown, Err(Error::Store(StoreError::TurnNotFound))),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn a_busy_thread_is_not_reverted_and_not_compacted() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let running = begin(&world, thread).await;
    let refused = world.handle.revert(thread, RevertTo::Last(1)).await;
    assert!(
        matches!(refused, Err(Error::Busy { turn: Some(turn) }) if turn == running),
        "{refused:?}"
    );
    let refused = world.handle.compact(thread).await;
    assert!(
        matches!(refused, Err(Error::Busy { turn: Some(turn) }) if turn == running),
        "{refused:?}"
    );
    world.gates.open("go");
    world.ended(thread, 1).await;
}

#[tokio::test]
async fn unloading_on_request_tells_so_and_is_no_error_twice() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    assert_eq!(world.handle.status(thread), ThreadStatus::Idle);
    assert_eq!(world.handle.loaded_threads(None, 10), [thread]);
    world.handle.unload(thread).await.unwrap();
    ear.hears("thread/closed", 1).await;
    assert_eq!(ear.words(), ["status notLoaded", "thread/closed"]);
    assert!(world.handle.loaded_threads(None, 10).is_empty());
    world.handle.unload(thread).await.unwrap();
    talk(&world, thread, "again").await;
}

#[tokio::test]
async fn loaded_threads_are_listed_by_id_in_parts() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let mut threads = Vec::new();
    for _ in 0..7 {
        let thread = world.thread().await;
        world.listen(thread).await;
        threads.push(thread);
    }
    threads.sort_by_key(ThreadId::as_uuid);
    let mut found = Vec::new();
    loop {
        let part = world.handle.loaded_threads(found.last().copied(), 3);
        if part.is_empty() {
            break;
        }
        found.extend(part);
    }
    assert_eq!(found, threads);
}

#[tokio::test]
async fn the_status_of_a_thread_follows_its_turns() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    assert_eq!(world.handle.status(thread), ThreadStatus::NotLoaded);
    let (_, ear) = world.listen(thread).await;
    begin(&world, thread).await;
    let active_flags = Vec::new();
    assert_eq!(
        world.handle.status(thread),
        ThreadStatus::Active { active_flags }
    );
    world.gates.open("go");
    ear.hears("turn Completed", 1).await;
    assert_eq!(world.handle.status(thread), ThreadStatus::Idle);
    talk(&world, thread, "fails").await;
    ear.hears("turn Failed", 1).await;
    assert_eq!(world.handle.status(thread), ThreadStatus::SystemError);
}

#[tokio::test]
async fn a_name_is_told_to_everybody_with_a_number_only_while_loaded() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let watcher = Arc::new(Ear::default());
    world
        .handle
        .watch(Arc::clone(&watcher) as Arc<dyn Subscriber>);
    world
        .handle
        .rename(thread, Some("first".into()))
        .await
        .unwrap();
    let (_, ear) = world.listen(thread).await;
    world
        .handle
        .rename(thread, Some("second".into()))
        .await
        .unwrap();
    ear.hears("thread/name/updated", 1).await;
    watcher.hears("thread/name/updated", 2).await;
    let numbers =
        |notices: Vec<Arc<Notice>>| -> Vec<_> { notices.iter().map(|notice| notice.seq).collect() };
    assert_eq!(numbers(watcher.notices()), [0, 1]);
    assert_eq!(numbers(ear.notices()), [1]);
    let row = world.handle.store().thread(thread.as_uuid().into()).await;
    assert_eq!(row.unwrap().unwrap().name.as_deref(), Some("second"));
}

#[tokio::test]
async fn settings_are_told_when_they_really_change() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    let to = |model: &str| {
        let model = model.to_owned();
        move |old: &turnlane_runtime::Settings| turnlane_runtime::Settings {
            model: model.clone(),
            ..old.clone()
        }
    };
    world
        .handle
        .update_settings(thread, to("none"))
        .await
        .unwrap();
    let after = world
        .handle
        .update_settings(thread, to("big"))
        .await
        .unwrap();
    assert_eq!(after.model, "big");
    ear.hears("settings big", 1).await;
    let mut request = start("hello", StartHow::OrReject);
    request.params = turnlane_protocol::method::TurnStartParams {
        model: Some("bigger".to_owned()),
        ..params("hello")
    };
    world.handle.start(thread, request).await.unwrap();
    ear.hears("turn Completed", 1).await;
    talk(&world, thread, "same").await;
    ear.hears("turn Completed", 2).await;
    let words = ear.words();
    let told: Vec<_> = words
        .iter()
        .filter(|word| word.starts_with("settings"))
        .collect();
    assert_eq!(told, ["settings big", "settings bigger"]);
    let at = |word: &str| words.iter().position(|told| told == word).unwrap();
    assert!(at("settings bigger") < at("status active"));
}

#[tokio::test]
async fn changes_of_settings_at_the_same_time_lose_nothing() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let mut changes = tokio::task::JoinSet::new();
    for number in 0..16 {
        let handle = world.handle.clone();
        changes.spawn(async move {
            let add = |old: &turnlane_runtime::Settings| {
                let mut new = old.clone();
                new.config.insert(number.to_string(), true.into());
                new
            };
            handle.update_settings(thread, add).await.unwrap();
        });
    }
    changes.join_all().await;
    let settings = world.handle.update_settings(thread, Clone::clone).await;
    assert_eq!(settings.unwrap().config.len(), 16);
}

#[tokio::test]
async fn compacting_is_a_turn_that_takes_no_input() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    talk(&world, thread, "one").await;
    let (_, ear) = world.listen(thread).await;
    world.handle.compact(thread).await.unwrap();
    ear.hears("turn Completed", 1).await;
    let words = ear.words();
    let items: Vec<_> = words
        .iter()
        .filter(|word| word.starts_with("completed"))
        .collect();
    assert_eq!(items, ["completed contextCompaction"]);
    let store = world.handle.store();
    let history = store.history(thread.as_uuid().into()).await.unwrap();
    assert_eq!(history.entries[0].kind, "compaction");
}

#[tokio::test]
async fn a_turn_without_a_limit_of_its_own_has_the_workers() {
    let home = Home::new();
    let options = Options {
        turn_timeout: Some(std::time::Duration::from_millis(20)),
        ..Options::default()
    };
    let world = home.start_with(SCRIPT, options).await;
    let thread = world.thread().await;
    begin(&world, thread).await;
    let turns = world.ended(thread, 1).await;
    assert_eq!(turns[0].status, TurnStatus::Interrupted);
    let error = turns[0].error.as_ref().unwrap().as_str().to_owned();
    assert!(error.contains("\"timeout\""), "{error}");
    // Whoever asks to stop it later finds it stopped.
    let turn = TurnId::from_uuid(turns[0].id.as_uuid());
    let interrupt = world
        .handle
        .interrupt(thread, Some(turn), AfterInterrupt::Continue, None);
    interrupt.await.unwrap();
}
