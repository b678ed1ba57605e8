//! Frames by hand against frames by serde, and against the recorded ones.

use std::time::Duration;

use super::*;
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use turnlane_process::Rusage;
use turnlane_protocol::exec_server::process::Output;
use turnlane_rpc::Duplex;

/// What an event is told as, on lines.
fn told(dialect: Dialect, id: &str, event: &Event) -> Option<String> {
    let (near, mut far) = tokio::io::duplex(4096);
    let mut frames = Duplex::lines(tokio::io::empty(), near).into_frames().writer;
    let frame_bytes = Wording::new(dialect, id).tell(&mut frames, event, || false);
    let written = async {
        frames.flush(Duration::from_secs(1)).await.unwrap();
        drop(frames);
        let mut text = String::new();
        far.read_to_string(&mut text).await.unwrap();
        text
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let text = runtime.unwrap().block_on(written);
    let frame = text.strip_suffix('\n')?;
    assert_eq!(frame.len(), frame_bytes);
    Some(frame.to_owned())
}

fn output(stream: StreamName, bytes: &[u8]) -> Event {
    Event::Output {
        seq: 1,
        stream,
        bytes: Bytes::copy_from_slice(bytes),
    }
}

fn exited(code: i32, signal: Option<i32>, reason: Reason) -> Event {
    let rusage = Rusage::default();
    let status = ExitStatus {
        code,
        signal,
        reason,
        rusage,
    };
    Event::Exited { seq: 3, status }
}

#[test]
fn output_looks_as_recorded() {
    assert_eq!(
        told(
            Dialect::ProcessV1,
            "p1",
            &output(StreamName::Stderr, b"err\n")
        )
        .unwrap(),
        r#"{"method":"process/output","params":{"processId":"p1","seq":1,"stream":"stderr","chunk":"ZXJyCg=="}}"#
    );
    assert_eq!(
        told(
            Dialect::V0,
            "session-1",
            &output(StreamName::Pty, b"hi\r\n")
        )
        .unwrap(),
        r#"{"method":"command/exec/outputDelta","params":{"sessionId":"session-1","stream":"stdout","chunk":"aGkNCg=="}}"#
    );
}

#[test]
fn ends_look_as_recorded_with_our_additions() {
    assert_eq!(
        told(
            Dialect::V0,
            "session-1",
            &exited(137, Some(9), Reason::Terminated)
        )
        .unwrap(),
        r#"{"method":"command/exec/exited","params":{"sessionId":"session-1","exitCode":137}}"#
    );
    assert_eq!(
        told(
            Dialect::ProcessV1,
            "p",
            &exited(137, Some(9), Reason::Terminated)
        )
        .unwrap(),
        r#"{"method":"process/exited","params":{"processId":"p","seq":3,"exitCode":137,"sandboxDenied":false,"signal":9,"reason":"terminated"}}"#
    );
    let closed = Event::Closed {
        seq: 4,
        drain_timed_out: false,
    };
    assert_eq!(told(Dialect::V0, "session-1", &closed), None);
    assert_eq!(
        told(Dialect::ProcessV1, "p", &closed).unwrap(),
        r#"{"method":"process/closed","params":{"processId":"p","seq":4}}"#
    );
}

#[test]
fn answers_have_their_members_in_the_known_order() {
    let text = |frame: Vec<u8>| String::from_utf8(frame).unwrap();
    let id = RequestId::from_raw("\"a\\u0062\"").unwrap();
    assert_eq!(
        text(result(&id, &json!({"running": true}))),
        r#"{"id":"a\u0062","result":{"running":true}}"#
    );
    assert_eq!(
        text(error(&RequestId::from(5), &failure::unknown_process("zz"))),
        r#"{"error":{"code":-32600,"message":"unknown process id zz"},"id":5}"#
    );
}

#[test]
fn an_answer_above_the_limit_is_an_error_instead() {
    let long = "x".repeat(MESSAGE_BYTES_MAX);
    let frame: Value = serde_json::from_slice(&result(&RequestId::from(1), &long)).unwrap();
    assert_eq!(frame["error"]["message"], "the answer exceeds 48 MiB");
}

proptest! {
    #[test]
    fn output_by_hand_is_output_by_serde(
        id in ".{0,20}",
        seq in any::<u64>(),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut out = BytesMut::new();
        let wording = Wording::new(Dialect::ProcessV1, &id);
        let output = wording.output(seq, StreamName::Stdout, &bytes);
        output.put(&mut out);
        prop_assert_eq!(out.len(), output.frame_bytes());
        let params = Output {
            process_id: id,
            seq,
            stream: process::StreamName::Stdout,
            chunk: bytes.clone().into(),
        };
        prop_assert_eq!(&out[..], notification(process::OUTPUT, &params));
    }
}
