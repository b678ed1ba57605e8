//! The lines of JSON that tests read.

use crate::tries::Verdict;

/// One attack and its verdict.
pub(crate) fn line(name: &str, verdict: &Verdict) -> String {
    let (held, detail) = match verdict {
        Verdict::Held(detail) => ("true", detail),
        Verdict::Broken(detail) => ("false", detail),
        Verdict::Skipped(detail) => ("null", detail),
    };
    let detail = quoted(detail);
    format!("{{\"attack\":\"{name}\",\"held\":{held},\"detail\":{detail}}}")
}

/// A string of JSON.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            character if (character as u32) < 0x20 => {
                quoted.push_str(&format!("\\u{:04x}", character as u32));
            }
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// An object of these members, whose values are strings.
pub(crate) fn object(members: &[(String, String)]) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(key, value)| format!("{}:{}", quoted(key), quoted(value)))
        .collect();
    format!("{{{}}}", members.join(","))
}
