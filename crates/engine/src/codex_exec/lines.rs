//! Bytes of standard output, cut into lines.
//!
//! The invariant: no more than [`LINE_BYTES_MAX`] bytes of a line are held, however long the child
//! makes it. A longer line is reported once and its bytes are dropped.

/// A longer line is skipped.
pub(super) const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A buffer that grew beyond this for one long line is given back after it.
const BUFFER_BYTES_KEPT: usize = 256 * 1024;

/// One line of standard output, without its line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RawLine<'a> {
    Whole(&'a [u8]),
    TooLong,
}

/// Cuts bytes that arrive in pieces into lines.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    buffer: Vec<u8>,
    is_too_long: bool,
}

impl LineSplitter {
    /// Takes the next bytes and hands every line that they complete to `each`.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(RawLine<'_>)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end);
            bytes = &rest[1..];
            if self.buffer.is_empty() && !self.is_too_long && line.len() <= LINE_BYTES_MAX {
                // The usual case: the whole line is in this piece and need not be copied.
                each(RawLine::Whole(line));
                continue;
            }
            self.hold(line);
            self.finish(&mut each);
        }
        self.hold(bytes);
    }

    /// Hands over the last line, if the child did not end it with a newline.
    pub(super) fn finish(&mut self, mut each: impl FnMut(RawLine<'_>)) {
        if std::mem::take(&mut self.is_too_long) {
            each(RawLine::TooLong);
        } else if !self.buffer.is_empty() {
            each(RawLine::Whole(&self.buffer));
        }
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.is_too_long {
            return;
        }
        if self.buffer.len() + bytes.len() > LINE_BYTES_MAX {
            self.is_too_long = true;
            self.buffer = Vec::new();
        } else {
            self.buffer.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(pieces: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        let mut splitter = LineSplitter::default();
        let mut lines = Vec::new();
        let mut each = |line: RawLine<'_>| {
            lines.push(match line {
                RawLine::Whole(line) => Some(line.to_vec()),
                RawLine::TooLong => None,
            });
        };
        for piece in pieces {
            splitter.push(piece, &mut each);
        }
        splitter.finish(&mut each);
        lines
    }

    #[test]
    fn a_line_of_the_limit_passes_and_one_byte_more_is_too_long() {
        let longest = vec![b'x'; LINE_BYTES_MAX];
        let lines = split(&[&longest, b"\n", &longest, b"y\nshort"]);
        assert_eq!(lines[0].as_deref(), Some(&longest[..]));
        assert_eq!(lines[1..], [None, Some(b"short".to_vec())]);
    }

    #[test]
    fn a_hundred_megabytes_on_one_line_hold_little_memory() {
        let mut splitter = LineSplitter::default();
        let piece = vec![b'x'; 64 * 1024];
        let mut most = 0;
        for _ in 0..1600 {
            splitter.push(&piece, |line| panic!("{line:?}"));
            most = most.max(splitter.buffer.capacity());
        }
        assert!(most <= 2 * LINE_BYTES_MAX, "{most}");
        let mut lines = Vec::new();
        splitter.push(b"\nnext\n", |line| lines.push(format!("{line:?}")));
        let next = format!("{:?}", RawLine::Whole(b"next"));
        assert_eq!(lines, ["TooLong".to_owned(), next]);
        assert!(splitter.buffer.capacity() <= BUFFER_BYTES_KEPT);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[a\n]{0,40}", cuts in prop::collection::vec(0_usize..40, 0..6)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            let whole = split(&[bytes]);
            // Blank lines may be told or not, depending on the cuts; they mean nothing.
            let visible = |lines: Vec<Option<Vec<u8>>>| {
                lines.into_iter().flatten().filter(|line| !line.is_empty()).collect::<Vec<_>>()
            };
            prop_assert_eq!(visible(split(&pieces)), visible(whole));
        }
    }
}
