//! A notification that is too long is cut until it fits.
//!
//! The invariant here: what comes out is at most [`NOTIFICATION_BYTES_MAX`] long and still has every
//! member; only texts are shorter, and each that is says how much is missing.
//!
//! The whole of it is in the stored history.

use serde_json::Value;

use super::NOTIFICATION_BYTES_MAX;

/// The longest text that is tried first; then half of it, and so on.
const TEXT_BYTES_FIRST: usize = 512 * 1024;

/// Texts of this length are not cut any more.
const TEXT_BYTES_LAST: usize = 64;

/// The frame, cut if it has to be.
pub(super) fn fitted(frame: Vec<u8>) -> Vec<u8> {
    if frame.len() <= NOTIFICATION_BYTES_MAX {
        return frame;
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(&frame) else {
        return frame;
    };
    let mut text_bytes = TEXT_BYTES_FIRST;
    loop {
        cut(&mut value["params"], text_bytes);
        match serde_json::to_vec(&value) {
            Ok(shorter) if shorter.len() > NOTIFICATION_BYTES_MAX => {
                if text_bytes <= TEXT_BYTES_LAST {
                    tracing::error!(bytes = shorter.len(), "a notification cannot be cut");
                    return shorter;
                }
                text_bytes /= 2;
            }
            Ok(shorter) => return shorter,
            Err(_) => return frame,
        }
    }
}

fn cut(value: &mut Value, text_bytes: usize) {
    match value {
        Value::String(text) if text.len() > text_bytes => *text = shortened(text, text_bytes),
        Value::Array(values) => values.iter_mut().for_each(|value| cut(value, text_bytes)),
        Value::Object(members) => {
            for (_, value) in members.iter_mut() {
                cut(value, text_bytes);
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Beginning and end of a text, with a word about what is missing between.
fn shortened(text: &str, bytes: usize) -> String {
    let head = text.floor_char_boundary(bytes / 2);
    let tail = text.ceil_char_boundary(text.len() - bytes / 4);
    let missing = tail - head;
    format!(
        "{}\n[… {missing} bytes omitted …]\n{}",
        &text[..head],
        &text[tail..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_long_notification_is_cut_and_says_so() {
        let value = json!({"method": "item/completed", "seq": 7, "params": {
            "threadId": "t",
            "item": {"content": [{"url": "é".repeat(900_000)}, {"text": "short"}]},
            "more": vec!["x".repeat(300_000); 4],
        }});
        let frame = fitted(serde_json::to_vec(&value).unwrap());
        assert!(frame.len() <= NOTIFICATION_BYTES_MAX);
        let cut: Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!(cut["params"]["item"]["content"][1]["text"], "short");
        assert_eq!(cut["seq"], 7);
        let url = cut["params"]["item"]["content"][0]["url"].as_str().unwrap();
        assert!(url.contains("bytes omitted"));
    }

    #[test]
    fn a_short_one_is_left_alone() {
        let frame = br#"{"method":"m","params":{}}"#.to_vec();
        assert_eq!(fitted(frame.clone()), frame);
    }
}
