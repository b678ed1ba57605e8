//! Words of others made fit to be shown: on one line, cut to a width, counted.
//!
//! The invariant here: what these functions return cannot steer a terminal. Pure.

use serde_json::Value;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

pub(crate) use super::visible::visible;

/// The text on one line.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    visible(&words.join(" "))
}

/// How many columns of a terminal a text takes: characters of East Asia and pictures take two.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// At most so many columns, with a mark where something was left out.
pub(crate) fn cut(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    // Joined pictures take less than the sum of their parts; so nothing ever takes more.
    let mut left = max.saturating_sub(1);
    let fits = |char: &char| {
        let wide = char.width().unwrap_or(0);
        let fits = wide <= left;
        left = left.saturating_sub(wide);
        fits
    };
    let kept: String = text.chars().take_while(fits).collect();
    // A picture that is to be joined to one that was cut off is none.
    format!("{}…", kept.trim_end_matches('\u{200D}'))
}

/// The text in lines of at most so many columns, broken between words; a longer word is cut in pieces.
pub(crate) fn wrapped(text: &str, max: usize) -> Vec<String> {
    let max = max.max(2);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let gap = usize::from(used > 0);
        if used > 0 && used + gap + width(word) > max {
            lines.push(String::new());
            used = 0;
        }
        let mut left = word;
        while let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            let fitting = fitting(left, max - used.min(max - 1));
            line.push_str(&left[..fitting]);
            used += width(&left[..fitting]);
            left = &left[fitting..];
            if left.is_empty() {
                break;
            }
            lines.push(String::new());
            used = 0;
        }
    }
    lines
}

/// How many bytes of a text take at most so many columns, one character at least.
fn fitting(text: &str, max: usize) -> usize {
    let mut used = 0;
    let mut bytes = 0;
    for char in text.chars() {
        used += char.width().unwrap_or(0);
        if used > max && bytes > 0 {
            break;
        }
        bytes += char.len_utf8();
    }
    bytes
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

/// The text as one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "/._-+,@%".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
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
    fn one_line_has_no_line_end_and_shows_what_a_terminal_would_obey() {
        assert_eq!(one_line(" a\n\n b\tc\x1b "), "a b c\\u{1b}");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        for (text, columns) in [
            ("abc", 3),
            ("文書", 4),
            ("🙂", 2),
            ("e\u{301}", 1),
            ("👩\u{200D}💻", 2),
        ] {
            assert_eq!(width(text), columns, "{text}");
        }
        assert_eq!(cut("文書を直す", 10), "文書を直す");
        assert_eq!(cut("文書を直す", 9), "文書を直…");
        // Half of a character is none.
        assert_eq!(cut("文書を直す", 8), "文書を…");
        assert_eq!(cut("a👩\u{200D}💻bc", 4), "a👩…");
        for max in 0..12 {
            let short = cut("日本👩\u{200D}💻語e\u{301}x", max);
            assert!(width(&short) <= max.max(1), "{max}: {short}");
        }
    }

    #[test]
    fn long_text_is_cut_by_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
        assert_eq!(cut("abc", 0), "…");
    }

    #[test]
    fn a_text_is_broken_between_words_and_loses_none() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("", 7), [""]);
        assert_eq!(wrapped("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("文書を直す a", 4), ["文書", "を直", "す a"]);
        for max in 2..20 {
            let text = "the quick brown fox jumps over the lazy dog";
            let lines = wrapped(text, max);
            assert!(
                lines.iter().all(|line| width(line) <= max),
                "{max}: {lines:?}"
            );
            assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""));
        }
    }

    #[test]
    fn a_word_of_a_shell_is_quoted_where_it_must_be() {
        assert_eq!(quoted("nightly"), "nightly");
        assert_eq!(quoted("my name"), "'my name'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
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
