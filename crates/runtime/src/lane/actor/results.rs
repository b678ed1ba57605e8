//! From results of operations to events.
//!
//! The invariant here: every operation that was submitted comes back exactly once, and what it
//! brought is kept until it is answered or told. A result that says the lane was taken over ends
//! everything, whichever operation it came from.

use turnlane_engine::{Fenced, Reply, TurnKind};
use turnlane_store::lane::{Changed, Head, LaneView};
use turnlane_store::queue::{Appended, Claimed, ClaimedRow, Row};
use turnlane_store::turn::{Accepted, AcceptedTurn, Put, Refused, Started};
use turnlane_store::{StoreError, ThreadId, crash};

use super::Actor;
use super::answers::Pending;
use super::effects::{Asked, Attempt};
use crate::error::Error;
use crate::ids;
use crate::journal;
use crate::lane::command::{QueueDone, StartAnswer};
use crate::lane::event::Unload;
use crate::lane::event::{
    Committed, Event, FailedOp, HeadLook, HookVerdict, Look, RequestNo, Steering, WaitLook,
};
use crate::lane::rows;
use crate::notice::NoticeBody;
use crate::options::BeforeTurnVerdict;
use crate::settings::Settings;

/// An operation that has come to its end.
pub(super) enum Done {
    Start(RequestNo, Attempt, Result<Started, StoreError>),
    Claim(Asked, Result<Claimed<ClaimedRow>, StoreError>),
    ClaimAndAccept(Asked, Result<Claimed<Accepted>, StoreError>),
    /// Everything that dead workers left is decided; the claim is tried again.
    Recovered(Asked, Result<Vec<ThreadId>, StoreError>),
    Accept(Result<Accepted, StoreError>),
    Unclaim(Result<Refused, StoreError>),
    Steer(RequestNo, Result<(), StoreError>),
    Settings(Result<Box<Settings>, StoreError>),
    Append(RequestNo, Result<Changed<Appended>, StoreError>),
    Put {
        result: Result<(), StoreError>,
        put: Box<Put>,
        reply: Option<Reply<Result<(), Fenced>>>,
    },
    /// The mark that a foreign engine may see the turn.
    Sent {
        result: Result<(), StoreError>,
        reply: Reply<Result<(), Fenced>>,
    },
    Complete(Result<Changed<Row>, StoreError>),
    /// The fate of a row that its engine was asked about.
    Decide(Result<LaneView, StoreError>),
    Release(Result<(), StoreError>),
    Queue(QueueDone),
}

impl Actor {
    pub(super) fn finish(&mut self, done: Done) {
        let committed = match done {
            Done::Start(request, Attempt::First, Err(StoreError::OwnedElsewhere { .. })) => {
                self.commit_start(request, Attempt::AfterRecovery);
                return;
            }
            Done::Start(request, _, result) => self.started(request, result),
            Done::Claim(asked, Ok(Claimed::NotNow(lane)))
            | Done::ClaimAndAccept(asked, Ok(Claimed::NotNow(lane))) => {
                if asked.request.is_some()
                    && asked.attempt == Attempt::First
                    && self.is_elsewhere(&lane)
                {
                    self.claim_after_recovery(asked);
                    return;
                }
                self.held(asked.request, lane)
            }
            Done::Claim(asked, Ok(Claimed::Ours(claimed))) => self.claimed(asked.request, claimed),
            Done::ClaimAndAccept(asked, Ok(Claimed::Ours(Accepted::Claimed(claimed)))) => {
                self.claimed(asked.request, *claimed)
            }
            Done::ClaimAndAccept(asked, Ok(Claimed::Ours(accepted))) => {
                self.accepted(asked.request, Ok(accepted))
            }
            Done::Recovered(asked, Ok(_lanes)) => {
                self.commit_claim(asked);
                return;
            }
            Done::Claim(asked, Err(error))
            | Done::ClaimAndAccept(asked, Err(error))
            | Done::Recovered(asked, Err(error)) => {
                self.failed(asked.request, FailedOp::Taking, error)
            }
            Done::Accept(result) => self.accepted(self.claimed_for, result),
            Done::Unclaim(result) => self.unclaimed(result),
            Done::Steer(request, Ok(())) => Committed::Steered(request),
            Done::Steer(request, Err(error)) => {
                self.failed(Some(request), FailedOp::Steer(request), error)
            }
            Done::Append(request, result) => self.appended(request, result),
            Done::Put { result, put, reply } => {
                self.written(result, *put, reply);
                return;
            }
            Done::Sent { result, reply } => {
                self.marked_sent(result, reply);
                return;
            }
            Done::Complete(result) => self.completed(result),
            Done::Decide(result) => self.decided(result),
            Done::Settings(result) => {
                match result {
                    Ok(settings) => self.tell(NoticeBody::Settings(settings)),
                    Err(error) => tracing::warn!(%error, "settings could not be written"),
                }
                self.look_again();
                return;
            }
            Done::Release(result) => {
                if let Err(error) = result {
                    tracing::debug!(%error, "a lane's operation was refused");
                }
                self.look_again();
                return;
            }
            Done::Queue(done) => {
                self.queue_done(done);
                return;
            }
        };
        self.events.push_back(Event::Committed(committed));
    }

