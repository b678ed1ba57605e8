//! The engine's voice: everything it says about its turn.
//!
//! The invariant here: all clones of a sink, and the questions of its
//! [`TurnControl`](crate::TurnControl), share one queue of [`QUEUE_MAX`] places. A full queue makes
//! the engine wait, which makes it stop reading its provider; nothing is dropped.
//!
//! No call here outlives the lane: when its end is gone, every call says [`Fenced`].

use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use crate::entry::Entry;
use crate::event::Event;
use crate::outcome::TurnOutcome;
use crate::said::{ChildRecord, Fenced, Reply, Said};

/// How much an engine may have said before its lane has listened; then it waits.
pub const QUEUE_MAX: usize = 1024;

/// Takes what an engine says; cheap to clone, all clones are one voice.
#[derive(Clone, Debug)]
pub struct Sink {
    said: mpsc::Sender<Said>,
}

impl Sink {
    pub(crate) fn new(said: mpsc::Sender<Said>) -> Self {
        Self { said }
    }

    /// Tells clients about the turn; in memory when this returns.
    ///
    /// Waits while the queue is full. Dropped while it waits, the event was never said.
    pub async fn emit(&self, event: Event) -> Result<(), Fenced> {
        self.say(Said::Event(event)).await
    }

    /// Appends entries to the thread's history; in memory when this returns.
    ///
    /// They are written with the lane's next write, at the latest with the turn's end.
    pub async fn record(&self, entries: Vec<Entry>) -> Result<(), Fenced> {
        self.say(Said::Record(entries)).await
    }

    /// Returns when everything emitted and recorded before is durable and the lane is still ours.
    ///
    /// Awaited before anything has an effect that cannot be taken back. Called twice, the second
    /// costs nothing new.
    pub async fn commit(&self) -> Result<(), Fenced> {
        self.ask(Said::Commit).await
    }

    /// Returns when it is durable that the input is about to leave us; foreign engines.
    pub async fn handing_over(&self, process: Option<ChildRecord>) -> Result<(), Fenced> {
        self.ask(|reply| Said::HandingOver { process, reply }).await
    }

    /// Returns when it is durable that the engine has taken the turn; foreign engines.
    pub async fn accepted(&self) -> Result<(), Fenced> {
        self.ask(Said::Accepted).await
    }

    /// Returns when `state` is durable; later turns of the thread get it. Foreign engines.
    pub async fn save_state(&self, state: Box<RawValue>) -> Result<(), Fenced> {
        self.ask(|reply| Said::SaveState { state, reply }).await
    }

    /// The last word of a turn; said by [`crate::run`], not by engines.
    pub(crate) async fn ended(&self, outcome: TurnOutcome) -> Result<(), Fenced> {
        self.say(Said::Ended(Box::new(outcome))).await
    }

    async fn ask(
        &self,
        question: impl FnOnce(Reply<Result<(), Fenced>>) -> Said,
    ) -> Result<(), Fenced> {
        self.question(question).await?
    }

    /// Asks, and waits for the answer; a lane that has gone has fenced us.
    pub(crate) async fn question<T>(
        &self,
        question: impl FnOnce(Reply<T>) -> Said,
    ) -> Result<T, Fenced> {
        let (reply, answer) = oneshot::channel();
        self.say(question(reply)).await?;
        answer.await.map_err(|_dropped| Fenced)
    }

    async fn say(&self, said: Said) -> Result<(), Fenced> {
        self.said.send(said).await.map_err(|_closed| Fenced)
    }
}
