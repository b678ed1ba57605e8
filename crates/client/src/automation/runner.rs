//! What an automation needs of its thread, and how a thread gives it.
//!
//! The invariant here: a run owns its turn. However it ends, the turn has ended too or was told to:
//! dropping a run drops the stream of its turn, which interrupts it.
//!
//! When something is run is not decided here.

use std::time::Duration;

use tokio::sync::watch;

use super::ledger::TurnSlot;
use super::plan::SESSION_CLOSED;
use crate::error::{CallError, TransportError, TurnError};
use crate::ids::ThreadId;
use crate::link::Connection;
use crate::outcome::TurnOutcome;
use crate::review::BoxFuture;
use crate::thread::Thread;
use crate::turn::{Turn, TurnStream};

/// How long a turn that shall be interrupted may stay without a name: it waits behind others then,
/// and is given up instead.
const UNNAMED_MAX: Duration = Duration::from_secs(1);

/// How often such a turn is asked for its name.
const NAME_STEP: Duration = Duration::from_millis(10);

/// What the handles want; only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    #[default]
    GoOn,
    /// No new run.
    Stop,
    /// Nor the one in flight.
    StopNow,
}

/// Resolves when at least this is wanted; never if all handles went without wanting it.
pub(super) async fn wished(wish: &watch::Receiver<Wish>, least: Wish) {
    if wish.clone().wait_for(|wish| *wish >= least).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A run in the air.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) wish: watch::Receiver<Wish>,
    /// Filled when the server names the turn.
    pub(super) turn: TurnSlot,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RunEnd {
    Completed,
    /// Any other way; the text says which.
    Failed(String),
}

/// Something turns are run on.
pub(super) trait Runner: Send + Sync + 'static {
    fn thread_id(&self) -> ThreadId;

    /// Why no turn can be run any more, if none can.
    fn gone(&self) -> Option<String>;

    /// Resolves when [`Runner::gone`] has an answer.
    fn until_gone(&self) -> impl Future<Output = ()> + Send;

    /// Whether a turn would be sent at once.
    fn is_ready(&self) -> bool;

    /// Resolves when [`Runner::is_ready`] may say yes.
    fn until_ready(&self) -> impl Future<Output = ()> + Send;

    /// Runs one turn to its end, and interrupts it when the flight's wish is to stop now. Dropping
    /// the future interrupts the turn too, without waiting for its end.
    fn run(&self, prompt: &str, flight: Flight) -> BoxFuture<'static, RunEnd>;
}

/// A thread of a client.
#[derive(Debug)]
pub(super) struct ThreadRunner {
    thread: Thread,
    connection: watch::Receiver<Connection>,
}

impl ThreadRunner {
    pub(super) fn new(thread: Thread) -> Self {
        let connection = thread.owner.link.connection();
        Self { thread, connection }
    }

    /// Resolves when the connection is as `wanted`.
    async fn until(&self, wanted: impl FnMut(&Connection) -> bool) {
        // The thread holds the link, so there is no end of the channel to be told of.
        let _ = self.connection.clone().wait_for(wanted).await;
    }
}

impl Runner for ThreadRunner {
    fn thread_id(&self) -> ThreadId {
        self.thread.id().clone()
    }

    fn gone(&self) -> Option<String> {
        if self.thread.is_closed() {
            return Some(SESSION_CLOSED.to_owned());
        }
        match &*self.connection.borrow() {
            Connection::Closed { reason } => {
                let reason = reason.clone();
                Some(TransportError::Closed { reason }.to_string())
            }
            Connection::Ready { .. } | Connection::Reconnecting { .. } => None,
        }
    }

    async fn until_gone(&self) {
        tokio::select! {
            () = self.thread.state.closed() => {}
            () = self.until(|it| matches!(it, Connection::Closed { .. })) => {}
        }
    }

    fn is_ready(&self) -> bool {
        matches!(*self.connection.borrow(), Connection::Ready { .. })
    }

    async fn until_ready(&self) {
        self.until(|it| !matches!(it, Connection::Reconnecting { .. }))
            .await;
    }

    fn run(&self, prompt: &str, flight: Flight) -> BoxFuture<'static, RunEnd> {
        let thread = self.thread.clone();
        let prompt = prompt.to_owned();
        Box::pin(async move {
            match turn(&thread, prompt, flight).await {
                Ok(outcome) => match outcome.into_success() {
                    Ok(_) => RunEnd::Completed,
                    Err(error) => RunEnd::Failed(chain(&error)),
                },
                Err(error) => RunEnd::Failed(chain(&error)),
            }
        })
    }
}

/// One turn of the thread, through its line like any other, to its end.
async fn turn(thread: &Thread, prompt: String, flight: Flight) -> Result<TurnOutcome, TurnError> {
    let Flight { wish, turn } = flight;
    let mut stream = thread.turn(prompt).stream().await?;
    let handle = tokio::select! {
        biased;
        named = named(&mut stream, &wish) => named?,
        () = wished_for(&wish, UNNAMED_MAX) => return Err(TurnError::Call(CallError::Closed)),
    };
    let Some(handle) = handle else {
        // It ended before it had a name; the stream knows how.
        return stream.outcome().await;
    };
    // Set once: the slot is this run's alone.
    let _ = turn.set(handle.id().clone());
    let mut outcome = std::pin::pin!(stream.outcome());
    tokio::select! {
        biased;
        end = &mut outcome => return end,
        () = wished(&wish, Wish::StopNow) => {}
    }
    // The interrupt may be answered before or after the turn's end arrives, and the end is what counts.
    tokio::select! {
        biased;
        end = &mut outcome => return end,
        refused = handle.interrupt() => refused?,
    }
    outcome.await
}

/// Reads on until the server has named the turn, or the turn has ended.
async fn named(
    stream: &mut TurnStream,
    wish: &watch::Receiver<Wish>,
) -> Result<Option<Turn>, TurnError> {
    loop {
        if let Some(turn) = stream.turn() {
            return Ok(Some(turn));
        }
        tokio::select! {
            event = stream.next() => match event {
                Some(event) => drop(event?),
                None => return Ok(None),
            },
            // A turn that waits in its lane has a name and no events.
            () = wished_for(wish, NAME_STEP) => {}
        }
    }
}

/// Resolves when the run should have been interrupted for so long.
async fn wished_for(wish: &watch::Receiver<Wish>, long: Duration) {
    wished(wish, Wish::StopNow).await;
    tokio::time::sleep(long).await;
}

/// An error's text with what it was caused by: nobody can ask the text for its source later.
fn chain(error: &TurnError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}
