//! Standard error of a Codex child: drained always, logged up to a bound, its head and tail kept.
//!
//! Codex writes warnings there in every run, so text on it is no sign of a failure.

use std::collections::VecDeque;

use crate::native::redact::Redactor;

/// Bytes kept of the beginning, and as many of the end.
const HALF_BYTES_MAX: usize = 32 * 1024;
/// Lines logged per child; a child that floods its standard error must not flood the log.
const LINES_LOGGED_MAX: u32 = 200;
/// Bytes of a line that are logged.
const LINE_BYTES_MAX: usize = 2 * 1024;

/// Collects the standard error of one child. Memory is bounded, whatever is pushed.
#[derive(Debug)]
pub struct StderrLog {
    redactor: Redactor,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted_bytes: u64,
    line: Vec<u8>,
    lines_logged: u32,
}

impl StderrLog {
    /// An empty log, which takes the values that `redactor` knows out of what it logs and returns.
    pub fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            head: Vec::new(),
            tail: VecDeque::new(),
            omitted_bytes: 0,
            line: Vec::new(),
            lines_logged: 0,
        }
    }

    /// Adds bytes that the child wrote.
    pub fn push(&mut self, bytes: &[u8]) {
        self.keep(bytes);
        self.log(bytes);
    }

    /// The first and the last bytes as text, with a mark where the middle is missing.
    pub fn text(&self) -> String {
        let mut bytes = self.head.clone();
        if self.omitted_bytes > 0 {
            let mark = format!("\n[... {} bytes omitted ...]\n", self.omitted_bytes);
            bytes.extend_from_slice(mark.as_bytes());
        }
        bytes.extend(&self.tail);
        let text = String::from_utf8_lossy(&bytes);
        self.redactor.text(&text).into_owned()
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = HALF_BYTES_MAX - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        let skipped = rest.len().saturating_sub(HALF_BYTES_MAX);
        let rest = &rest[skipped..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(HALF_BYTES_MAX);
        self.tail.drain(..excess);
        self.tail.extend(rest);
        self.omitted_bytes += (skipped + excess) as u64;
    }

    fn log(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.lines_logged >= LINES_LOGGED_MAX {
                return;
            }
            let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..room.min(piece.len())]);
            if piece.ends_with(b"\n") {
                self.log_line();
            }
        }
    }

    fn log_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        if line.is_empty() {
            return;
        }
        self.lines_logged += 1;
        let line = self.redactor.text(line);
        tracing::debug!(target: "turnlane_engine::codex::stderr", "{line}");
        if self.lines_logged == LINES_LOGGED_MAX {
            tracing::debug!(target: "turnlane_engine::codex::stderr", "further lines are not logged");
        }
    }
}

impl Drop for StderrLog {
    fn drop(&mut self) {
        if self.lines_logged < LINES_LOGGED_MAX {
            self.log_line();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_are_kept_and_the_middle_is_counted() {
        let mut log = StderrLog::new(Redactor::default());
        log.push(b"first\n");
        for _ in 0..1000 {
            log.push(&[b'x'; 1000]);
        }
        log.push(b"\nlast");
        let text = log.text();
        assert!(text.starts_with("first\nxxx"));
        assert!(text.ends_with("\nlast"));
        let omitted = 6 + 1_000_000 + 5 - 2 * HALF_BYTES_MAX;
        assert!(text.contains(&format!("[... {omitted} bytes omitted ...]")));
        assert!(log.head.len() + log.tail.len() <= 2 * HALF_BYTES_MAX);
        assert!(log.line.capacity() <= 2 * LINE_BYTES_MAX);
    }

    #[test]
    fn a_short_text_is_returned_whole_and_without_keys() {
        let mut log = StderrLog::new(Redactor::new(["sk-planted"]));
        log.push(b"key sk-planted \xff");
        assert_eq!(log.text(), "key [redacted] \u{fffd}");
        // One large piece: its own end is the tail.
        let mut log = StderrLog::new(Redactor::default());
        log.push(&vec![b'a'; 200_000]);
        assert_eq!(log.tail.len(), HALF_BYTES_MAX);
        assert_eq!(log.omitted_bytes, 200_000 - 2 * HALF_BYTES_MAX as u64);
    }
}