    fn queue_done(&mut self, done: QueueDone) {
        // Answered before anything that follows from it is told.
        (done.answer)();
        if let Some(lane) = done.lane {
            let look = self.saw(lane);
            self.events.push_back(Event::Looked(look));
        }
    }

    fn started(&mut self, request: RequestNo, result: Result<Started, StoreError>) -> Committed {
        match result {
            Ok(Started::Begun(accepted)) => self.begun(Some(request), accepted),
            Ok(Started::Queued(changed)) => {
                let answer = StartAnswer::Queued(Box::new(changed.value));
                self.keep_result(request, Ok(answer));
                let look = self.saw(changed.lane);
                self.events.push_back(Event::Looked(look));
                Committed::Settled
            }
            Ok(Started::Repeated(repeated)) => {
                self.keep_result(request, Ok(StartAnswer::Repeated(repeated)));
                Committed::Settled
            }
            Ok(Started::CannotStart(refused)) => self.refused(Some(request), *refused),
            Ok(Started::Busy(lane)) => self.held(Some(request), *lane),
            Err(error) => self.failed(Some(request), FailedOp::Taking, error),
        }
    }

    fn claimed(&mut self, request: Option<RequestNo>, claimed: ClaimedRow) -> Committed {
        crash::point("claim:after-commit");
        self.saw(claimed.lane.clone());
        self.claimed = Some(Box::new(claimed));
        self.claimed_for = request;
        Committed::Claimed
    }

    fn is_elsewhere(&self, lane: &LaneView) -> bool {
        let me = self.shared.store.worker();
        lane.owner.is_some_and(|owner| owner != me)
    }

    fn accepted(
        &mut self,
        request: Option<RequestNo>,
        result: Result<Accepted, StoreError>,
    ) -> Committed {
        match result {
            Ok(Accepted::Begun(accepted)) => self.begun(request, accepted),
            Ok(Accepted::CannotStart(refused)) => self.refused(request, *refused),
            Ok(Accepted::Claimed(claimed)) => self.claimed(request, *claimed),
            Err(error) => self.failed(request, FailedOp::Taking, error),
        }
    }

    pub(super) fn begun(
        &mut self,
        request: Option<RequestNo>,
        accepted: Box<AcceptedTurn>,
    ) -> Committed {
        crash::point("accept:after-commit");
        self.note_source(&accepted.thread.source);
        if let Some(request) = request {
            self.keep_result(request, Ok(StartAnswer::from(accepted.as_ref())));
        }
        self.saw(accepted.lane.clone());
        self.claimed = None;
        self.claimed_for = None;
        let engine = self.shared.engines.get(&accepted.thread.engine);
        let kind = match request.and_then(|request| self.requests.get(&request)) {
            Some(Pending::Start { kind, .. }) => *kind,
            Some(Pending::Row { .. } | Pending::Steer { .. } | Pending::Interrupt { .. })
            | None => TurnKind::Turn,
        };
        let kind = match kind {
            TurnKind::Turn if accepted.row.continues => TurnKind::Continue,
            kind => kind,
        };
        self.turn_kind = kind;
        let steers =
            kind != TurnKind::Compact && engine.is_some_and(|engine| engine.capabilities().steer);
        let turn = accepted.turn.id;
        self.began = Some(accepted);
        Committed::Began {
            turn,
            steering: if steers {
                Steering::Open
            } else {
                Steering::Never
            },
        }
    }

