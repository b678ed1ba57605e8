//! How deep and how wide a message may be, found by one pass over its bytes.
//!
//! The pass runs before anything is built from the message, so a frame of brackets costs no stack
//! and a frame of 300,000 values no memory. Whether the bytes are JSON at all is the decoder's
//! business: on what is no JSON the counts mean nothing and the decoder says so.

use std::fmt;

/// How deep arrays and objects may be nested.
pub(crate) const NESTING_MAX: usize = 128;
/// How many values a message may hold; keys are none.
pub(crate) const VALUES_MAX: usize = 262_144;

/// A value needs at least this much of a frame, itself and what separates it from the next.
const VALUE_BYTES_MIN: usize = 2;

/// Which limit was passed, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Excess {
    kind: ExcessKind,
    line: usize,
    column: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExcessKind {
    Nesting,
    Values,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ExcessKind::Nesting => f.write_str("recursion limit exceeded")?,
            ExcessKind::Values => write!(
                f,
                "JSON-RPC message exceeds the limit of {VALUES_MAX} JSON values"
            )?,
        }
        write!(f, " at line {} column {}", self.line, self.column)
    }
}

/// Whether a message stays within both limits.
pub(crate) fn check(frame: &[u8]) -> Result<(), Excess> {
    // The usual request is too short to break either.
    if frame.len() <= NESTING_MAX.min(VALUES_MAX * VALUE_BYTES_MIN) {
        return Ok(());
    }
    scan(frame, VALUES_MAX)
}

fn scan(frame: &[u8], values_max: usize) -> Result<(), Excess> {
    let mut depth = 0_usize;
    let mut values = 1_usize;
    let mut just_opened = false;
    let mut at = 0;
    while let Some(&byte) = frame.get(at) {
        let closes = matches!(byte, b']' | b'}');
        // The first thing in a container is a value (or the key of one) that no comma announced.
        if just_opened && !byte.is_ascii_whitespace() {
            just_opened = false;
            values += usize::from(!closes);
        }
        match byte {
            b'"' => at = string_end(frame, at),
            b'[' | b'{' => {
                depth += 1;
                just_opened = true;
                if depth > NESTING_MAX {
                    return Err(excess(ExcessKind::Nesting, frame, at));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
        if values > values_max {
            return Err(excess(ExcessKind::Values, frame, at));
        }
        at += 1;
    }
    Ok(())
}

/// Where the string that starts at `start` ends: at its closing quote, or with the frame.
fn string_end(frame: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = frame
        .get(at..)
        .and_then(|rest| memchr::memchr2(b'"', b'\\', rest))
    {
        at += found;
        if frame[at] == b'"' {
            return at;
        }
        at += 2;
    }
    frame.len()
}

fn excess(kind: ExcessKind, frame: &[u8], at: usize) -> Excess {
    let before = &frame[..at];
    let line_start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
    Excess {
        kind,
        line: 1 + memchr::memchr_iter(b'\n', before).count(),
        column: at - line_start + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn values_in(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(values_in).sum(),
            Value::Object(members) => members.values().map(values_in).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }

    fn array_of(count: usize) -> String {
        format!("[{}]", vec!["0"; count].join(","))
    }

    #[test]
    fn the_deepest_message_that_is_read_has_128_levels() {
        let nested = |depth: usize| format!("{}0{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(check(nested(NESTING_MAX).as_bytes()), Ok(()));
        let excess = check(nested(NESTING_MAX + 1).as_bytes()).unwrap_err();
        assert_eq!(
            excess.to_string(),
            "recursion limit exceeded at line 1 column 129"
        );
    }

    #[test]
    fn a_message_of_too_many_values_is_refused_at_the_first_one_too_many() {
        assert_eq!(check(array_of(VALUES_MAX - 1).as_bytes()), Ok(()));
        let excess = check(array_of(VALUES_MAX).as_bytes()).unwrap_err();
        assert!(
            excess
                .to_string()
                .starts_with("JSON-RPC message exceeds the limit of 262144 JSON values at line 1"),
            "{excess}"
        );
    }

    #[test]
    fn brackets_and_commas_in_strings_are_text() {
        let text = "[{,\\\"[[".repeat(100_000);
        let frame = serde_json::to_string(&[text.as_str(), "\\"]).unwrap();
        assert_eq!(check(frame.as_bytes()), Ok(()));
        assert_eq!(check(br#"{"a":"unfinished \"#), Ok(()));
    }

    proptest! {
        #[test]
        fn the_count_is_that_of_a_parser(
            lens in prop::collection::vec(0..9_usize, 0..9),
            names in prop::collection::vec("[\\[\\]{},\"\\\\a]{0,8}", 0..8),
            spaced in any::<bool>(),
        ) {
            let inner: Vec<Value> = lens.iter().map(|&len| Value::from(vec![1; len])).collect();
            let names: serde_json::Map<_, _> = names
                .into_iter()
                .map(|name| (name.clone(), Value::from(vec![name])))
                .collect();
            let value = serde_json::json!({"lists": inner, "names": names, "none": {}});
            let written = if spaced {
                serde_json::to_vec_pretty(&value).unwrap()
            } else {
                serde_json::to_vec(&value).unwrap()
            };
            let count = values_in(&value);
            prop_assert_eq!(scan(&written, count), Ok(()));
            prop_assert!(scan(&written, count - 1).is_err());
        }

        #[test]
        fn any_bytes_are_looked_through_without_harm(
            bytes in prop::collection::vec(any::<u8>(), 0..4000),
        ) {
            let _ = check(&bytes);
        }
    }
}
