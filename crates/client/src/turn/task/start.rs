//! How a turn gets its id: its place in the line, a quiet thread where the server needs one, and the
//! call itself.
//!
//! The invariant here: nothing is sent before the place is reached, and a call that was sent is never
//! forgotten: also when nobody waits any more its answer is awaited, because only that tells which
//! turn to stop. It is sent again only with a key by which the server knows it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::super::asked::Ready;
use super::super::pipe::{Ownership, Reader};
use super::super::watch::{Woken, at};
use super::super::wire::{self, Started};
use super::super::{WhenBusy, lookup};
use super::{End, Task, Whose};
use crate::error::{CallError, SteerError, TransportError, TurnError, map};
use crate::event::TurnEvent;
use crate::feed::{Fed, TurnFeed};
use crate::ids::TurnId;
use crate::link::{Connection, Repeat};
use crate::thread::Activity;

/// How long a status that contradicts the server's answer is believed.
const STALE_STATUS: Duration = Duration::from_secs(1);
/// How long a thread that is busy is left alone.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

impl Task {
    /// Waits until all earlier turns of this client have let it through.
    pub(super) async fn wait_for_place(&mut self) -> Result<(), End> {
        let Some(mut place) = self.place.take() else {
            return Ok(());
        };
        if let Ok(position @ 1..) = u32::try_from(place.ahead()) {
            self.tell(TurnEvent::Queued {
                position,
                row: None,
            });
        }
        let state = &self.asked.state;
        let reached = tokio::select! {
            biased;
            woken = self.watch.woken() => Err(Wait::Woken(woken)),
            () = place.reached() => Ok(()),
            () = state.closed() => Err(Wait::ThreadClosed),
            why = closed(&self.asked.core) => Err(Wait::Gone(why)),
        };
        self.place = Some(place);
        reached.map_err(|wait| self.given_up(wait))
    }

    /// Why a turn that was not sent will not be.
    fn given_up(&self, wait: Wait) -> End {
        match wait {
            Wait::Woken(Woken::TimedOut) => End::Error(self.timed_out(true)),
            Wait::Woken(Woken::Left | Woken::GaveUp | Woken::Over) => End::Nobody,
            Wait::ThreadClosed => End::call(CallError::ThreadClosed {
                thread: self.asked.thread().clone(),
            }),
            Wait::Gone(why) => End::closed(why),
        }
    }

    /// Where the server would mix up two turns: waits, joins or gives up while another one runs. The
    /// feed of the turn that was joined.
    pub(super) async fn join_running(&mut self, ready: &Ready) -> Result<Option<TurnFeed>, End> {
        if self.asked.core.is_turnlane() {
            return Ok(None);
        }
        let mut has_told = false;
        loop {
            let activity = self.asked.state.activity().borrow().clone();
            let Activity::Active(active) = activity else {
                return Ok(None);
            };
            if self.asked.when_busy == WhenBusy::Queue {
                if !has_told {
                    let (position, row) = (1, None);
                    self.tell(TurnEvent::Queued { position, row });
                    has_told = true;
                }
                self.wait_for_quiet().await?;
                continue;
            }
            let active = match active {
                Some(active) => Some(active),
                None => self.find_running().await?,
            };
            let Some(active) = active else {
                return Ok(None);
            };
            if self.asked.when_busy == WhenBusy::Reject {
                return Err(End::Error(TurnError::Busy { active }));
            }
            match self.steer(&active, ready).await? {
                Some(feed) => return Ok(Some(feed)),
                None if self.is_still(&active).await? => return Ok(None),
                None => {}
            }
        }
    }

    async fn find_running(&self) -> Result<Option<TurnId>, End> {
        let found = lookup::running(&self.asked.core, self.asked.thread()).await;
        Ok(found.map_err(End::call)?.map(|turn| turn.id))
    }

    /// Waits until no turn runs.
    async fn wait_for_quiet(&mut self) -> Result<(), End> {
        let mut activity = self.asked.state.activity();
        let state = &self.asked.state;
        let waited = tokio::select! {
            biased;
            woken = self.watch.woken() => Err(Wait::Woken(woken)),
            _ = activity.wait_for(|now| !matches!(now, Activity::Active(_))) => Ok(()),
            () = state.closed() => Err(Wait::ThreadClosed),
            why = closed(&self.asked.core) => Err(Wait::Gone(why)),
        };
        waited.map_err(|wait| self.given_up(wait))
    }

