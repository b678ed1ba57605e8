//! The durable queue of a thread: rows that wait on the server, owned by nobody here.
//!
//! The invariant here: a queued turn is followed by its row, not by its first turn id: a row that was
//! put back or retried still waits. Codex has no turn ids in its rows; there the row is known again
//! by the id of its message.
//!
//! Turns that wait in this client only are in [`crate::turn`].

mod wire;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use self::wire::is_failed;
pub(crate) use self::wire::{Whereabouts, delete, holds, row_of, view, whereabouts};
use crate::call::CallOptions;
use crate::core::Owner;
use crate::error::{CallError, TurnError, map};
use crate::event::{EventBody, Place, QueueNotice};
use crate::feed::{Fed, TurnFeed};
use crate::hooks::{HookReport, MainStatus};
use crate::ids::{QueuedTurnId, TurnId};
use crate::link::Repeat;
use crate::outcome::{ErrorInfo, TurnOutcome, TurnStatus, TurnView};
use crate::thread::Thread;
use crate::turn::{Asked, Bound, Gathered, Turn, TurnBuilder, ended, lookup, missing};

const ADD: &str = "thread/queue/add";

/// What waits in a lane.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct QueueView {
    /// The rows, the next first.
    pub rows: Vec<QueuedRow>,
    /// Whether nothing is started until somebody resumes it; Turnlane tells.
    pub paused: Option<bool>,
}

/// A row of a queue.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QueuedRow {
    /// The row.
    pub id: QueuedTurnId,
    /// Where it stands: `pending`, `failed`.
    pub state: String,
    /// Everything the server told about it.
    pub raw: Value,
}

/// A turn that waits on the server; clones are the same one. It is durable: dropping this, or the
/// whole client, leaves it where it is.
#[derive(Clone, Debug)]
pub struct QueuedTurn {
    owner: Arc<Owner>,
    thread: Thread,
    id: QueuedTurnId,
    /// The id of its message.
    client_id: String,
}

/// What became of a row.
#[derive(Debug)]
enum Fate {
    /// It waits or runs.
    Open,
    /// Its last turn has ended.
    Ended(Box<TurnView>),
    /// It is neither in the queue nor in the history: deleted, unless it is about to run.
    Nowhere,
}

/// Whether something was told that may be about a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Some,
    /// Not for a while.
    None,
}

impl QueuedTurn {
    /// Its row.
    pub fn id(&self) -> &QueuedTurnId {
        &self.id
    }

    /// The turn it became; none while it waits. After a retry it is the latest one.
    pub async fn turn(&self) -> Result<Option<Turn>, CallError> {
        if let Whereabouts::Waits { .. } = self.whereabouts().await? {
            return Ok(None);
        }
        Ok(self.latest().await?.map(|view| Turn {
            owner: Arc::clone(&self.owner),
            thread: self.thread.clone(),
            id: view.id,
        }))
    }

    /// Waits for the end of the turn it becomes, however long that takes; also when it has ended
    /// before, and over lost connections. A row that is put back or tried again is waited for; one
    /// that holds the queue because it failed is [`TurnError::Failed`]; one that was deleted has
    /// ended as [`TurnStatus::Interrupted`]. Dropping the future changes nothing.
    pub async fn outcome(&self) -> Result<TurnOutcome, TurnError> {
        let mut feed = self.owner.router.expect(self.thread.id());
        // Without it an end would be noticed only by looking.
        crate::thread::listen(&self.owner, self.thread.id()).await;
        let mut patience = lookup::Patience::default();
        // Only Turnlane says which row runs; elsewhere a row that is nowhere may be about to.
        let mut is_sure = self.owner.is_turnlane();
        loop {
            match self.fate().await {
                Ok(Fate::Ended(view)) => {
                    let mut gathered = Gathered::default();
                    gathered.missed();
                    let thread = self.thread.id();
                    return Ok(ended(&self.owner, thread, gathered, *view).await);
                }
                Ok(Fate::Nowhere) if is_sure => {
                    let view = self.never_begun(TurnStatus::Interrupted);
                    let hooks = HookReport::default();
                    return Ok(Gathered::default().outcome(self.thread.id(), view, hooks));
                }
                Ok(Fate::Open | Fate::Nowhere) => patience.restore(),
                // After a lost connection the next one is waited for below.
                Err(error) if patience.bears(&error) => {}
                Err(error) => return Err(error),
            }
            let news = self.news(&mut feed, patience.next_look()).await?;
            is_sure = self.owner.is_turnlane() || news == News::None;
        }
    }

    /// Takes it out of the queue; false when it is not there any more.
    pub async fn delete(&self) -> Result<bool, CallError> {
        delete(&self.owner, self.thread.id(), &self.id).await
    }

    async fn whereabouts(&self) -> Result<Whereabouts, CallError> {
        whereabouts(&self.owner, self.thread.id(), &self.id).await
    }

    /// The newest turn of the row.
    async fn latest(&self) -> Result<Option<TurnView>, CallError> {
        lookup::find(&self.owner, self.thread.id(), |view| {
            view.queued_turn.as_ref() == Some(&self.id)
                || lookup::first_client_id(view).as_deref() == Some(self.client_id.as_str())
        })
        .await
    }

