//! From the bytes of a running command to text without keys.
//!
//! The invariant here: however bytes are cut into pieces, the texts joined are the whole decoded
//! and redacted; a character or a key that is cut is held back until the rest of it is there. What
//! is no UTF-8 is replaced.
//!
//! Each stream has its own: what is cut in one is not continued in the other.

use turnlane_process::StreamName;

use crate::native::redact::{DeltaRedactor, Redactor};

/// The streams of one command.
#[derive(Debug)]
pub(crate) struct Decoders {
    redactor: Redactor,
    streams: Vec<(StreamName, Decoder)>,
}

impl Decoders {
    pub(crate) fn new(redactor: &Redactor) -> Self {
        Self {
            redactor: redactor.clone(),
            streams: Vec::with_capacity(2),
        }
    }

    /// What can be shown after these bytes.
    pub(crate) fn push(&mut self, stream: StreamName, bytes: &[u8]) -> String {
        let known = self.streams.iter().position(|(name, _)| *name == stream);
        let at = known.unwrap_or_else(|| {
            let decoder = Decoder {
                cut: Vec::new(),
                redactor: self.redactor.deltas(),
            };
            self.streams.push((stream, decoder));
            self.streams.len() - 1
        });
        self.streams[at].1.push(bytes)
    }

    /// What was held back, when nothing more comes.
    pub(crate) fn finish(&mut self) -> String {
        let rest = self.streams.drain(..);
        rest.map(|(_, decoder)| decoder.finish()).collect()
    }
}

#[derive(Debug)]
struct Decoder {
    /// The beginning of a character, at most three bytes.
    cut: Vec<u8>,
    redactor: DeltaRedactor,
}

impl Decoder {
    fn push(&mut self, bytes: &[u8]) -> String {
        let joined;
        let bytes = if self.cut.is_empty() {
            bytes
        } else {
            let mut all = std::mem::take(&mut self.cut);
            all.extend_from_slice(bytes);
            joined = all;
            &joined
        };
        let (whole, cut) = bytes.split_at(bytes.len() - cut_len(bytes));
        self.cut.extend_from_slice(cut);
        let text = String::from_utf8_lossy(whole);
        self.redactor.push(&text).into_owned()
    }

    fn finish(mut self) -> String {
        let cut = String::from_utf8_lossy(&self.cut);
        let mut text = self.redactor.push(&cut).into_owned();
        text.push_str(&self.redactor.finish());
        text
    }
}

/// How many bytes at the end are the beginning of a character whose rest may still come.
fn cut_len(bytes: &[u8]) -> usize {
    let begins = |at: &usize| bytes[bytes.len() - at] & 0b1100_0000 == 0b1100_0000;
    let Some(len) = (1..=bytes.len().min(3)).find(begins) else {
        return 0;
    };
    match std::str::from_utf8(&bytes[bytes.len() - len..]) {
        Err(error) if error.error_len().is_none() => len,
        Ok(_) | Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(redactor: &Redactor, pieces: &[&[u8]]) -> String {
        let mut decoders = Decoders::new(redactor);
        let mut text = String::new();
        for piece in pieces {
            text.push_str(&decoders.push(StreamName::Pty, piece));
        }
        text.push_str(&decoders.finish());
        text
    }

    #[test]
    fn a_text_cut_anywhere_is_joined_and_redacted() {
        let redactor = Redactor::new(["sk-12345678", "schlüssel"]);
        let whole = "é…😀 sk-12345678 schlüssel 😀".as_bytes();
        for a in 0..=whole.len() {
            for b in a..=whole.len() {
                let text = decoded(&redactor, &[&whole[..a], &whole[a..b], &whole[b..]]);
                assert_eq!(text, "é…😀 [redacted] [redacted] 😀", "cut at {a} and {b}");
            }
        }
    }

    #[test]
    fn streams_do_not_continue_each_other() {
        let mut decoders = Decoders::new(&Redactor::default());
        assert_eq!(decoders.push(StreamName::Stdout, b"a\xC3"), "a");
        assert_eq!(decoders.push(StreamName::Stderr, b"\xA9b"), "\u{FFFD}b");
        assert_eq!(decoders.push(StreamName::Stdout, b"\xA9"), "é");
        assert_eq!(decoders.push(StreamName::Stdout, b"\xE2\x80"), "");
        assert_eq!(decoders.finish(), "\u{FFFD}");
    }

    proptest! {
        #[test]
        fn pieces_joined_are_the_whole(
            pieces in prop::collection::vec(
                prop::collection::vec(prop::sample::select(
                    &[b'a', 0x80, 0xC3, 0xA9, 0xE2, 0x82, 0xF0, 0x9F, 0x98][..]), 0..6),
                0..8),
        ) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let whole = pieces.concat();
            let text = decoded(&Redactor::default(), &pieces);
            prop_assert_eq!(text, String::from_utf8_lossy(&whole));
        }
    }
}