    fn refused(&mut self, request: Option<RequestNo>, refused: Refused) -> Committed {
        if let Some(request) = request {
            let why = refused.row.failure.as_ref();
            let why = why.or(refused.turn.as_ref().and_then(|turn| turn.error.as_ref()));
            let text = why.map_or_else(String::new, failure_text);
            self.keep_result(request, Err(Error::CannotStart(text)));
        }
        self.claimed = None;
        self.claimed_for = None;
        journal::could_not_start(&self.shared, self.thread, &refused);
        Committed::Refused(self.saw(refused.lane))
    }

    fn held(&mut self, request: Option<RequestNo>, lane: LaneView) -> Committed {
        if let Some(request) = request {
            let elsewhere = lane
                .owner
                .filter(|owner| *owner != self.shared.store.worker());
            let error = match elsewhere {
                Some(worker) => Error::Store(StoreError::OwnedElsewhere {
                    thread: self.thread,
                    worker,
                }),
                None => Error::Busy {
                    turn: lane.active.map(|active| ids::wire_turn(active.turn)),
                },
            };
            self.keep_result(request, Err(error));
        }
        Committed::NotNow(self.saw(lane))
    }

    fn unclaimed(&mut self, result: Result<Refused, StoreError>) -> Committed {
        match result {
            Ok(refused) => {
                if let Some(request) = self.claimed_for.take() {
                    let why = refused.row.failure.as_ref();
                    let text = why.map_or_else(String::new, failure_text);
                    self.keep_result(request, Err(Error::CannotStart(text)));
                }
                self.claimed = None;
                self.blocked = None;
                journal::could_not_start(&self.shared, self.thread, &refused);
                Committed::Unclaimed(self.saw(refused.lane))
            }
            Err(error) => self.failed(None, FailedOp::Closing, error),
        }
    }

    fn appended(
        &mut self,
        request: RequestNo,
        result: Result<Changed<Appended>, StoreError>,
    ) -> Committed {
        match result {
            Ok(changed) => {
                let answer = match changed.value {
                    Appended::New(row) => StartAnswer::Queued(Box::new(row)),
                    Appended::Repeated(repeated) => StartAnswer::Repeated(repeated),
                };
                self.keep_result(request, Ok(answer));
                let look = self.saw(changed.lane);
                self.events.push_back(Event::Looked(look));
                Committed::Appended(request)
            }
            Err(error) => self.failed(Some(request), FailedOp::Append(request), error),
        }
    }

    fn completed(&mut self, result: Result<Changed<Row>, StoreError>) -> Committed {
        match result {
            Ok(changed) => {
                crash::point("complete:after-commit");
                self.closing = None;
                self.settled();
                if !goes_on(&changed.lane) {
                    self.known.forget();
                }
                Committed::Completed(self.saw(changed.lane))
            }
            Err(error) => self.failed(None, FailedOp::Closing, error),
        }
    }

    fn written(
        &mut self,
        result: Result<(), StoreError>,
        put: Put,
        reply: Option<Reply<Result<(), Fenced>>>,
    ) {
        match result {
            Ok(()) => {
                crash::point("put:after-commit");
                if let Some(reply) = reply {
                    let _ = reply.send(Ok(()));
                }
            }
            Err(StoreError::Fenced) => {
                drop(reply);
                self.events.push_back(Event::Committed(Committed::Fenced));
            }
            Err(error) => {
                // Nothing may have an effect that is not on disk; the engine stops, and what it
                // said goes into the next write.
                tracing::warn!(%error, "items could not be written; they are kept for the next write");
                drop(reply);
                if let Some(running) = &mut self.running {
                    running.write_again(put);
                }
            }
        }
    }

