//! JSON as text: compact, indented, checked, without a detour over numbers that lose digits.
//!
//! The invariant here: every function takes a text whose syntax a parser has accepted, and no function
//! changes a string or a number in it.

use std::collections::HashSet;

/// The deepest nesting of a JSONL row.
const DEPTH_MAX: usize = 128;

/// Something that a row must not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonFault {
    /// Arrays and objects are nested too deep.
    #[error("is nested deeper than {DEPTH_MAX}")]
    TooDeep,
    /// An object has one key twice.
    #[error("has the key {0:?} twice")]
    KeyTwice(String),
    /// A string has a NUL character.
    #[error("has a NUL character")]
    Nul,
    /// A string is not Unicode, such as half of a surrogate pair.
    #[error("has a string that is not Unicode")]
    NotUnicode,
}

/// Splits a JSON text into strings, single punctuation characters, and runs of other characters;
/// white space between them is left out.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let first = rest.chars().next()?;
        let len = match first {
            '"' => string_len(rest),
            '{' | '}' | '[' | ']' | ',' | ':' => 1,
            _ => {
                let ends = |c: char| "{}[],:\" \t\r\n".contains(c);
                rest.find(ends).unwrap_or(rest.len())
            }
        };
        let (token, behind) = rest.split_at(len);
        rest = behind;
        Some(token)
    })
}

/// The length of the string at the beginning of the text, quotes included.
fn string_len(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The text without white space between its values.
pub fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    out.extend(tokens(text));
    out
}

/// The text with every member and element on a line of its own, indented by two spaces per level.
pub(crate) fn pretty(text: &str) -> String {
    fn line(out: &mut String, depth: usize) {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    }
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut tokens = tokens(text).peekable();
    while let Some(token) = tokens.next() {
        match token {
            "{" | "[" => {
                out.push_str(token);
                if let Some(close) = tokens.next_if(|next| matches!(*next, "}" | "]")) {
                    out.push_str(close);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            "}" | "]" => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push_str(token);
            }
            "," => {
                out.push(',');
                line(&mut out, depth);
            }
            ":" => out.push_str(": "),
            other => out.push_str(other),
        }
    }
    out
}

/// Looks for what a row must not have, at every level.
pub fn check(text: &str) -> Result<(), JsonFault> {
    let mut open: Vec<HashSet<String>> = Vec::new();
    let mut tokens = tokens(text).peekable();
    while let Some(token) = tokens.next() {
        match token {
            "{" | "[" => {
                if open.len() == DEPTH_MAX {
                    return Err(JsonFault::TooDeep);
                }
                open.push(HashSet::new());
            }
            "}" | "]" => {
                open.pop();
            }
            string if string.starts_with('"') => {
                let is_key = tokens.peek() == Some(&":");
                // Only an escape can stand for NUL or for half of a pair; the input has neither.
                if !is_key && !string.contains('\\') {
                    continue;
                }
                let Ok(string) = serde_json::from_str::<String>(string) else {
                    return Err(JsonFault::NotUnicode);
                };
                if string.contains('\0') {
                    return Err(JsonFault::Nul);
                }
                if is_key
                    && let Some(keys) = open.last_mut()
                    && !keys.insert(string.clone())
                {
                    return Err(JsonFault::KeyTwice(string));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_between_values_goes_and_inside_strings_stays() {
        let text = " { \"a b\" : [ 1.50 , \"x\\\" , y\" ] ,\t\"c\":{ } }\r";
        assert_eq!(compact(text), r#"{"a b":[1.50,"x\" , y"],"c":{}}"#);
    }

    #[test]
    fn indented_text_is_that_of_the_usual_writer() {
        let text = r#"{"a":[1,{"b":[]},"{,}"],"c":{},"d":"é"}"#;
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(pretty(text), serde_json::to_string_pretty(&value).unwrap());
    }

    #[test]
    fn a_key_may_stand_once_in_each_object() {
        assert_eq!(check(r#"{"a":{"a":["a"]},"b":"a"}"#), Ok(()));
        let twice = JsonFault::KeyTwice("a".to_owned());
        assert_eq!(check(r#"{"a":1,"\u0061":2}"#), Err(twice.clone()));
        assert_eq!(check(r#"{"x":[{"a":1,"b":2,"a":3}]}"#), Err(twice));
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(check(&nested(128)), Ok(()));
        assert_eq!(check(&nested(129)), Err(JsonFault::TooDeep));
    }

    #[test]
    fn escapes_are_looked_into() {
        assert_eq!(check(r#"{"a":"\u0000"}"#), Err(JsonFault::Nul));
        assert_eq!(check(r#"{"a\u0000":1}"#), Err(JsonFault::Nul));
        assert_eq!(check(r#"["\\u0000"]"#), Ok(()));
        assert_eq!(check(r#"["\ud800"]"#), Err(JsonFault::NotUnicode));
        assert_eq!(check(r#"["\ud83d\ude00"]"#), Ok(()));
    }
}
