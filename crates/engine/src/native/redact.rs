//! Takes the values of keys out of every text that leaves the engine.
//!
//! The invariant here: however a text is cut into pieces, the pieces that come out of a
//! [`DeltaRedactor`] joined are what [`Redactor::text`] makes of the whole, and what is held back
//! is always shorter than the longest key.
//!
//! Which values are keys is decided by [`provider`](super::provider); nothing is written here.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// What stands in the place of a key.
pub const REDACTED: &str = "[redacted]";
/// Shorter values are no keys: they would take ordinary words out of every text.
pub const KEY_CHARS_MIN: usize = 8;

/// Knows the keys of a turn and takes them out of texts; cheap to clone.
#[derive(Clone, Default)]
pub struct Redactor {
    keys: Arc<[Box<str>]>,
}

impl Redactor {
    /// A redactor of these values; those of less than [`KEY_CHARS_MIN`] characters are left out.
    ///
    /// A key that JSON writes differently is known in that form as well, so that bytes which are
    /// already serialised can be redacted too.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut keys: Vec<Box<str>> = Vec::new();
        for value in values {
            let value = value.trim();
            if value.chars().count() < KEY_CHARS_MIN {
                continue;
            }
            let quoted = serde_json::Value::from(value).to_string();
            keys.push(quoted[1..quoted.len() - 1].into());
            keys.push(value.into());
        }
        // Longest first: the first key that fits at a place is the one to take out.
        keys.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        keys.dedup();
        Self { keys: keys.into() }
    }

    /// The text without keys; the same text when there is none in it.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let (clean, held) = self.scan(text, Ending::Final);
        debug_assert!(held.is_empty(), "a final text has nothing to wait for");
        clean
    }

    /// A redactor for one text that arrives in pieces.
    pub fn deltas(&self) -> DeltaRedactor {
        DeltaRedactor {
            redactor: self.clone(),
            held: String::new(),
        }
    }

    /// What can be said of the text now, and its end that may be the beginning of a key.
    fn scan<'a>(&self, text: &'a str, ending: Ending) -> (Cow<'a, str>, &'a str) {
        let mut starts = [false; 256];
        for key in self.keys.iter() {
            starts[usize::from(key.as_bytes()[0])] = true;
        }
        let bytes = text.as_bytes();
        let mut clean = String::new();
        // Everything before `told` is in `clean` already.
        let (mut told, mut at) = (0, 0);
        while at < bytes.len() {
            if !starts[usize::from(bytes[at])] {
                at += 1;
                continue;
            }
            // Both places are boundaries of characters, since keys are whole characters.
            match self.at(&bytes[at..], ending) {
                Found::Nothing => at += 1,
                Found::Key(len) => {
                    clean.push_str(&text[told..at]);
                    clean.push_str(REDACTED);
                    at += len;
                    told = at;
                }
                Found::Perhaps => break,
            }
        }
        let rest = &text[told..at];
        let clean = if told == 0 {
            Cow::Borrowed(rest)
        } else {
            clean.push_str(rest);
            Cow::Owned(clean)
        };
        (clean, &text[at..])
    }

    fn at(&self, rest: &[u8], ending: Ending) -> Found {
        for key in self.keys.iter() {
            if rest.starts_with(key.as_bytes()) {
                return Found::Key(key.len());
            }
            // A longer key that may still come wins over a shorter one that is there.
            if ending == Ending::Open && key.as_bytes().starts_with(rest) {
                return Found::Perhaps;
            }
        }
        Found::Nothing
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the keys, and not their lengths.
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

/// Takes keys out of one text that arrives in pieces; a key may be cut anywhere.
///
/// Every open text has its own. Dropped without [`finish`](Self::finish) it loses what it held
/// back, which is less than a key.
#[derive(Clone)]
pub struct DeltaRedactor {
    redactor: Redactor,
    held: String,
}

impl DeltaRedactor {
    /// What can be shown after this piece; it is the piece itself unless a key may be in it.
    pub fn push<'a>(&mut self, delta: &'a str) -> Cow<'a, str> {
        if self.held.is_empty() {
            let (clean, held) = self.redactor.scan(delta, Ending::Open);
            self.held.push_str(held);
            return clean;
        }
        let mut text = std::mem::take(&mut self.held);
        text.push_str(delta);
        let (clean, held) = self.redactor.scan(&text, Ending::Open);
        held.clone_into(&mut self.held);
        Cow::Owned(clean.into_owned())
    }

    /// What was held back, when no further piece comes; empty when called twice.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        self.redactor.text(&held).into_owned()
    }
}

