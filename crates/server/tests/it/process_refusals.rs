//! Every refusal of `command/exec*` and `process/*`: code, word and text.

use serde_json::{Value, json};
use turnlane_server::PeerKind;

use crate::host::{Host, base64, refused, result};

const INVALID: (i64, &str) = (-32600, "invalidParams");
const UNFIT: (i64, &str) = (-32602, "invalidParams");

fn text<'a>((code, reason): (i64, &'a str), message: &'a str) -> (i64, &'a str, &'a str) {
    (code, reason, message)
}

#[tokio::test]
async fn a_command_that_makes_no_sense_is_refused_before_it_starts() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let both = "command/exec cannot set both";
    for (params, refusal) in [
        (
            json!({"command": []}),
            text(INVALID, "command must not be empty"),
        ),
        (
            json!({"command": ["ls"], "tty": true}),
            text(
                INVALID,
                "command/exec tty or streaming requires a client-supplied processId",
            ),
        ),
        (
            json!({"command": ["ls"], "streamStdin": true}),
            text(
                INVALID,
                "command/exec tty or streaming requires a client-supplied processId",
            ),
        ),
        (
            json!({"command": ["ls"], "size": {"rows": 1, "cols": 1}}),
            text(UNFIT, "command/exec size requires tty: true"),
        ),
        (
            json!({"command": ["ls"], "processId": "p", "tty": true,
                "size": {"rows": 0, "cols": 1}}),
            text(
                UNFIT,
                "command/exec size rows and cols must be greater than 0",
            ),
        ),
        (
            json!({"command": ["ls"], "timeoutMs": -5}),
            text(UNFIT, "command/exec timeoutMs must be non-negative, got -5"),
        ),
        (
            json!({"command": ["ls"], "timeoutMs": 1, "disableTimeout": true}),
            text(UNFIT, &format!("{both} timeoutMs and disableTimeout")),
        ),
        (
            json!({"command": ["ls"], "outputBytesCap": 1, "disableOutputCap": true}),
            text(
                UNFIT,
                &format!("{both} outputBytesCap and disableOutputCap"),
            ),
        ),
        (
            json!({"command": ["ls"], "sandbox": "read-only",
                "sandboxPolicy": {"type": "dangerFullAccess"}}),
            text(INVALID, "sandbox and sandboxPolicy disagree"),
        ),
        (
            json!({"command": ["/no/such"]}),
            (
                -32603,
                "spawnFailed",
                "failed to spawn command: No such file or directory (os error 2)",
            ),
        ),
        (
            json!({"command": ["ls"], "cwd": "/no/such"}),
            (
                -32603,
                "spawnFailed",
                "failed to spawn command: No such file or directory (os error 2)",
            ),
        ),
    ] {
        refused(&mut client, "command/exec", params, refusal).await;
    }
    let mut far = host.client_of(PeerKind::Unix).await;
    let relative = json!({"command": ["ls"], "cwd": "here"});
    let refusal = text(INVALID, "cwd must be absolute: here");
    refused(&mut far, "command/exec", relative, refusal).await;
}

#[tokio::test]
async fn a_command_that_does_not_run_or_does_not_take_it_is_not_written_to() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let abc = base64("abc");
    let none = (
        -32600,
        "processNotFound",
        "no active command/exec for process id \"p\"",
    );
    for (method, params) in [
        (
            "command/exec/write",
            json!({"processId": "p", "deltaBase64": abc}),
        ),
        (
            "command/exec/resize",
            json!({"processId": "p", "size": {"rows": 1, "cols": 1}}),
        ),
        ("command/exec/terminate", json!({"processId": "p"})),
    ] {
        refused(&mut client, method, params, none).await;
    }
    let params = json!({"command": ["sh", "-c", "cat; exec sleep 100"], "processId": "p",
        "streamStdin": true});
    client.request("command/exec", params).await.unwrap();
    let again = json!({"command": ["ls"], "processId": "p"});
    let words = "duplicate active command/exec process id: \"p\"";
    refused(
        &mut client,
        "command/exec",
        again,
        (-32600, "duplicateProcess", words),
    )
    .await;
    for (params, refusal) in [
        (
            json!({"processId": "p"}),
            text(
                UNFIT,
                "command/exec/write requires deltaBase64 or closeStdin",
            ),
        ),
        (
            json!({"processId": "p", "deltaBase64": "!!"}),
            text(UNFIT, "invalid deltaBase64: Invalid symbol 33, offset 0."),
        ),
    ] {
        refused(&mut client, "command/exec/write", params, refusal).await;
    }
    for (size, refusal) in [
        (
            json!({"rows": 1, "cols": 0}),
            text(
                UNFIT,
                "command/exec size rows and cols must be greater than 0",
            ),
        ),
        (
            json!({"rows": 1, "cols": 1}),
            text(
                INVALID,
                "failed to resize PTY: process is not attached to a PTY",
            ),
        ),
    ] {
        let params = json!({"processId": "p", "size": size});
        refused(&mut client, "command/exec/resize", params, refusal).await;
    }
}

