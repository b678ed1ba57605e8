//! Frame in, message or refusal out.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::RequestId;
use crate::error::{ErrorObject, INVALID_REQUEST, Reason};

/// A well-formed message, borrowing from its frame.
#[derive(Debug)]
pub enum Message<'a> {
    /// Wants exactly one answer.
    Request {
        /// To be echoed byte for byte.
        id: RequestId,
        /// What is asked; unknown here.
        method: Cow<'a, str>,
        /// Raw JSON; `None` when absent or null.
        params: Option<&'a RawValue>,
    },
    /// Wants none.
    Notification {
        /// What happened.
        method: Cow<'a, str>,
        /// Raw JSON; `None` when absent or null.
        params: Option<&'a RawValue>,
        /// When and as which event of its thread it was sent.
        stamp: ReceivedStamp,
    },
    /// Answers one of our requests. Never answered itself, so that two peers cannot loop.
    Answer {
        /// `None` when the id is unreadable: the sender could not tell which request it meant.
        id: Option<RequestId>,
        /// Raw result, or the error.
        outcome: Result<&'a RawValue, ErrorObject>,
    },
}

/// Top-level members of a received notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedStamp {
    /// Wall clock of the sender in milliseconds; clients of ours send none.
    pub emitted_at_ms: Option<i64>,
    /// Number of the event in its thread.
    pub seq: Option<u64>,
}

/// A frame that is no message, with the answer it gets. The connection goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The sender's id where it could be read, else written as null.
    pub id: Option<RequestId>,
    /// What to answer.
    pub error: ErrorObject,
}

impl Refusal {
    fn unnamed(error: ErrorObject) -> Self {
        Self { id: None, error }
    }
}

/// Reads one frame.
///
/// Members we do not know are ignored; a member given twice is refused, since either value might
/// be the one that was meant. A message with `method` is a request or a notification whatever
/// else it holds.
pub fn decode(frame: &[u8]) -> Result<Message<'_>, Refusal> {
    let members = match serde_json::from_slice(frame) {
        Ok(Shape::Object(members)) => members,
        Ok(Shape::Array) => {
            return Err(Refusal::unnamed(ErrorObject::new(
                INVALID_REQUEST,
                Reason::BatchUnsupported,
                "batch requests are not supported",
            )));
        }
        Err(why) if why.is_data() => {
            return Err(Refusal::unnamed(ErrorObject::invalid_params(&why)));
        }
        Err(why) => return Err(Refusal::unnamed(ErrorObject::parse_error(&why))),
    };
    let id = members.id.map(|raw| RequestId::from_raw(raw.get()));
    match members.method {
        Some(method) => call(&members, id, method),
        None if members.result.is_some() || members.error.is_some() => Ok(Message::Answer {
            id: id.and_then(Result::ok),
            outcome: outcome(&members),
        }),
        None => Err(Refusal {
            id: id.and_then(Result::ok),
            error: ErrorObject::invalid_request("missing field `method`"),
        }),
    }
}

fn call<'a>(
    members: &Members<'a>,
    id: Option<Result<RequestId, super::BadRequestId>>,
    method: &'a RawValue,
) -> Result<Message<'a>, Refusal> {
    let id = match id {
        Some(Err(bad)) => {
            return Err(Refusal::unnamed(ErrorObject::invalid_request(
                &bad.to_string(),
            )));
        }
        Some(Ok(id)) => Some(id),
        None => None,
    };
    let Method(method) = match serde_json::from_str(method.get()) {
        Ok(method) => method,
        Err(why) => {
            return Err(Refusal {
                id,
                error: ErrorObject::invalid_params(&why),
            });
        }
    };
    let params = members.params.filter(|raw| raw.get() != "null");
    Ok(match id {
        Some(id) => Message::Request { id, method, params },
        None => Message::Notification {
            method,
            params,
            stamp: ReceivedStamp {
                emitted_at_ms: members.emitted_at_ms.and_then(number),
                seq: members.seq.and_then(number),
            },
        },
    })
}

fn outcome<'a>(members: &Members<'a>) -> Result<&'a RawValue, ErrorObject> {
    let Some(error) = members.error.filter(|raw| raw.get() != "null") else {
        // Both null: a result of null is a legal result. An error of null stands in for one that is
        // not there, since readers take slices of the frame and a `null` of ours would be none.
        return Ok(members.result.or(members.error).unwrap_or(RawValue::NULL));
    };
    Err(serde_json::from_str(error.get()).unwrap_or_else(|_| {
        ErrorObject::internal("the peer sent an error without code or message")
    }))
}

