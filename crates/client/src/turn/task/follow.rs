//! How a turn is followed: from its id to its end, over lost connections.
//!
//! The invariant here: the end is `turn/completed` of that very turn, or what the history says when
//! events may have been missed; a turn whose first message is another one's is never given as ours.

use std::convert::Infallible;

use serde_json::{Map, Value};
use tokio::time::{Duration, Instant};

use super::super::gather;
use super::super::lookup;
use super::super::pipe::Ownership;
use super::super::watch::{Woken, at};
use super::super::wire;
use super::super::{Bound, WhenBusy};
use super::{End, Task, Whose};
use crate::error::{CallError, TransportError, TurnError};
use crate::event::{Event, EventBody, Item, Place, QueueNotice, TurnEvent};
use crate::feed::{Fed, TurnFeed};
use crate::link::Repeat;
use crate::outcome::{TurnStatus, TurnView};
use crate::queue::{self, Whereabouts};

/// How often a turn that waits on the server is looked for: its lane may be served by somebody else,
/// who does not tell us.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How soon a turn is looked for that is not shown in the queue any more. Notices that were on their
/// way before it was added do not show it either; the one that does follows them within this.
const LOOK_SOON: Duration = Duration::from_millis(100);

/// Where a turn was found.
#[derive(Debug)]
enum Seen {
    Running,
    Ended(Box<TurnView>),
    Waiting { position: u32 },
    Absent,
}

impl Task {
    /// Follows the turn to its end.
    pub(super) async fn follow(
        &mut self,
        feed: &mut TurnFeed,
        resend: Option<&Map<String, Value>>,
    ) -> Result<Infallible, End> {
        self.look_within(LOOK_EVERY);
        loop {
            tokio::select! {
                fed = feed.next() => match fed {
                    Fed::Event(event) => self.on_event(&event).await?,
                    Fed::Lost => self.gathered.missed(),
                    Fed::Reconnected { generation } => {
                        self.reattach(feed, resend, generation).await?;
                    }
                    Fed::Closed(why) => return Err(End::closed(why)),
                    Fed::TooSlow => return Err(End::Error(TurnError::ConsumerTooSlow)),
                },
                woken = self.watch.woken() => self.on_woken(woken)?,
                () = at(self.look_at) => {
                    self.look_at_row().await?;
                    self.look_within(LOOK_EVERY);
                }
            }
        }
    }

    /// Sets when a turn that waits is looked for.
    fn look_within(&mut self, long: Duration) {
        self.look_at = self.row.is_some().then(|| Instant::now() + long);
    }

    fn on_woken(&mut self, woken: Woken) -> Result<(), End> {
        match woken {
            // Whoever leaves has stopped the turn by itself, unless it could not tell whose it is.
            Woken::Left => self.may_end_here(),
            Woken::TimedOut => {
                self.stop();
                Ok(())
            }
            Woken::GaveUp => {
                self.pipe().finish(Err(self.timed_out(false)));
                self.may_end_here()
            }
            Woken::Over => Err(End::Nobody),
        }
    }

    /// A turn nobody waits for is followed only while its place is held, or its owner is unknown.
    fn may_end_here(&self) -> Result<(), End> {
        let has_owner = self.pipe().is_ours()
            || self.whose == Whose::Joined
            || self.gathered.first_author().is_some();
        if self.place.is_none() && has_owner {
            return Err(End::Nobody);
        }
        Ok(())
    }

    async fn on_event(&mut self, event: &Event) -> Result<(), End> {
        if let EventBody::ItemStarted(item) | EventBody::ItemCompleted(item) = &event.body {
            self.check_owner(item).await?;
        }
        self.gathered.take(event);
        if event.turn.is_some() && !matches!(event.body, EventBody::TurnCompleted(_)) {
            self.begin(&event.body);
        }
        if self.announced.gap_before(&event.body) {
            self.pipe().push_gap(0);
        }
        let shown = match &event.body {
            EventBody::TurnCompleted(turn) if turn.status != TurnStatus::InProgress => {
                return Err(End::Turn(turn.clone()));
            }
            EventBody::Queue(queue) => {
                self.moved(queue);
                return Ok(());
            }
            EventBody::ThreadGone => return self.thread_gone().await,
            EventBody::Lagged { missed } => {
                self.pipe().push_gap(*missed);
                return Ok(());
            }
            body => shown(body),
        };
        if let Some(shown) = shown {
            self.pipe().push(shown, event.weight());
        }
        Ok(())
    }

