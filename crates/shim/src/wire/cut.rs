//! Long texts, cut until their event fits a frame.
//!
//! The invariant here: an event is never left out because it is long, and a text is cut between
//! characters. Of what an agent said the end is kept, because the conclusion stands there; of reasons the
//! beginning is kept.

use bytes::Bytes;
use serde_json::{Map, Value};

/// Texts of which the end is kept.
const END_KEPT: [&str; 4] = ["response", "last_lines", "content", "summary"];
/// How many lines `last_lines` has.
const LAST_LINES: usize = 5;
/// How long `last_lines` is at most.
const LAST_LINES_BYTES_MAX: usize = 2_048;
/// Room for the fields that say that a text was cut.
const MARK_BYTES: usize = 256;

/// The last lines of a text.
pub(crate) fn last_lines(text: &str) -> String {
    let text = text.trim_end();
    let mut starts = text.rmatch_indices('\n').map(|(at, _)| at + 1);
    let start = starts.nth(LAST_LINES - 1).unwrap_or(0);
    end_of(&text[start..], LAST_LINES_BYTES_MAX).to_owned()
}

/// The JSON of `fields` in at most `bytes_max` bytes.
pub(super) fn encode(
    mut fields: Map<String, Value>,
    whole: Option<&str>,
    bytes_max: usize,
) -> Bytes {
    let mut encoded = to_json(&fields);
    while encoded.len() > bytes_max {
        let over = encoded.len() - bytes_max + MARK_BYTES;
        if !shorten(&mut fields, over, whole) {
            // No text is left to cut: a list that does not fit is left out rather than the event.
            let event = fields.remove("event").unwrap_or(Value::Null);
            fields.clear();
            fields.insert("event".to_owned(), event);
            fields.insert("truncated".to_owned(), true.into());
            return to_json(&fields).into();
        }
        encoded = to_json(&fields);
    }
    encoded.into()
}

fn to_json(fields: &Map<String, Value>) -> Vec<u8> {
    // A map of JSON values is always JSON.
    serde_json::to_vec(fields).unwrap_or_default()
}

/// Cuts the longest text by at least `over` bytes of JSON, or to nothing. False when none is left.
fn shorten(fields: &mut Map<String, Value>, over: usize, whole: Option<&str>) -> bool {
    let longest = fields
        .iter()
        .filter(|(name, _)| *name != "event")
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.len())))
        .max_by_key(|(_, bytes)| *bytes);
    let Some((name, bytes)) = longest.filter(|(_, bytes)| *bytes > 0) else {
        return false;
    };
    let Some(Value::String(text)) = fields.get(&name) else {
        return false;
    };
    // A byte of text is up to six of JSON. Escapes may stand unevenly, so a cut may have to be
    // repeated; each one makes progress.
    let json_bytes = serde_json::to_string(text).map_or(bytes, |json| json.len());
    let cut = over.saturating_mul(bytes).div_ceil(json_bytes.max(1));
    let kept_bytes = bytes.saturating_sub(cut.max(1));
    let kept = if END_KEPT.contains(&name.as_str()) {
        end_of(text, kept_bytes)
    } else {
        beginning_of(text, kept_bytes)
    };
    let kept = kept.to_owned();
    if name == "response" {
        fields
            .entry("response_bytes")
            .or_insert_with(|| bytes.into());
        if let Some(whole) = whole {
            fields.insert("response_ref".to_owned(), whole.into());
        }
    }
    fields.insert("truncated".to_owned(), true.into());
    fields.insert(name, kept.into());
    true
}

/// The longest end of a text that has at most `bytes_max` bytes.
pub(crate) fn end_of(text: &str, bytes_max: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes_max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

fn beginning_of(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_end_of_a_long_response_is_kept_and_marked() {
        let response = format!("{}the end", "ä\n".repeat(100_000));
        let mut event = Event::new("Completion").with("response", response.as_str());
        event.whole = Some("t/u".to_owned());
        let encoded = event.encode(None, 65_536);
        assert!(encoded.len() <= 65_536);
        assert!(encoded.len() > 60_000, "no more is cut than needed");
        let read: Value = serde_json::from_slice(&encoded).unwrap();
        assert!(read["response"].as_str().unwrap().ends_with("the end"));
        assert_eq!(read["truncated"], true);
        assert_eq!(read["response_bytes"], response.len());
        assert_eq!(read["response_ref"], "t/u");
    }

    #[test]
    fn the_last_lines_of_a_text_are_five() {
        assert_eq!(last_lines("1\n2\n3\n4\n5\n6\n7\n"), "3\n4\n5\n6\n7");
        assert_eq!(last_lines("one"), "one");
        assert_eq!(last_lines(""), "");
    }

    proptest! {
        #[test]
        fn every_event_fits_its_frame(response in ".{0,4000}", reason in "[\\x00-\\x1f]{0,2000}") {
            let event = Event::new("Completion").with("response", response).with("reason", reason);
            let encoded = event.encode(None, 1_024);
            prop_assert!(encoded.len() <= 1_024);
            let read: Value = serde_json::from_slice(&encoded).unwrap();
            prop_assert_eq!(&read["event"], "Completion");
        }
    }
}
