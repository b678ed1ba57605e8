//! The sessions of one thread.
//!
//! The invariant here: every process that was started for the thread is known here until the model
//! was told its end and nothing it started lives. When this is dropped, all of them are killed.
//!
//! What a session does by itself is in `session` and `attend`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use turnlane_process::{End, Process};
use turnlane_protocol::ids::TurnId;

use super::attend::{Attendant, OnDenial};
use super::decode::Decoders;
use super::kept::Kept;
use super::session::{
    Call, Ending, ORDERS_MAX, Session, SessionInput, State, UNREPORTED_BYTES_MAX,
};
use super::shown::{How, Shown};
use crate::engine::BackgroundTerminal;

/// Commands that run at once in one thread; the next one is refused.
pub(crate) const RUNNING_MAX: usize = 64;
/// Ends the model was not told of; the oldest is forgotten when there is one more.
const ENDED_MAX: usize = 64;
/// The first session's number.
const FIRST_NUMBER: u64 = 1000;
/// How a stopped turn ends its processes: SIGINT, a second later SIGTERM, two later SIGKILL.
const INTERRUPT: End = End::Graceful {
    interrupt: Duration::from_secs(1),
    term: Duration::from_secs(2),
};

/// The sessions of one thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadSessions {
    numbers: Arc<AtomicU64>,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    turns: usize,
    /// Places for sessions that are about to start.
    reserved: usize,
    sessions: BTreeMap<u64, Arc<Session>>,
    /// The model knows their end, but something they started may live.
    outlived: Vec<Arc<Session>>,
}

impl All {
    fn running(&self) -> usize {
        let is_running = |session: &&Arc<Session>| session.has_ended().is_none();
        self.sessions.values().filter(is_running).count() + self.outlived.len() + self.reserved
    }

    /// Forgets what needs not be known any more.
    fn prune(&mut self) {
        self.outlived.retain(|session| session.has_survivors());
        let has_ended = |session: &&Arc<Session>| session.has_ended().is_some();
        let ended: Vec<u64> = self
            .sessions
            .values()
            .filter(has_ended)
            .map(|session| session.number)
            .collect();
        for number in &ended[..ended.len().saturating_sub(ENDED_MAX)] {
            self.forget(*number);
        }
    }

    fn forget(&mut self, number: u64) {
        if let Some(session) = self.sessions.remove(&number)
            && session.has_survivors()
        {
            self.outlived.push(session);
        }
    }

    fn every(&self) -> Vec<Arc<Session>> {
        let sessions = self.sessions.values().chain(&self.outlived);
        sessions.map(Arc::clone).collect()
    }
}

/// A place for a session and its number; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    thread: Arc<ThreadSessions>,
    pub(crate) number: u64,
    /// No session has taken the place yet.
    is_held: bool,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.is_held {
            self.thread.lock().reserved -= 1;
        }
    }
}