    /// An event of the turn itself: it runs.
    fn begin(&mut self, body: &EventBody) {
        if let EventBody::TurnStarted(_) = body {
            self.begun = true;
            if !self.watch.is_wanted() {
                // An interrupt that came before the start may have found nothing.
                self.stop();
            }
        }
        let Some(turn) = self.turn.clone().filter(|_| !self.told_start) else {
            return;
        };
        self.told_start = true;
        self.row = None;
        self.look_at = None;
        self.pipe().known(&turn, None);
        self.tell(TurnEvent::Started(turn));
    }

    /// Whose turn it is, by its first message.
    async fn check_owner(&mut self, item: &Item) -> Result<(), End> {
        let Some(author) = gather::author(item) else {
            return Ok(());
        };
        let is_ours = author.may_be(&self.asked.key);
        if self.asked.when_busy == WhenBusy::Steer {
            if is_ours && self.begun && self.gathered.first_author().is_none() {
                self.pipe().owned(Ownership::Ours);
                if !self.watch.is_wanted() {
                    self.stop();
                }
            }
            return Ok(());
        }
        if self.whose != Whose::Open {
            return Ok(());
        }
        self.whose = Whose::Settled;
        let (core, thread) = (&self.asked.core, self.asked.thread());
        let Some(turn) = &self.turn else {
            return Ok(());
        };
        let merged = Err(End::Error(TurnError::Merged { into: turn.clone() }));
        if !is_ours {
            return merged;
        }
        if self.begun || core.is_turnlane() {
            return Ok(());
        }
        // The beginning was not seen: this may be our message in somebody else's turn.
        match lookup::by_id(core, thread, turn).await {
            Ok(Some(view)) => match lookup::first_client_id(&view) {
                Some(first) if first != self.asked.key => merged,
                _ => Ok(()),
            },
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// The queue is another one: tells where the turn is now.
    fn moved(&mut self, queue: &QueueNotice) {
        let Some(row) = &self.row else {
            return;
        };
        match queue.place_of(row) {
            Place::Waits { position } | Place::Failed { position } => {
                self.look_within(LOOK_EVERY);
                self.tell_position(position);
            }
            // Somebody took it out, unless it has run in the meantime.
            Place::Gone => self.look_within(LOOK_SOON),
            Place::Runs | Place::Truncated | Place::Untold => {}
        }
    }

    fn tell_position(&mut self, position: u32) {
        if self.position != Some(position) {
            self.position = Some(position);
            self.tell(TurnEvent::Queued {
                position,
                row: self.row.clone(),
            });
        }
    }

    /// The thread was archived, closed or deleted: its history says whether the turn goes on.
    async fn thread_gone(&mut self) -> Result<(), End> {
        match self.look().await {
            // After a lost connection the next one says more.
            Ok(Seen::Running) | Err(CallError::Transport(TransportError::Closed { .. })) => Ok(()),
            Ok(Seen::Ended(turn)) => {
                self.gathered.missed();
                Err(End::Turn(turn))
            }
            Ok(Seen::Waiting { .. } | Seen::Absent) | Err(_) => {
                Err(End::call(CallError::ThreadClosed {
                    thread: self.asked.thread().clone(),
                }))
            }
        }
    }

    /// A turn that waits may have been started or taken out without a word to us.
    async fn look_at_row(&mut self) -> Result<(), End> {
        match self.look().await {
            Ok(Seen::Ended(turn)) => {
                self.gathered.missed();
                Err(End::Turn(turn))
            }
            Ok(Seen::Waiting { position }) => {
                self.tell_position(position);
                Ok(())
            }
            Ok(Seen::Absent) => Err(self.taken_out()),
            // Its events will come, or another look.
            Ok(Seen::Running) | Err(_) => Ok(()),
        }
    }

    /// Somebody took the turn out of the queue: it was stopped before it began.
    fn taken_out(&self) -> End {
        match &self.turn {
            Some(turn) => End::Turn(Box::new(lookup::never_begun(turn, TurnStatus::Interrupted))),
            None => End::Nobody,
        }
    }

    /// There is another connection: finds the turn again.
    async fn reattach(
        &mut self,
        feed: &mut TurnFeed,
        resend: Option<&Map<String, Value>>,
        generation: u64,
    ) -> Result<(), End> {
        self.gathered.missed();
        match self.look().await {
            Ok(Seen::Running) => {}
            Ok(Seen::Waiting { position }) => self.position = Some(position),
            Ok(Seen::Ended(turn)) => return Err(End::Turn(turn)),
            Ok(Seen::Absent) => match resend {
                _ if !self.watch.is_wanted() => return Err(End::Nobody),
                Some(_) if self.row.is_some() && self.asked.bound == Bound::Connection => {
                    return Err(self.taken_out());
                }
                Some(params) => {
                    let core = &self.asked.core;
                    match wire::start(core, params, Repeat::Harmless).await {
                        Ok(started) => self.started(feed, started)?,
                        Err(error) => return lost_again(error),
                    }
                }
                None => {
                    return Err(End::Error(TurnError::Lost {
                        client_id: self.asked.key.clone(),
                    }));
                }
            },
            Err(error) => return lost_again(error),
        }
        if !self.watch.is_wanted() {
            // The interrupt was lost with the connection.
            self.stop();
        }
        self.tell(TurnEvent::Reattached { generation });
        if let (Some(row), Some(position)) = (self.row.clone(), self.position) {
            let row = Some(row);
            self.tell(TurnEvent::Queued { position, row });
        }
        Ok(())
    }

    /// Where the turn is now.
    async fn look(&self) -> Result<Seen, CallError> {
        let (core, thread) = (&self.asked.core, self.asked.thread());
        let Some(turn) = &self.turn else {
            return Ok(Seen::Absent);
        };
        if let Some(view) = lookup::by_id(core, thread, turn).await? {
            return Ok(Seen::of(view));
        }
        let Some(row) = &self.row else {
            return Ok(Seen::Absent);
        };
        match queue::whereabouts(core, thread, row).await? {
            Whereabouts::Waits { position, .. } => Ok(Seen::Waiting { position }),
            Whereabouts::Runs => Ok(Seen::Running),
            // It may have become a turn, and even ended, between the two looks.
            Whereabouts::Gone => {
                let found = lookup::by_id(core, thread, turn).await?;
                Ok(found.map_or(Seen::Absent, Seen::of))
            }
            Whereabouts::Unseen => {
                let found = lookup::by_id(core, thread, turn).await?;
                Ok(found.map_or(Seen::Running, Seen::of))
            }
        }
    }
}

impl Seen {
    fn of(view: TurnView) -> Self {
        if lookup::has_ended(&view) {
            Self::Ended(Box::new(view))
        } else {
            Self::Running
        }
    }
}

/// A look that failed with the connection is repeated with the next one.
fn lost_again(error: CallError) -> Result<(), End> {
    match error {
        CallError::Transport(TransportError::Closed { .. }) => Ok(()),
        error => Err(End::call(error)),
    }
}

/// What a stream shows of an event of its turn.
fn shown(body: &EventBody) -> Option<TurnEvent> {
    Some(match body {
        EventBody::ItemStarted(item) => TurnEvent::ItemStarted(item.clone()),
        EventBody::ItemCompleted(item) => TurnEvent::ItemCompleted(item.clone()),
        EventBody::Delta(delta) => TurnEvent::Delta(delta.clone()),
        EventBody::Plan(plan) => TurnEvent::Plan(plan.clone()),
        EventBody::Diff(diff) => TurnEvent::Diff(diff.clone()),
        EventBody::Usage(usage) => TurnEvent::Usage(usage.clone()),
        EventBody::Hook(run) => TurnEvent::Hook(run.clone()),
        EventBody::Approval(notice) => TurnEvent::Approval(notice.clone()),
        EventBody::Error(error) if error.will_retry => TurnEvent::Retrying(error.clone()),
        EventBody::Warning(text) => TurnEvent::Warning(text.clone()),
        EventBody::Unknown(raw) => TurnEvent::Unknown(raw.clone()),
        // Of the thread, or of the end that comes.
        _ => return None,
    })
}
