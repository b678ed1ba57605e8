//! The queue of the real binary, over its real transports: long queues, failures in view, claims that
//! meet, and what is left after deaths.

mod claims;
mod failures;
mod kills;
mod limits;
mod volume;

use serde_json::{Value, json};
use turnlane_testkit::TestClient;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::app_server::{Served, ok};

/// An id as people are shown it.
fn short(id: &str) -> &str {
    &id[id.len() - 8..]
}

/// The first page of a queue, and its state.
pub(crate) async fn list(client: &mut TestClient, thread: &str) -> Value {
    ok(client, "thread/queue/list", json!({"threadId": thread})).await
}

/// What rows say, in their order.
fn said(rows: &Value) -> Vec<&str> {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row["input"][0]["text"].as_str().unwrap_or("?"))
        .collect()
}

/// Texts and statuses as [`crate::serve::turns`] shows them.
pub(crate) fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(text, status): &(&str, &str)| ((*text).to_owned(), (*status).to_owned());
    expected.iter().map(owned).collect()
}

/// What holds a queue, once something does, in every place where it is shown: the list, the thread,
/// what followers are told, and what people and programs read from `turnlane queue list`.
struct Held {
    /// The answer to `thread/queue/list`.
    list: Value,
    /// The `thread/queue/changed` that told it.
    changed: Value,
    /// `turnlane queue list` for people.
    text: String,
}

/// Waits until `member` of the queue's state (`blocked`, `waiting`) is set, and compares what is shown.
async fn held(served: &Served, client: &mut TestClient, thread: &str, member: &str) -> Held {
    let mut shown = Value::Null;
    eventually("a queue that is held", DEADLINE, async || {
        shown = list(client, thread).await;
        !shown[member].is_null()
    })
    .await
    .unwrap();
    let what = shown[member].clone();
    let told = |message: &Value| {
        let params = &message["params"];
        message["method"] == "thread/queue/changed"
            && params["threadId"] == thread
            && params["revision"] == shown["revision"]
    };
    let changed = client.find("what holds the queue", told).await.unwrap();
    let changed = changed["params"].clone();
    for key in ["depth", "paused", "waiting", "blocked"] {
        assert_eq!(changed[key], shown[key], "{key}: {changed}");
    }
    assert_eq!(changed["queuedTurns"], shown["data"]);
    let read = ok(client, "thread/read", json!({"threadId": thread})).await;
    assert_eq!(read["thread"]["queue"][member], what, "{read}");
    let typed = |arguments: &[&str]| {
        let spec = crate::turnlane(arguments).envs(served.home.env());
        crate::run(spec.current_dir(served.home.workspace()))
    };
    let printed = typed(&["queue", "list", thread, "--json"]).await;
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(printed[member], what, "{printed}");
    assert_eq!(printed["data"], shown["data"]);
    let text = typed(&["queue", "list", thread]).await.stdout;
    Held {
        list: shown,
        changed,
        text: String::from_utf8(text).unwrap(),
    }
}
