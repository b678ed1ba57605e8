//! Bounds what refused strangers write to the log.
//!
//! The invariant here: whatever strangers do, one listener writes at most [`LINES_MAX`] lines of
//! each [`RefusalKind`] per [`WINDOW`], and one summary that counts the others. The limit is kept per
//! kind, so that a flood of one kind does not hide the first lines of another.
//!
//! A window begins with its first refusal. [`RefusalLog::summarise`] is a task of the listener that
//! writes the summary when the window ends, even if no further refusal comes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Lines of one kind that are written in full per window.
pub(super) const LINES_MAX: u64 = 5;

/// The time that one summary covers.
pub(super) const WINDOW: Duration = Duration::from_mins(1);

/// The reason of a refusal, as far as the log limit tells reasons apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusalKind {
    /// No token, or a wrong one.
    Token,
    /// A foreign Host or Origin.
    Page,
    /// Any other request that is answered with an error.
    Request,
    /// Another user on the unix socket.
    User,
    /// A peer that the owner's filter refuses.
    Peer,
    /// An admitted connection above the limit.
    Overload,
    /// A connection that sent no complete request head: silent, malformed or dropped for a new one.
    Unfinished,
    /// A connection that the system did not hand over.
    Accept,
}

const KINDS: usize = 8;

/// The log limit of one listener.
#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    window: Mutex<Window>,
    /// Notified when a window begins.
    began: Notify,
}

impl RefusalLog {
    /// Counts a refusal. The caller writes its line only if this returns true.
    pub(super) fn admits(&self, kind: RefusalKind) -> bool {
        let (admitted, ended) = {
            let mut window = self.window();
            let now = Instant::now();
            let ended = window.end(now);
            (window.count(kind, now), ended)
        };
        self.began.notify_one();
        write_summary(ended);
        admitted
    }

    /// Writes a summary at the end of each window; ends only by being cancelled.
    pub(super) async fn summarise(&self) {
        loop {
            let ends = self.window().ends();
            match ends {
                Some(at) => sleep_until(at).await,
                None => self.began.notified().await,
            }
            let ended = self.window().end(Instant::now());
            write_summary(ended);
        }
    }

    /// Writes what is still counted, for a listener that stops.
    pub(super) fn finish(&self) {
        let counted = std::mem::take(&mut *self.window()).held_back;
        write_summary(Some(counted));
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refusals since the window began. Time is an argument, so that this is a pure state machine.
#[derive(Debug, Default)]
struct Window {
    began: Option<Instant>,
    written: [u64; KINDS],
    held_back: [u64; KINDS],
}

impl Window {
    fn ends(&self) -> Option<Instant> {
        self.began.map(|began| began + WINDOW)
    }

    /// Returns whether the line is to be written.
    fn count(&mut self, kind: RefusalKind, now: Instant) -> bool {
        self.began.get_or_insert(now);
        let kind = kind as usize;
        if self.written[kind] < LINES_MAX {
            self.written[kind] += 1;
            return true;
        }
        self.held_back[kind] = self.held_back[kind].saturating_add(1);
        false
    }

    /// Ends the window if its time is over, and returns the counts that were held back.
    fn end(&mut self, now: Instant) -> Option<[u64; KINDS]> {
        let over = self.ends().is_some_and(|ends| ends <= now);
        over.then(|| std::mem::take(self).held_back)
    }
}

fn write_summary(held_back: Option<[u64; KINDS]>) {
    let Some(held_back) = held_back.filter(|counts| counts.iter().any(|count| *count > 0)) else {
        return;
    };
    let of = |kind: RefusalKind| held_back[kind as usize];
    tracing::warn!(
        token = of(RefusalKind::Token),
        page = of(RefusalKind::Page),
        request = of(RefusalKind::Request),
        user = of(RefusalKind::User),
        peer = of(RefusalKind::Peer),
        overload = of(RefusalKind::Overload),
        unfinished = of(RefusalKind::Unfinished),
        accept = of(RefusalKind::Accept),
        "further refusals in the last minute, by reason"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_window_writes_a_few_lines_of_each_kind_and_counts_the_rest() {
        let mut window = Window::default();
        let now = Instant::now();
        let written = (0..1_000)
            .filter(|_| window.count(RefusalKind::Token, now))
            .count();
        assert_eq!(written as u64, LINES_MAX);
        assert!(
            window.count(RefusalKind::User, now),
            "another kind is not hidden"
        );
        let almost = now + WINDOW.checked_sub(Duration::from_millis(1)).unwrap();
        assert_eq!(window.end(almost), None);
        assert!(!window.count(RefusalKind::Token, almost));
        let held_back = window.end(now + WINDOW).unwrap();
        assert_eq!(
            held_back[RefusalKind::Token as usize],
            1_000 - LINES_MAX + 1
        );
        assert_eq!(held_back[RefusalKind::User as usize], 0);
        assert!(
            window.count(RefusalKind::Token, now + WINDOW),
            "a new window"
        );
        assert_eq!(KINDS, RefusalKind::Accept as usize + 1);
    }
}
