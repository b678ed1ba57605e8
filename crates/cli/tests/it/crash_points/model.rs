//! The model of these cases: it does what the word behind a text's name says.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use turnlane_testkit::mock_model::{ApiError, At, Gate, Item, RecordedRequest, Reply};

/// The file in which a command says who it is.
pub(super) const MARK: &str = "pid";

/// A model that answers `NAME: WORD` by the word.
pub(super) fn model(gate: Gate) -> impl Fn(&RecordedRequest) -> Reply {
    let command = format!("echo $$ > {MARK}; sleep 1000");
    let refused = AtomicBool::new(false);
    move |request| {
        let text = request.last_user_text();
        match text.split(' ').nth(1).unwrap_or_default() {
            // Its only item is complete, and the end of the answer is missing.
            "gated" => Reply::text("first").gated_by(At::LastEvent, &gate),
            "silent" => Reply::text("too late").gated_by(At::Request, &gate),
            "half" => Reply::text("half of it").gated_by(At::AfterEvents(4), &gate),
            "command" => call(request, &command),
            "limit" if !refused.swap(true, Ordering::SeqCst) => {
                Reply::http_error(ApiError::rate_limited().retry_after_s(1))
            }
            "bad" if !refused.swap(true, Ordering::SeqCst) => {
                Reply::http_error(ApiError::bad_request("input", "no"))
            }
            _ => Reply::text(format!("done {text}")),
        }
    }
}

/// One command that ends, and then one that does not.
fn call(request: &RecordedRequest, endless: &str) -> Reply {
    let is_output = |item: &&serde_json::Value| item["type"] == "function_call_output";
    let outputs = request.input().iter().filter(is_output).count();
    let command = if outputs == 0 { "echo built" } else { endless };
    let arguments = json!({"cmd": command, "yield_time_ms": 30_000});
    let call = Item::function_call("exec_command", arguments);
    Reply::of([call.call_id(format!("call_{outputs}"))])
}
