//! Message in, frame out. What is written here is read by every client: no `jsonrpc` member.

use std::io::Write as _;
use std::ops::Range;

use serde::Serialize;

use super::RequestId;
use crate::error::ErrorObject;

/// Most messages are answers and deltas of this size or less.
const FRAME_BYTES_TYPICAL: usize = 192;

/// The top-level members of a notification a server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Wall clock in milliseconds since 1970.
    pub emitted_at_ms: i64,
    /// Number of the event in its thread; `None` for what is not about one loaded thread.
    pub seq: Option<u64>,
}

/// A request of ours.
pub fn encode_request(
    id: &RequestId,
    method: &str,
    params: &impl Serialize,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::with_capacity(FRAME_BYTES_TYPICAL);
    out.extend_from_slice(b"{\"id\":");
    id.write_to(&mut out);
    out.extend_from_slice(b",\"method\":");
    serde_json::to_writer(&mut out, method)?;
    out.extend_from_slice(b",\"params\":");
    serde_json::to_writer(&mut out, params)?;
    out.push(b'}');
    Ok(out)
}

/// The answer to a request that was served.
pub fn encode_result(
    id: &RequestId,
    result: &impl Serialize,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::with_capacity(FRAME_BYTES_TYPICAL);
    out.extend_from_slice(b"{\"id\":");
    id.write_to(&mut out);
    out.extend_from_slice(b",\"result\":");
    serde_json::to_writer(&mut out, result)?;
    out.push(b'}');
    Ok(out)
}

/// The answer to a request that was refused or failed; `None` writes `"id":null`.
pub fn encode_error(id: Option<&RequestId>, error: &ErrorObject) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRAME_BYTES_TYPICAL);
    out.extend_from_slice(b"{\"id\":");
    match id {
        Some(id) => id.write_to(&mut out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"error\":");
    let start = out.len();
    if serde_json::to_writer(&mut out, error).is_err() {
        // Strings and JSON values always serialise; should that ever change, a request must
        // still get its answer.
        out.truncate(start);
        out.extend_from_slice(b"{\"code\":-32603,\"message\":\"error could not be written\"}");
    }
    out.push(b'}');
    out
}

/// A notification; `stamp` is what servers add and clients leave out.
pub fn encode_notification(
    method: &str,
    params: &impl Serialize,
    stamp: Option<Stamp>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::with_capacity(FRAME_BYTES_TYPICAL);
    begin_notification(&mut out, method)?;
    serde_json::to_writer(&mut out, params)?;
    end_notification(&mut out, stamp);
    Ok(out)
}

/// A text delta whose frame can be joined with the next one of the same item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The whole notification.
    pub frame: Vec<u8>,
    /// Where in `frame` the delta's text stands, escaped, without its quotes. Escaped texts can be
    /// joined as bytes, so merging two deltas needs no parsing: the first frame up to the end of
    /// its text, the second text, and the second frame's rest with its newer `seq`.
    pub text: Range<usize>,
}

/// A notification whose params are those of `params` (an object) and then `"delta":text`.
pub fn encode_delta(
    method: &str,
    params: &impl Serialize,
    text: &str,
    stamp: Stamp,
) -> Result<Delta, serde_json::Error> {
    let mut frame = Vec::with_capacity(FRAME_BYTES_TYPICAL + text.len());
    begin_notification(&mut frame, method)?;
    serde_json::to_writer(&mut frame, params)?;
    match frame.pop() {
        Some(b'}') => {}
        _ => {
            return Err(serde::ser::Error::custom(
                "params of a delta must be an object",
            ));
        }
    }
    if frame.last() != Some(&b'{') {
        frame.push(b',');
    }
    frame.extend_from_slice(b"\"delta\":");
    let start = frame.len() + 1;
    serde_json::to_writer(&mut frame, text)?;
    let end = frame.len() - 1;
    frame.push(b'}');
    end_notification(&mut frame, Some(stamp));
    Ok(Delta {
        frame,
        text: start..end,
    })
}

fn begin_notification(out: &mut Vec<u8>, method: &str) -> Result<(), serde_json::Error> {
    out.extend_from_slice(b"{\"method\":");
    serde_json::to_writer(&mut *out, method)?;
    out.extend_from_slice(b",\"params\":");
    Ok(())
}

fn end_notification(out: &mut Vec<u8>, stamp: Option<Stamp>) {
    if let Some(Stamp { emitted_at_ms, seq }) = stamp {
        // Writing to a Vec cannot fail; the result is only there for other writers.
        _ = write!(out, ",\"emittedAtMs\":{emitted_at_ms}");
        if let Some(seq) = seq {
            _ = write!(out, ",\"seq\":{seq}");
        }
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn text(frame: &[u8]) -> &str {
        std::str::from_utf8(frame).unwrap()
    }

    #[test]
    fn frames_are_written_without_jsonrpc_and_in_a_fixed_order() {
        let id = RequestId::from_raw(r#""\u0061""#).unwrap();
        assert_eq!(
            text(&encode_request(&RequestId::from(0), "a/b", &json!({"x": 1})).unwrap()),
            r#"{"id":0,"method":"a/b","params":{"x":1}}"#
        );
        assert_eq!(
            text(&encode_result(&id, &json!({})).unwrap()),
            r#"{"id":"\u0061","result":{}}"#
        );
        assert_eq!(
            text(&encode_error(None, &ErrorObject::message_too_large(5))),
            r#"{"id":null,"error":{"code":-32600,"message":"message exceeds 5 bytes","data":{"reason":"tooLarge"}}}"#
        );
        let stamp = Stamp {
            emitted_at_ms: 12,
            seq: Some(3),
        };
        assert_eq!(
            text(&encode_notification("n", &json!({}), Some(stamp)).unwrap()),
            r#"{"method":"n","params":{},"emittedAtMs":12,"seq":3}"#
        );
        assert_eq!(
            text(&encode_notification("initialized", &json!({}), None).unwrap()),
            r#"{"method":"initialized","params":{}}"#
        );
    }

    #[test]
    fn two_deltas_join_as_bytes() {
        let stamp = |seq| Stamp {
            emitted_at_ms: 1,
            seq: Some(seq),
        };
        let params = json!({"threadId": "t", "itemId": "delta\":\""});
        let first = encode_delta("d", &params, "tab\t\"quoted\" é", stamp(1)).unwrap();
        let second = encode_delta("d", &params, "\u{1F600}\\ end", stamp(2)).unwrap();
        let mut joined = first.frame[..first.text.end].to_vec();
        joined.extend_from_slice(&second.frame[second.text.start..]);
        let value: Value = serde_json::from_slice(&joined).unwrap();
        assert_eq!(value["params"]["delta"], "tab\t\"quoted\" é\u{1F600}\\ end");
        assert_eq!(value["params"]["itemId"], "delta\":\"");
        assert_eq!(value["seq"], 2);
    }

    #[test]
    fn a_delta_needs_an_object() {
        let stamp = Stamp {
            emitted_at_ms: 1,
            seq: None,
        };
        assert!(encode_delta("d", &json!([1]), "x", stamp).is_err());
        assert!(encode_delta("d", &json!({}), "x", stamp).is_ok());
    }
}
