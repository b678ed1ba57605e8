//! Waiting for a session, and what the model is told about it.
//!
//! The invariant here: whoever waits is woken by the process's end, by the turn's, or by time,
//! whichever is first; the model is told each piece of output once.
//!
//! Used by both tools that talk to sessions.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::native::sessions::{Ended, Session, Yielded};
use crate::native::tools::{Output, Stop, ToolTurn, text};

/// A call of a stopped turn that has no result.
pub(crate) fn aborted(turn: &ToolTurn, begun: Instant) -> Stop {
    Stop::Cancelled(turn.cancel.cut_off(begun.elapsed()))
}

/// A call that waits for a session.
pub(crate) struct Wait<'a> {
    pub(crate) turn: &'a ToolTurn,
    pub(crate) session: &'a Arc<Session>,
    pub(crate) begun: Instant,
}

/// The turn is to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped;

impl Wait<'_> {
    /// Waits as the call that started the session: a turn that stops ends the process, and this
    /// returns when it has ended.
    pub(crate) async fn for_call(&self, limit: Duration) -> Result<Report, Stop> {
        match self.until(limit).await {
            Ok(Some(ended)) => Ok(Report::ended(self.begun, ended)),
            Ok(None) => match self.session.yielded() {
                Yielded::Runs => Ok(Report::running(self.begun)),
                Yielded::Ends => Ok(Report::ended(self.begun, self.session.end().await)),
            },
            Err(Stopped) => Err(self.interrupt().await),
        }
    }

    /// The end of the session, if it comes in time.
    pub(crate) async fn until(&self, limit: Duration) -> Result<Option<Ended>, Stopped> {
        tokio::select! {
            biased;
            ended = self.session.end() => Ok(Some(ended)),
            _cancelled = self.turn.cancel.cancelled() => Err(Stopped),
            () = sleep(limit) => Ok(None),
        }
    }

    /// Ends the session with the turn that started it, together with that turn's others.
    pub(crate) async fn interrupt(&self) -> Stop {
        self.turn.sessions.begin_interrupt(self.turn.turn_id);
        self.session.end().await;
        self.turn.sessions.forget(self.session.number);
        aborted(self.turn, self.begun)
    }
}

/// What the model is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    wall_time: Duration,
    ended: Option<Ended>,
}

impl Report {
    pub(crate) fn running(begun: Instant) -> Self {
        Self {
            wall_time: begun.elapsed(),
            ended: None,
        }
    }

    pub(crate) fn ended(begun: Instant, ended: Ended) -> Self {
        Self {
            wall_time: begun.elapsed(),
            ended: Some(ended),
        }
    }

    /// The call's output; an end that is told is forgotten, output that is told is not told again.
    pub(crate) fn output(self, turn: &ToolTurn, session: &Session, tokens_max: u64) -> Output {
        let (told, size) = session.take_unreported();
        let line = match self.ended {
            Some(Ended { code, .. }) => {
                turn.sessions.forget(session.number);
                format!("Process exited with code {code}")
            }
            None => format!("Process running with session ID {}", session.number),
        };
        let text = format!(
            "Wall time: {:.4} seconds\n{line}\nOriginal token count: {}\nOutput:\n{}",
            self.wall_time.as_secs_f64(),
            size.tokens(),
            text::cut(&told, size, tokens_max),
        );
        // Two streams may have put a key together that neither of them wrote.
        let text = turn.redactor.text(&text);
        match self.ended {
            None | Some(Ended { code: 0, .. }) => Output::success(text),
            Some(_) => Output::failure(text),
        }
    }
}
