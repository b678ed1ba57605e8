//! Words that an aborted attempt has already told.
//!
//! When a model call is tried again, Codex tells the messages and the reasoning of the new attempt as
//! new items, also where the aborted attempt had told the same text. The second telling is dropped.
//! The same text without a retry between the two is no repeat: a model may say a thing twice.

use sha1::{Digest as _, Sha1};

/// Texts that are remembered between two tool items.
const TEXTS_MAX: usize = 256;

pub(super) const MESSAGE: u8 = 1;
pub(super) const REASONING: u8 = 2;

type Fingerprint = [u8; 20];

#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// Told since the last tool item.
    told: Vec<Fingerprint>,
    /// Told before the last retry and not yet repeated by the attempt after it.
    repeatable: Vec<Fingerprint>,
}

impl Repeats {
    /// Codex tries a model call again.
    pub(super) fn retry(&mut self) {
        self.repeatable.clone_from(&self.told);
    }

    /// An item other than words: the attempt before it was not aborted.
    pub(super) fn tool(&mut self) {
        self.told.clear();
        self.repeatable.clear();
    }

    /// Notes a text; returns true if it repeats one of the aborted attempt.
    pub(super) fn is_repeat(&mut self, kind: u8, text: &str) -> bool {
        let fingerprint: Fingerprint = Sha1::new()
            .chain_update([kind])
            .chain_update(text)
            .finalize()
            .into();
        let same = self.repeatable.iter().position(|told| *told == fingerprint);
        if let Some(index) = same {
            self.repeatable.remove(index);
            return true;
        }
        // The new attempt says something else: what follows repeats nothing.
        self.repeatable.clear();
        if self.told.len() < TEXTS_MAX {
            self.told.push(fingerprint);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_of_an_aborted_attempt_are_repeats() {
        let mut repeats = Repeats::default();
        assert!(!repeats.is_repeat(REASONING, "r"));
        assert!(!repeats.is_repeat(MESSAGE, "m"));
        assert!(!repeats.is_repeat(MESSAGE, "m"), "said twice by the model");
        for _ in 0..2 {
            repeats.retry();
            assert!(repeats.is_repeat(REASONING, "r"));
            assert!(repeats.is_repeat(MESSAGE, "m"));
            assert!(repeats.is_repeat(MESSAGE, "m"));
        }
        assert!(!repeats.is_repeat(MESSAGE, "m"), "one more than before");
    }

    #[test]
    fn another_text_or_a_tool_ends_the_repetition() {
        let mut repeats = Repeats::default();
        assert!(!repeats.is_repeat(MESSAGE, "m"));
        repeats.retry();
        assert!(!repeats.is_repeat(REASONING, "m"), "another kind");
        assert!(!repeats.is_repeat(MESSAGE, "m"));
        repeats.tool();
        repeats.retry();
        assert!(!repeats.is_repeat(MESSAGE, "m"));
    }
}
