//! Turns: one unit of work on a thread, from its input to its outcome.
//!
//! The invariant here: a turn is ours only if its first message carries our id, so nobody's answer is
//! given for somebody else's question; nothing is sent twice without a key that makes it harmless.
//! One task per turn (`turn/task.rs`) waits for its place, starts it, follows it, finds it again after
//! a lost connection and ends it; handles only talk to that task.
//!
//! Turns that wait on the server, owned by nobody here, are in [`crate::queue`].

mod asked;
mod attach;
mod gather;
mod line;
pub(crate) mod lookup;
mod pipe;
mod task;
mod watch;
pub(crate) mod wire;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use uuid::Uuid;

pub(crate) use self::asked::Asked;
pub(crate) use self::attach::ended;
pub(crate) use self::gather::Gathered;
pub(crate) use self::line::Line;
pub(crate) use self::lookup::Pages;
use self::pipe::{Leaving, Pipe, Reader};
use self::task::Running;
pub(crate) use self::wire::missing;
use crate::core::Owner;
use crate::error::{CallError, SteerError, TurnError, map};
use crate::event::TurnEvent;
use crate::ids::TurnId;
use crate::input::{Input, Refused};
use crate::outcome::TurnOutcome;
use crate::profile::{Profile, profile_setters};
use crate::queue::QueuedTurn;
use crate::review::BoxFuture;
use crate::thread::Thread;

/// What happens when a turn of the thread runs already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenBusy {
    /// Wait for its end, in order.
    #[default]
    Queue,
    /// Become part of it.
    Steer,
    /// Fail with [`TurnError::Busy`].
    Reject,
}

/// A turn to be run; `await` it, or stream or enqueue it.
#[derive(Debug)]
pub struct TurnBuilder {
    pub(crate) thread: Thread,
    pub(crate) input: Input,
    pub(crate) profile: Profile,
    pub(crate) when_busy: WhenBusy,
    pub(crate) key: Option<String>,
    pub(crate) bound: Bound,
}

/// Whose end is the end of a waiting turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Nobody's: it is the server's once accepted.
    #[default]
    Nothing,
    /// This connection's; Turnlane only.
    Connection,
}

impl TurnBuilder {
    pub(crate) fn new(thread: Thread, input: Input) -> Self {
        Self {
            thread,
            input,
            profile: Profile::default(),
            when_busy: WhenBusy::default(),
            key: None,
            bound: Bound::default(),
        }
    }

    /// While it waits in the lane it ends with this connection, however that ends; Turnlane only.
    #[must_use]
    pub fn bound_to_connection(mut self) -> Self {
        self.bound = Bound::Connection;
        self
    }

    /// The id of our message; the same key again starts nothing on a Turnlane server.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// What happens when a turn runs already.
    #[must_use]
    pub fn when_busy(mut self, when_busy: WhenBusy) -> Self {
        self.when_busy = when_busy;
        self
    }

    /// Puts it into the thread's queue: durable, and owned by nobody.
    pub async fn enqueue(self) -> Result<QueuedTurn, TurnError> {
        crate::queue::enqueue(self).await
    }

    /// Starts it and streams what happens.
    ///
    /// Returns as soon as hooks, gate and input are fine; waiting for its place, the start and every
    /// later failure are told by the stream. Turns of one thread are sent in the order in which these
    /// futures were first polled. Dropping the future or the stream interrupts the turn, and sends
    /// nothing at all if it still waits in this client.
    pub async fn stream(self) -> Result<TurnStream, TurnError> {
        self.open(Reader::Streams).await
    }

    /// Runs it to its end.
    ///
    /// A turn that failed or was interrupted is an error that carries its outcome; one that completed
    /// without a word is not. Dropping the future interrupts the turn.
    pub async fn run(self) -> Result<TurnOutcome, TurnError> {
        let stream = self.open(Reader::Awaits).await?;
        stream.pipe.outcome().await?.into_success()
    }

    async fn open(self, reader: Reader) -> Result<TurnStream, TurnError> {
        let Running { pipe, opened } = task::spawn(&self, reader);
        // From here on a drop is the stream's.
        let stream = TurnStream {
            thread: self.thread,
            pipe,
            has_ended: false,
        };
        match opened.await {
            Ok(Ok(())) => Ok(stream),
            Ok(Err(error)) => Err(error),
            // The task went with its runtime.
            Err(_) => Err(TurnError::Call(CallError::Closed)),
        }
    }
}

