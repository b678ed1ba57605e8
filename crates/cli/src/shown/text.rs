//! Words of others made fit to be shown.
//!
//! The invariant here: what these functions return cannot steer a terminal. Pure.

use serde_json::Value;

/// The text without anything that a terminal obeys, but line ends and tabs.
pub(crate) fn harmless(text: &str) -> String {
    let kept = |char: char| matches!(char, '\n' | '\t') || !char.is_control();
    let shown = |char: char| if kept(char) { char } else { '\u{FFFD}' };
    text.replace("\r\n", "\n").chars().map(shown).collect()
}

/// The text on one line.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    harmless(&words.join(" "))
}

/// At most so many characters, with a mark where something was left out.
pub(crate) fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(max.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// The words of an input, with a mark for whatever else is in it.
pub(crate) fn of_input(input: &[Value]) -> String {
    let parts: Vec<_> = input.iter().map(part).collect();
    parts.join(" ")
}

fn part(part: &Value) -> String {
    let text = |key: &str| part.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "text" => text("text").to_owned(),
        "localImage" | "localAudio" => format!("[{}]", text("path")),
        "skill" | "mention" => format!("[{}]", text("name")),
        "" => "[?]".to_owned(),
        other => format!("[{other}]"),
    }
}

/// `1 turn`, `2 turns`.
pub(crate) fn counted(count: usize, one: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {one}{end}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_replaced() {
        let text = "a\x1b[2Jb\r\nc\td\u{9b}1m\u{7f}";
        assert_eq!(harmless(text), "a\u{FFFD}[2Jb\nc\td\u{FFFD}1m\u{FFFD}");
        assert_eq!(one_line(" a\n\n b\tc\x1b "), "a b c\u{FFFD}");
    }

    #[test]
    fn long_text_is_cut_by_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
        assert_eq!(cut("abc", 0), "…");
    }

    #[test]
    fn an_input_is_shown_by_its_words() {
        let input = [
            json!({"type": "text", "text": "look at"}),
            json!({"type": "localImage", "path": "/a.png"}),
            json!({"type": "image", "url": "data:"}),
            json!({"type": "mention", "name": "lib", "path": "/lib"}),
            json!(7),
        ];
        assert_eq!(of_input(&input), "look at [/a.png] [image] [lib] [?]");
        assert_eq!(counted(1, "turn"), "1 turn");
        assert_eq!(counted(0, "turn"), "0 turns");
    }
}