    /// What became of the row. The queue is asked first: a row that has left it is in the history.
    async fn fate(&self) -> Result<Fate, TurnError> {
        match self.whereabouts().await? {
            Whereabouts::Waits { row, .. } if is_failed(&row) => {
                let latest = self.latest().await?;
                Err(self.held(row.pointer("/status/error"), latest))
            }
            Whereabouts::Waits { .. } | Whereabouts::Runs => Ok(Fate::Open),
            Whereabouts::Gone => Ok(match self.latest().await? {
                Some(view) if lookup::has_ended(&view) => Fate::Ended(Box::new(view)),
                Some(_) => Fate::Open,
                None => Fate::Nowhere,
            }),
            // One that was put back meanwhile has a turn in the history that was not its last.
            Whereabouts::Unseen => Ok(match self.latest().await? {
                Some(view) if view.status == TurnStatus::Completed => Fate::Ended(Box::new(view)),
                Some(_) | None => Fate::Open,
            }),
        }
    }

    /// A row that failed and stays in its place.
    fn held(&self, failure: Option<&Value>, latest: Option<TurnView>) -> TurnError {
        let told = failure.and_then(ErrorInfo::from_json);
        let view = latest.unwrap_or_else(|| self.never_begun(TurnStatus::Failed));
        let view = TurnView {
            status: TurnStatus::Failed,
            error: told.or(view.error.clone()),
            ..view
        };
        let hooks = HookReport::default();
        let outcome = Gathered::default().outcome(self.thread.id(), view, hooks);
        match outcome.into_success() {
            Err(error) => error,
            // A failed turn is no success.
            Ok(_) => TurnError::Call(CallError::Closed),
        }
    }

    /// A row that never became a turn; there is no id but its own.
    fn never_begun(&self, status: TurnStatus) -> TurnView {
        lookup::never_begun(&TurnId::from(self.id.as_str()), status)
    }

    /// Whether a turn may be one of the row; only Turnlane says of which row it is.
    fn may_be(&self, turn: &TurnView) -> bool {
        match &turn.queued_turn {
            Some(row) => *row == self.id,
            None => !self.owner.is_turnlane(),
        }
    }

    /// Whether the row may be somewhere else than in the queue; only Turnlane shows the rows.
    fn may_have_left(&self, queue: &QueueNotice) -> bool {
        match queue.place_of(&self.id) {
            Place::Waits { .. } | Place::Runs | Place::Truncated => false,
            Place::Failed { .. } | Place::Gone | Place::Untold => true,
        }
    }

    /// Waits until something may have changed about the row.
    async fn news(&self, feed: &mut TurnFeed, look: Duration) -> Result<News, TurnError> {
        let look = tokio::time::sleep(look);
        tokio::pin!(look);
        loop {
            let fed = tokio::select! {
                fed = feed.next() => fed,
                () = &mut look => return Ok(News::None),
            };
            match fed {
                Fed::Event(event) => match &event.body {
                    EventBody::TurnCompleted(turn) if self.may_be(turn) => {
                        return Ok(News::Some);
                    }
                    EventBody::Queue(queue) if self.may_have_left(queue) => {
                        return Ok(News::Some);
                    }
                    EventBody::ThreadGone => {
                        return match self.fate().await {
                            Ok(Fate::Ended(_)) => Ok(News::Some),
                            Ok(Fate::Open | Fate::Nowhere) | Err(_) => {
                                Err(TurnError::Call(CallError::ThreadClosed {
                                    thread: self.thread.id().clone(),
                                }))
                            }
                        };
                    }
                    _ => {}
                },
                Fed::Reconnected { .. } => return Ok(News::Some),
                Fed::Lost => {}
                Fed::Closed(why) => return Err(CallError::Transport(why).into()),
                Fed::TooSlow => {
                    *feed = self.owner.router.expect(self.thread.id());
                    return Ok(News::Some);
                }
            }
        }
    }
}

/// `thread/queue/add`. The hooks around it see the adding, not the turn.
pub(crate) async fn enqueue(turn: TurnBuilder) -> Result<QueuedTurn, TurnError> {
    if turn.bound == Bound::Connection {
        return Err(TurnError::Call(CallError::InvalidArgument {
            what: "bound_to_connection",
            reason: "a turn in the queue is bound to nobody".to_owned(),
        }));
    }
    let mut asked = Asked::new(&turn);
    let ready = asked.ready().await?;
    let added = add(&asked, ready.params).await;
    let main = match &added {
        Ok(_) => MainStatus::Ok,
        Err(_) => MainStatus::Error,
    };
    asked.after(None, main).await;
    Ok(QueuedTurn {
        owner: Arc::clone(&turn.thread.owner),
        id: added?,
        client_id: asked.key,
        thread: turn.thread,
    })
}

async fn add(asked: &Asked, start: Map<String, Value>) -> Result<QueuedTurnId, TurnError> {
    let core = &asked.core;
    let (params, repeat) = if core.is_turnlane() {
        let params = json!({
            "threadId": asked.thread(),
            "turnStartParams": asked.ours(start),
            "idempotencyKey": asked.key,
        });
        (params, Repeat::Harmless)
    } else if asked.overrides_its_thread() {
        return Err(TurnError::Call(CallError::Unsupported {
            method: ADD.to_owned(),
        }));
    } else {
        let params = json!({
            "threadId": asked.thread(),
            "input": start.get("input"),
            "clientUserMessageId": asked.key,
        });
        (params, Repeat::Never)
    };
    let answer: Result<Value, CallError> = core
        .call_as(ADD, &params, repeat, CallOptions::default())
        .await;
    let answer = answer.map_err(|error| map::turn(asked.thread(), error))?;
    let row = answer
        .get("queuedTurn")
        .or_else(|| answer.get("queuedSubmission"));
    let id = row.and_then(|row| row.get("id")).and_then(Value::as_str);
    let id = id.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| missing(ADD, "result is missing queued turn id"))?;
    Ok(QueuedTurnId::from(id))
}
