//! The task of one turn: waits for its place, starts it, follows it, finds it again, ends it.
//!
//! The invariant here: a task tells its end exactly once, also when it is dropped with its runtime; it
//! holds no handle of the client, so it never keeps a connection open; and it holds its place in the
//! line for as long as the server would otherwise mix up two turns.
//!
//! Theory of operation: `start.rs` gets the turn an id, `follow.rs` follows that id to an end, and
//! this file makes the end known. A turn nobody waits for any more goes the same way, silently.

mod follow;
mod start;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::asked::{Asked, Ready};
use super::gather::Gathered;
use super::line::Place;
use super::pipe::{Pipe, Reader};
use super::watch::{Mode, Watch};
use super::{TurnBuilder, WhenBusy, lookup};
use crate::error::{CallError, TransportError, TurnError};
use crate::event::TurnEvent;
use crate::feed::{Announced, Class, Weight};
use crate::hooks::MainStatus;
use crate::ids::{QueuedTurnId, TurnId};
use crate::outcome::{TurnStatus, TurnView};
use crate::review::TurnScope;

/// What an event counts for that this client made itself.
const SIGNAL: Weight = Weight {
    class: Class::Lossless,
    bytes: 0,
};

/// How a turn came to an end, before its hooks have run.
#[derive(Debug)]
enum End {
    /// By itself, or by somebody who stopped it.
    Turn(Box<TurnView>),
    /// It has no outcome.
    Error(TurnError),
    /// Nobody wants to know.
    Nobody,
}

impl End {
    fn call(error: CallError) -> Self {
        Self::Error(TurnError::Call(error))
    }

    fn closed(why: TransportError) -> Self {
        Self::call(CallError::Transport(why))
    }
}

/// The task of one turn.
#[derive(Debug)]
pub(super) struct Task {
    asked: Asked,
    teller: Teller,
    watch: Watch,
    timeout: Option<Duration>,
    /// Held as long as the next turn of the thread must wait in this client.
    place: Option<Place>,
    /// The turn's own reviewer decides as long as this is here.
    scope: Option<TurnScope>,
    gathered: Gathered,
    announced: Announced,
    turn: Option<TurnId>,
    /// Where it waits on the server.
    row: Option<QueuedTurnId>,
    position: Option<u32>,
    /// When it is looked for there; none while it does not wait.
    look_at: Option<Instant>,
    /// `turn/started` was seen, so nothing of the turn was before it.
    begun: bool,
    /// Its start was told to the stream.
    told_start: bool,
    whose: Whose,
}

/// What is known about whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// Its first message was not seen yet.
    Open,
    /// It is ours, or the caller does not mind.
    Settled,
    /// Somebody else's, which we joined.
    Joined,
}

/// The end of the pipe that a task has: tells an end even when the task is dropped without one.
#[derive(Debug)]
struct Teller(Arc<Pipe>);

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.finish(Err(TurnError::Call(CallError::Closed)));
    }
}

/// A task that runs, as its stream sees it.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) pipe: Arc<Pipe>,
    /// Whether it was let through, before anything is sent.
    pub(super) opened: oneshot::Receiver<Result<(), TurnError>>,
}

/// Takes a place in the line and starts the task.
pub(super) fn spawn(builder: &TurnBuilder, reader: Reader) -> Running {
    let place = builder.thread.state.line.join();
    let asked = Asked::new(builder);
    let pipe = Arc::new(Pipe::new(asked.core.router.mailbox(), reader));
    let timeout = asked.timeout();
    let span = tracing::info_span!(
        "turn",
        thread = %asked.thread(),
        turn = tracing::field::Empty,
        client_id = %asked.key,
    );
    let task = Task {
        watch: Watch::new(pipe.reader(), timeout),
        teller: Teller(Arc::clone(&pipe)),
        timeout,
        place: Some(place),
        scope: None,
        gathered: Gathered::default(),
        announced: Announced::default(),
        turn: None,
        row: None,
        position: None,
        look_at: None,
        begun: false,
        told_start: false,
        whose: match asked.when_busy {
            WhenBusy::Steer => Whose::Settled,
            WhenBusy::Queue | WhenBusy::Reject => Whose::Open,
        },
        asked,
    };
    let (tell, opened) = oneshot::channel();
    tokio::spawn(task.run(tell).instrument(span));
    Running { pipe, opened }
}

