//! `process/*`: an answer at the start, everything told until the end.

use serde_json::{Value, json};
use turnlane_server::{PeerKind, ProcessSpawn};
use turnlane_testkit::TestClient;

use crate::host::{Host, base64, refused, result, told, until_told};

#[expect(
    clippy::needless_pass_by_value,
    reason = "examples are written in place"
)]
fn spawn(handle: &str, script: &str, more: Value) -> Value {
    let mut params = json!({"processHandle": handle, "command": ["sh", "-c", script],
        "cwd": "/"});
    let members = more.as_object().unwrap().clone();
    params.as_object_mut().unwrap().extend(members);
    params
}

async fn exited(client: &mut TestClient, handle: &str) -> Value {
    let found = client
        .find(&format!("the end of {handle}"), |message| {
            message["method"] == "process/exited" && message["params"]["processHandle"] == handle
        })
        .await
        .unwrap();
    assert_eq!(found["emittedAtMs"], 1_800_000_000_000_i64);
    found["params"].clone()
}

#[tokio::test]
async fn a_process_is_answered_at_its_start_and_told_at_its_end() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let params = spawn("h", "echo out; echo err >&2; exit 3", json!({}));
    let answer = client.call("process/spawn", params).await.unwrap();
    assert_eq!(result(&answer), json!({}));
    assert_eq!(
        exited(&mut client, "h").await,
        json!({"processHandle": "h", "exitCode": 3, "outputDrainTimedOut": false,
            "stdout": "out\n", "stdoutCapReached": false, "stderr": "err\n",
            "stderrCapReached": false})
    );
    let order: Vec<_> = client.received()[1..]
        .iter()
        .map(|message| message.get("result").is_some())
        .collect();
    assert_eq!(order, [true, false]);
}

#[tokio::test]
async fn a_process_without_a_sandbox_streams_within_its_cap() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let more = json!({"outputBytesCap": 2, "streamStdoutStderr": true});
    let params = spawn("a", "echo hello; echo e >&2", more);
    client.call("process/spawn", params).await.unwrap();
    let end = exited(&mut client, "a").await;
    assert_eq!(
        (&end["stdout"], &end["stdoutCapReached"]),
        (&json!(""), &json!(true))
    );
    assert_eq!(end["stderrCapReached"], false);
    assert_eq!(told(&client, "a", "stdout"), (b"he".to_vec(), true));
    assert_eq!(told(&client, "a", "stderr"), (b"e\n".to_vec(), false));
    let kept = spawn("b", "echo hello", json!({"outputBytesCap": 2}));
    client.call("process/spawn", kept).await.unwrap();
    let end = exited(&mut client, "b").await;
    assert_eq!(
        (&end["stdout"], &end["stdoutCapReached"]),
        (&json!("he"), &json!(true))
    );
    let all = "head -c 2000000 /dev/zero | tr '\\0' x";
    let params = spawn("c", all, json!({"outputBytesCap": null, "timeoutMs": null}));
    client.call("process/spawn", params).await.unwrap();
    let end = exited(&mut client, "c").await;
    assert_eq!(end["stdout"].as_str().unwrap().len(), 2_000_000);
    assert_eq!(end["stdoutCapReached"], false);
}

#[tokio::test]
async fn a_terminal_of_a_process_is_written_resized_and_ended() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let params = spawn("t", "stty size; cat", json!({"tty": true}));
    client.call("process/spawn", params).await.unwrap();
    until_told(&mut client, "t", "24 80\r\n").await;
    let size = json!({"processHandle": "t", "size": {"rows": 5, "cols": 6}});
    let resized = client.call("process/resizePty", size).await.unwrap();
    assert_eq!(result(&resized), json!({}));
    let write = json!({"processHandle": "t", "deltaBase64": base64("abc\n")});
    client.call("process/writeStdin", write).await.unwrap();
    until_told(&mut client, "t", "abc\r\nabc\r\n").await;
    let kill = json!({"processHandle": "t"});
    let killed = client.call("process/kill", kill).await.unwrap();
    assert_eq!(result(&killed), json!({}));
    assert_eq!(exited(&mut client, "t").await["exitCode"], 137);
}

#[tokio::test]
async fn time_input_and_a_handle_that_is_free_again() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let late = spawn("h", "sleep 100", json!({"timeoutMs": 100}));
    client.call("process/spawn", late).await.unwrap();
    assert_eq!(exited(&mut client, "h").await["exitCode"], 124);
    let again = spawn("h", "cat", json!({"streamStdin": true}));
    assert_eq!(
        result(&client.call("process/spawn", again).await.unwrap()),
        json!({})
    );
    let write = json!({"processHandle": "h", "deltaBase64": base64("abc"), "closeStdin": true});
    assert_eq!(
        result(&client.call("process/writeStdin", write).await.unwrap()),
        json!({})
    );
    let ended = |message: &Value| {
        message["method"] == "process/exited" && message["params"]["stdout"] == "abc"
    };
    client.find("the second end", ended).await.unwrap();
}

#[tokio::test]
async fn a_descendant_that_holds_the_output_does_not_hold_the_end() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let params = spawn("h", "sleep 1000 & echo begun", json!({}));
    client.call("process/spawn", params).await.unwrap();
    let end = exited(&mut client, "h").await;
    assert_eq!(
        (&end["exitCode"], &end["stdout"]),
        (&json!(0), &json!("begun\n"))
    );
    assert_eq!(end["outputDrainTimedOut"], true);
}

#[tokio::test]
async fn handles_and_ids_belong_to_their_connection() {
    let host = Host::new().await;
    let (mut one, mut other) = (host.client().await, host.client().await);
    for client in [&mut one, &mut other] {
        let params = spawn("h", "sleep 1000", json!({}));
        assert_eq!(
            result(&client.call("process/spawn", params).await.unwrap()),
            json!({})
        );
    }
    let kill = json!({"processHandle": "h"});
    one.call("process/kill", kill.clone()).await.unwrap();
    exited(&mut one, "h").await;
    let words = "no active process for process handle \"h\"";
    let refusal = (-32600, "processNotFound", words);
    refused(&mut one, "process/kill", kill.clone(), refusal).await;
    let answer = other.call("process/kill", kill).await.unwrap();
    assert_eq!(result(&answer), json!({}));
}

#[tokio::test]
async fn processes_are_not_started_where_the_operator_does_not_want_it() {
    let disabled = (-32600, "disabled", "process/spawn is disabled");
    let host = Host::with(ProcessSpawn::Deny).await;
    let mut client = host.client().await;
    let params = spawn("h", "true", json!({}));
    refused(&mut client, "process/spawn", params.clone(), disabled).await;
    let host = Host::new().await;
    let mut client = host.client_of(PeerKind::OpenWebSocket).await;
    refused(&mut client, "process/spawn", params.clone(), disabled).await;
    for kind in [PeerKind::Unix, PeerKind::WebSocket] {
        let mut client = host.client_of(kind).await;
        let answer = client.call("process/spawn", params.clone()).await.unwrap();
        assert_eq!(result(&answer), json!({}));
    }
}
