//! Cancel, at every point where a call waits.

use std::future::pending;

use tokio::net::TcpListener;
use turnlane_testkit::mock_model::{ApiError, At, MockModel, Reply};

use super::*;
use crate::cancel::CancelReason;
use crate::engine::BoxFuture;
use crate::hooks::Gate;
use crate::native::http::tests::Deaf;

impl Running {
    async fn cancelled(self) -> Played {
        self.lane.cancel.cancel(CancelReason::Interrupt);
        let played = self.finish().await;
        played.adds_up();
        played.cancelled();
        played
    }
}

#[tokio::test]
async fn a_call_is_cancelled_before_its_headers() {
    let mock = MockModel::start().await.unwrap();
    let (reply, gate) = Reply::text("never").gated(At::Request);
    mock.push(reply);
    let running = Stage::of(&mock).start();
    gate.reached().await;
    let played = running.cancelled().await;
    assert!(played.events.is_empty());
    mock.wait_for_abandoned(1, DEADLINE).await.unwrap();
}

#[tokio::test]
async fn a_call_is_cancelled_while_it_connects() {
    let deaf = Deaf::new().await;
    let running = Stage::at(&deaf.url).start();
    let before = tokio::time::Instant::now();
    let played = running.cancelled().await;
    assert!(played.events.is_empty());
    // Far less than the limit on connecting.
    assert!(before.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_call_is_cancelled_while_a_server_does_not_speak_http() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let running = Stage::at(&url).start();
    let (connection, _) = within("a connection", DEADLINE, listener.accept())
        .await
        .unwrap()
        .unwrap();
    running.cancelled().await;
    drop(connection);
}

#[tokio::test]
async fn a_call_is_cancelled_in_the_middle_of_a_stream() {
    let mock = MockModel::start().await.unwrap();
    let (reply, gate) = Reply::streamed(["half ", "a word"]).gated(At::AfterEvents(5));
    mock.push(reply).push(Reply::text("next"));
    let stage = Stage::of(&mock);
    let mut running = stage.start();
    gate.reached().await;
    running
        .hears(|event| matches!(event, Event::Delta { .. }))
        .await;
    let played = running.cancelled().await;
    // Stored with what arrived, and not sent to the model again.
    assert_eq!(played.ended(), (vec!["half ".to_owned()], vec![]));
    let failed = played.cancelled();
    assert!(failed.produced.is_empty());
    assert_eq!(failed.last_message.as_ref().unwrap().1, "half ");
    mock.wait_for_abandoned(1, DEADLINE).await.unwrap();
    stage.play().await.response();
}

#[tokio::test]
async fn a_call_is_cancelled_while_it_waits_to_try_again() {
    let mock = MockModel::start().await.unwrap();
    mock.push(Reply::http_error(
        ApiError::rate_limited().retry_after_s(50),
    ));
    let mut running = Stage::of(&mock).start();
    running
        .hears(|event| matches!(event, Event::Retry(_)))
        .await;
    let before = tokio::time::Instant::now();
    running.cancelled().await;
    assert!(before.elapsed() < Duration::from_secs(40));
    assert_eq!(mock.requests().len(), 1);
}

/// A gate that never opens.
struct Forever;

impl Hooks for Forever {
    fn gate<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Gate> {
        Box::pin(pending())
    }
}

#[tokio::test]
async fn a_call_is_cancelled_at_the_gate() {
    let mock = MockModel::start().await.unwrap();
    let mut stage = Stage::of(&mock);
    stage.hooks = Arc::new(Forever);
    stage.start().cancelled().await;
    assert!(mock.requests().is_empty());
}

#[tokio::test]
async fn a_message_that_had_ended_is_kept_when_the_response_is_cancelled() {
    let mock = MockModel::start().await.unwrap();
    let (reply, _gate) = Reply::text("said").gated(At::LastEvent);
    mock.push(reply);
    let mut running = Stage::of(&mock).start();
    running
        .hears(|event| matches!(event, Event::ItemCompleted(_)))
        .await;
    let played = running.cancelled().await;
    assert_eq!(played.cancelled().produced.len(), 1);
    assert_eq!(played.ended().0, ["said"]);
}

#[tokio::test]
async fn a_lane_that_is_gone_ends_the_call() {
    let mock = MockModel::start().await.unwrap();
    let (reply, gate) = Reply::text("late").gated(At::AfterEvents(1));
    mock.push(reply);
    let running = Stage::of(&mock).start();
    gate.reached().await;
    drop(running.lane);
    gate.release();
    let failed = running.call.await.unwrap().unwrap_err();
    assert!(matches!(
        failed.why,
        CallFailure::Fenced | CallFailure::Cancelled
    ));
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_connection() {
    let mock = MockModel::start().await.unwrap();
    let (reply, gate) = Reply::text("late").gated(At::AfterEvents(1));
    mock.push(reply);
    let running = Stage::of(&mock).start();
    gate.reached().await;
    running.call.abort();
    mock.wait_for_abandoned(1, DEADLINE).await.unwrap();
}
