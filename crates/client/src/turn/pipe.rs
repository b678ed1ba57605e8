//! What lies between a turn's task and its stream.
//!
//! The invariant here: the id of the turn and the leaving of its reader are decided under one lock,
//! so a turn whose reader has left is interrupted exactly once: by the reader if the id was known
//! when it left, else by the task when it learns it. The task never waits for the reader; an end is
//! told once and stays.
//!
//! What is in the buffer and what is left out is decided in [`crate::feed`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::watch;

use crate::core::Owner;
use crate::error::{CallError, TurnError};
use crate::event::TurnEvent;
use crate::feed::{End, Mail, Mailbox, Weight};
use crate::ids::{QueuedTurnId, TurnId};
use crate::outcome::{TurnOutcome, TurnStatus};

/// What the reader of a turn wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// Every event.
    Streams,
    /// The end only.
    Awaits,
    /// Nothing; the turn shall go on.
    Detached,
    /// Nothing; the turn shall stop.
    Left,
}

/// Whose turn it is, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// Ours: it stops when its reader leaves.
    Ours,
    /// Perhaps somebody else's, which we joined: it goes on without us.
    Joined,
}

/// What a reader that leaves must see to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// Nothing: the turn has ended, or goes on by the caller's wish, or was never sent.
    Nothing,
    /// The turn was sent and has no id yet: the task will stop it.
    Unanswered,
    /// The turn must be stopped.
    Stop {
        turn: TurnId,
        /// Where it still waits.
        row: Option<QueuedTurnId>,
    },
}

#[derive(Debug)]
pub(super) struct Pipe {
    events: Arc<Mailbox<TurnEvent>>,
    reader: watch::Sender<Reader>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    ownership: Ownership,
    end: Option<Result<TurnOutcome, TurnError>>,
    has_ended: bool,
    /// Keeps the connection while a turn nobody waits for has no id yet.
    lingering: Option<Arc<Owner>>,
}

/// How far the turn has come.
#[derive(Debug)]
enum Stage {
    /// Nothing was sent.
    Unsent,
    /// It was sent and not answered.
    Sent,
    /// It has an id.
    Known {
        turn: TurnId,
        row: Option<QueuedTurnId>,
    },
}

impl Pipe {
    pub(super) fn new(events: Arc<Mailbox<TurnEvent>>, reader: Reader) -> Self {
        Self {
            events,
            reader: watch::Sender::new(reader),
            state: Mutex::new(State {
                stage: Stage::Unsent,
                ownership: Ownership::Ours,
                end: None,
                has_ended: false,
                lingering: None,
            }),
        }
    }

    /// What the reader wants, now and later.
    pub(super) fn reader(&self) -> watch::Receiver<Reader> {
        self.reader.subscribe()
    }

    /// Tells an event, if somebody reads.
    pub(super) fn push(&self, event: TurnEvent, weight: Weight) {
        if *self.reader.borrow() == Reader::Streams {
            self.events.push(event, weight);
        }
    }

    /// Tells that events are missing here; 0 when it is not known how many.
    pub(super) fn push_gap(&self, missed: u64) {
        if *self.reader.borrow() == Reader::Streams {
            self.events.push_gap(missed);
        }
    }

    /// The turn is about to be sent; false when nobody waits for it any more.
    pub(super) fn sending(&self) -> bool {
        let mut state = self.state();
        if *self.reader.borrow() == Reader::Left {
            return false;
        }
        state.stage = Stage::Sent;
        true
    }

    /// The turn has an id; what the reader wants now.
    pub(super) fn known(&self, turn: &TurnId, row: Option<QueuedTurnId>) -> Reader {
        let mut state = self.state();
        state.stage = Stage::Known {
            turn: turn.clone(),
            row,
        };
        *self.reader.borrow()
    }

    /// Whose turn it is.
    pub(super) fn owned(&self, ownership: Ownership) {
        self.state().ownership = ownership;
    }

