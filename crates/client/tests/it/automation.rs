//! Automation on real threads: an embedded server whose agent plays scripts.
//!
//! The rules themselves are tested beside the code, on clocks and threads that tests move; here it is
//! shown that turns really run, end and are interrupted.

use std::time::{Duration, SystemTime};

use futures_util::StreamExt as _;
use serde_json::json;
use tokio::sync::watch;
use turnlane::automation::{
    self, AutomationHandle, AutomationSpec, AutomationState, AutomationStatus, Clock, RunOutcome,
    SystemClock,
};
use turnlane::{BoxFuture, Client, Connection, Thread, TurnError, TurnStatus};
use turnlane_testkit::wait::{DEADLINE, within};

use crate::double::{Kind, turn_value};
use crate::rig::{Site, T, rig, with_thread};
use crate::world::World;

const OFTEN: Duration = Duration::from_millis(10);
const HOUR: Duration = Duration::from_hours(1);

/// An agent that stands at a gate, or fails, or does something without a word.
const SCRIPT: &str = r#"
version: 1
turns:
  - match: "hold"
    steps:
      - await: {gate: "held"}
      - say: "Let go."
  - match: "fail"
    steps:
      - error: {message: "no money"}
  - match: "silently"
    steps:
      - exec: {cmd: "true"}
"#;

async fn ended(handle: &AutomationHandle) -> AutomationStatus {
    within("the end of the automation", DEADLINE, handle.wait())
        .await
        .unwrap()
}

async fn running(handle: &AutomationHandle) {
    let mut status = handle.watch();
    let running = status.wait_for(|status| status.state == AutomationState::Running);
    within("a run", DEADLINE, running).await.unwrap().unwrap();
}

async fn world() -> (World, Client, Thread) {
    let world = World::start(SCRIPT).await;
    let client = world.client().await;
    let thread = client.threads().start(".").await.unwrap();
    (world, client, thread)
}

#[tokio::test]
async fn three_runs_are_three_turns_of_the_thread() {
    let (_world, _client, thread) = world().await;
    let spec = AutomationSpec {
        max_runs: Some(3),
        ..AutomationSpec::new("look", OFTEN)
    };
    let handle = automation::spawn(thread.clone(), spec);
    let end = ended(&handle).await;
    assert_eq!(end.state, AutomationState::Stopped);
    assert_eq!((end.runs_completed, end.last_error), (3, None));
    assert_eq!(&end.thread_id, thread.id());

    let ran = handle.runs();
    let mut turns: Vec<_> = thread.turns().map(Result::unwrap).collect().await;
    turns.reverse();
    assert_eq!(turns.len(), 3);
    for (run, turn) in ran.iter().zip(&turns) {
        assert_eq!(run.outcome, RunOutcome::Completed);
        assert_eq!(run.turn_id.as_ref(), Some(&turn.id));
        assert_eq!(turn.status, TurnStatus::Completed);
        assert!(run.started_at >= run.due_at);
    }
    for pair in ran.windows(2) {
        let apart = pair[1].due_at.duration_since(pair[0].due_at).unwrap();
        assert_eq!(apart.as_nanos() % OFTEN.as_nanos(), 0, "off the grid");
        assert!(Some(pair[1].due_at) > pair[0].finished_at, "a burst");
    }
}

#[tokio::test]
async fn a_turn_without_a_word_is_a_success() {
    let (_world, _client, thread) = world().await;
    let spec = AutomationSpec {
        max_runs: Some(2),
        ..AutomationSpec::new("work silently", OFTEN)
    };
    let end = ended(&automation::spawn(thread, spec)).await;
    assert_eq!(end.state, AutomationState::Stopped);
    assert_eq!((end.runs_completed, end.last_error), (2, None));
}

#[tokio::test]
async fn a_turn_that_fails_fails_the_automation_with_its_words() {
    let (_world, _client, thread) = world().await;
    let handle = automation::spawn(thread, AutomationSpec::new("fail", OFTEN));
    let end = ended(&handle).await;
    assert_eq!(end.state, AutomationState::Failed);
    assert_eq!(end.last_error.as_deref(), Some("the turn failed: no money"));
    assert_eq!(end.runs_completed, 0);
    assert_eq!(handle.runs().len(), 1, "no retry");
}

#[tokio::test]
async fn a_stop_lets_the_running_turn_finish_and_counts_it() {
    let (world, _client, thread) = world().await;
    let handle = automation::spawn(thread, AutomationSpec::new("hold", OFTEN));
    within("the gate", DEADLINE, world.gates.reached_by("held", 1))
        .await
        .unwrap();
    handle.stop().await;
    assert_eq!(handle.status().await.state, AutomationState::Running);
    world.gates.open("held");
    let end = ended(&handle).await;
    assert_eq!(end.state, AutomationState::Stopped);
    assert_eq!(end.runs_completed, 1);
    assert_eq!(handle.runs()[0].outcome, RunOutcome::Completed);
}

