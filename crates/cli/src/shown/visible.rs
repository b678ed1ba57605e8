//! Characters that a reader does not see, made visible.
//!
//! Owns the list of characters that steer a terminal, turn the direction of writing or take no room.
//! The invariant here: the functions return text without any of them, so that what a reader sees is
//! what is there. Text for people shows them as `\u{202e}`; JSON shows them as `\u202e`, which every
//! parser reads back as the same character. Pure; the bytes are written by `out`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// Begins every sequence that a terminal obeys.
const ESCAPE: char = '\u{1b}';

/// The colours and weights that this program and its logs use, behind [`ESCAPE`].
const COLOURS: [&str; 10] = [
    "[0m", "[1m", "[2m", "[3m", "[31m", "[32m", "[33m", "[34m", "[35m", "[36m",
];

/// Characters that are not seen, beside controls.
const HIDDEN: [RangeInclusive<char>; 21] = [
    // Marks, embeddings, overrides and isolates of the direction of writing.
    '\u{61C}'..='\u{61C}',
    '\u{200E}'..='\u{200F}',
    '\u{202A}'..='\u{202E}',
    '\u{2066}'..='\u{2069}',
    // Line and paragraph separators.
    '\u{2028}'..='\u{2029}',
    // Characters without width: soft hyphen, fillers, invisible operators, byte order mark.
    '\u{AD}'..='\u{AD}',
    '\u{34F}'..='\u{34F}',
    '\u{115F}'..='\u{1160}',
    '\u{17B4}'..='\u{17B5}',
    '\u{180B}'..='\u{180F}',
    '\u{200B}'..='\u{200B}',
    '\u{2060}'..='\u{2065}',
    '\u{206A}'..='\u{206F}',
    '\u{3164}'..='\u{3164}',
    '\u{FEFF}'..='\u{FEFF}',
    '\u{FFA0}'..='\u{FFA0}',
    '\u{FFF0}'..='\u{FFFB}',
    '\u{13430}'..='\u{1343F}',
    '\u{1BCA0}'..='\u{1BCA3}',
    '\u{1D173}'..='\u{1D17A}',
    // Tags and further selectors: whole texts can hide in them.
    '\u{E0000}'..='\u{E0FFF}',
];

/// The text with every hidden character shown as `\u{...}`, but for line ends and tabs.
///
/// A line end of two characters becomes one. Emoji and scripts that need joiners keep them.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    // None at the start and behind a character that was made visible.
    let mut before = None;
    while let Some(char) = chars.next() {
        let next = chars.peek().copied();
        if char == '\r' && next == Some('\n') {
            continue;
        }
        let keeps = match char {
            _ if is_joiner(char) => joins(before) && joins(next),
            // One selector chooses the form of the character before it; more would carry a message.
            _ if is_selector(char) => before.is_some_and(|before| !is_selector(before)),
            _ => !is_hidden(char),
        };
        if keeps {
            shown.push(char);
            before = Some(char);
        } else {
            // Writing into a string cannot fail.
            let _ = write!(shown, "{}", char.escape_unicode());
            before = None;
        }
    }
    shown
}

/// As [`visible`], but for the colours of this program.
pub(crate) fn visible_in_colour(text: &str) -> String {
    let mut parts = text.split(ESCAPE);
    let mut shown = parts.next().map(visible).unwrap_or_default();
    for part in parts {
        let colour = COLOURS.iter().find(|colour| part.starts_with(**colour));
        let rest = if let Some(colour) = colour {
            shown.push(ESCAPE);
            shown.push_str(colour);
            &part[colour.len()..]
        } else {
            let _ = write!(shown, "{}", ESCAPE.escape_unicode());
            part
        };
        shown.push_str(&visible(rest));
    }
    shown
}

/// JSON with every hidden character as `\uXXXX`; it means the same to a parser.
///
/// JSON has such characters only inside strings, where an escape may stand for any of them.
pub(crate) fn visible_json(json: &str) -> Cow<'_, str> {
    let is_escaped = |char: char| is_hidden(char) || is_joiner(char) || is_selector(char);
    if !json.contains(is_escaped) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for char in json.chars() {
        if is_escaped(char) {
            for unit in char.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(char);
        }
    }
    Cow::Owned(shown)
}

