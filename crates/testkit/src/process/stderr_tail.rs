//! The end of what a child writes to stderr, kept for messages and for waiting.
//!
//! The invariant here: the child is never slowed down, as its stderr is always read, and the tail
//! never holds more than [`TAIL_BYTES_MAX`], however much is written; the oldest lines go first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How much of stderr is kept in whole lines.
const TAIL_BYTES_MAX: usize = 64 * 1024;

/// A longer line is broken into lines of this length.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// How much is read at once.
const READ_BYTES: usize = 8 * 1024;

pub(super) struct StderrTail {
    shared: Arc<Shared>,
    reader: JoinHandle<()>,
}

struct Shared {
    tail: Mutex<Tail>,
    progress: watch::Sender<Progress>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Open,
    Ended,
}

#[derive(Default)]
struct Tail {
    lines: VecDeque<String>,
    /// What came after the last line end.
    open: Vec<u8>,
    bytes: usize,
    /// How many lines were dropped in front of `lines`.
    dropped: usize,
}

impl StderrTail {
    /// Starts reading; the task ends with the stream or with this value.
    pub(super) fn read(stderr: ChildStderr) -> Self {
        let shared = Arc::new(Shared {
            tail: Mutex::default(),
            progress: watch::Sender::new(Progress::Open),
        });
        let reader = tokio::spawn(read_all(stderr, Arc::clone(&shared)));
        Self { shared, reader }
    }

    pub(super) fn text(&self) -> String {
        self.shared.tail().text()
    }

    /// Waits for the end of the stream. A descendant that keeps stderr open delays it, so the
    /// wait is short: what the child itself wrote is read by then.
    pub(super) async fn finished(&self) {
        let mut progress = self.shared.progress.subscribe();
        let ended = progress.wait_for(|&progress| progress == Progress::Ended);
        let _ = tokio::time::timeout(std::time::Duration::from_secs(1), ended).await;
    }

    /// The first line in or after the tail that fits; `None` when stderr ended without one.
    pub(super) async fn line(&self, fits: impl Fn(&str) -> bool) -> Option<String> {
        let mut progress = self.shared.progress.subscribe();
        let mut looked_at = 0;
        loop {
            // Read before the tail: lines that come with the end are looked at once more.
            let ended = *progress.borrow_and_update() == Progress::Ended;
            if let Some(line) = self.shared.tail().find(&mut looked_at, &fits) {
                return Some(line);
            }
            if ended || progress.changed().await.is_err() {
                return None;
            }
        }
    }
}

impl Drop for StderrTail {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Shared {
    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read_all(mut stderr: ChildStderr, shared: Arc<Shared>) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match stderr.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => shared.tail().push(&buffer[..count]),
        }
        shared.progress.send_replace(Progress::Open);
    }
    shared.tail().close_line();
    shared.progress.send_replace(Progress::Ended);
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            for part in piece.chunks(LINE_BYTES_MAX) {
                self.open.extend_from_slice(part);
                if part.ends_with(b"\n") || self.open.len() >= LINE_BYTES_MAX {
                    self.close_line();
                }
            }
        }
    }

    fn close_line(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let line = String::from_utf8_lossy(&self.open)
            .trim_end_matches(['\r', '\n'])
            .to_owned();
        self.open.clear();
        self.bytes += line.len() + 1;
        self.lines.push_back(line);
        while self.bytes > TAIL_BYTES_MAX && self.lines.len() > 1 {
            if let Some(oldest) = self.lines.pop_front() {
                self.bytes -= oldest.len() + 1;
                self.dropped += 1;
            }
        }
    }

    /// The first line that fits, from the line number `looked_at` on, which moves forward.
    fn find(&self, looked_at: &mut usize, fits: impl Fn(&str) -> bool) -> Option<String> {
        let unseen = self
            .lines
            .iter()
            .skip(looked_at.saturating_sub(self.dropped));
        *looked_at = self.dropped + self.lines.len();
        let mut unseen = unseen.map(String::as_str);
        unseen.find(|line| fits(line)).map(str::to_owned)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if self.dropped > 0 {
            text.push_str("[earlier lines dropped]\n");
        }
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text.push_str(&String::from_utf8_lossy(&self.open));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_once_however_they_are_cut() {
        let mut tail = Tail::default();
        let mut looked_at = 0;
        tail.push(b"one\ntw");
        assert_eq!(tail.find(&mut looked_at, |line| line == "two"), None);
        tail.push(b"o\r\nthree");
        assert_eq!(
            tail.find(&mut looked_at, |line| line == "two").as_deref(),
            Some("two")
        );
        assert_eq!(tail.text(), "one\ntwo\nthree");
    }

    #[test]
    fn the_tail_is_bounded_and_says_what_it_lost() {
        let mut tail = Tail::default();
        for number in 0..100_000 {
            tail.push(format!("line {number}\n").as_bytes());
        }
        let text = tail.text();
        assert!(text.len() <= TAIL_BYTES_MAX + 64, "{}", text.len());
        assert!(text.starts_with("[earlier lines dropped]\n"));
        assert!(text.ends_with("line 99999\n"));
        tail.push(&vec![b'x'; 10 * TAIL_BYTES_MAX]);
        assert!(tail.text().len() <= TAIL_BYTES_MAX + LINE_BYTES_MAX + 64);
    }
}
