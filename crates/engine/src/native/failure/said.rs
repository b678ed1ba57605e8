//! What a provider said about a failure, from whichever shape it used.
//!
//! The invariant here: reading never fails. What is not understood is a text, and a text is
//! redacted before it is cut, so no piece of a key is left at the edge.
//!
//! What it means is decided by the rows.

use serde_json::Value;

use super::super::redact::Redactor;

/// The longest text of a provider that is passed on.
pub(super) const TEXT_BYTES_MAX: usize = 2048;

/// A provider's own words about a failure.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// `code` and `type`, where they are words.
    pub(super) codes: Vec<String>,
    /// `code`, where it is a number that can be a status.
    pub(super) status: Option<u16>,
    /// The text, whole and with whatever keys are in it.
    text: String,
    /// When the allowance is there again.
    pub(super) resets: Option<Resets>,
}

/// When an allowance is there again, as it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Resets {
    /// Seconds since 1970.
    At(i64),
    /// Seconds from now.
    In(i64),
}

impl Said {
    /// Reads the body of an answer.
    pub(super) fn body(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let Ok(Value::Object(object)) = serde_json::from_str::<Value>(&text) else {
            return Self {
                text: text.trim().to_owned(),
                ..Self::default()
            };
        };
        let object = Value::Object(object);
        let mut said = match &object["error"] {
            Value::Null => Self::object(&object),
            error => Self::object(error),
        };
        // The text may stand beside an error that is only a code.
        if said.text.is_empty() {
            said.text = text_of(&object).unwrap_or_else(|| text.trim().to_owned());
        }
        said
    }

    /// Reads an event of a stream: the error on `response`, on the event, or the event itself.
    pub(super) fn event(event: &Value) -> Self {
        let places = [&event["response"]["error"], &event["error"]];
        match places.into_iter().find(|place| !place.is_null()) {
            Some(error) => Self::object(error),
            None => Self::object(event),
        }
    }

    fn object(error: &Value) -> Self {
        if let Value::String(text) = error {
            return Self {
                text: text.trim().to_owned(),
                ..Self::default()
            };
        }
        let mut said = Self {
            text: text_of(error).unwrap_or_default(),
            ..Self::default()
        };
        for member in ["code", "type"] {
            match &error[member] {
                // The kind of an event is no code.
                Value::String(word) if word == "error" || word.starts_with("response.") => {}
                Value::String(word) => match word.parse() {
                    Ok(status) if is_status(status) => said.status = Some(status),
                    Ok(_) | Err(_) => said.codes.push(word.to_ascii_lowercase()),
                },
                Value::Number(number) => {
                    let status = number.as_u64().and_then(|n| u16::try_from(n).ok());
                    said.status = status.filter(|status| is_status(*status)).or(said.status);
                }
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
            }
        }
        said.resets = whole_seconds(&error["resets_at"])
            .map(Resets::At)
            .or_else(|| whole_seconds(&error["resets_in_seconds"]).map(Resets::In));
        said
    }

    /// The text in lower case, for rules that look into it.
    pub(super) fn lower(&self) -> String {
        self.text.to_lowercase()
    }

    /// The text as it may be shown.
    pub(super) fn shown(&self, redactor: &Redactor) -> String {
        shown(&self.text, redactor)
    }
}

/// A text as it may be shown: without keys and not too long.
pub(super) fn shown(text: &str, redactor: &Redactor) -> String {
    let mut clean = redactor.text(text.trim()).into_owned();
    clean.truncate(clean.floor_char_boundary(TEXT_BYTES_MAX));
    clean
}

fn is_status(number: u16) -> bool {
    (300..600).contains(&number)
}

fn text_of(object: &Value) -> Option<String> {
    ["message", "detail"]
        .into_iter()
        .find_map(|member| match &object[member] {
            Value::Null => None,
            Value::String(text) if text.trim().is_empty() => None,
            Value::String(text) => Some(text.trim().to_owned()),
            // Validators list what they found; the list says it best.
            other => Some(other.to_string()),
        })
}

fn whole_seconds(value: &Value) -> Option<i64> {
    let seconds = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse::<f64>().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }?;
    // The cast saturates; a calendar that ends in 9999 makes the rest harmless.
    #[expect(clippy::cast_possible_truncation, reason = "saturates by definition")]
    (seconds.is_finite() && seconds > 0.0).then(|| seconds.ceil() as i64)
}
