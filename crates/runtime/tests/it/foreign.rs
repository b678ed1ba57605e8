//! Turns of foreign engines that a killed worker left, and the workers that find them.
//!
//! The invariant here: only a worker that has the engine and runs turns decides; while it asks, its other
//! lanes go on, its start does not wait, and requests for the lane are answered when the turn is decided.
//!
//! What each crash leaves, point by point, is in `crash::points`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use turnlane_engine::Engine;
use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_runtime::{
    AfterInterrupt, CreateThread, Drain, Error, Handle, Options, Runtime, StartAnswer, StartHow,
    Subscriber, SystemClock, release_lane, this_worker,
};
use turnlane_store::lane::Head;
use turnlane_store::queue::RowState;
use turnlane_store::sqlite::SqliteStore;
use turnlane_store::turn::TurnStatus;
use turnlane_store::{Store, WorkerId};
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::crash::child;
use crate::crash::foreign::{Answers, Foreign, NAME, Obeys};
use crate::crash::log::Line;
use crate::crash::serving::Place;
use crate::support::{self, Ear, start};

/// A lane whose worker was killed with a turn under way.
struct Left {
    place: Place,
    thread: ThreadId,
    dead: WorkerId,
}

impl Left {
    /// A lane whose queued turn `a` of this text, with this policy, was handed over when its worker was
    /// killed.
    async fn of(text: &str, policy: &str) -> Self {
        let place = Place::new();
        let mut child = place.start(place.child(child::FOREIGN));
        assert!(child.ready().await);
        let thread: ThreadId = child.done("thread").await.parse().unwrap();
        child.done(&format!("add {thread} a {policy} {text}")).await;
        let left = Self {
            dead: child
                .done("worker")
                .await
                .parse::<uuid::Uuid>()
                .unwrap()
                .into(),
            place,
            thread,
        };
        eventually("the turn is handed over", DEADLINE, async || {
            let begun = |line: &Line| matches!(line, Line::Begin { .. });
            left.place.log().iter().any(begun)
        })
        .await
        .unwrap();
        child.kill().await;
        left
    }

    async fn turn(&self) -> TurnStatus {
        let turns = support::turns(self.place.store.as_ref(), self.thread).await;
        turns[0].status
    }

    async fn owner(&self) -> Option<WorkerId> {
        let lane = self.place.store.look(self.thread.as_uuid().into()).await;
        lane.unwrap().owner
    }

    async fn is_undecided(&self) -> bool {
        self.turn().await == TurnStatus::InProgress && self.owner().await == Some(self.dead)
    }

    /// A worker in this process.
    async fn serve(&self, answers: Answers, options: Options) -> Runtime {
        let worker = this_worker("test", &SystemClock);
        self.serve_as(worker, answers, options).await
    }

    async fn serve_as(
        &self,
        worker: turnlane_store::Worker,
        answers: Answers,
        options: Options,
    ) -> Runtime {
        let database = self.place.database();
        let store = turnlane_store::sqlite::Options::new(&database, worker);
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(store).unwrap());
        let engine: Arc<dyn Engine> = Arc::new(Foreign::beside(&database, Obeys::Nothing, answers));
        Runtime::start(store, vec![engine], Arc::new(SystemClock), options)
            .await
            .unwrap()
    }

    async fn row(&self) -> turnlane_store::queue::Row {
        let store = self.place.store.as_ref();
        let turns = support::turns(store, self.thread).await;
        let row = store.row(self.thread.as_uuid().into(), turns[0].row.unwrap());
        row.await.unwrap().unwrap()
    }

    async fn decided(&self) {
        eventually("a decided turn", DEADLINE, async || {
            self.turn().await != TurnStatus::InProgress
        })
        .await
        .unwrap();
    }
}

async fn thread(handle: &Handle) -> ThreadId {
    let create = CreateThread::new(NAME, support::settings());
    let row = handle.create_thread(create).await.unwrap();
    ThreadId::from_uuid(row.id.as_uuid())
}

fn on_demand() -> (Arc<Semaphore>, Answers) {
    let gate = Arc::new(Semaphore::new(0));
    (Arc::clone(&gate), Answers::WhenAllowed(gate))
}

