//! The life of a child: started late, answered in a window, ended when unused.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::turn_error::ErrorKind;
use turnlane_rpc::Incoming;

use super::double::{Bench, THREAD};
use super::lane::{Lane, request, state};
use crate::codex::connection::{CallFailure, WINDOW};
use crate::codex::launch::LaunchError;
use crate::{Accepted, Engine as _, OutcomeStatus};

#[tokio::test(start_paused = true)]
async fn a_check_starts_a_child_and_names_what_is_wrong() {
    let mut bench = Bench::new();
    let engine = bench.engine.clone();
    assert_eq!(bench.launches(), 0);
    let settings = request("").settings;
    let (status, _child) = tokio::join!(engine.check(&settings), async { bench.child().await });
    assert!(status.ok, "{status:?}");

    let mut bench = Bench::new();
    let engine = bench.engine.clone();
    let (status, ()) = tokio::join!(engine.check(&settings), async {
        let mut child = bench.raw_child().await;
        let hello = json!({"userAgent": "x/0.150.0 (y)"});
        child.answer("initialize", hello).await;
        assert!(
            child.next().await.is_none(),
            "a child that is too old is ended"
        );
    });
    let text = "engine 'codex' needs Codex 0.151 or newer, found 0.150.0; use 'codex-exec'";
    assert_eq!(status.reason.as_deref(), Some(text));

    let bench = Bench::new();
    bench.refuse_start(LaunchError::Unavailable("no such file".to_owned()));
    let status = bench.engine.check(&settings).await;
    let text = "engine 'codex' is not available: no such file";
    assert_eq!(status.reason.as_deref(), Some(text));
}

#[tokio::test(start_paused = true)]
async fn a_turn_without_a_child_could_not_start() {
    let bench = Bench::new();
    bench.refuse_start(LaunchError::Unavailable("no such file".to_owned()));
    let outcome = Lane::start(&bench, request("hello")).finish().await;
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    assert!(!outcome.begun);
    assert_eq!(outcome.accepted, Accepted::No);
    let kind = outcome.error.unwrap().kind;
    assert_eq!(kind, Some(ErrorKind::EngineUnavailable));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_does_not_say_hello_is_given_up() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, request("hello"));
    let play = async {
        let mut child = bench.raw_child().await;
        let _unanswered = child.request("initialize").await;
        assert!(child.next().await.is_none());
    };
    let (outcome, ()) = tokio::join!(lane.finish(), play);
    let kind = outcome.error.unwrap().kind;
    assert_eq!(kind, Some(ErrorKind::EngineUnavailable));
}

#[tokio::test(start_paused = true)]
async fn a_child_ends_a_minute_after_its_last_thread_was_closed() {
    let mut bench = Bench::new();
    let thread = request("").thread_id;
    let mut lane = Lane::start(&bench, request("hello"));
    let play = async {
        let mut child = bench.child().await;
        child.start_thread().await;
        child.start_turn("t1").await;
        child.turn("turn/completed", "t1", "completed");
        child
    };
    let (_, mut child) = tokio::join!(lane.finish(), play);
    let hour = Duration::from_hours(1);
    let end = tokio::time::timeout(hour, child.closed()).await;
    assert!(end.is_err(), "its thread is open");
    let play = async {
        child
            .answer("thread/backgroundTerminals/clean", json!({}))
            .await;
        child.answer("thread/unsubscribe", json!({})).await;
    };
    tokio::join!(bench.engine.close(thread), play);
    let begin = Instant::now();
    assert!(child.next().await.is_none());
    assert_eq!(begin.elapsed().as_secs(), 60);
    assert!(child.is_ended());
    // The next use starts another one, without delay.
    let mut asked = request("again");
    asked.engine_state = Some(state(THREAD, Some(1)));
    let mut lane = Lane::start(&bench, asked);
    let begin = Instant::now();
    let play = async {
        let mut child = bench.child().await;
        assert_eq!(begin.elapsed().as_millis(), 0);
        child.resume_thread().await;
        child.start_turn("t1").await;
        child.turn("turn/completed", "t1", "completed");
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_child_is_asked_again() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, request("hello"));
    let play = async {
        let mut child = bench.child().await;
        let begin = Instant::now();
        for _ in 0..3 {
            let request = child.request("thread/start").await;
            let busy = ErrorObject::bare(-32001, "Server overloaded; retry later.");
            request.responder.error(&busy);
        }
        child.start_thread().await;
        assert_eq!(begin.elapsed().as_millis(), 700);
        child.start_turn("t1").await;
        child.turn("turn/completed", "t1", "completed");
        child
    };
    let (outcome, _child) = tokio::join!(lane.finish(), play);
    assert_eq!(outcome.status, OutcomeStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn at_most_32_requests_are_in_flight_and_all_learn_of_a_death() {
    let mut bench = Bench::new();
    let handle = bench.servers.handle_of("x");
    let _lease = handle.lease();
    let (connection, mut child) =
        tokio::join!(async { handle.connection().await.unwrap() }, bench.child());
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let connection = connection.clone();
            tokio::spawn(async move { connection.ask("some/thing", &json!({})).await })
        })
        .collect();
    let mut taken = Vec::new();
    for _ in 0..WINDOW {
        taken.push(child.request("some/thing").await);
    }
    let more = tokio::time::timeout(Duration::from_secs(1), child.next()).await;
    assert!(more.is_err(), "{more:?}");
    for request in taken.drain(..8) {
        request.responder.result(&json!({}));
    }
    for _ in 0..8 {
        assert!(matches!(child.next().await, Some(Incoming::Request(_))));
    }
    let died = Instant::now();
    drop(taken);
    child.die();
    let mut answered = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(()) => answered += 1,
            Err(CallFailure::Died | CallFailure::Refused(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(answered, 8);
    assert!(died.elapsed() < Duration::from_secs(1));
}
