//! An orderly stop: turns end or are interrupted, nothing runs afterwards, nothing is lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use turnlane_engine::{
    BoxFuture, CancelReason, Capabilities, Engine, Sink, TurnControl, TurnOutcome, TurnRequest,
    UsageKind,
};
use turnlane_protocol::ids::ThreadId;
use turnlane_runtime::{AddTurn, Error, Options, StartHow};
use turnlane_store::Store as _;
use turnlane_store::queue::{OnCrash, OnStop, RowState};
use turnlane_store::thread::Direction;
use turnlane_store::turn::{ItemQuery, ItemRow, TurnStatus};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use crate::support::{Home, World, params, queue_query, start, turns};

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
    for (policy, state, muted) in [
        (OnStop::Block, RowState::Blocked, false),
        (OnStop::Retry, RowState::Queued, true),
        (OnStop::Continue, RowState::Queued, false),
    ] {
        let home = Home::new();
        let world = home.start(SCRIPT).await;
        let thread = world.thread().await;
        let (_, ear) = world.listen(thread).await;
        let mut add = AddTurn::new(params("slow"));
        add.policies.on_stop = policy;
        world.add_with(thread, add).await;
        ear.hears("completed agentMessage", 1).await;
        let stop = world.runtime.stop(Duration::ZERO);
        within("the stop", DEADLINE, stop).await.unwrap().unwrap();

        let store = home.store();
        let ended = turns(store.as_ref(), thread).await;
        assert_eq!(ended[0].status, TurnStatus::Interrupted);
        assert_eq!(ended[0].muted, muted);
        let error = ended[0].error.as_ref().unwrap().as_str().to_owned();
        assert!(error.contains("server stopped"), "{error}");
        assert!(error.contains(r#""kind":"stopped""#), "{error}");
        let page = store.queue(queue_query(thread)).await.unwrap();
        let row = page.rows.first().unwrap();
        assert_eq!((row.state, row.not_before_ms), (state, 0));
        assert_eq!(row.continues, policy == OnStop::Continue);
        assert_eq!(page.lane.owner, None);
    }
}

#[tokio::test]
async fn a_turn_that_a_stop_cut_is_continued_once_by_the_next_worker() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    let row = world.add(thread, "slow").await;
    ear.hears("completed agentMessage", 1).await;
    world.add(thread, "next").await;
    // Stopped twice: the second time while the turn is being continued.
    world.runtime.stop(Duration::ZERO).await.unwrap();
    let world = home.start(SCRIPT).await;
    let started = async || {
        let turns = world.turns(thread).await;
        turns.len() == 2 && turns[1].status == TurnStatus::InProgress
    };
    eventually("the second turn", DEADLINE, started)
        .await
        .unwrap();
    world.runtime.stop_now().await.unwrap();

    let world = home.start(SCRIPT).await;
    world.gates.open("go");
    world.ended(thread, 4).await;
    let turns = world.turns(thread).await;
    let statuses: Vec<_> = turns.iter().map(|turn| turn.status).collect();
    let (cut, done) = (TurnStatus::Interrupted, TurnStatus::Completed);
    assert_eq!(statuses, [cut, cut, done, done]);
    assert_eq!(turns[2].row, Some(row.id));
    let said = said(&world, thread).await;
    assert_eq!(
        said,
        [
            "user slow",
            "agent working",
            "agent done",
            "user next",
            "agent You said: next"
        ],
        "the message is there once, and what had been done is not done again"
    );
    assert_eq!(world.queue(thread).await.lane.depth, 0);
}

/// What was said on a thread, in order.
async fn said(world: &World, thread: ThreadId) -> Vec<String> {
    let items = world.handle.store().items(ItemQuery {
        thread: thread.as_uuid().into(),
        turn_ord: None,
        after_ord: None,
        direction: Direction::Ascending,
        limit: 100,
    });
    let items = items.await.unwrap().rows;
    let text = |item: &ItemRow| {
        let body: Value = serde_json::from_str(item.body.as_str()).unwrap();
        match item.kind.as_str() {
            "userMessage" => format!("user {}", body["content"][0]["text"].as_str().unwrap()),
            "agentMessage" => format!("agent {}", body["text"].as_str().unwrap()),
            other => other.to_owned(),
        }
    };
    items.iter().map(text).collect()
}