#[tokio::test]
async fn input_that_is_closed_or_was_never_open_is_not_written_to() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let abc = base64("abc");
    let params = json!({"command": ["sh", "-c", "cat; exec sleep 100"], "processId": "p",
        "streamStdin": true});
    client.request("command/exec", params).await.unwrap();
    let close = json!({"processId": "p", "closeStdin": true});
    result(&client.call("command/exec/write", close).await.unwrap());
    let write = json!({"processId": "p", "deltaBase64": abc});
    let closed = (-32600, "stdinClosed", "stdin is already closed");
    refused(&mut client, "command/exec/write", write, closed).await;
    let silent = json!({"command": ["sleep", "100"], "processId": "q"});
    client.request("command/exec", silent).await.unwrap();
    let write = json!({"processId": "q", "deltaBase64": abc});
    let words = "stdin streaming is not enabled for this command/exec";
    refused(
        &mut client,
        "command/exec/write",
        write,
        (-32600, "stdinClosed", words),
    )
    .await;
}

#[tokio::test]
async fn a_process_that_makes_no_sense_is_refused_before_it_starts() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let spawn = |more: Value| {
        let mut params = json!({"processHandle": "h", "command": ["ls"], "cwd": "/"});
        let members = more.as_object().unwrap().clone();
        params.as_object_mut().unwrap().extend(members);
        params
    };
    for (params, refusal) in [
        (
            spawn(json!({"command": []})),
            text(INVALID, "command must not be empty"),
        ),
        (
            spawn(json!({"processHandle": ""})),
            text(INVALID, "processHandle must not be empty"),
        ),
        (
            spawn(json!({"cwd": "here"})),
            text(INVALID, "cwd must be absolute: here"),
        ),
        (
            spawn(json!({"size": {"rows": 1, "cols": 1}})),
            text(UNFIT, "process/spawn size requires tty: true"),
        ),
        (
            spawn(json!({"tty": true, "size": {"rows": 1, "cols": 0}})),
            text(UNFIT, "process size rows and cols must be greater than 0"),
        ),
        (
            spawn(json!({"timeoutMs": -3})),
            text(
                UNFIT,
                "process/spawn timeoutMs must be non-negative, got -3",
            ),
        ),
        (
            spawn(json!({"command": ["/no/such"]})),
            (
                -32603,
                "spawnFailed",
                "failed to spawn process: No such file or directory (os error 2)",
            ),
        ),
        (
            json!({"command": ["ls"]}),
            text(INVALID, "Invalid request: missing field `processHandle`"),
        ),
    ] {
        refused(&mut client, "process/spawn", params, refusal).await;
    }
}

#[tokio::test]
async fn a_process_that_does_not_run_or_does_not_take_it_is_not_written_to() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let abc = base64("abc");
    let none = (
        -32600,
        "processNotFound",
        "no active process for process handle \"h\"",
    );
    for (method, params) in [
        (
            "process/writeStdin",
            json!({"processHandle": "h", "deltaBase64": abc}),
        ),
        (
            "process/resizePty",
            json!({"processHandle": "h", "size": {"rows": 1, "cols": 1}}),
        ),
        ("process/kill", json!({"processHandle": "h"})),
    ] {
        refused(&mut client, method, params, none).await;
    }
    let params = json!({"processHandle": "h", "command": ["sleep", "100"], "cwd": "/"});
    result(&client.call("process/spawn", params.clone()).await.unwrap());
    let duplicate = (
        -32600,
        "duplicateProcess",
        "duplicate active process handle: \"h\"",
    );
    refused(&mut client, "process/spawn", params, duplicate).await;
    for (params, refusal) in [
        (
            json!({"processHandle": "h"}),
            text(
                UNFIT,
                "process/writeStdin requires deltaBase64 or closeStdin",
            ),
        ),
        (
            json!({"processHandle": "h", "deltaBase64": "!!"}),
            text(UNFIT, "invalid deltaBase64: Invalid symbol 33, offset 0."),
        ),
        (
            json!({"processHandle": "h", "deltaBase64": abc}),
            (
                -32600,
                "stdinClosed",
                "stdin streaming is not enabled for this process",
            ),
        ),
    ] {
        refused(&mut client, "process/writeStdin", params, refusal).await;
    }
    let size = json!({"processHandle": "h", "size": {"rows": 1, "cols": 1}});
    let words = "failed to resize PTY: process is not attached to a PTY";
    refused(&mut client, "process/resizePty", size, text(INVALID, words)).await;
}

#[tokio::test]
async fn what_is_experimental_must_be_asked_for() {
    let host = Host::new().await;
    let mut client = host.plain_client().await;
    let words = "process/kill requires experimentalApi capability";
    let kill = json!({"processHandle": "h"});
    refused(
        &mut client,
        "process/kill",
        kill,
        (-32600, "experimental", words),
    )
    .await;
    let echo = json!({"command": ["echo", "a"]});
    let answer = client.call("command/exec", echo).await.unwrap();
    assert_eq!(result(&answer)["stdout"], "a\n");
}
