//! What the dialect v0 can do, over our own server.

use turnlane_exec_server::client::{ClientError, StartSpec};
use turnlane_process::{End, StreamName, TerminalSize};

use super::common::{exit_code, read_all, read_until};
use super::places::Place;

pub(super) async fn a_terminal_of_v0_is_written_to_and_read(place: &Place) {
    let spec = place.script("read x; echo got:$x; exit 4");
    let spec = spec.on_terminal(TerminalSize::default());
    let process = place.client.start(spec).await.unwrap();
    process.write("hi\n").await.unwrap();
    let told = read_all(&process).await;
    assert!(told.iter().all(|(stream, _)| *stream == StreamName::Pty));
    assert_eq!(exit_code(&process).await, 4);
    let text = process.snapshot().await.unwrap().terminal.text();
    assert!(text.contains("got:hi\r\n"), "{text:?}");
}

pub(super) async fn a_command_of_v0_has_two_streams_and_no_input(place: &Place) {
    let spec = place.script("echo out; echo err >&2; cat; exit 5");
    let process = place.client.start(spec).await.unwrap();
    let error = process.write("x").await.unwrap_err();
    assert!(matches!(error, ClientError::StdinClosed), "{error}");
    let ran = process.communicate("", None).await.unwrap();
    assert_eq!(ran.exit.code, 5);
    assert_eq!(ran.snapshot.stdout.text(), "out\n");
    assert_eq!(ran.snapshot.stderr.text(), "err\n");
}

pub(super) async fn v0_ends_by_force_and_only_so(place: &Place) {
    let spec = place.script("echo ready; exec sleep 1000");
    let process = place.client.start(spec).await.unwrap();
    read_until(&process, "ready").await;
    let error = process.end(End::GRACEFUL).await.unwrap_err();
    assert!(matches!(error, ClientError::Unsupported { .. }), "{error}");
    assert!(process.end(End::Force).await.unwrap());
    assert_eq!(exit_code(&process).await, 137);
    assert!(!process.end(End::Force).await.unwrap());
}

pub(super) async fn a_failed_start_of_v0_says_why(place: &Place) {
    let missing = StartSpec::new(["/no/such/program"], place.path());
    let error = place.client.start(missing).await.unwrap_err();
    match error {
        ClientError::Rpc { code, message, .. } => {
            let expected = "No such file or directory (os error 2)";
            assert_eq!((code, message.as_str()), (-32603, expected));
        }
        other => panic!("{other}"),
    }
}
