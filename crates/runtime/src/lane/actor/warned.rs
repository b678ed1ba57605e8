//! Which warnings a thread was told while it is loaded.
//!
//! The invariant here: a text is told once, and what is remembered of it is a number, however long
//! the text is. Beyond [`TOLD_MAX`] different ones nothing more is told: whoever has not read a
//! thousand warnings will not read another.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// How many different warnings a loaded thread is told.
const TOLD_MAX: usize = 1_000;

/// The warnings that were told.
#[derive(Debug, Default)]
pub(super) struct Warned {
    told: HashSet<u64>,
    hasher: RandomState,
}

impl Warned {
    /// Whether this text is to be told; from then on it was.
    pub(super) fn is_new(&mut self, text: &str) -> bool {
        self.told.len() < TOLD_MAX && self.told.insert(self.hasher.hash_one(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_told_once_and_a_thousand_are_enough() {
        let mut warned = Warned::default();
        assert!(warned.is_new("a") && warned.is_new("b") && !warned.is_new("a"));
        for number in 0..TOLD_MAX {
            warned.is_new(&number.to_string());
        }
        assert!(!warned.is_new("one more"));
    }
}
