//! One session with a server: the calls that wait for answers and the processes that were started.
//!
//! The invariant here: every call resolves. It is answered, or the connection it was sent over ends
//! and it gets [`ClientError::Closed`]; only unanswered input outlives a connection, when the session
//! may go on over another one. A call and its place among the pending are one step with the state of
//! the link, so that nothing is sent over a connection its caller does not know of.
//!
//! Reading, writing and reconnecting are the business of [`super::link`] and [`super::resume`]; what
//! an answer or a notification does is in [`super::routing`].

mod pending;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, oneshot};
use turnlane_protocol::envelope::{RequestId, encode_request};
use turnlane_protocol::exec_server::process::{Survivors, TERMINATE, TerminateParams};
use turnlane_protocol::exec_server::{SESSION_END, v0};

pub(super) use pending::{Birth, Kind, Outcome, Pending};

use super::cell::{Cell, Failure};
use super::error::ClientError;
use super::events::{Event, Hub, ProcessId};
use super::options::Dialect;
use super::outbox::{Out, Outbox};
use super::peer::{self, Peer};

#[derive(Debug)]
pub(super) struct Core {
    pub(super) peer: Peer,
    pub(super) hub: Arc<Hub>,
    pub(super) outbox: Outbox,
    state: Mutex<State>,
    /// The link came up, went away or ended.
    link_changed: Notify,
    last_id: AtomicI64,
}

#[derive(Debug)]
pub(super) struct State {
    link: Link,
    pub(super) pending: BTreeMap<i64, Pending>,
    pub(super) cells: HashMap<ProcessId, Arc<Cell>>,
    /// Dropped by their owners while there was no connection.
    to_end: Vec<ProcessId>,
}

#[derive(Debug)]
enum Link {
    Up,
    /// Lost; the session may go on.
    Away,
    Ended(String),
}

enum Sent {
    Yes,
    Away,
    Full,
}

