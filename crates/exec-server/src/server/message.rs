//! From a frame to what its sender wants, or to the text that says why it wants nothing.
//!
//! The envelope is that of `turnlane_protocol`; only the words of a refusal are this protocol's own,
//! and whether a refusal is answered or ends the connection is decided by the dialect.

use serde::Deserialize;
use serde_json::value::RawValue;
use turnlane_protocol::envelope::{self, Message, RequestId};
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::strict;

use super::limits;

/// Reads one frame; the error is the text after `failed to parse … : `.
pub(crate) fn decode(frame: &[u8]) -> Result<Message<'_>, String> {
    limits::check(frame).map_err(|excess| excess.to_string())?;
    envelope::decode(frame).map_err(|refusal| {
        let text = refusal.error.message;
        let bare = text
            .strip_prefix("Parse error: ")
            .or_else(|| text.strip_prefix("Invalid request: "));
        bare.unwrap_or(&text).to_owned()
    })
}

/// Params as their type; absent ones are null.
pub(crate) fn params<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Result<T, ErrorObject> {
    strict::read(raw.unwrap_or(RawValue::NULL).get().as_bytes())
        .map_err(|why| ErrorObject::bare_params(&why))
}

/// An id as the texts of this protocol show it.
pub(crate) fn shown_id(id: Option<&RequestId>) -> String {
    match id {
        None => "null".to_owned(),
        Some(id) => match id.as_i64() {
            Some(number) => format!("Integer({number})"),
            None => format!("String({id})"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnlane_protocol::exec_server::v0::WriteParams;

    #[test]
    fn refusals_have_no_preface() {
        let text = |frame: &str| decode(frame.as_bytes()).unwrap_err();
        assert_eq!(text("not json"), "expected ident at line 1 column 2");
        assert_eq!(text("[]"), "batch requests are not supported");
        assert_eq!(text("{}"), "missing field `method`");
        assert_eq!(
            text(r#"{"id":1.5,"method":"x"}"#),
            "id must be a string or an integer"
        );
        assert_eq!(
            text(&"[".repeat(1000)),
            "recursion limit exceeded at line 1 column 129"
        );
    }

    #[test]
    fn params_that_do_not_decode_are_told_in_the_decoders_words() {
        let told = |raw: &str| {
            let raw = RawValue::from_string(raw.to_owned()).unwrap();
            let error = params::<WriteParams>(Some(&raw)).unwrap_err();
            assert_eq!(error.code, -32602);
            error.message
        };
        assert_eq!(told(r#"{"sessionId":"a"}"#), "missing field `chunk`");
        assert_eq!(
            told(r#"{"sessionId":"a","chunk":"!!!"}"#),
            "Invalid symbol 33, offset 0."
        );
        let absent = params::<WriteParams>(None).unwrap_err();
        assert_eq!(
            absent.message,
            "invalid type: null, expected struct WriteParams"
        );
    }

    #[test]
    fn ids_are_shown_with_their_kind() {
        let shown = |raw: &str| shown_id(RequestId::from_raw(raw).ok().as_ref());
        assert_eq!(shown("6"), "Integer(6)");
        assert_eq!(shown("\"x\""), "String(\"x\")");
        assert_eq!(shown_id(None), "null");
    }
}
