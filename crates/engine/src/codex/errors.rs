//! Errors of Codex in our words, and when trying again makes sense.
//!
//! The invariant here: kind and time come from structured data. Only where Codex names no kind do the
//! rules for its error texts look at the message; a text that they do not know stays
//! [`ErrorKind::Other`], never a guess.

use serde_json::{Map, Value};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};

use super::connection::CallFailure;
use crate::codex_exec::texts;
use crate::limits::kind_of;
use crate::outcome::EngineError;

/// Windows of the rate limits, by their members.
const WINDOWS: [&str; 2] = ["primary", "secondary"];

/// The error of a turn that Codex ran, with the kind for it.
pub(super) fn classified(mut error: TurnError, limits: &Map<String, Value>) -> EngineError {
    let kind = match &error.codex_error_info {
        Some(info) => kind_of(info),
        None => ErrorKind::Other,
    };
    let kind = match kind {
        ErrorKind::Other => texts::kind_of(&error.message).0,
        known => known,
    };
    if matches!(kind, ErrorKind::Quota | ErrorKind::RateLimited) {
        error.retry_at = reset_at(limits);
    }
    error.kind = Some(kind);
    error
}

/// When the windows that are used up have all begun anew, in seconds since 1970.
pub(super) fn reset_at(limits: &Map<String, Value>) -> Option<i64> {
    let windows = WINDOWS.iter().filter_map(|window| limits.get(*window));
    let used_up = windows.filter(|window| {
        let used = window.get("usedPercent").and_then(Value::as_f64);
        used.is_some_and(|used| used >= 100.0)
    });
    let resets = used_up.filter_map(|window| window.get("resetsAt").and_then(Value::as_i64));
    resets.max()
}

/// An error of ours.
pub(super) fn ours(message: impl Into<String>, kind: ErrorKind) -> EngineError {
    EngineError::new(message, CodexErrorInfo::Other, kind)
}

/// The error of a request that Codex did not execute.
pub(super) fn of_call(failure: &CallFailure) -> EngineError {
    let kind = match failure {
        failure if failure.says(ACTIVE_WRITER) => ErrorKind::Busy,
        failure if failure.says_unwritten() => ErrorKind::ThreadNotFound,
        CallFailure::Refused(_) => ErrorKind::EngineRefused,
        CallFailure::TimedOut { .. } => ErrorKind::Timeout,
        CallFailure::Died => ErrorKind::EngineCrashed,
        CallFailure::Unreadable { .. } => ErrorKind::Protocol,
    };
    ours(failure.to_string(), kind)
}

/// What Codex says when another process writes to the thread.
pub(super) const ACTIVE_WRITER: &str = "already has an active writer";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn limits(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn the_later_reset_of_the_used_up_windows_counts() {
        let window = |used: i64, at: i64| json!({"usedPercent": used, "resetsAt": at});
        for (windows, expected) in [
            (json!({}), None),
            (json!({"primary": null}), None),
            (json!({"primary": window(99, 7)}), None),
            (json!({"primary": window(100, 7)}), Some(7)),
            (
                json!({"primary": window(100, 7), "secondary": window(99, 9)}),
                Some(7),
            ),
            (
                json!({"primary": window(100, 7), "secondary": window(104, 9)}),
                Some(9),
            ),
        ] {
            assert_eq!(reset_at(&limits(&windows)), expected, "{windows}");
        }
    }

    #[test]
    fn a_used_up_allowance_names_the_time_of_its_reset() {
        let used_up = limits(&json!({"primary": {"usedPercent": 100, "resetsAt": 77}}));
        let error = |info: Value| -> TurnError {
            serde_json::from_value(json!({
                "message": "m", "codexErrorInfo": info, "additionalDetails": null,
            }))
            .unwrap()
        };
        let quota = classified(error(json!("usageLimitExceeded")), &used_up);
        assert_eq!(quota.kind, Some(ErrorKind::Quota));
        assert_eq!(quota.retry_at, Some(77));
        let other = classified(error(json!("somethingNew")), &used_up);
        assert_eq!(other.kind, Some(ErrorKind::Other));
        assert_eq!(other.retry_at, None);
        let none = classified(error(Value::Null), &used_up);
        assert_eq!(none.kind, Some(ErrorKind::Other));
        let mut told = error(json!("other"));
        "Quota exceeded. Check your plan and billing details.".clone_into(&mut told.message);
        let told = classified(told, &used_up);
        assert_eq!(told.kind, Some(ErrorKind::Quota));
        assert_eq!(told.retry_at, Some(77), "the windows say when");
    }
}