    /// What a failed operation means; the error is kept for whoever asked.
    pub(super) fn failed(
        &mut self,
        request: Option<RequestNo>,
        op: FailedOp,
        error: StoreError,
    ) -> Committed {
        if matches!(error, StoreError::Fenced) {
            return Committed::Fenced;
        }
        if request.is_none() {
            tracing::warn!(%error, "an operation of the lane failed; it is tried again");
        }
        if matches!(error, StoreError::ThreadNotFound(_)) {
            // Deleted under us: there is nothing left to try.
            self.unload = Some(Unload::Lost);
        }
        let refused = request.is_some() && op == FailedOp::Taking && is_refusal(&error);
        if let Some(request) = request {
            self.keep_result(request, Err(error.into()));
        }
        if refused {
            // Nothing is wrong with the store; the queue need not wait for it.
            return Committed::Settled;
        }
        Committed::Failed(op)
    }

    pub(super) fn looked(&mut self, look: Result<LaneView, StoreError>) {
        match look {
            Ok(lane) => {
                let look = self.saw(lane);
                self.events.push_back(Event::Looked(look));
            }
            Err(StoreError::ThreadNotFound(_)) => self.unload = Some(Unload::Lost),
            Err(error) => tracing::warn!(%error, "a lane could not be looked at"),
        }
    }

    pub(super) fn look_again(&mut self) {
        if self.look.is_none() {
            self.look = Some(self.shared.store.look(self.thread));
        }
    }

    pub(super) fn hooked(&mut self, verdict: BeforeTurnVerdict) {
        let verdict = match verdict {
            BeforeTurnVerdict::Go => HookVerdict::Go,
            BeforeTurnVerdict::Block(why) => {
                self.blocked = Some(why);
                HookVerdict::Block
            }
        };
        self.events.push_back(Event::Hooked(verdict));
    }

    /// Remembers a picture of the lane; what matters of it.
    pub(super) fn saw(&mut self, lane: LaneView) -> Look {
        if let Some(known) = &self.lane {
            if lane.revision < known.revision {
                // A read that was slower than a commit of ours.
                return self.look_of(known);
            }
            self.queue_changed |= shows_other(known, &lane);
        }
        self.shared.revision_seen(self.thread, lane.revision);
        let look = self.look_of(&lane);
        self.lane = Some(lane);
        look
    }

    /// What matters of a picture of the lane.
    fn look_of(&self, lane: &LaneView) -> Look {
        Look {
            head: match &lane.head {
                Head::None => HeadLook::None,
                Head::Due { .. } if self.shared.options.max_running == 0 => HeadLook::Others,
                Head::Due { at_ms, .. } => HeadLook::Due(*at_ms),
                Head::Failed { .. } => HeadLook::Held,
                Head::BoundElsewhere { .. } => HeadLook::Others,
            },
            paused: lane.paused.is_some(),
            waiting: match &lane.waiting {
                None => WaitLook::No,
                Some(waiting) => waiting.until_ms.map_or(WaitLook::Person, WaitLook::Until),
            },
            elsewhere: lane.archived || self.is_elsewhere(lane),
            owned: lane.owner == Some(self.shared.store.worker()),
        }
    }
}

/// Whether the store did not fail but said no.
fn is_refusal(error: &StoreError) -> bool {
    !matches!(
        error,
        StoreError::DiskFull { .. }
            | StoreError::Overloaded
            | StoreError::WritesOff
            | StoreError::Locked { .. }
            | StoreError::Failed { .. }
            | StoreError::Closed
    )
}

/// Whether the next row is about to be claimed.
fn goes_on(lane: &LaneView) -> bool {
    let due = matches!(lane.head, Head::Due { .. });
    due && lane.paused.is_none() && lane.waiting.is_none()
}

/// Whether what is told about the queue would be another.
fn shows_other(known: &LaneView, lane: &LaneView) -> bool {
    known.revision != lane.revision
        || known.paused != lane.paused
        || known.waiting != lane.waiting
        || known.depth != lane.depth
}

/// The text of a stored failure.
fn failure_text(failure: &turnlane_store::Json) -> String {
    let error: Result<turnlane_protocol::turn_error::TurnError, _> = rows::read(failure);
    error.map_or_else(|_| failure.as_str().to_owned(), |error| error.message)
}
