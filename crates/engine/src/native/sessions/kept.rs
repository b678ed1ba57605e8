//! What is kept of a command's output: its beginning and its end.
//!
//! The invariant here: a [`Kept`] never holds more than it was made for, whatever is pushed, and
//! knows how much was pushed in all. Only whole characters are given out.
//!
//! The text has been redacted before, so that no cut can hide a key from the redactor.

use std::collections::VecDeque;

use crate::native::tools::text::Size;

/// Beginning and end of a text that arrives in pieces.
#[derive(Debug)]
pub(crate) struct Kept {
    bytes_max: usize,
    head: String,
    /// Bytes, because the oldest ones go without regard to characters.
    tail: VecDeque<u8>,
    /// The head is full: whatever comes belongs to the tail.
    is_head_full: bool,
    bytes: u64,
    line_feeds: u64,
    ends_line: bool,
}

impl Kept {
    /// An eighth is for the beginning, the rest for the end.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            head: String::new(),
            tail: VecDeque::new(),
            is_head_full: false,
            bytes: 0,
            line_feeds: 0,
            ends_line: true,
        }
    }

    pub(crate) fn push(&mut self, text: &str) {
        let Some(last) = text.as_bytes().last() else {
            return;
        };
        self.bytes += text.len() as u64;
        self.line_feeds += memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64;
        self.ends_line = *last == b'\n';
        let rest = self.push_head(text);
        let tail_max = self.bytes_max - self.bytes_max / 8;
        let rest = &rest.as_bytes()[rest.len().saturating_sub(tail_max)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(tail_max);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// Returns what did not fit.
    fn push_head<'a>(&mut self, text: &'a str) -> &'a str {
        if self.is_head_full {
            return text;
        }
        let room = (self.bytes_max / 8).saturating_sub(self.head.len());
        let (head, rest) = text.split_at(text.floor_char_boundary(room));
        self.head.push_str(head);
        // Once something came behind it, nothing may be added any more.
        self.is_head_full = !rest.is_empty();
        rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// How much there was.
    pub(crate) fn size(&self) -> Size {
        Size {
            bytes: self.bytes,
            lines: self.line_feeds + u64::from(!self.ends_line),
        }
    }

    /// What is kept, with a mark where something is missing.
    pub(crate) fn text(&self) -> String {
        let (front, back) = self.tail.as_slices();
        let mut tail = Vec::with_capacity(self.tail.len());
        tail.extend_from_slice(front);
        tail.extend_from_slice(back);
        // Of a character that lost its beginning the rest goes too.
        let is_inner = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
        let broken = tail.iter().take_while(is_inner).count();
        let tail = String::from_utf8_lossy(&tail[broken..]);
        let missing = self.bytes - (self.head.len() + tail.len()) as u64;
        if missing == 0 {
            return format!("{}{tail}", self.head);
        }
        let head = &self.head;
        format!("{head}\n[... {missing} bytes omitted ...]\n{tail}")
    }

    /// What was kept and its size; from now on it is empty.
    pub(crate) fn take(&mut self) -> (String, Size) {
        let taken = (self.text(), self.size());
        *self = Self::new(self.bytes_max);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_text_loses_its_middle_and_is_counted_whole() {
        let mut kept = Kept::new(16);
        for line in 0..1000 {
            kept.push(&format!("{line}\n"));
        }
        let size = Size {
            bytes: 3890,
            lines: 1000,
        };
        let text = "0\n\n[... 3874 bytes omitted ...]\n6\n997\n998\n999\n";
        assert_eq!((kept.text().as_str(), kept.size()), (text, size));
        assert_eq!(kept.take(), (text.to_owned(), size));
        assert!(kept.is_empty() && kept.text().is_empty());
        kept.push("x");
        assert_eq!(kept.take(), ("x".to_owned(), Size { bytes: 1, lines: 1 }));
    }

    #[test]
    fn ten_megabytes_take_no_more_memory_than_what_is_kept() {
        let mut kept = Kept::new(1 << 20);
        for _ in 0..10_000 {
            kept.push(&"x".repeat(1_000));
        }
        let held = kept.head.capacity() + kept.tail.capacity();
        assert!(held <= 2 << 20, "{held} bytes");
        assert_eq!(kept.size().bytes, 10_000_000);
    }

    proptest! {
        #[test]
        fn no_more_is_kept_than_allowed_and_all_of_it_is_text(
            pieces in prop::collection::vec("[aé…\n]{0,9}", 0..40),
            bytes_max in 0_usize..64,
        ) {
            let mut kept = Kept::new(bytes_max);
            for piece in &pieces {
                kept.push(piece);
                prop_assert!(kept.head.len() + kept.tail.len() <= bytes_max);
            }
            let whole = pieces.concat();
            prop_assert_eq!(kept.size(), Size::of(&whole));
            let text = kept.text();
            prop_assert!(!text.contains(char::REPLACEMENT_CHARACTER));
            match text.split_once("\n[... ") {
                None => prop_assert_eq!(text, whole),
                Some((head, rest)) => {
                    let (missing, tail) = rest.split_once(" bytes omitted ...]\n").unwrap();
                    prop_assert!(whole.starts_with(head) && whole.ends_with(tail));
                    let told = head.len() + tail.len() + missing.parse::<usize>().unwrap();
                    prop_assert_eq!(told, whole.len());
                }
            }
        }
    }
}
