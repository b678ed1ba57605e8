//! An approval for the session counts for the sandbox it was given in, and not without one.

use serde_json::{Value, json};
use turnlane_testkit::TestClient;

use crate::app_server::{Served, decide, ok, run_what_is_said, thread};

/// Starts a turn under a policy and answers its questions; how many there were.
async fn questions(
    client: &mut TestClient,
    thread: &str,
    command: &str,
    policy: &Value,
    decision: &str,
) -> usize {
    let params = json!({
        "threadId": thread, "input": [{"type": "text", "text": command}], "sandboxPolicy": policy,
    });
    let started = ok(client, "turn/start", params).await;
    let turn = started["turn"]["id"].clone();
    let mut count = 0;
    loop {
        let message = client.next().await.unwrap();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        if method.ends_with("/requestApproval") {
            count += 1;
            decide(client, &message, decision).await;
        }
        if method == "turn/completed" && message["params"]["turn"]["id"] == turn {
            return count;
        }
    }
}

#[tokio::test]
async fn an_approval_for_the_session_does_not_leave_its_sandbox() {
    let served = Served::new(run_what_is_said).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let confined = json!({"type": "readOnly", "networkAccess": false});
    let more = json!({"approvalPolicy": "untrusted", "sandboxPolicy": confined});
    let thread = thread(client, &served.work(), more).await;
    // A command that fails would be asked about once more, to run without a sandbox.
    let command = "(echo x > written) 2> /dev/null; true";
    let first = questions(client, &thread, command, &confined, "acceptForSession").await;
    assert_eq!(first, 1, "the command is asked about");
    assert!(!served.work().join("written").exists(), "it was confined");
    let again = questions(client, &thread, command, &confined, "decline").await;
    assert_eq!(again, 0, "the session has its answer");
    let free = json!({"type": "dangerFullAccess"});
    let asked = questions(client, &thread, command, &free, "decline").await;
    assert_eq!(asked, 1, "without a sandbox it is another question");
    assert!(!served.work().join("written").exists(), "it was declined");
}