impl Core {
    pub(super) fn new(peer: Peer) -> Self {
        Self {
            peer,
            hub: Arc::new(Hub::default()),
            outbox: Outbox::default(),
            state: Mutex::new(State {
                link: Link::Up,
                pending: BTreeMap::new(),
                cells: HashMap::new(),
                to_end: Vec::new(),
            }),
            link_changed: Notify::new(),
            // The handshake used the first.
            last_id: AtomicI64::new(1),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Every step leaves the state whole; who panicked with it did no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn next_id(&self) -> i64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Asks and waits for the answer. Cancelled, the request may still be carried out.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.call_as(Kind::Call, method, params).await
    }

    pub(super) async fn call_as<T: DeserializeOwned>(
        &self,
        kind: Kind,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, ClientError> {
        let id = self.next_id();
        let frame = encode(id, method, params)?;
        result(&self.ask(kind, id, frame).await?)
    }

    /// Sends a frame and waits for its answer; while the link is away, waits for it too.
    pub(super) async fn ask(&self, kind: Kind, id: i64, frame: Bytes) -> Outcome {
        let (answer, answered) = oneshot::channel();
        let mut answer = Some(answer);
        // Whoever stops waiting is forgotten, so that what is pending is bounded by who waits.
        let _forget = Forget { core: self, id };
        loop {
            let changed = self.link_changed.notified();
            let room = self.outbox.room();
            tokio::pin!(changed, room);
            changed.as_mut().enable();
            room.as_mut().enable();
            match self.try_send(&kind, id, &frame, &mut answer)? {
                Sent::Yes => break,
                Sent::Away => changed.await,
                Sent::Full => tokio::select! {
                    () = changed => {}
                    () = room => {}
                },
            }
        }
        let gone = |_| Err(ClientError::closed("the call was given up"));
        answered.await.unwrap_or_else(gone)
    }

    fn try_send(
        &self,
        kind: &Kind,
        id: i64,
        frame: &Bytes,
        answer: &mut Option<oneshot::Sender<Outcome>>,
    ) -> Result<Sent, ClientError> {
        let mut state = self.lock();
        match &state.link {
            Link::Up => {}
            Link::Away => return Ok(Sent::Away),
            Link::Ended(reason) => return Err(ClientError::closed(reason)),
        }
        if self.outbox.is_closing() {
            return Err(ClientError::closed(CLOSED_HERE));
        }
        match kind {
            Kind::Call | Kind::StartV0(_) | Kind::Replay(_) => {
                self.outbox.push(Out::Frame(frame.clone()));
            }
            Kind::AfterInput | Kind::Write => {
                if !self.outbox.try_push_input(frame) {
                    return Ok(Sent::Full);
                }
            }
        }
        if let Some(answer) = answer.take() {
            let pending = match kind {
                Kind::Call | Kind::AfterInput => Pending::Call(answer),
                Kind::StartV0(born) => Pending::StartV0 {
                    answer,
                    born: born.clone(),
                },
                Kind::Replay(cell) => Pending::Replay {
                    answer,
                    cell: Arc::clone(cell),
                },
                Kind::Write => Pending::Write {
                    answer,
                    frame: frame.clone(),
                },
            };
            state.pending.insert(id, pending);
        }
        Ok(Sent::Yes)
    }

    /// Asks and does not wait. While the link is away nothing is sent.
    pub(super) fn tell(&self, method: &str, params: &impl Serialize) {
        let Ok(frame) = encode(self.next_id(), method, params) else {
            return;
        };
        if matches!(self.lock().link, Link::Up) {
            self.outbox.push(Out::Frame(frame));
        }
    }

    /// Ends a process by force, what outlived its leader included; now, or when the link is back.
    pub(super) fn end_process(&self, id: &ProcessId) {
        let mut state = self.lock();
        match state.link {
            Link::Up => {}
            Link::Away => return state.to_end.push(id.clone()),
            Link::Ended(_) => return,
        }
        drop(state);
        match self.peer.dialect {
            Dialect::V0 => {
                let session_id = id.as_str().to_owned();
                self.tell(v0::TERMINATE, &v0::TerminateParams { session_id });
            }
            Dialect::ProcessV1 => self.tell(
                TERMINATE,
                &TerminateParams {
                    process_id: id.as_str().to_owned(),
                    mode: None,
                    survivors: self.peer.is_ours().then_some(Survivors::End),
                },
            ),
        }
    }

    /// The last handle is gone: tells the server, then the connection closes.
    pub(super) fn close(&self) {
        if self.peer.has(peer::SESSION_END) {
            self.tell(SESSION_END, &serde_json::json!({}));
        } else {
            let ids: Vec<_> = self.lock().cells.keys().cloned().collect();
            for id in ids {
                self.end_process(&id);
            }
        }
        self.outbox.close();
        self.link_changed.notify_waiters();
    }

    pub(super) fn is_ended(&self) -> bool {
        self.outbox.is_closing() || matches!(self.lock().link, Link::Ended(_))
    }

    /// Resolves when [`Core::close`] was called.
    pub(super) async fn closing(&self) {
        loop {
            let changed = self.link_changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.outbox.is_closing() {
                return;
            }
            changed.await;
        }
    }

    /// The connection is lost and the session may go on: everything but input is resolved.
    pub(super) fn away(&self, reason: &str) {
        let mut state = self.lock();
        state.link = Link::Away;
        self.outbox.clear();
        let pending = std::mem::take(&mut state.pending);
        let (writes, calls): (BTreeMap<_, _>, BTreeMap<_, _>) = pending
            .into_iter()
            .partition(|(_, pending)| matches!(pending, Pending::Write { .. }));
        state.pending = writes;
        drop(state);
        for pending in calls.into_values() {
            pending.resolve(Err(ClientError::closed(reason)));
        }
        self.hub.publish(&Event::Disconnected {
            reason: reason.to_owned(),
        });
    }

    /// The session goes on: unanswered input is sent again, and ends that could not be sent.
    /// Returns the processes whose events must be caught up with, and after which number.
    pub(super) fn up(&self) -> Vec<(Arc<Cell>, u64)> {
        let mut state = self.lock();
        state.link = Link::Up;
        for pending in state.pending.values() {
            if let Pending::Write { frame, .. } = pending {
                // It was all there before, so there is room for it.
                self.outbox.push(Out::Frame(frame.clone()));
            }
        }
        let to_end = std::mem::take(&mut state.to_end);
        let missed = state.cells.values().filter_map(|cell| {
            let after = cell.begin_replay()?;
            Some((Arc::clone(cell), after))
        });
        let missed = missed.collect();
        drop(state);
        self.hub.publish(&Event::Resumed);
        for id in &to_end {
            self.end_process(id);
        }
        self.link_changed.notify_waiters();
        missed
    }

    /// It is over: every call, every process and every listener learns of it.
    pub(super) fn end(&self, reason: &str) {
        let mut state = self.lock();
        let was_away = match state.link {
            Link::Up => false,
            Link::Away => true,
            Link::Ended(_) => return,
        };
        state.link = Link::Ended(reason.to_owned());
        let pending = std::mem::take(&mut state.pending);
        let cells = std::mem::take(&mut state.cells);
        drop(state);
        for pending in pending.into_values() {
            pending.resolve(Err(ClientError::closed(reason)));
        }
        for cell in cells.values() {
            cell.fail(Failure::Closed(reason.to_owned()));
        }
        if !was_away {
            self.hub.publish(&Event::Disconnected {
                reason: reason.to_owned(),
            });
        }
        self.hub.end();
        self.outbox.clear();
        self.link_changed.notify_waiters();
    }
}

/// The reason everybody is told when the last handle was dropped.
pub(super) const CLOSED_HERE: &str = "closed by this side";

struct Forget<'a> {
    core: &'a Core,
    id: i64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        // A start that nobody waits for must still be known when its answer comes, to be ended.
        let mut state = self.core.lock();
        if !matches!(state.pending.get(&self.id), Some(Pending::StartV0 { .. })) {
            state.pending.remove(&self.id);
        }
    }
}

pub(super) fn encode(id: i64, method: &str, params: &impl Serialize) -> Result<Bytes, ClientError> {
    let frame = encode_request(&RequestId::from(id), method, params);
    frame
        .map(Bytes::from)
        .map_err(|why| ClientError::Protocol(format!("{method} cannot be written: {why}")))
}

/// The typed result of a call.
pub(super) fn result<T: DeserializeOwned>(json: &Bytes) -> Result<T, ClientError> {
    serde_json::from_slice(json)
        .map_err(|why| ClientError::Protocol(format!("the answer has another shape: {why}")))
}