    /// Whether it stops when its reader leaves.
    pub(super) fn is_ours(&self) -> bool {
        self.state().ownership == Ownership::Ours
    }

    /// The id of the turn.
    pub(super) fn turn(&self) -> Option<TurnId> {
        match &self.state().stage {
            Stage::Known { turn, .. } => Some(turn.clone()),
            Stage::Unsent | Stage::Sent => None,
        }
    }

    /// Ends it. The first end stays.
    pub(super) fn finish(&self, end: Result<TurnOutcome, TurnError>) {
        let mut state = self.state();
        if state.has_ended {
            return;
        }
        state.end = Some(end);
        state.has_ended = true;
        let owner = state.lingering.take();
        drop(state);
        drop(owner);
        self.events.close();
    }

    /// The reader wants something else from now on.
    pub(super) fn want(&self, reader: Reader) {
        self.reader.send_replace(reader);
    }

    /// The reader goes away without having said so.
    pub(super) fn leave(&self) -> Leaving {
        let state = self.state();
        let before = *self.reader.borrow();
        if state.has_ended || matches!(before, Reader::Detached | Reader::Left) {
            return Leaving::Nothing;
        }
        self.reader.send_replace(Reader::Left);
        match (&state.stage, state.ownership) {
            (Stage::Unsent, _) | (Stage::Known { .. }, Ownership::Joined) => Leaving::Nothing,
            (Stage::Sent, _) => Leaving::Unanswered,
            (Stage::Known { turn, row }, Ownership::Ours) => Leaving::Stop {
                turn: turn.clone(),
                row: row.clone(),
            },
        }
    }

    /// Keeps the connection until [`Pipe::let_go`] or the end.
    pub(super) fn linger(&self, owner: Arc<Owner>) {
        let mut state = self.state();
        // An answer that came since then has been dealt with.
        if !state.has_ended && matches!(state.stage, Stage::Sent) {
            state.lingering = Some(owner);
        } else {
            drop(state);
            drop(owner);
        }
    }

    /// Gives up the connection, if it was kept.
    pub(super) fn let_go(&self) {
        let owner = self.state().lingering.take();
        drop(owner);
    }

    /// The next event, then the end, then nothing.
    pub(super) fn poll_next(
        &self,
        cx: &mut Context<'_>,
        told: &mut bool,
    ) -> Poll<Option<Result<TurnEvent, TurnError>>> {
        if *told {
            return Poll::Ready(None);
        }
        let next = match std::task::ready!(self.events.poll_next(cx)) {
            Mail::Item(event) => return Poll::Ready(Some(Ok(event))),
            Mail::Gap { missed } => return Poll::Ready(Some(Ok(TurnEvent::Lagged { missed }))),
            Mail::End(End::TooSlow) => Err(self.too_slow()),
            Mail::End(End::Closed) => self.ended().map(TurnEvent::Ended),
        };
        *told = true;
        Poll::Ready(Some(next))
    }

    /// Reads to the end and takes it.
    pub(super) async fn outcome(&self) -> Result<TurnOutcome, TurnError> {
        loop {
            match self.events.next().await {
                Mail::Item(_) | Mail::Gap { .. } => {}
                Mail::End(End::TooSlow) => return Err(self.too_slow()),
                Mail::End(End::Closed) => break,
            }
        }
        let end = self.state().end.take();
        end.unwrap_or(Err(TurnError::Call(CallError::Closed)))
    }

    /// The reader was too slow: the turn goes on without it.
    fn too_slow(&self) -> TurnError {
        self.want(Reader::Detached);
        TurnError::ConsumerTooSlow
    }

    /// How it ended. An outcome stays to be taken, an error is given away.
    fn ended(&self) -> Result<TurnStatus, TurnError> {
        let mut state = self.state();
        match state.end.take() {
            Some(Ok(outcome)) => {
                let status = outcome.status.clone();
                state.end = Some(Ok(outcome));
                Ok(status)
            }
            Some(Err(error)) => Err(error),
            None => Err(TurnError::Call(CallError::Closed)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics between two writes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
