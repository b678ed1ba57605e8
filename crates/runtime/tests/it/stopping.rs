//! An orderly stop: turns end or are interrupted, nothing runs afterwards, nothing is lost.

use std::time::Duration;

use turnlane_runtime::{AddTurn, Error, StartHow};
use turnlane_store::Store as _;
use turnlane_store::queue::{OnCrash, RowState};
use turnlane_store::turn::TurnStatus;
use turnlane_testkit::wait::{DEADLINE, within};

use crate::support::{Home, params, queue_query, start, turns};

const SCRIPT: &str = "version: 1
turns:
  - match: slow
    steps:
      - say: working
      - await: {gate: go}
      - say: done
fallback: {say: \"You said: {input}\"}
";

#[tokio::test]
async fn a_stop_at_once_interrupts_what_runs_and_its_row_comes_back_by_its_policy() {
    for (policy, state) in [
        (OnCrash::Block, Some(RowState::Blocked)),
        (OnCrash::Retry, Some(RowState::Queued)),
        (OnCrash::Continue, None),
    ] {
        let home = Home::new();
        let world = home.start(SCRIPT).await;
        let thread = world.thread().await;
        let (_, ear) = world.listen(thread).await;
        let mut add = AddTurn::new(params("slow"));
        add.policies.on_crash = policy;
        world.add_with(thread, add).await;
        ear.hears("completed agentMessage", 1).await;
        let stop = world.runtime.stop(Duration::ZERO);
        within("the stop", DEADLINE, stop).await.unwrap().unwrap();

        let store = home.store();
        let ended = turns(store.as_ref(), thread).await;
        assert_eq!(ended[0].status, TurnStatus::Interrupted);
        assert!(
            ended[0]
                .error
                .as_ref()
                .unwrap()
                .as_str()
                .contains("server stopped")
        );
        let page = store.queue(queue_query(thread)).await.unwrap();
        assert_eq!(page.rows.first().map(|row| row.state), state);
        assert_eq!(page.lane.owner, None);
    }
}

#[tokio::test]
async fn a_stop_with_grace_lets_the_turn_end_and_takes_nothing_new() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    world.add(thread, "slow").await;
    ear.hears("completed agentMessage", 1).await;
    world.add(thread, "next").await;
    let (handle, gates) = (world.handle.clone(), world.gates.clone());
    let stop = tokio::spawn(world.runtime.stop(Duration::from_mins(10)));
    let refused = async {
        loop {
            match handle.start(thread, start("new", StartHow::OrReject)).await {
                Err(Error::Busy) => tokio::task::yield_now().await,
                other => return other,
            }
        }
    };
    let refused = within("the refusal", DEADLINE, refused).await.unwrap();
    assert!(matches!(refused, Err(Error::Stopping)), "{refused:?}");
    gates.open("go");
    within("the stop", DEADLINE, stop)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let store = home.store();
    let ended = turns(store.as_ref(), thread).await;
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].status, TurnStatus::Completed);
    let page = store.queue(queue_query(thread)).await.unwrap();
    assert_eq!(page.rows.len(), 1, "the next row waits for the next start");
}

#[tokio::test]
async fn a_new_start_drains_what_waits_without_anybody_asking() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    world.handle.pause(thread, None, None).await.unwrap();
    for text in ["a", "b", "c"] {
        world.add(thread, text).await;
    }
    world.runtime.stop(Duration::ZERO).await.unwrap();
    let world = home.start(SCRIPT).await;
    assert_eq!(world.queue(thread).await.rows.len(), 3, "a pause survives");
    world.handle.resume(thread).await.unwrap();
    world.ended(thread, 3).await;
}