    /// Whether the status still says that this turn runs, although the server says otherwise.
    async fn is_still(&mut self, turn: &TurnId) -> Result<bool, End> {
        let mut activity = self.asked.state.activity();
        let is_other = |now: &Activity| *now != Activity::Active(Some(turn.clone()));
        tokio::select! {
            biased;
            woken = self.watch.woken() => Err(self.given_up(Wait::Woken(woken))),
            _ = activity.wait_for(is_other) => Ok(false),
            () = tokio::time::sleep(STALE_STATUS) => Ok(true),
        }
    }

    /// Waits a moment before something is tried again.
    async fn pause(&mut self) -> Result<(), End> {
        tokio::select! {
            biased;
            woken = self.watch.woken() => Err(self.given_up(Wait::Woken(woken))),
            () = tokio::time::sleep(BUSY_PAUSE) => Ok(()),
        }
    }

    /// Makes our input part of a turn that runs; none when it has ended meanwhile.
    async fn steer(&mut self, active: &TurnId, ready: &Ready) -> Result<Option<TurnFeed>, End> {
        let core = Arc::clone(&self.asked.core);
        let (thread, key) = (self.asked.thread(), self.asked.key.as_str());
        let mut feed = core.router.follow(thread, active);
        self.pipe().owned(Ownership::Joined);
        if !self.pipe().sending() {
            return Err(End::Nobody);
        }
        let turn = match wire::steer(&core, thread, active, &ready.input, key).await {
            Ok(turn) => turn,
            Err(error) => {
                self.pipe().owned(Ownership::Ours);
                return match map::steer(active, error) {
                    SteerError::NoActiveTurn | SteerError::Stale { .. } => Ok(None),
                    SteerError::NotSteerable { .. } => Err(End::Error(TurnError::Busy {
                        active: active.clone(),
                    })),
                    SteerError::Call(error) => Err(End::call(error)),
                };
            }
        };
        if turn != *active {
            feed.bind(&turn);
        }
        self.bind(&turn);
        self.whose = Whose::Joined;
        if self.pipe().known(&turn, None) == Reader::Left {
            return Err(End::Nobody);
        }
        Ok(Some(feed))
    }

    /// Sends the turn and learns its id.
    pub(super) async fn start(&mut self, params: &Map<String, Value>) -> Result<TurnFeed, End> {
        let core = Arc::clone(&self.asked.core);
        if core.is_turnlane() && self.asked.when_busy == WhenBusy::Steer {
            // Until its first message shows otherwise it may be somebody else's.
            self.pipe().owned(Ownership::Joined);
        }
        loop {
            if let Some(reviewer) = &self.asked.reviewer {
                let scope = core
                    .reviews
                    .expect_turn(self.asked.thread(), reviewer.clone());
                self.scope = Some(scope);
            }
            let mut feed = core.router.expect(self.asked.thread());
            let before = self.asked.state.activity().borrow().clone();
            if !self.pipe().sending() {
                return Err(End::Nobody);
            }
            let started = match self.answer(params).await {
                Ok(started) => started,
                Err(error) => match self.unanswered(error, &mut feed).await? {
                    Some(started) => started,
                    None => continue,
                },
            };
            let was_running = before == Activity::Active(Some(started.turn.id.clone()));
            if was_running && !core.is_turnlane() {
                if self.asked.when_busy != WhenBusy::Steer {
                    let into = started.turn.id;
                    return Err(End::Error(TurnError::Merged { into }));
                }
                self.whose = Whose::Joined;
                self.pipe().owned(Ownership::Joined);
            }
            self.started(&mut feed, started)?;
            return Ok(feed);
        }
    }

    /// The answer, also when nobody waits for the turn any more.
    async fn answer(&mut self, params: &Map<String, Value>) -> Result<Started, CallError> {
        let core = Arc::clone(&self.asked.core);
        let repeat = if core.is_turnlane() {
            Repeat::Harmless
        } else {
            Repeat::Never
        };
        let mut call = pin!(wire::start(&core, params, repeat));
        let mut let_go = None;
        loop {
            tokio::select! {
                biased;
                answer = &mut call => return answer,
                woken = self.watch.woken() => match woken {
                    Woken::Left => let_go = Some(Instant::now() + wire::DETACHED_TIMEOUT),
                    Woken::GaveUp => self.pipe().finish(Err(self.timed_out(false))),
                    Woken::TimedOut | Woken::Over => {}
                },
                () = at(let_go) => {
                    let_go = None;
                    self.pipe().let_go();
                }
            }
        }
    }