/// Lenient on purpose: a stamp we cannot read must not cost the notification.
fn number<T: for<'de> Deserialize<'de>>(raw: &RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// A string that borrows where it has no escapes.
struct Method<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Method<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Method<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Method(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Method(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// The members we know, raw; `Some` means the member was there, null included.
#[derive(Default)]
struct Members<'a> {
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    emitted_at_ms: Option<&'a RawValue>,
    seq: Option<&'a RawValue>,
}

enum Shape<'a> {
    Object(Members<'a>),
    Array,
}

impl<'de> Deserialize<'de> for Shape<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        // Read to the end, so that a broken array is a parse error and not a batch.
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Shape::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members::default();
        while let Some(Method(key)) = map.next_key()? {
            let (slot, name) = match key.as_ref() {
                "id" => (&mut members.id, "id"),
                "method" => (&mut members.method, "method"),
                "params" => (&mut members.params, "params"),
                "result" => (&mut members.result, "result"),
                "error" => (&mut members.error, "error"),
                "emittedAtMs" => (&mut members.emitted_at_ms, "emittedAtMs"),
                "seq" => (&mut members.seq, "seq"),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if slot.replace(map.next_value()?).is_some() {
                return Err(A::Error::duplicate_field(name));
            }
        }
        Ok(Shape::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(frame: &str) -> (Option<String>, i64, String) {
        let Refusal { id, error } = decode(frame.as_bytes()).expect_err("must be refused");
        assert!(error.reason().is_some(), "{frame}: {error:?}");
        (id.map(|id| id.to_string()), error.code, error.message)
    }

    #[test]
    fn bad_input_gets_the_answers_of_the_contract() {
        let id_text = "Invalid request: id must be a string or an integer";
        let cases: &[(&str, Option<&str>, i64, &str)] = &[
            ("[]", None, -32600, "batch requests are not supported"),
            (
                r#"[{"id":1,"method":"a"}]"#,
                None,
                -32600,
                "batch requests are not supported",
            ),
            (
                r#"{"id":3}"#,
                Some("3"),
                -32600,
                "Invalid request: missing field `method`",
            ),
            (
                r#"{"id":"x","a":1}"#,
                Some("\"x\""),
                -32600,
                "Invalid request: missing field `method`",
            ),
            (
                r#"{"id":1.5}"#,
                None,
                -32600,
                "Invalid request: missing field `method`",
            ),
            (
                "{}",
                None,
                -32600,
                "Invalid request: missing field `method`",
            ),
            (r#"{"id":null,"method":"a"}"#, None, -32600, id_text),
            (r#"{"id":1.5,"method":"a"}"#, None, -32600, id_text),
            (r#"{"id":{},"method":"a"}"#, None, -32600, id_text),
            (
                r#"{"id":9223372036854775808,"method":"a"}"#,
                None,
                -32600,
                id_text,
            ),
            (
                r#"{"id":1,"method":5}"#,
                Some("1"),
                -32600,
                "Invalid request: invalid type: integer `5`, expected a string",
            ),
            (
                r#"{"id":1,"id":2,"method":"a"}"#,
                None,
                -32600,
                "Invalid request: duplicate field `id`",
            ),
            (
                "5",
                None,
                -32600,
                "Invalid request: invalid type: integer `5`, expected an object",
            ),
        ];
        for &(frame, id, code, message) in cases {
            assert_eq!(
                refused(frame),
                (id.map(str::to_owned), code, message.to_owned()),
                "{frame}"
            );
        }
    }

    #[test]
    fn what_is_not_json_is_a_parse_error() {
        for frame in [
            "{",
            "nonsense",
            "{\"id\":1,\"method\":\"a\"",
            "[1,",
            "{} {}",
            "\u{feff}{}",
        ] {
            let (id, code, message) = refused(frame);
            assert_eq!((id, code), (None, -32700), "{frame}");
            assert!(message.starts_with("Parse error: "), "{message}");
        }
        let invalid_utf8 = decode(b"{\"id\":1,\"method\":\"\xff\"}").expect_err("not UTF-8");
        assert_eq!(invalid_utf8.error.code, -32700);
    }

    #[test]
    fn an_object_with_result_or_error_is_an_answer() {
        for frame in [
            r#"{"id":1,"result":{}}"#,
            r#"{"id":1,"result":null}"#,
            r#"{"id":1,"error":{"code":1,"message":"m"}}"#,
            r#"{"id":1,"error":"odd"}"#,
            r#"{"id":null,"error":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":[],"error":null}"#,
        ] {
            assert!(
                matches!(decode(frame.as_bytes()), Ok(Message::Answer { .. })),
                "{frame}"
            );
        }
    }

    #[test]
    fn what_an_answer_carries_is_a_part_of_its_frame() {
        for frame in [
            r#"{"id":1,"error":null}"#,
            r#"{"id":1,"result":null,"error":null}"#,
            r#"{"id":1,"result":null}"#,
        ] {
            let Ok(Message::Answer {
                outcome: Ok(null), ..
            }) = decode(frame.as_bytes())
            else {
                panic!("{frame} has no result");
            };
            assert_eq!(null.get(), "null");
            let inside = frame.as_bytes().as_ptr_range();
            assert!(inside.contains(&null.get().as_ptr()), "{frame}");
        }
    }

    #[test]
    fn a_message_with_method_is_a_call_whatever_else_it_holds() {
        let frame = br#"{"jsonrpc":"2.0","id":"a\u0062","method":"x\/y","params":null,"result":1}"#;
        let Ok(Message::Request { id, method, params }) = decode(frame) else {
            panic!("not a request");
        };
        assert_eq!(
            (id.to_string().as_str(), method.as_ref()),
            (r#""a\u0062""#, "x/y")
        );
        assert!(params.is_none());
    }

    #[test]
    fn a_notification_keeps_its_stamp() {
        let frame = br#"{"method":"turn/started","params":{"a":1},"emittedAtMs":5,"seq":41}"#;
        let Ok(Message::Notification { params, stamp, .. }) = decode(frame) else {
            panic!("not a notification");
        };
        assert_eq!(params.unwrap().get(), r#"{"a":1}"#);
        assert_eq!(
            stamp,
            ReceivedStamp {
                emitted_at_ms: Some(5),
                seq: Some(41)
            }
        );
    }

    #[test]
    fn deep_nesting_neither_overflows_nor_hangs() {
        let depth = 1_000_000;
        let frame = format!(r#"{{"id":1,"method":"a","params":{}"#, "[".repeat(depth));
        assert_eq!(decode(frame.as_bytes()).unwrap_err().error.code, -32700);
        let closed = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(decode(closed.as_bytes()).is_err());
    }
}