/// Whether a reader would not see this character, or would see others elsewhere because of it.
fn is_hidden(char: char) -> bool {
    let is_control = char.is_control() && !matches!(char, '\n' | '\t');
    is_control || HIDDEN.iter().any(|range| range.contains(&char))
}

/// Joins or parts its neighbours: needed in emoji, Persian and the scripts of India.
fn is_joiner(char: char) -> bool {
    matches!(char, '\u{200C}' | '\u{200D}')
}

/// Chooses between forms of the character before it.
fn is_selector(char: char) -> bool {
    matches!(char, '\u{FE00}'..='\u{FE0F}')
}

/// Whether a joiner beside this character has a meaning: never beside ASCII.
fn joins(char: Option<char>) -> bool {
    char.is_some_and(|char| !char.is_ascii() && !is_hidden(char) && !is_joiner(char))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every character that issue 14 names, and more.
    const NUMBERS: &[RangeInclusive<u32>] = &[
        0x00..=0x08,
        0x0B..=0x1F,
        0x7F..=0x9F,
        0xAD..=0xAD,
        0x61C..=0x61C,
        0x200B..=0x200B,
        0x200E..=0x200F,
        0x2028..=0x202E,
        0x2060..=0x206F,
        0xFEFF..=0xFEFF,
        0xE0000..=0xE01EF,
    ];

    fn hidden() -> impl Iterator<Item = char> {
        NUMBERS.iter().cloned().flatten().filter_map(char::from_u32)
    }

    #[test]
    fn every_hidden_character_is_shown_by_its_number() {
        for char in hidden() {
            let number = u32::from(char);
            let expected = format!("a\\u{{{number:x}}}b");
            assert_eq!(visible(&format!("a{char}b")), expected);
            assert_eq!(visible_in_colour(&format!("a{char}b")), expected);
        }
        assert_eq!(visible("a\r\nb\tc\n"), "a\nb\tc\n");
        assert_eq!(visible("a\rb\r"), "a\\u{d}b\\u{d}");
        assert_eq!(visible("rm \u{202E}txt"), "rm \\u{202e}txt");
    }

    #[test]
    fn text_that_people_write_stays_as_it_is() {
        let family = "👨\u{200D}👩\u{200D}👧 👩🏽\u{200D}💻 ❤\u{FE0F}\u{200D}🔥 1\u{FE0F}\u{20E3}";
        let persian = "می\u{200C}خواهم";
        for text in ["plain, ä ö ü, 文書, e\u{301}", family, persian] {
            assert_eq!(visible(text), text);
        }
        // A joiner in ASCII text hides something; so does a row of selectors.
        assert_eq!(visible("ca\u{200D}t"), "ca\\u{200d}t");
        assert_eq!(visible("é\u{200C}"), "é\\u{200c}");
        assert_eq!(visible("x\u{FE01}\u{FE02}"), "x\u{FE01}\\u{fe02}");
    }

    #[test]
    fn only_colours_of_this_program_pass_where_there_are_colours() {
        let own = "\x1b[32mok\x1b[0m";
        assert_eq!(visible_in_colour(own), own);
        assert_eq!(visible(own), "\\u{1b}[32mok\\u{1b}[0m");
        for foreign in [
            "\x1b[2J",
            "\x1b]0;t\x07",
            "\x1b[8m",
            "\x1b",
            "\x1b[31;8m",
            "\u{9b}0m",
        ] {
            let shown = visible_in_colour(foreign);
            assert!(!shown.chars().any(char::is_control), "{shown}");
        }
    }

    #[test]
    fn json_is_equal_when_parsed_and_shows_everything() {
        let all: String = hidden()
            .chain("\u{200D}\u{FE0F}\n\t\"\\é文".chars())
            .collect();
        let value = serde_json::json!({"text": all, "k\u{202E}ey": [1, null]});
        for json in [value.to_string(), format!("{value:#}")] {
            let shown = visible_json(&json);
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
                value
            );
            let bare = |char: char| is_hidden(char) || is_joiner(char) || is_selector(char);
            assert!(!shown.contains(bare), "{shown}");
        }
        assert!(matches!(visible_json("{\"a\":\"é文\"}"), Cow::Borrowed(_)));
    }
}
