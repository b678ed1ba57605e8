//! The end of what a child wrote to standard error.
//!
//! The invariant here: never more bytes than its bound.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
pub(super) struct Tail {
    bytes: Mutex<VecDeque<u8>>,
    bytes_max: usize,
}

impl Tail {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes: Mutex::default(),
            bytes_max,
        }
    }

    pub(super) fn push(&self, more: &[u8]) {
        let more = &more[more.len().saturating_sub(self.bytes_max)..];
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let excess = (bytes.len() + more.len()).saturating_sub(self.bytes_max);
        bytes.drain(..excess);
        bytes.extend(more);
    }

    /// As text; a character that the bound cut in two is left out.
    pub(super) fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = bytes.len() == self.bytes_max;
        let cut = |byte: &&u8| is_full && (**byte & 0b1100_0000) == 0b1000_0000;
        let skipped = bytes.iter().take_while(cut).take(3).count();
        let whole: Vec<u8> = bytes.iter().skip(skipped).copied().collect();
        String::from_utf8_lossy(&whole).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept() {
        let tail = Tail::new(8);
        assert_eq!(tail.text(), "");
        tail.push(b"abc");
        assert_eq!(tail.text(), "abc");
        tail.push(b"defghij");
        assert_eq!(tail.text(), "cdefghij");
        tail.push(b"0123456789");
        assert_eq!(tail.text(), "23456789");
    }

    #[test]
    fn a_character_is_not_cut_in_two() {
        let tail = Tail::new(4);
        tail.push("aäöü".as_bytes());
        assert_eq!(tail.text(), "öü");
        tail.push("x".as_bytes());
        assert_eq!(tail.text(), "üx");
    }
}
