//! One running command of a thread.
//!
//! The invariant here: a session has ended exactly when its [`Ended`] is there, and by then its item
//! is completed or handed back to the call that waits for it. Everything the process wrote is in
//! `unreported` until the model was told of it, or lost its middle there.
//!
//! The task that reads the process is the sibling `attend`; it alone speaks for the item.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use turnlane_process::{End, Process, Until};
use turnlane_protocol::ids::{ItemId, TurnId};

use super::kept::Kept;
use super::shown::{How, Shown};
use crate::engine::BackgroundTerminal;
use crate::native::tools::text::Size;

/// What is kept of output the model was not told of.
pub(super) const UNREPORTED_BYTES_MAX: usize = 1024 * 1024;
/// Orders that wait for a session's task; a sender waits when there are more.
pub(super) const ORDERS_MAX: usize = 4;

/// How long an end waits for members that outlive the leader: all steps of it, and some.
const EMPTY_MAX: Duration = Duration::from_secs(4);

/// A command that was started, until the model was told its end.
pub(crate) struct Session {
    pub(crate) number: u64,
    /// The turn that started it.
    pub(crate) turn_id: TurnId,
    pub(crate) item_id: ItemId,
    /// The whole command line, redacted.
    pub(crate) command: String,
    pub(crate) cwd: String,
    pub(crate) stdin: SessionInput,
    pub(crate) process: Process,
    pub(super) state: Mutex<State>,
    pub(super) ended: watch::Sender<Option<Ended>>,
    pub(super) orders: mpsc::Sender<Order>,
}

/// Whether a session can be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionInput {
    Closed,
    Terminal,
}

/// How a session's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// As a shell shows it.
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
}

/// What changes while a session lives.
pub(super) struct State {
    pub(super) unreported: Kept,
    pub(super) call: Call,
    pub(super) ending: Ending,
    /// The open item of a command that the sandbox denied something, for the call that asks.
    pub(super) handed_back: Option<Shown>,
}

/// What the call that started the session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Waits,
    /// It told the model that the command runs on.
    Returned,
}

/// Whether a command runs on when its call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Yielded {
    Runs,
    /// It ended just then: its [`end`](Session::end) comes at once.
    Ends,
}

/// Whether somebody here ends the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ending {
    Nobody,
    /// Because it is not wanted any more.
    Unwanted,
    /// Because its turn is stopped.
    Interrupted,
}

/// What a session's task is told.
pub(super) enum Order {
    /// Show what happens from now on in this item, unless another one is open; then it comes back.
    Show(Box<Shown>, oneshot::Sender<Result<(), Box<Shown>>>),
    /// Complete the open item so; done when answered or dropped.
    Hide(How, oneshot::Sender<()>),
}

impl Session {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it ended, if it has.
    pub(crate) fn has_ended(&self) -> Option<Ended> {
        *self.ended.borrow()
    }

    /// Returns when it has ended and its item is completed or handed back.
    pub(crate) async fn end(&self) -> Ended {
        let mut ended = self.ended.subscribe();
        let lost = Ended {
            code: -1,
            signal: None,
        };
        // The sender is ours, so this does not fail.
        let seen = ended.wait_for(Option::is_some).await;
        seen.ok().and_then(|ended| *ended).unwrap_or(lost)
    }

    /// The output the model was not told of yet, which it is told now.
    pub(crate) fn take_unreported(&self) -> (String, Size) {
        self.lock().unreported.take()
    }

    /// The call would return while the command runs on.
    pub(crate) fn yielded(&self) -> Yielded {
        let mut state = self.lock();
        if state.handed_back.is_some() || self.has_ended().is_some() {
            return Yielded::Ends;
        }
        state.call = Call::Returned;
        Yielded::Runs
    }

    /// The open item, if its command looks denied and the call is to ask about it.
    pub(crate) fn take_back(&self) -> Option<Shown> {
        self.lock().handed_back.take()
    }

    /// The output the model was not told of yet.
    pub(crate) fn unreported(&self) -> String {
        self.lock().unreported.text()
    }

    /// Shows what happens from now on, and what the model was not told of, in an item of another
    /// turn.
    ///
    /// The item comes back if another one is open, or if the session has ended.
    pub(crate) async fn show(&self, shown: Shown) -> Result<(), Shown> {
        let (done, answer) = oneshot::channel();
        let order = Order::Show(Box::new(shown), done);
        if let Err(mpsc::error::SendError(unsent)) = self.orders.send(order).await {
            return match unsent {
                Order::Show(shown, _) => Err(*shown),
                Order::Hide(..) => Ok(()),
            };
        }
        // Every order that was taken is answered, or the runtime ends.
        answer.await.unwrap_or(Ok(())).map_err(|shown| *shown)
    }

    /// Completes the open item, if there is one; nothing is emitted afterwards.
    pub(crate) async fn hide(&self, how: How) {
        let (done, answer) = oneshot::channel();
        if self.orders.send(Order::Hide(how, done)).await.is_ok() {
            // Dropped when the process ended meanwhile; then the item is completed too.
            let _ = answer.await;
        }
    }

    /// Begins to end the process with everything it started. Again for no graver reason: nothing, so
    /// that the steps of an end keep their time.
    pub(super) fn begin_end(&self, ending: Ending, end: End) {
        let mut state = self.lock();
        let before = state.ending;
        state.ending = before.max(ending);
        drop(state);
        if before < ending {
            self.process.end(end);
            // When the leader has exited there are no steps.
            self.process.end_survivors();
        }
    }

    /// Returns when the session has ended and an end has reached everything it started.
    pub(super) async fn emptied(&self) {
        self.end().await;
        self.gone().await;
    }

    /// Returns when nobody is left, or after the time that an end may take.
    pub(super) async fn gone(&self) {
        self.process.wait(Until::Gone, Some(EMPTY_MAX)).await;
    }

    /// Whether what it started outlives it.
    pub(super) fn has_survivors(&self) -> bool {
        self.process.listed().survivors > 0
    }

    pub(super) fn is_background(&self) -> bool {
        if self.has_ended().is_some() {
            return self.has_survivors();
        }
        self.lock().call == Call::Returned
    }

    pub(super) fn listed(&self) -> BackgroundTerminal {
        BackgroundTerminal {
            item_id: self.item_id.clone(),
            process_id: self.number.to_string(),
            command: self.command.clone(),
            cwd: self.cwd.clone(),
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