profile_setters!(TurnBuilder, profile);

impl IntoFuture for TurnBuilder {
    type Output = Result<TurnOutcome, TurnError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// What happens in a turn: a stream that ends with [`TurnEvent::Ended`] or an error.
///
/// Dropping it before the end interrupts the turn; [`TurnStream::detach`] lets it go on. Whoever reads
/// too slowly misses the oldest events of progress and is told so; a stream that lets too much of the
/// rest lie fails with [`TurnError::ConsumerTooSlow`], and the turn goes on.
#[derive(Debug)]
pub struct TurnStream {
    thread: Thread,
    pipe: Arc<Pipe>,
    /// The end was told.
    has_ended: bool,
}

impl TurnStream {
    /// The turn; none until its id is known.
    pub fn turn(&self) -> Option<Turn> {
        let id = self.pipe.turn()?;
        Some(Turn {
            owner: Arc::clone(&self.thread.owner),
            thread: self.thread.clone(),
            id,
        })
    }

    /// Lets the turn go on without this stream and without its time limit; none when its id is not
    /// known yet. A turn that still waits in this client is sent as long as a handle of the client is
    /// there.
    pub fn detach(self) -> Option<Turn> {
        self.pipe.want(Reader::Detached);
        self.turn()
    }

    /// Waits for the end, whatever it is; what was not read of the stream is skipped. Dropping the
    /// future interrupts the turn.
    pub async fn outcome(self) -> Result<TurnOutcome, TurnError> {
        self.pipe.want(Reader::Awaits);
        self.pipe.outcome().await
    }

    /// The next event; none after the end. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Option<Result<TurnEvent, TurnError>> {
        std::future::poll_fn(|cx| self.pipe.poll_next(cx, &mut self.has_ended)).await
    }
}

impl futures_core::Stream for TurnStream {
    type Item = Result<TurnEvent, TurnError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = self.get_mut();
        stream.pipe.poll_next(cx, &mut stream.has_ended)
    }
}

impl Drop for TurnStream {
    fn drop(&mut self) {
        match self.pipe.leave() {
            Leaving::Nothing => {}
            Leaving::Unanswered => self.pipe.linger(Arc::clone(&self.thread.owner)),
            Leaving::Stop { turn, row } => {
                // Queued before the connection is closed, if this was the last handle.
                wire::stop_detached(&self.thread.owner, self.thread.id(), &turn, row.as_ref());
            }
        }
    }
}

/// A turn by its id; clones are the same one. Dropping it does nothing.
#[derive(Clone, Debug)]
pub struct Turn {
    pub(crate) owner: Arc<Owner>,
    pub(crate) thread: Thread,
    pub(crate) id: TurnId,
}

impl Turn {
    /// Its id.
    pub fn id(&self) -> &TurnId {
        &self.id
    }

    /// Says more to it while it runs. Never starts a turn: one that does not run any more refuses,
    /// and so does any other that runs in its place.
    pub async fn steer(&self, input: impl Into<Input>) -> Result<(), SteerError> {
        let core = &self.owner;
        let cwd = self.thread.effective().cwd;
        let input = crate::input::prepare(core, input.into(), &[], &cwd).await;
        let input = input.map_err(Refused::into_call)?;
        let client_id = Uuid::now_v7().to_string();
        let steered = wire::steer(core, self.thread.id(), &self.id, &input, &client_id).await;
        steered
            .map(drop)
            .map_err(|error| map::steer(&self.id, error))
    }

    /// Stops it; returns when the server confirmed, or when the turn has ended, at the latest after
    /// 10 s. Called twice it does no more; a turn that waits in a queue is taken out of it.
    pub async fn interrupt(&self) -> Result<(), CallError> {
        attach::interrupt(&self.owner, self.thread.id(), &self.id).await
    }

    /// Waits for its end, however long that takes; also when it has ended before, and over lost
    /// connections. Dropping the future changes nothing.
    pub async fn outcome(&self) -> Result<TurnOutcome, TurnError> {
        attach::outcome(&self.owner, self.thread.id(), &self.id).await
    }
}