#[tokio::test]
async fn a_second_signal_leaves_the_row_to_the_rules_of_a_crash() {
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
        let handle = world.handle.clone();
        let stop = tokio::spawn(world.runtime.stop(Duration::from_mins(10)));
        let stopping = async || {
            let other = handle.start(thread, start("y", StartHow::OrReject)).await;
            matches!(other, Err(Error::Stopping))
        };
        eventually("the stop", DEADLINE, stopping).await.unwrap();
        handle.hurry();
        let stopped = within("the stop", DEADLINE, stop).await;
        stopped.unwrap().unwrap().unwrap();
        let store = home.store();
        let page = store.queue(queue_query(thread)).await.unwrap();
        let row = page.rows.first();
        assert_eq!(row.map(|row| row.state), state);
        assert!(row.is_none_or(|row| !row.continues));
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
                Err(Error::Busy { .. }) => tokio::task::yield_now().await,
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

/// Takes no notice of being told to stop, and takes its time to close.
struct Deaf(Arc<Mutex<Vec<CancelReason>>>);

impl Engine for Deaf {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            approvals: false,
            steer: false,
            deltas: false,
            resume: true,
            fork: true,
            compact: true,
            revert: true,
            foreign: false,
            usage: UsageKind::None,
        }
    }

    fn run_turn(
        &self,
        _: TurnRequest,
        events: Sink,
        control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        let told = Arc::clone(&self.0);
        Box::pin(async move {
            let _events = events;
            let cancelled = control.cancel.cancelled().await;
            told.lock().unwrap().push(cancelled.reason);
            std::future::pending().await
        })
    }

    fn close(&self, _: ThreadId) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_stop_in_haste_waits_for_no_engine() {
    let home = Home::new();
    let reasons = Arc::default();
    let engine = Arc::new(Deaf(Arc::clone(&reasons)));
    let world = home.start_engine(engine, Options::default()).await;
    let mut threads = Vec::new();
    for _ in 0..8 {
        let thread = world.thread().await;
        let begun = world.handle.start(thread, start("x", StartHow::OrReject));
        begun.await.unwrap();
        threads.push(thread);
    }
    let began = tokio::time::Instant::now();
    world.runtime.stop_now().await.unwrap();
    let took = began.elapsed();
    assert!(
        took < Duration::from_millis(1_500),
        "{took:?}, on a busy machine too"
    );
    assert_eq!(*reasons.lock().unwrap(), [CancelReason::Shutdown; 8]);
    let store = home.store();
    for thread in threads {
        let ended = turns(store.as_ref(), thread).await;
        assert_eq!(ended[0].status, TurnStatus::Interrupted);
        let error = ended[0].error.as_ref().unwrap().as_str().to_owned();
        assert!(error.contains("server stopped"), "{error}");
    }
}

#[tokio::test]
async fn a_stop_with_grace_can_be_hurried() {
    let home = Home::new();
    let engine = Arc::new(Deaf(Arc::default()));
    let world = home.start_engine(engine, Options::default()).await;
    let thread = world.thread().await;
    let begun = world.handle.start(thread, start("x", StartHow::OrReject));
    begun.await.unwrap();
    let handle = world.handle.clone();
    let stop = tokio::spawn(world.runtime.stop(Duration::from_mins(10)));
    let stopping = async || {
        let other = handle.start(thread, start("y", StartHow::OrSteer)).await;
        matches!(other, Err(Error::Stopping))
    };
    eventually("the stop", DEADLINE, stopping).await.unwrap();
    handle.hurry();
    within("the hurried stop", DEADLINE, stop)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let store = home.store();
    let ended = turns(store.as_ref(), thread).await;
    assert_eq!(ended[0].status, TurnStatus::Interrupted);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_queued_while_a_worker_stops_is_stored_and_never_called_lost() {
    let home = Home::new();
    for _ in 0..20 {
        let world = home.start(SCRIPT).await;
        let thread = world.thread().await;
        world.listen(thread).await;
        let mut adding = tokio::task::JoinSet::new();
        for n in 0..64 {
            let handle = world.handle.clone();
            let text = format!("row {n}");
            let add = AddTurn::new(params(&text));
            adding.spawn(async move { handle.add(thread, add).await.map(|_| ()) });
        }
        world.runtime.end_turns(Duration::from_mins(1)).await;
        let added = adding.join_all().await;
        assert!(added.iter().all(Result::is_ok), "{added:?}");
        // The store still answers whoever is connected.
        let waiting = world.queue(thread).await.lane.depth;
        let ended = world.turns(thread).await.len();
        assert_eq!(waiting as usize + ended, 64);
        world.runtime.stop(Duration::ZERO).await.unwrap();
    }
}
