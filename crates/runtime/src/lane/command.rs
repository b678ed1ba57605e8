//! What others ask of a lane's task, and how it answers.
//!
//! The invariant here: a [`Reply`] is answered when it is used and when it is dropped, so no caller
//! waits for a lane that has gone. An answer goes straight to where it is wanted, before whatever it
//! causes is told.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;
use turnlane_engine::BoxFuture;
use turnlane_protocol::approval::Decision;
use turnlane_protocol::ids::{ApprovalId, TurnId};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::method::TurnStartParams;
use turnlane_protocol::notification::{Decider, ServerNotification};
use turnlane_store::Store;
use turnlane_store::lane::LaneView;
use turnlane_store::queue::{Repeated, Row, Which};
use turnlane_store::thread::ThreadRow;
use turnlane_store::turn::{AcceptedTurn, TurnRow};

use super::close::CloseOp;
use super::event::{AfterInterrupt, StartHow, StopHow};
use super::reconcile::UndecidedTurn;
use super::rights::CallerRights;
use super::subscribers::{Since, Snapshot};
use crate::error::Error;
use crate::fanout::board::RunningPlace;
use crate::notice::{Subscriber, SubscriberId};
use crate::settings::Settings;
use crate::threads::RevertTo;

/// Takes an answer.
type Taker<T> = Box<dyn FnOnce(Result<T, Error>) + Send>;

/// Where an answer goes.
pub struct Reply<T>(Option<Taker<T>>);

impl<T: Send + 'static> Reply<T> {
    /// Calls `answer` with the answer, in the lane's task; it must not block.
    pub fn new(answer: impl FnOnce(Result<T, Error>) + Send + 'static) -> Self {
        Self(Some(Box::new(answer)))
    }

    /// A reply, and where its answer arrives.
    pub fn channel() -> (Self, oneshot::Receiver<Result<T, Error>>) {
        let (sender, receiver) = oneshot::channel();
        // Whoever stopped waiting needs no answer.
        let reply = Self::new(move |answer| drop(sender.send(answer)));
        (reply, receiver)
    }
}

impl<T> Reply<T> {
    /// Answers.
    pub(crate) fn send(mut self, answer: Result<T, Error>) {
        if let Some(reply) = self.0.take() {
            reply(answer);
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(reply) = self.0.take() {
            reply(Err(Error::Lost));
        }
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

/// A turn that somebody wants.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// What it is started with.
    pub params: TurnStartParams,
    /// What else would do when a turn runs.
    pub how: StartHow,
    /// The same key again starts nothing.
    pub key: Option<String>,
    /// Whether it goes with this worker while it waits.
    pub bound: Bound,
}

/// A message to a running turn.
#[derive(Clone, Debug)]
pub struct SteerRequest {
    /// The turn.
    pub turn: TurnId,
    /// The message.
    pub input: Vec<UserInput>,
    /// The client's own id for the message.
    pub client_id: Option<String>,
    /// The rights of the client; a turn with more rights does not take its messages.
    pub caller: CallerRights,
}

/// With whom a waiting row goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// With nobody.
    No,
    /// With this worker.
    ToThisWorker,
}

/// What became of a wanted turn.
#[derive(Clone, Debug)]
pub enum StartAnswer {
    /// It has begun: turn and message are on disk.
    Begun(Box<TurnRow>),
    /// The running turn was given the input: the message is on disk.
    Steered(TurnId),
    /// It waits in the queue: the row is on disk.
    Queued(Box<Row>),
    /// The key was there with the same content.
    Repeated(Box<Repeated>),
}

impl From<&AcceptedTurn> for StartAnswer {
    fn from(accepted: &AcceptedTurn) -> Self {
        Self::Begun(Box::new(accepted.turn.clone()))
    }
}

/// A call about the queue: submits its operation, and says what came of it.
pub(crate) type QueueCall = Box<dyn FnOnce(&dyn Store) -> BoxFuture<'static, QueueDone> + Send>;

/// A call about the queue that has come to its end and is not answered yet.
pub(crate) struct QueueDone {
    /// The lane afterwards, when the call changed something.
    pub lane: Option<LaneView>,
    /// Answers the caller.
    pub answer: Box<dyn FnOnce() + Send>,
}

/// A turn that another transaction has begun.
pub(crate) struct BegunTurn {
    pub accepted: AcceptedTurn,
    /// Held until the end of the turn is on disk.
    pub place: RunningPlace,
}

/// A row that is to be run now.
pub(crate) struct RowStart {
    pub which: Which,
    pub reply: Reply<StartAnswer>,
}

/// What others ask of a lane.
pub(crate) enum Command {
    Start {
        request: Box<StartRequest>,
        reply: Reply<StartAnswer>,
    },
    StartRow(RowStart),
    Steer {
        turn: TurnId,
        input: Vec<UserInput>,
        client_id: Option<String>,
        caller: CallerRights,
        reply: Reply<TurnId>,
    },
    Interrupt {
        turn: Option<TurnId>,
        queue: AfterInterrupt,
        by: Option<String>,
        reply: Reply<()>,
    },
    Queue(QueueCall),
    Decide {
        approval: ApprovalId,
        decision: Decision,
        by: Decider,
        caller: CallerRights,
        reason: Option<String>,
        reply: Reply<()>,
    },
    Subscribe {
        id: SubscriberId,
        subscriber: Arc<dyn Subscriber>,
        since: Option<Since>,
        /// What is to be run before anything else is, once the lane is followed.
        start: Option<RowStart>,
        reply: Reply<Box<Snapshot>>,
    },
    Unsubscribe(SubscriberId),
    /// A turn that makes the history shorter.
    Compact {
        reply: Reply<StartAnswer>,
    },
    /// Another transaction has begun this turn in the lane; it is to be run.
    RunBegun(Box<BegunTurn>),
    /// A dead worker left this turn; its engine is to be asked.
    Reconcile(Box<UndecidedTurn>),
    Thread(ThreadCommand),
    Stop(StopHow),
}

/// What others ask of a lane about its thread.
pub(crate) enum ThreadCommand {
    /// Takes turns back.
    Revert {
        to: RevertTo,
        reply: Reply<ThreadRow>,
    },
    /// The settings are these now.
    Settings(Box<Settings>),
    /// Tells everybody.
    Tell(Box<ServerNotification>),
    /// Stops what runs, ends the task, and does this with the thread.
    Close { op: CloseOp, reply: Reply<()> },
}