    /// What became of a turn whose answer did not come; none when it must be sent again.
    async fn unanswered(
        &mut self,
        error: CallError,
        feed: &mut TurnFeed,
    ) -> Result<Option<Started>, End> {
        match error {
            CallError::Transport(TransportError::Closed { .. }) => loop {
                let generation = self.wait_for_connection(feed).await?;
                let found = match self.find_sent().await {
                    Ok(found) => found,
                    Err(CallError::Transport(TransportError::Closed { .. })) => continue,
                    Err(error) => return Err(End::call(error)),
                };
                if found.is_some() {
                    self.tell(TurnEvent::Reattached { generation });
                }
                return self.or_again(found);
            },
            CallError::Timeout { method, after } => match self.find_sent().await {
                Ok(Some(found)) => Ok(Some(found)),
                Ok(None) => Err(End::call(CallError::Timeout { method, after })),
                Err(error) => Err(End::call(error)),
            },
            error => match map::turn(self.asked.thread(), error) {
                // A thread without a queue, such as one that is kept in memory only.
                TurnError::Busy { .. } if self.asked.when_busy == WhenBusy::Queue => {
                    self.wait_for_quiet().await?;
                    self.pause().await?;
                    Ok(None)
                }
                error => Err(End::Error(error)),
            },
        }
    }

    /// Whether a turn that the server does not have is sent again.
    fn or_again(&self, found: Option<Started>) -> Result<Option<Started>, End> {
        if found.is_some() {
            return Ok(found);
        }
        if !self.watch.is_wanted() {
            return Err(End::Nobody);
        }
        if self.asked.core.is_turnlane() {
            return Ok(None);
        }
        Err(End::Error(TurnError::Lost {
            client_id: self.asked.key.clone(),
        }))
    }

    /// The turn by the id of our message.
    async fn find_sent(&mut self) -> Result<Option<Started>, CallError> {
        self.gathered.missed();
        let (core, key) = (&self.asked.core, &self.asked.key);
        let found = lookup::by_client_id(core, self.asked.thread(), key).await?;
        Ok(found.map(|turn| Started { turn, row: None }))
    }

    /// Waits for another connection.
    async fn wait_for_connection(&mut self, feed: &mut TurnFeed) -> Result<u64, End> {
        loop {
            tokio::select! {
                fed = feed.next() => match fed {
                    Fed::Reconnected { generation } => return Ok(generation),
                    Fed::Closed(why) => return Err(End::closed(why)),
                    Fed::TooSlow => return Err(End::Error(TurnError::ConsumerTooSlow)),
                    Fed::Event(_) | Fed::Lost => {}
                },
                woken = self.watch.woken() => match woken {
                    Woken::Left | Woken::TimedOut => {}
                    Woken::GaveUp => return Err(End::Error(self.timed_out(false))),
                    Woken::Over => return Err(End::Nobody),
                },
            }
        }
    }

    /// Takes note of the answer to `turn/start`.
    pub(super) fn started(&mut self, feed: &mut TurnFeed, started: Started) -> Result<(), End> {
        let Started { turn, row } = started;
        feed.bind(&turn.id);
        self.bind(&turn.id);
        self.row = row;
        let reader = self.pipe().known(&turn.id, self.row.clone());
        if reader == Reader::Left || !self.watch.is_wanted() {
            self.stop();
            self.pipe().let_go();
        }
        if self.asked.core.is_turnlane() {
            // From here on the lane keeps the order.
            self.place = None;
        }
        if turn.status.is_final() {
            self.gathered.missed();
            return Err(End::Turn(Box::new(turn)));
        }
        Ok(())
    }

    /// Asks the server to stop the turn, if it is ours.
    pub(super) fn stop(&self) {
        if let Some(turn) = &self.turn
            && self.pipe().is_ours()
        {
            let row = self.row.as_ref();
            wire::stop_detached(&self.asked.core, self.asked.thread(), turn, row);
        }
    }
}

/// Why a turn that waits will not be sent.
#[derive(Debug)]
enum Wait {
    Woken(Woken),
    ThreadClosed,
    Gone(TransportError),
}

/// Resolves when there will be no other connection.
async fn closed(core: &crate::core::Core) -> TransportError {
    let gone = |reason: &str| TransportError::Closed {
        reason: reason.to_owned(),
    };
    let Ok(link) = core.link() else {
        return gone("the client is closed");
    };
    let mut connection = link.connection();
    let ended = connection.wait_for(|now| matches!(now, Connection::Closed { .. }));
    match ended.await.as_deref() {
        Ok(Connection::Closed { reason }) => gone(reason),
        _ => gone("the client is closed"),
    }
}
