//! `store.retention`: which threads a daemon deletes by itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::notification::ServerNotification;
use turnlane_runtime::{Answers, Notice, NoticeBody, Options, Subscriber};
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::Home;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
const SAY: &str = "version: 1\nfallback: {say: \"You said: {input}\"}\n";

/// Notes which threads clients are told to forget.
#[derive(Default)]
struct Deleted(Mutex<Vec<ThreadId>>);

impl Subscriber for Deleted {
    fn tell(&self, notice: &Arc<Notice>) {
        if let NoticeBody::Said(said) = &notice.body
            && let ServerNotification::ThreadDeleted(moved) = said.as_ref()
        {
            self.0.lock().unwrap().push(moved.thread_id);
        }
    }

    fn answers(&self) -> Answers {
        Answers::No
    }
}

#[tokio::test]
async fn an_archived_thread_goes_when_it_was_idle_for_the_retention_and_no_other_does() {
    let home = Home::new();
    let options = Options {
        retention: Some(Duration::from_hours(24 * 90)),
        ..Options::default()
    };
    let world = home.start_with(SAY, options).await;
    let watcher = Arc::new(Deleted::default());
    world
        .handle
        .watch(Arc::clone(&watcher) as Arc<dyn Subscriber>);
    let (old, unarchived) = (world.thread().await, world.thread().await);
    let (queued, young) = (world.thread().await, world.thread().await);
    world.handle.pause(queued, None, None).await.unwrap();
    world.add(queued, "later").await;
    for thread in [old, queued] {
        world.handle.archive(thread).await.unwrap();
    }
    home.clock.jump(89 * DAY_MS);
    world.add(young, "still in use").await;
    world.ended(young, 1).await;
    world.handle.archive(young).await.unwrap();

    let store = Arc::clone(world.handle.store());
    let is_there = async |thread: ThreadId| {
        let row = store.thread(thread.as_uuid().into()).await.unwrap();
        row.is_some()
    };
    // The dispatcher prunes every ten minutes of its own time.
    let prunes = async || {
        tokio::time::pause();
        tokio::time::advance(Duration::from_mins(11)).await;
        tokio::time::resume();
    };
    prunes().await;
    home.clock.jump(2 * DAY_MS);
    prunes().await;
    let gone = async || !is_there(old).await;
    eventually("the deletion", DEADLINE, gone).await.unwrap();
    for thread in [unarchived, queued, young] {
        assert!(is_there(thread).await);
    }
    let told = async || *watcher.0.lock().unwrap() == [old];
    eventually("the news", DEADLINE, told).await.unwrap();
    world.runtime.stop(Duration::ZERO).await.unwrap();
}