impl Task {
    async fn run(mut self, opened: oneshot::Sender<Result<(), TurnError>>) {
        let ready = match self.asked.ready().await {
            Ok(ready) => ready,
            Err(error) => {
                // A caller that has left does not want to know.
                let _ = opened.send(Err(error));
                return;
            }
        };
        let _ = opened.send(Ok(()));
        let Err(end) = self.whole(&ready).await;
        self.close(end).await;
    }

    async fn whole(&mut self, ready: &Ready) -> Result<Infallible, End> {
        self.wait_for_place().await?;
        let mut feed = if let Some(feed) = self.join_running(ready).await? {
            feed
        } else {
            let params = self.asked.start_params(ready);
            self.start(&params).await?
        };
        let resend = self.resend_params(ready);
        self.follow(&mut feed, resend.as_ref()).await
    }

    /// What is sent again, with the same key, to a server that has lost the turn.
    fn resend_params(&self, ready: &Ready) -> Option<Map<String, Value>> {
        self.asked
            .core
            .is_turnlane()
            .then(|| self.asked.start_params(ready))
    }

    fn pipe(&self) -> &Pipe {
        &self.teller.0
    }

    fn tell(&self, event: TurnEvent) {
        self.pipe().push(event, SIGNAL);
    }

    fn bind(&mut self, turn: &TurnId) {
        Span::current().record("turn", turn.as_str());
        self.turn = Some(turn.clone());
        if let Some(scope) = &self.scope {
            scope.bind(turn);
        }
    }

    fn timed_out(&self, ended: bool) -> TurnError {
        TurnError::Timeout {
            turn: self.turn.clone(),
            after: self.timeout.unwrap_or(Duration::MAX),
            ended,
        }
    }

    /// Makes the end known. Whoever waits for the next place goes on first.
    async fn close(&mut self, end: End) {
        self.place = None;
        self.scope = None;
        let turn = self.turn.clone();
        let view = match (end, self.watch.mode) {
            (End::Turn(view), Mode::Wanted(_)) => view,
            (End::Turn(_), Mode::Stopping(_)) => {
                self.pipe().finish(Err(self.timed_out(true)));
                return self.asked.after(turn, MainStatus::Error).await;
            }
            (End::Error(error), _) => {
                self.pipe().finish(Err(error));
                return self.asked.after(turn, MainStatus::Error).await;
            }
            (End::Turn(_), Mode::Abandoned(_)) | (End::Nobody, _) => {
                return self.asked.after(turn, MainStatus::Error).await;
            }
        };
        self.complete(&view).await;
        if let Some(into) = self.merged_into() {
            self.pipe().finish(Err(TurnError::Merged { into }));
            return self.asked.after(turn, MainStatus::Error).await;
        }
        let main = match view.status {
            TurnStatus::Completed => MainStatus::Ok,
            TurnStatus::Failed
            | TurnStatus::Interrupted
            | TurnStatus::InProgress
            | TurnStatus::Unknown(_) => MainStatus::Error,
        };
        self.asked.after(turn, main).await;
        let gathered = std::mem::take(&mut self.gathered);
        let outcome = gathered.outcome(self.asked.thread(), *view, self.asked.report());
        self.pipe().finish(Ok(outcome));
    }

    /// Reads from the history what was not seen, and tells it.
    async fn complete(&mut self, view: &TurnView) {
        if !self.begun {
            self.gathered.missed();
        }
        if !self.gathered.lacks_some_of(view) {
            return;
        }
        let items = lookup::items(&self.asked.core, self.asked.thread(), &view.id).await;
        let Some(items) = items else {
            return;
        };
        for item in &items {
            if !self.gathered.has(item) {
                self.tell(TurnEvent::ItemCompleted(Box::new(item.clone())));
            }
        }
        self.gathered.complete(items);
    }

    /// Somebody else's turn, if the first message turns out to be another one's.
    fn merged_into(&self) -> Option<TurnId> {
        if self.whose != Whose::Open {
            return None;
        }
        let author = self.gathered.first_author()?;
        let is_ours = author.may_be(&self.asked.key);
        self.turn.clone().filter(|_| !is_ours)
    }
}
