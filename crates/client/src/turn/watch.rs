//! What can happen to a turn from the side of its caller: it leaves, or time runs out.
//!
//! The invariant here: a turn is wanted, then being stopped because its time ran out, then abandoned,
//! and never the other way. Whoever detaches gives up the time limit too.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::pipe::Reader;

/// How long the end of a turn that took too long is waited for.
const STOP_WAIT: Duration = Duration::from_secs(2);
/// How long a turn nobody waits for is followed, so that the next one does not run into it.
const LINGER: Duration = Duration::from_secs(10);

/// What a turn is to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Its end is wanted, until then.
    Wanted(Option<Instant>),
    /// It took too long; its end is waited for until then.
    Stopping(Instant),
    /// Nobody waits for it; it is followed until then.
    Abandoned(Option<Instant>),
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// The caller has left: the turn is abandoned.
    Left,
    /// The time is over: the turn must be stopped.
    TimedOut,
    /// It did not stop in time: it is abandoned.
    GaveUp,
    /// It was abandoned and has been followed for long enough. Told once.
    Over,
}

/// What can happen to a turn from the side of its caller.
#[derive(Debug)]
pub(super) struct Watch {
    reader: watch::Receiver<Reader>,
    pub(super) mode: Mode,
}

impl Watch {
    /// Time begins now.
    pub(super) fn new(reader: watch::Receiver<Reader>, timeout: Option<Duration>) -> Self {
        let end = timeout.and_then(|after| Instant::now().checked_add(after));
        Self {
            reader,
            mode: Mode::Wanted(end),
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.mode, Mode::Wanted(_))
    }

    /// Waits for what happens next. Loses nothing when cancelled.
    pub(super) async fn woken(&mut self) -> Woken {
        loop {
            let alarm = match self.mode {
                Mode::Wanted(at) | Mode::Abandoned(at) => at,
                Mode::Stopping(at) => Some(at),
            };
            tokio::select! {
                changed = self.reader.changed() => {
                    if changed.is_err() {
                        // The task holds the other end.
                        std::future::pending::<()>().await;
                    }
                    if self.heard() {
                        return Woken::Left;
                    }
                }
                () = at(alarm) => return self.rang(),
            }
        }
    }

    /// The reader wants something else; true when it has left.
    fn heard(&mut self) -> bool {
        let reader = *self.reader.borrow_and_update();
        match reader {
            Reader::Streams | Reader::Awaits => false,
            Reader::Detached => {
                if self.is_wanted() {
                    self.mode = Mode::Wanted(None);
                }
                false
            }
            Reader::Left => {
                self.mode = Mode::Abandoned(Instant::now().checked_add(LINGER));
                true
            }
        }
    }

    fn rang(&mut self) -> Woken {
        match self.mode {
            Mode::Wanted(_) => {
                self.mode = Mode::Stopping(Instant::now() + STOP_WAIT);
                Woken::TimedOut
            }
            Mode::Stopping(_) => {
                self.mode = Mode::Abandoned(Instant::now().checked_add(LINGER));
                Woken::GaveUp
            }
            Mode::Abandoned(_) => {
                self.mode = Mode::Abandoned(None);
                Woken::Over
            }
        }
    }
}

/// Resolves then; never without a time.
pub(super) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
