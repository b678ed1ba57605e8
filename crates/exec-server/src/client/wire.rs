//! From frames to what processes told.
//!
//! Output is the hot path: it comes in one shape from our server and from Codex's, so that shape is
//! recognised as it stands and its base64 decoded straight from the frame. The invariant here: what
//! the short way does not recognise goes the long way, through serde, and means the same there.
//!
//! Which process an event is about, and what becomes of it, is decided elsewhere.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::value::RawValue;
use turnlane_process::StreamName;
use turnlane_protocol::exec_server::process as v1;
use turnlane_protocol::exec_server::v0;

use super::cell::Told;
use super::events::Exit;

/// What a notification of either dialect means.
#[derive(Debug)]
pub(super) struct Notice {
    pub(super) process: String,
    /// `None` in the dialect without numbers.
    pub(super) seq: Option<u64>,
    pub(super) told: Told,
}

/// Output that was recognised without parsing.
#[derive(Debug)]
pub(super) struct QuickOutput<'a> {
    pub(super) process: &'a str,
    pub(super) seq: u64,
    pub(super) stream: StreamName,
    pub(super) bytes: Bytes,
}

const OUTPUT_START: &[u8] = br#"{"method":"process/output","params":{"processId":""#;

/// The short way for `process/output`. An id with an escape, another order of members or anything
/// else that is unusual is left to [`notice`].
pub(super) fn quick_output(frame: &[u8]) -> Option<QuickOutput<'_>> {
    let rest = frame.strip_prefix(OUTPUT_START)?;
    let end = rest
        .iter()
        .position(|&byte| byte == b'"' || byte == b'\\')?;
    let process = std::str::from_utf8(&rest[..end]).ok()?;
    let rest = rest[end..].strip_prefix(br#"","seq":"#)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let seq = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    let rest = rest[digits..].strip_prefix(br#","stream":""#)?;
    let (stream, rest) = [
        (StreamName::Stdout, &b"stdout"[..]),
        (StreamName::Stderr, b"stderr"),
        (StreamName::Pty, b"pty"),
    ]
    .into_iter()
    .find_map(|(stream, name)| Some((stream, rest.strip_prefix(name)?)))?;
    let chunk = rest
        .strip_prefix(br#"","chunk":""#)?
        .strip_suffix(b"\"}}")?;
    // Anything that is not base64 fails here, a quotation mark included.
    let bytes = STANDARD.decode(chunk).ok()?.into();
    Some(QuickOutput {
        process,
        seq,
        stream,
        bytes,
    })
}

/// What a notification says; `None` if it is none of those we know.
pub(super) fn notice(
    method: &str,
    params: Option<&RawValue>,
) -> Option<Result<Notice, serde_json::Error>> {
    let params = params.unwrap_or(RawValue::NULL).get();
    Some(match method {
        v1::OUTPUT => serde_json::from_str(params).map(output),
        v1::EXITED => serde_json::from_str(params).map(exited),
        v1::CLOSED => serde_json::from_str(params).map(closed),
        v0::OUTPUT_DELTA => serde_json::from_str(params).map(output_delta),
        v0::EXITED => serde_json::from_str(params).map(exited_v0),
        _ => return None,
    })
}

/// `process/write`, encoded in one go. The names are ours and need no escapes; the id of the request
/// makes the id of the write.
pub(super) fn write_frame(id: i64, process: &str, bytes: &[u8]) -> Bytes {
    let mut frame = format!(
        r#"{{"id":{id},"method":"process/write","params":{{"processId":"{process}","chunk":""#
    );
    frame.reserve(bytes.len().div_ceil(3) * 4 + 48);
    STANDARD.encode_string(bytes, &mut frame);
    // Writing to a string cannot fail.
    let _ = write!(frame, r#"","writeId":"w{id}"}}}}"#);
    frame.into()
}

fn output(params: v1::Output) -> Notice {
    Notice {
        process: params.process_id,
        seq: Some(params.seq),
        told: Told::Output {
            stream: stream_from_wire(params.stream),
            bytes: params.chunk.0,
        },
    }
}

fn exited(params: v1::Exited) -> Notice {
    Notice {
        process: params.process_id,
        seq: Some(params.seq),
        told: Told::Exited(Exit {
            code: params.exit_code,
            signal: params.signal,
            reason: params.reason,
            sandbox_denied: params.sandbox_denied,
        }),
    }
}

fn closed(params: v1::Closed) -> Notice {
    Notice {
        process: params.process_id,
        seq: Some(params.seq),
        told: Told::Closed {
            drain_timed_out: params.drain_timed_out.unwrap_or(false),
        },
    }
}

fn output_delta(params: v0::OutputDelta) -> Notice {
    Notice {
        process: params.session_id,
        seq: None,
        told: Told::Output {
            stream: stream_from_wire(params.stream),
            bytes: params.chunk.0,
        },
    }
}

fn exited_v0(params: v0::Exited) -> Notice {
    Notice {
        process: params.session_id,
        seq: None,
        told: Told::Exited(Exit {
            code: params.exit_code,
            signal: None,
            reason: None,
            sandbox_denied: false,
        }),
    }
}

pub(super) fn stream_from_wire(stream: v1::StreamName) -> StreamName {
    match stream {
        v1::StreamName::Stdout => StreamName::Stdout,
        v1::StreamName::Stderr => StreamName::Stderr,
        v1::StreamName::Pty => StreamName::Pty,
    }
}

#[cfg(test)]
mod tests {
    use turnlane_protocol::envelope::{Message, decode};
    use turnlane_protocol::exec_server::Blob;

    use super::*;

    /// The long way.
    fn parsed(frame: &[u8]) -> Option<(String, u64, StreamName, Bytes)> {
        let Ok(Message::Notification { method, params, .. }) = decode(frame) else {
            return None;
        };
        let notice = notice(&method, params)?.ok()?;
        match notice.told {
            Told::Output { stream, bytes } => Some((notice.process, notice.seq?, stream, bytes)),
            Told::Exited(_) | Told::Closed { .. } => None,
        }
    }

    fn quick(frame: &[u8]) -> Option<(String, u64, StreamName, Bytes)> {
        let found = quick_output(frame)?;
        Some((
            found.process.to_owned(),
            found.seq,
            found.stream,
            found.bytes,
        ))
    }

    #[test]
    fn the_shape_both_servers_write_is_recognised() {
        for (stream, name) in [
            (v1::StreamName::Stdout, StreamName::Stdout),
            (v1::StreamName::Stderr, StreamName::Stderr),
            (v1::StreamName::Pty, StreamName::Pty),
        ] {
            let params = v1::Output {
                process_id: "p7".to_owned(),
                seq: 12,
                stream,
                chunk: Blob::from(&b"hi\n\xff"[..]),
            };
            let frame = turnlane_protocol::envelope::encode_notification(v1::OUTPUT, &params, None)
                .unwrap();
            let expected = ("p7".to_owned(), 12, name, Bytes::from_static(b"hi\n\xff"));
            assert_eq!(quick(&frame), Some(expected.clone()));
            assert_eq!(parsed(&frame), Some(expected));
        }
    }

    #[test]
    fn a_write_is_what_the_types_say() {
        let frame = write_frame(7, "p1", b"hi\n\xff");
        let Ok(Message::Request { id, method, params }) = decode(&frame) else {
            panic!("no request");
        };
        assert_eq!((id.as_i64(), method.as_ref()), (Some(7), v1::WRITE));
        let params: v1::WriteParams = serde_json::from_str(params.unwrap().get()).unwrap();
        let expected = v1::WriteParams {
            process_id: "p1".to_owned(),
            chunk: Blob::from(&b"hi\n\xff"[..]),
            write_id: "w7".to_owned(),
        };
        assert_eq!(params, expected);
    }

    #[test]
    fn everything_unusual_is_left_to_the_parser() {
        for frame in [
            r#"{"method":"process/output","params":{"processId":"p\u0037","seq":1,"stream":"pty","chunk":""}}"#,
            r#"{"method":"process/output","params":{"seq":1,"processId":"p","stream":"pty","chunk":""}}"#,
            r#"{"method":"process/output","params":{"processId":"p","seq":1,"stream":"pty","chunk":"","x":"a"}}"#,
            r#"{"method":"process/output","params":{"processId":"p","seq":1,"stream":"pty","chunk":"aGk="} }"#,
            r#"{"jsonrpc":"2.0","method":"process/output","params":{"processId":"p","seq":1,"stream":"pty","chunk":""}}"#,
        ] {
            assert_eq!(quick(frame.as_bytes()), None, "{frame}");
            assert!(parsed(frame.as_bytes()).is_some(), "{frame}");
        }
    }

    proptest::proptest! {
        /// Whatever the short way recognises, the long way reads the same.
        #[test]
        fn both_ways_agree(
            id in "[a-z\"\\\\é]{0,3}",
            seq in "[0-9]{0,21}",
            stream in "(stdout|stderr|pty|other)",
            chunk in "[A-Za-z0-9+/=\"]{0,8}",
            tail in "(\"\\}\\}|\"\\} \\}|\\}\\})",
        ) {
            let frame = format!(
                r#"{{"method":"process/output","params":{{"processId":"{id}","seq":{seq},"stream":"{stream}","chunk":"{chunk}{tail}"#
            );
            if let Some(found) = quick(frame.as_bytes()) {
                let long = parsed(frame.as_bytes());
                // Leading zeros are no JSON; the short way need not care.
                proptest::prop_assert!(long.as_ref() == Some(&found) || seq.starts_with('0'));
            }
        }
    }
}