#[tokio::test]
async fn a_desk_and_a_worker_without_the_engine_leave_the_turn_and_a_daemon_decides() {
    let left = Left::of("finished", "block").await;
    for script in ["{version: 1}", child::DESK] {
        let mut other = left.place.start(left.place.child(script));
        // What is decided without an engine is decided before this.
        assert!(other.ready().await);
        assert!(left.is_undecided().await, "{script}");
        let refused = format!("start {} d hello", left.thread);
        assert!(matches!(other.ask(&refused).await, Some(Err(_))));
        assert!(left.is_undecided().await, "{script}");
        other.stop().await;
        assert!(left.is_undecided().await, "{script}");
    }
    let runtime = left.serve(Answers::FromHistory, Options::default()).await;
    left.decided().await;
    assert_eq!(left.turn().await, TurnStatus::Completed);
    assert_eq!(left.row().await.state, RowState::Done);
    eventually("the dead worker is forgotten", DEADLINE, async || {
        let dead = left.place.store.worker_row(left.dead).await;
        dead.unwrap().is_none()
    })
    .await
    .unwrap();
    runtime.stop(Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn an_engine_that_does_not_answer_delays_neither_the_start_nor_other_lanes() {
    let left = Left::of("finished", "block").await;
    let (gate, answers) = on_demand();
    let runtime = left.serve(answers, Options::default()).await;
    let handle = runtime.handle();
    assert!(handle.is_recovering());
    let other = thread(&handle).await;
    let begun = handle
        .start(other, start("hello", StartHow::OrReject))
        .await;
    assert!(matches!(begun, Ok(StartAnswer::Begun(_))), "{begun:?}");
    eventually("the turn of another lane", DEADLINE, async || {
        let turns = support::turns(handle.store().as_ref(), other).await;
        turns[0].status == TurnStatus::Completed
    })
    .await
    .unwrap();
    assert_eq!(left.turn().await, TurnStatus::InProgress);
    assert!(handle.is_recovering());
    gate.add_permits(1);
    left.decided().await;
    eventually("a worker that has recovered", DEADLINE, async || {
        !handle.is_recovering()
    })
    .await
    .unwrap();
    runtime.stop(Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn requests_wait_for_the_answer_and_whoever_listens_is_told_the_end() {
    let left = Left::of("finished", "block").await;
    let (gate, answers) = on_demand();
    let runtime = left.serve(answers, Options::default()).await;
    let (handle, thread) = (runtime.handle(), left.thread);
    let ear = Arc::new(Ear::default());
    let subscriber: Arc<dyn Subscriber> = Arc::clone(&ear) as _;
    let (_, snapshot) = handle.subscribe(thread, subscriber, None).await.unwrap();
    let running = snapshot.running.unwrap();
    assert_eq!(running.turn.status, TurnStatus::InProgress);
    let refused = handle.start(thread, start("no", StartHow::OrReject)).await;
    assert!(matches!(refused, Err(Error::Busy { turn: Some(_) })));
    let queued = handle.start(thread, start("row", StartHow::OrQueue)).await;
    assert!(matches!(queued, Ok(StartAnswer::Queued(_))), "{queued:?}");
    let asking = handle.clone();
    let kept =
        tokio::spawn(async move { asking.start(thread, start("kept", StartHow::OrSteer)).await });
    let asking = handle.clone();
    let turn = TurnId::from_uuid(running.turn.id.as_uuid());
    let interrupt = tokio::spawn(async move {
        let queue = AfterInterrupt::Continue;
        asking.interrupt(thread, Some(turn), queue, None).await
    });
    // A command behind them was answered, so that both are with the lane.
    let refused = handle.start(thread, start("no", StartHow::OrReject)).await;
    assert!(matches!(refused, Err(Error::Busy { .. })));
    assert!(!kept.is_finished() && !interrupt.is_finished());
    gate.add_permits(1);
    ear.hears("turn Completed", 3).await;
    let begun = kept.await.unwrap();
    assert!(matches!(begun, Ok(StartAnswer::Begun(_))), "{begun:?}");
    // The turn had come to its end by itself.
    let answered = interrupt.await.unwrap();
    assert!(answered.is_err(), "{answered:?}");
    let words = ear.words();
    let first: Vec<_> = words.iter().take(4).map(String::as_str).collect();
    assert!(first.contains(&"completed agentMessage"), "{words:?}");
    // Once for the dead worker's turn, once for each of the two that waited.
    let called = left.place.log();
    let called = called.iter().filter(|l| matches!(l, Line::Begin { .. }));
    assert_eq!(called.count(), 3);
    runtime.stop(Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn an_engine_that_cannot_tell_leaves_the_row_to_its_policy() {
    for answers in [Answers::Unknown, Answers::Panics] {
        for (policy, expected) in [("block", RowState::Blocked), ("continue", RowState::Done)] {
            let left = Left::of("finished", policy).await;
            let runtime = left.serve(answers.clone(), Options::default()).await;
            left.decided().await;
            let turns = support::turns(left.place.store.as_ref(), left.thread).await;
            assert_eq!((turns.len(), turns[0].status), (1, TurnStatus::Interrupted));
            let error = turns[0].error.clone().unwrap();
            assert!(
                error.as_str().contains("\"outcomeKnown\":false"),
                "{error:?}"
            );
            let row = left.row().await;
            assert_eq!(row.state, expected);
            if let Some(failure) = row.failure {
                let text = "queued turn dispatch was interrupted while app-server restarted";
                assert!(failure.as_str().contains(text), "{failure:?}");
            }
            runtime.stop(Duration::ZERO).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_turn_that_is_absent_after_another_boot_is_not_run_again() {
    let left = Left::of("stuck", "block").await;
    // As if the other program had lost what it had not synced.
    let history = left.place.database().with_extension("history");
    std::fs::remove_file(history).unwrap();
    let worker = turnlane_store::Worker {
        boot_id: "another boot".to_owned(),
        ..this_worker("test", &SystemClock)
    };
    let options = Options::default();
    let runtime = left.serve_as(worker, Answers::FromHistory, options).await;
    left.decided().await;
    assert_eq!(left.row().await.state, RowState::Blocked);
    runtime.stop(Duration::ZERO).await.unwrap();
    let called = left.place.log();
    let called = called.iter().filter(|l| matches!(l, Line::Begin { .. }));
    assert_eq!(called.count(), 1);
}

#[tokio::test]
async fn a_worker_that_stops_while_it_asks_leaves_the_question_to_the_next() {
    let left = Left::of("finished", "block").await;
    let (_gate, answers) = on_demand();
    let runtime = left.serve(answers, Options::default()).await;
    let (handle, thread) = (runtime.handle(), left.thread);
    let asking = handle.clone();
    let kept =
        tokio::spawn(async move { asking.start(thread, start("kept", StartHow::OrSteer)).await });
    let refused = handle.start(thread, start("no", StartHow::OrReject)).await;
    assert!(matches!(refused, Err(Error::Busy { .. })));
    runtime.stop(Duration::ZERO).await.unwrap();
    assert!(kept.await.unwrap().is_err());
    assert_eq!(left.turn().await, TurnStatus::InProgress);
    let runtime = left.serve(Answers::FromHistory, Options::default()).await;
    left.decided().await;
    assert_eq!(left.turn().await, TurnStatus::Completed);
    runtime.stop(Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn a_worker_that_drains_only_what_clients_load_decides_and_leaves_the_queue() {
    let left = Left::of("finished", "block").await;
    let add = support::params("later");
    let options = Options {
        drain: Drain::Loaded,
        ..Options::default()
    };
    let (gate, answers) = on_demand();
    let runtime = left.serve(answers, options).await;
    let handle = runtime.handle();
    // Added by another worker, which does not drain it either.
    let other = left.serve_idle().await;
    let other_add = turnlane_runtime::AddTurn::new(add);
    other.handle().add(left.thread, other_add).await.unwrap();
    gate.add_permits(1);
    left.decided().await;
    eventually("an unloaded lane", DEADLINE, async || {
        handle.loaded() == 0 && left.owner().await.is_none()
    })
    .await
    .unwrap();
    let lane = left.place.store.look(left.thread.as_uuid().into()).await;
    assert!(matches!(lane.unwrap().head, Head::Due { .. }));
    runtime.stop(Duration::ZERO).await.unwrap();
    other.stop(Duration::ZERO).await.unwrap();
}

impl Left {
    /// A worker that runs nothing.
    async fn serve_idle(&self) -> Runtime {
        let options = Options {
            drain: Drain::Loaded,
            max_running: 0,
            ..Options::default()
        };
        self.serve(Answers::FromHistory, options).await
    }
}

#[tokio::test]
async fn a_person_can_free_a_lane_that_no_worker_decides_about() {
    let left = Left::of("finished", "block").await;
    let store = left.place.store.as_ref();
    release_lane(store, left.thread, 3, &SystemClock)
        .await
        .unwrap();
    assert_eq!(left.turn().await, TurnStatus::Interrupted);
    assert_eq!(left.row().await.state, RowState::Blocked);
    assert_eq!(left.owner().await, None);
}
