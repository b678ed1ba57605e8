//! A command for a lane whose task is gone waits without burning the processor.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;
use turnlane_store::sqlite::{Options as StoreOptions, SqliteStore};

use super::*;
use crate::clock::ManualClock;
use crate::options::Options;
use crate::worker::this_worker;

fn lanes(home: &tempfile::TempDir) -> Arc<Lanes> {
    let clock = ManualClock::at(1_800_000_000_000);
    let path = home.path().join("turnlane.db");
    let options = StoreOptions::new(&path, this_worker("test", &clock));
    let store = Arc::new(SqliteStore::open(options).unwrap());
    let shared = Shared::new(store, Vec::new(), Arc::new(clock), Options::default());
    Lanes::new(Arc::new(shared))
}

/// Runs other tasks for a while and counts how often the future wants to be polled meanwhile.
async fn polls_while_waiting(waiting: impl Future, release: impl FnOnce()) -> usize {
    let mut waiting = pin!(waiting);
    let mut polls = 0;
    let mut release = Some(release);
    let done = poll_fn(|cx| {
        polls += 1;
        match waiting.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(()),
            // A busy loop comes back here at once and at every turn of the scheduler.
            Poll::Pending if polls > 100 => Poll::Ready(()),
            Poll::Pending => {
                if polls == 1
                    && let Some(release) = release.take()
                {
                    release();
                }
                Poll::Pending
            }
        }
    });
    let done = timeout(Duration::from_mins(1), done);
    done.await.expect("the lane's replacement wakes the sender");
    polls
}

#[tokio::test]
async fn a_command_for_a_lane_under_recovery_waits_for_the_recovery() {
    let home = tempfile::tempdir().unwrap();
    let lanes = lanes(&home);
    let thread = ThreadId::from(uuid::Uuid::now_v7());
    // A lane whose task has panicked: it is in the map until its turn is decided.
    let (dead, commands) = new_lane();
    drop(commands);
    lanes.map().lanes.insert(thread, dead);

    let recovery = Arc::clone(&lanes);
    let (wake, woken) = tokio::sync::oneshot::channel::<()>();
    let recovered = tokio::spawn(async move {
        let _ = woken.await;
        // Other lanes come and go meanwhile; that alone is no reason to try forever.
        recovery.replaced.notify_waiters();
        tokio::task::yield_now().await;
        recovery.map().lanes.remove(&thread);
        recovery.replaced.notify_waiters();
    });
    let sent = lanes.send_if_loaded(thread, Command::Stop(StopHow::InHaste));
    let polls = polls_while_waiting(sent, move || _ = wake.send(())).await;
    recovered.await.unwrap();
    assert!(polls <= 4, "the sender was polled {polls} times");
}