impl ThreadSessions {
    pub(super) fn new(numbers: Arc<AtomicU64>) -> Self {
        Self {
            numbers,
            all: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more command; none when [`RUNNING_MAX`] run.
    pub(crate) fn reserve(self: &Arc<Self>) -> Option<Reserved> {
        let mut all = self.lock();
        all.prune();
        if all.running() >= RUNNING_MAX {
            return None;
        }
        all.reserved += 1;
        let number = FIRST_NUMBER + self.numbers.fetch_add(1, Ordering::Relaxed);
        Some(Reserved {
            thread: Arc::clone(self),
            number,
            is_held: true,
        })
    }

    /// Takes over a process that was just started, with its open item.
    ///
    /// Called again with the same place after an end, the number means the new process.
    pub(crate) fn open(
        &self,
        place: &mut Reserved,
        process: Process,
        stdin: SessionInput,
        mut shown: Shown,
        on_denial: OnDenial,
    ) -> Arc<Session> {
        shown.runs();
        let (orders_to, orders) = mpsc::channel(ORDERS_MAX);
        let session = Arc::new(Session {
            number: place.number,
            turn_id: shown.turn_id(),
            item_id: shown.item_id().clone(),
            command: shown.command().to_owned(),
            cwd: shown.cwd().to_owned(),
            stdin,
            process,
            state: Mutex::new(State {
                unreported: Kept::new(UNREPORTED_BYTES_MAX),
                call: Call::Waits,
                ending: Ending::Nobody,
                handed_back: None,
            }),
            ended: watch::Sender::new(None),
            orders: orders_to,
        });
        let mut all = self.lock();
        all.reserved -= usize::from(std::mem::take(&mut place.is_held));
        all.sessions.insert(place.number, Arc::clone(&session));
        drop(all);
        let attendant = Attendant {
            session: Arc::clone(&session),
            decoders: Decoders::new(shown.redactor()),
            shown: Some(shown),
            on_denial,
        };
        tokio::spawn(attendant.attend(orders));
        session
    }

    /// The session of this number, also when it has ended and the model does not know yet.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<Session>> {
        self.lock().sessions.get(&number).map(Arc::clone)
    }

    /// The model was told that the session has ended.
    pub(crate) fn forget(&self, number: u64) {
        self.lock().forget(number);
    }

    /// What runs in the background, the oldest first.
    pub(crate) fn background(&self) -> Vec<BackgroundTerminal> {
        let mut every = self.lock().every();
        every.retain(|session| session.is_background());
        every.sort_by_key(|session| session.number);
        every.iter().map(|session| session.listed()).collect()
    }

    /// Ends one of those, or all, with their descendants; returns how many when they have ended.
    ///
    /// One that is not known is passed over. The model learns of an end when it asks.
    pub(crate) async fn end(&self, process_id: Option<String>) -> usize {
        let mut every = self.lock().every();
        every.retain(|session| match &process_id {
            Some(id) => session.number.to_string() == *id && session.is_background(),
            None => session.is_background(),
        });
        end_all(&every).await;
        every.len()
    }

    /// Ends everything with its descendants, and returns when it has ended. Again: nothing.
    pub(crate) async fn close(&self) {
        let every = {
            let mut all = self.lock();
            let every = all.every();
            all.sessions.clear();
            all.outlived.clear();
            every
        };
        end_all(&every).await;
    }

    /// The turn completes: items of commands that still run are completed, in order, and the
    /// commands go on without it.
    pub(crate) async fn end_of_turn(&self, turn: TurnId) {
        tracing::trace!(%turn, "sessions go on without their turn");
        let every = self.lock().every();
        for session in every {
            session.hide(How::GoesOn).await;
        }
        self.lock().prune();
    }

    /// The turn is stopped: what it started is ended with its descendants, all at once, and items
    /// are completed with the output so far. Returns when that is done.
    pub(crate) async fn interrupt(&self, turn: TurnId) {
        self.begin_interrupt(turn);
        let every = self.lock().every();
        for session in every {
            if session.turn_id == turn {
                session.emptied().await;
                self.forget(session.number);
            } else {
                let signal = None;
                session.hide(How::Interrupted { signal }).await;
            }
        }
        self.lock().prune();
    }

    /// Begins what [`interrupt`](Self::interrupt) completes.
    pub(crate) fn begin_interrupt(&self, turn: TurnId) {
        for session in self.started_by(turn) {
            session.begin_end(Ending::Interrupted, INTERRUPT);
        }
    }

    /// The turn has gone without a word: what it started is killed.
    pub(super) fn abandon(&self, turn: TurnId) {
        for session in self.started_by(turn) {
            session.begin_end(Ending::Interrupted, End::Force);
            session.process.end(End::Force);
            self.forget(session.number);
        }
    }

    fn started_by(&self, turn: TurnId) -> Vec<Arc<Session>> {
        let mut every = self.lock().every();
        every.retain(|session| session.turn_id == turn);
        every
    }

    pub(super) fn turn_began(&self) {
        self.lock().turns += 1;
    }

    pub(super) fn turn_ended(&self) {
        self.lock().turns -= 1;
    }

    pub(super) fn is_idle(&self) -> bool {
        let mut all = self.lock();
        all.prune();
        all.turns == 0 && all.running() == 0 && all.sessions.is_empty()
    }
}

async fn end_all(sessions: &[Arc<Session>]) {
    for session in sessions {
        session.begin_end(Ending::Unwanted, End::GRACEFUL);
    }
    for session in sessions {
        session.emptied().await;
    }
}

impl Drop for ThreadSessions {
    fn drop(&mut self) {
        for session in self.lock().every() {
            session.process.end(End::Force);
        }
    }
}
