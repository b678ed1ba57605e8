//! What is said about flags that make no sense, and places that cannot be listened on.

use insta::assert_snapshot;

use crate::turnlane;

#[tokio::test]
async fn a_place_that_cannot_be_listened_on_is_named() {
    let home = turnlane_testkit::TempHome::new().unwrap();
    let mut said = Vec::new();
    for arguments in [
        &["--listen", "tcp://127.0.0.1:1"][..],
        &["--listen", ""],
        &["--listen", "ws://localhost:1"],
        &["--listen", "ws://127.0.0.1"],
        &["--listen", "ws://127.0.0.1:99999"],
        &["--listen", "wss://127.0.0.1:1"],
        &["--listen", "stdio", "--stdio"],
        &["--listen", "unix:///dev/null/socket"],
        &["--listen"],
        &["-c", "model"],
        &["-c", "model_context_window=big"],
        &["--script", "/no/such/script"],
    ] {
        let all = [&["app-server"][..], arguments].concat();
        let output = crate::run(turnlane(&all).envs(home.env())).await;
        let first = output.stderr_tail.lines().next().unwrap_or_default();
        let code = output.status.code().unwrap();
        said.push(format!("{}: {code} {first}", arguments.join(" ")));
    }
    assert_snapshot!(said.join("\n"), @"
    --listen tcp://127.0.0.1:1: 1 error: unsupported --listen URL `tcp://127.0.0.1:1`; expected `stdio://`, `ws://IP:PORT`, `unix://[PATH]` or `off`
    --listen : 1 error: unsupported --listen URL ``; expected `stdio://`, `ws://IP:PORT`, `unix://[PATH]` or `off`
    --listen ws://localhost:1: 1 error: invalid websocket --listen URL `ws://localhost:1`; expected `ws://IP:PORT`
    --listen ws://127.0.0.1: 1 error: invalid websocket --listen URL `ws://127.0.0.1`; expected `ws://IP:PORT`
    --listen ws://127.0.0.1:99999: 1 error: invalid websocket --listen URL `ws://127.0.0.1:99999`; expected `ws://IP:PORT`
    --listen wss://127.0.0.1:1: 1 error: unsupported --listen URL `wss://127.0.0.1:1`; expected `stdio://`, `ws://IP:PORT`, `unix://[PATH]` or `off`
    --listen stdio --stdio: 1 error: standard input and output can be listened on once
    --listen unix:///dev/null/socket: 1 error: cannot listen on /dev/null/socket: File exists (os error 17)
    --listen: 2 error: a value is required for '--listen <URL>' but none was supplied
    -c model: 1 error: -c wants key=value, not `model`
    -c model_context_window=big: 1 error: -c model_context_window=big: model_context_window: expected a whole number, found a string
    --script /no/such/script: 1 error: cannot read /no/such/script: No such file or directory (os error 2)
    ");
}
