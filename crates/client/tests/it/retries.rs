//! Which errors say that a call may be repeated.

use serde_json::json;
use turnlane::{CallError, CallOptions, TransportError};
use turnlane_testkit::wait::{DEADLINE, within};

use crate::double::{Double, Kind};

/// Starts a turn on a double that has read the request; the call, and the request.
async fn sent() -> (
    Double,
    crate::double::Asked,
    tokio::task::JoinHandle<Result<serde_json::Value, CallError>>,
) {
    let (mut double, client) = Double::plain(Kind::Turnlane).await;
    let call = tokio::spawn(async move {
        let params = json!({"threadId": "t", "input": []});
        let options = CallOptions::default();
        client.call_raw("turn/start", params, options).await
    });
    let asked = double.expect("turn/start").await;
    (double, asked, call)
}

#[tokio::test]
async fn a_call_cut_off_after_it_was_written_is_not_retryable() {
    let (double, asked, call) = sent().await;
    // The server has read the request; a loop over `is_retryable` would start a second turn.
    asked.leave();
    drop(double);
    let ended = within("the end of the call", DEADLINE, call).await;
    let error = ended.unwrap().unwrap().unwrap_err();
    let closed = matches!(
        error,
        CallError::Transport(TransportError::Closed { .. }) | CallError::Closed
    );
    assert!(closed, "{error:?}");
    assert!(!error.is_retryable(), "{error:?}");
    assert!(error.is_outcome_unknown(), "{error:?}");
}

#[tokio::test]
async fn a_call_refused_under_load_is_retryable_and_was_not_executed() {
    let (_double, asked, call) = sent().await;
    let data = json!({"reason": "overloaded", "retryAfterMs": 5});
    asked.refuse(-32001, "Server overloaded; retry later.", &data);
    let ended = within("the end of the call", DEADLINE, call).await;
    let error = ended.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, CallError::Overloaded { .. }), "{error:?}");
    assert!(error.is_retryable() && !error.is_outcome_unknown());
}