impl fmt::Debug for DeltaRedactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is held back may be most of a key.
        f.debug_struct("DeltaRedactor").finish_non_exhaustive()
    }
}

/// Whether more text may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Open,
    Final,
}

/// What stands at a place.
enum Found {
    Nothing,
    /// A key of this many bytes.
    Key(usize),
    /// The text ends within what may become a key.
    Perhaps,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(redactor: &Redactor, pieces: &[&str]) -> String {
        let longest = redactor.keys.first().map_or(0, |key| key.len());
        let mut deltas = redactor.deltas();
        let mut shown = String::new();
        for piece in pieces {
            shown.push_str(&deltas.push(piece));
            assert!(deltas.held.len() < longest.max(1));
        }
        shown.push_str(&deltas.finish());
        assert_eq!(deltas.finish(), "");
        shown
    }

    #[test]
    fn keys_are_taken_out_and_short_values_stay() {
        let redactor = Redactor::new(["sk-12345678", "short", " sk-12345678-long\n", "schlüssel"]);
        let text = "a sk-12345678, b sk-12345678-long short schlüssel sk-1234567";
        let expected = "a [redacted], b [redacted] short [redacted] sk-1234567";
        assert_eq!(redactor.text(text), expected);
        assert!(matches!(redactor.text("nothing"), Cow::Borrowed(_)));
        assert!(matches!(Redactor::default().text(text), Cow::Borrowed(_)));
    }

    #[test]
    fn a_key_is_found_in_text_that_is_json_already() {
        let redactor = Redactor::new(["pass\"word\\1"]);
        let json = serde_json::json!({"output": "it is pass\"word\\1."}).to_string();
        assert_eq!(redactor.text(&json), r#"{"output":"it is [redacted]."}"#);
    }

    #[test]
    fn a_redactor_does_not_show_its_keys() {
        let redactor = Redactor::new(["sk-12345678"]);
        let mut deltas = redactor.deltas();
        deltas.push("sk-12345");
        assert!(!format!("{redactor:?} {deltas:?}").contains("sk-"));
    }

    #[test]
    fn a_key_cut_at_every_place_is_caught() {
        let redactor = Redactor::new(["sk-12345678", "sk-12345678-long", "ключключ"]);
        let text = "x sk-sk-12345678-lon y ключключ sk-12345678-long sk-1234";
        let whole = redactor.text(text).into_owned();
        assert_eq!(whole, "x sk-[redacted]-lon y [redacted] [redacted] sk-1234");
        let cuts: Vec<usize> = (0..=text.len())
            .filter(|at| text.is_char_boundary(*at))
            .collect();
        for a in &cuts {
            for b in cuts.iter().filter(|b| *b >= a) {
                let split = pieces(&redactor, &[&text[..*a], &text[*a..*b], &text[*b..]]);
                assert_eq!(split, whole, "cut at {a} and {b}");
            }
        }
    }

    #[test]
    fn a_piece_without_the_beginning_of_a_key_passes_at_once() {
        let mut deltas = Redactor::new(["sk-12345678"]).deltas();
        assert!(matches!(deltas.push("hello "), Cow::Borrowed("hello ")));
        assert_eq!(deltas.push("ask"), "a");
        assert_eq!(deltas.push(" me"), "sk me");
    }

    proptest! {
        // Two letters make keys, beginnings of keys and overlaps frequent.
        #[test]
        fn pieces_joined_are_the_whole(
            keys in prop::collection::vec("[ab]{8,12}|[aé]{8,9}", 0..4),
            texts in prop::collection::vec("[ab]{0,14}|[aé]{0,5}", 0..12),
        ) {
            let redactor = Redactor::new(keys.iter().map(String::as_str));
            let joined = texts.concat();
            let whole = redactor.text(&joined).into_owned();
            let split: Vec<&str> = texts.iter().map(String::as_str).collect();
            prop_assert_eq!(pieces(&redactor, &split), whole.clone());
            for key in &keys {
                prop_assert!(!whole.contains(key.as_str()));
            }
        }
    }
}