#[tokio::test]
async fn stop_now_interrupts_the_turn_within_a_second() {
    let (world, _client, thread) = world().await;
    let handle = automation::spawn(thread.clone(), AutomationSpec::new("hold", OFTEN));
    within("the gate", DEADLINE, world.gates.reached_by("held", 1))
        .await
        .unwrap();
    let second = Duration::from_secs(1);
    within("the interrupt", second, handle.stop_now())
        .await
        .unwrap();
    let end = handle.status().await;
    assert_eq!(end.state, AutomationState::Stopped);
    assert_eq!((end.runs_completed, end.last_error), (0, None));
    assert!(end.last_finished_at.is_some());
    let runs = handle.runs();
    assert_eq!(runs[0].outcome, RunOutcome::Interrupted);

    let turns: Vec<_> = thread.turns().map(Result::unwrap).collect().await;
    assert_eq!(turns.len(), 1);
    assert_eq!(Some(&turns[0].id), runs[0].turn_id.as_ref());
    assert_eq!(turns[0].status, TurnStatus::Interrupted);
}

#[tokio::test]
async fn stop_now_takes_a_run_that_waits_for_its_place_out_of_the_lane() {
    let (world, client, thread) = world().await;
    let other = client.threads().resume(thread.id()).await.unwrap();
    let held = other.turn("hold").stream().await.unwrap();
    within("the gate", DEADLINE, world.gates.reached_by("held", 1))
        .await
        .unwrap();
    let handle = automation::spawn(thread.clone(), AutomationSpec::new("look", OFTEN));
    running(&handle).await;
    let second = Duration::from_secs(1);
    within("the stop", second, handle.stop_now()).await.unwrap();
    assert_eq!(handle.status().await.state, AutomationState::Stopped);
    world.gates.open("held");
    let outcome = held.outcome().await.unwrap();
    assert_eq!(
        outcome.status,
        TurnStatus::Completed,
        "not ours to interrupt"
    );
    assert_eq!(outcome.text.as_deref(), Some("Let go."));
    assert_eq!(thread.queue().await.unwrap().rows.len(), 0);
}

#[tokio::test]
async fn a_run_waits_for_its_place_behind_other_turns() {
    let (world, _client, thread) = world().await;
    let held = thread.turn("hold").stream().await.unwrap();
    within("the gate", DEADLINE, world.gates.reached_by("held", 1))
        .await
        .unwrap();
    let spec = AutomationSpec {
        max_runs: Some(1),
        ..AutomationSpec::new("look", OFTEN)
    };
    let handle = automation::spawn(thread.clone(), spec);
    running(&handle).await;
    let submitted = handle.status().await.last_started_at.unwrap();
    let let_go = SystemClock.now();
    assert!(submitted <= let_go, "the moment it was submitted");
    world.gates.open("held");
    assert_eq!(held.outcome().await.unwrap().status, TurnStatus::Completed);
    assert_eq!(ended(&handle).await.runs_completed, 1);
    let turns: Vec<_> = thread.turns().map(Result::unwrap).collect().await;
    assert_eq!(Some(&turns[0].id), handle.runs()[0].turn_id.as_ref());
}

#[tokio::test]
async fn a_thread_archived_while_the_automation_waits_fails_it() {
    let (_world, _client, thread) = world().await;
    let spec = AutomationSpec {
        start_at: Some(SystemClock.now() + HOUR),
        ..AutomationSpec::new("look", OFTEN)
    };
    let handle = automation::spawn(thread.clone(), spec.clone());
    thread.archive().await.unwrap();
    let end = ended(&handle).await;
    assert_eq!(end.state, AutomationState::Failed);
    assert_eq!(end.last_error.as_deref(), Some("session is closed"));

    let later = automation::spawn(thread, spec).status().await;
    assert_eq!(later.state, AutomationState::Failed);
    assert_eq!(later.last_error.as_deref(), Some("session is closed"));
}

#[tokio::test]
async fn a_connection_closed_for_good_while_the_automation_waits_fails_it() {
    let (double, _client, thread) = rig(Kind::Turnlane).await;
    let spec = AutomationSpec {
        start_at: Some(SystemClock.now() + HOUR),
        ..AutomationSpec::new("look", OFTEN)
    };
    let handle = automation::spawn(thread, spec);
    drop(double);
    let end = ended(&handle).await;
    assert_eq!(end.state, AutomationState::Failed);
    let text = end.last_error.unwrap();
    assert!(text.starts_with("the connection was closed: "), "{text}");
}

#[tokio::test]
async fn a_thread_closed_while_a_run_is_in_flight_fails_after_the_run() {
    let (mut double, _client, thread) = rig(Kind::Turnlane).await;
    let handle = automation::spawn(thread, AutomationSpec::new("look", OFTEN));
    double.start_turn(T, "u1").await;
    double.tell("thread/closed", json!({"threadId": T}));
    // A closed thread may still run its turn; the client asks.
    let asked = double.expect("thread/turns/list").await;
    asked.answer(json!({"data": [turn_value("u1", "inProgress")], "nextCursor": null}));
    double.end_turn(T, "u1", "done");
    let end = ended(&handle).await;
    assert_eq!(end.state, AutomationState::Failed);
    assert_eq!(end.last_error.as_deref(), Some("session is closed"));
    assert_eq!(end.runs_completed, 1);
}

/// A clock by which every wait is over at once: time stands still but for waits.
#[derive(Debug)]
struct Leaping(std::sync::Mutex<SystemTime>);

impl Clock for Leaping {
    fn now(&self) -> SystemTime {
        *self.0.lock().unwrap()
    }

    fn wait(&self, due: SystemTime) -> BoxFuture<'static, ()> {
        let mut now = self.0.lock().unwrap();
        *now = due.max(*now);
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test]
async fn a_clock_of_the_callers_decides_what_is_due() {
    let (_world, _client, thread) = world().await;
    let begin = SystemTime::UNIX_EPOCH;
    let spec = AutomationSpec {
        max_runs: Some(4),
        ..AutomationSpec::new("look", 24 * HOUR)
    };
    let clock = Leaping(std::sync::Mutex::new(begin));
    let handle = automation::spawn_with_clock(thread, spec, clock);
    let end = ended(&handle).await;
    assert_eq!(end.runs_completed, 4);
    let started: Vec<_> = handle.runs().iter().map(|run| run.started_at).collect();
    assert_eq!(started, [0, 1, 2, 3].map(|day| begin + day * 24 * HOUR));
}

/// A clock that the test sets.
#[derive(Clone, Debug)]
struct Manual(watch::Sender<SystemTime>);

impl Clock for Manual {
    fn now(&self) -> SystemTime {
        *self.0.borrow()
    }

    fn wait(&self, due: SystemTime) -> BoxFuture<'static, ()> {
        let mut now = self.0.subscribe();
        Box::pin(async move {
            let _ = now.wait_for(|now| *now >= due).await;
        })
    }
}

#[tokio::test]
async fn a_run_that_is_due_while_the_connection_is_lost_waits_for_the_next_one() {
    let mut site = Site::open().await;
    let (double, client) = site.connect(Kind::Turnlane).await;
    let (double, client, thread) = with_thread(double, client).await;
    let begin = SystemTime::UNIX_EPOCH;
    let clock = Manual(watch::Sender::new(begin));
    let spec = AutomationSpec {
        start_at: Some(begin + HOUR),
        max_runs: Some(1),
        ..AutomationSpec::new("look", HOUR)
    };
    let handle = automation::spawn_with_clock(thread, spec, clock.clone());
    drop(double);
    let mut connection = client.connection();
    let lost = connection.wait_for(|it| matches!(it, Connection::Reconnecting { .. }));
    let lost = within("the loss", DEADLINE, lost).await;
    drop(lost.unwrap().unwrap());
    clock.0.send_replace(begin + HOUR);
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    let status = handle.status().await;
    assert_eq!(status.state, AutomationState::Waiting);
    assert_eq!(handle.runs(), [], "nothing is submitted meanwhile");

    let mut double = site.accept(Kind::Turnlane).await;
    double.start_turn(T, "u1").await;
    double.end_turn(T, "u1", "done");
    let end = ended(&handle).await;
    assert_eq!(end.state, AutomationState::Stopped);
    assert_eq!(end.runs_completed, 1);
}

#[tokio::test]
async fn an_empty_prompt_is_told_by_the_first_run() {
    let (_world, _client, thread) = world().await;
    let handle = automation::spawn(thread.clone(), AutomationSpec::new(" ", OFTEN));
    let end = ended(&handle).await;
    let error = thread.turn(" ").await.unwrap_err();
    assert!(matches!(error, TurnError::Call(_)));
    assert_eq!(end.state, AutomationState::Failed);
    assert_eq!(end.last_error, Some(error.to_string()));
}

#[tokio::test]
async fn the_client_lives_as_long_as_a_detached_automation_and_no_longer() {
    let (mut double, client, thread) = rig(Kind::Turnlane).await;
    let spec = AutomationSpec {
        max_runs: Some(1),
        ..AutomationSpec::new("look", OFTEN)
    };
    automation::spawn(thread, spec).detach();
    drop(client);
    double.start_turn(T, "u1").await;
    double.end_turn(T, "u1", "done");
    double.ended().await;
}
