//! What the handles of a link and its task share: how the connection stands, and the window.
//!
//! The invariant here: once closed, a link stays closed, and everybody who waits learns of it. The
//! lock of a `watch` is the only lock around the phase and is never held over anything but its change.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use turnlane_rpc::{Peer, RequestIds};

use super::child::Child;
use super::{Call, ClientMetrics, Connection, ServerInfo};
use crate::error::{CallError, TransportError};
use crate::limits::Limits;

/// Methods remembered as unsupported, per connection; further ones are asked for each time.
const UNSUPPORTED_MAX: usize = 1_024;

/// One connection.
#[derive(Debug)]
pub(super) struct Wire {
    /// Counted from 1.
    pub(super) generation: u64,
    pub(super) peer: Peer,
    unsupported: Mutex<HashSet<String>>,
}

impl Wire {
    pub(super) fn new(generation: u64, peer: Peer) -> Self {
        Self {
            generation,
            peer,
            unsupported: Mutex::default(),
        }
    }

    pub(super) fn is_unsupported(&self, method: &str) -> bool {
        lock(&self.unsupported).contains(method)
    }

    pub(super) fn remember_unsupported(&self, method: &str) {
        let mut methods = lock(&self.unsupported);
        if methods.len() < UNSUPPORTED_MAX {
            methods.insert(method.to_owned());
        }
    }
}

/// Where a link stands.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// Calls are sent.
    Open(Arc<Wire>),
    /// Calls wait.
    Between,
    /// We closed it.
    Ended,
    /// It was lost for good.
    Lost(TransportError),
}

impl Phase {
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Open(_) | Self::Between => false,
            Self::Ended | Self::Lost(_) => true,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: Limits,
    pub(super) experimental_api: bool,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) connection: watch::Sender<Connection>,
    pub(super) server: RwLock<ServerInfo>,
    /// The child of the present connection.
    pub(super) child: Mutex<Option<Arc<Child>>>,
    /// Requests in flight, first come first served.
    pub(super) window: Arc<Semaphore>,
    /// One caller at a time waits for room in the outbox, so that no more than one exceeds it.
    pub(super) gate: Semaphore,
    /// Detached calls that wait for the window; a close sends them at once.
    pub(super) backlog: Mutex<VecDeque<(u64, Call)>>,
    pub(super) ids: RequestIds,
    pub(super) counts: Counts,
    /// Set by the first close.
    pub(super) closing: CancellationToken,
    /// Set when the link's task is gone.
    pub(super) finished: CancellationToken,
    /// Where detached calls are waited for.
    pub(super) runtime: Handle,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: AtomicU64,
    pub(super) answered: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) reconnects: AtomicU64,
}

impl Counts {
    pub(super) fn metrics(&self) -> ClientMetrics {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ClientMetrics {
            sent: get(&self.sent),
            answered: get(&self.answered),
            timed_out: get(&self.timed_out),
            // Counted where events are given out.
            dropped_progress: 0,
            reconnects: get(&self.reconnects),
        }
    }
}

/// One more.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Shared {
    /// Changes the phase unless the link is closed; whether it did, and what it was before.
    pub(super) fn enter(&self, phase: Phase) -> Option<Phase> {
        let mut before = None;
        self.phase.send_if_modified(|now| {
            if now.is_final() {
                return false;
            }
            before = Some(std::mem::replace(now, phase));
            true
        });
        before
    }

    /// Closes the link by our own will; what it was before. Of a link that was lost it is still
    /// told, so that calls say from now on who closed it.
    pub(super) fn end(&self) -> Option<Phase> {
        let before = self.phase.send_replace(Phase::Ended);
        (!matches!(before, Phase::Ended)).then_some(before)
    }

    /// Tells how the connection stands; a link that is closed says nothing else any more.
    pub(super) fn tell(&self, connection: Connection) {
        self.connection.send_if_modified(|now| {
            if matches!(now, Connection::Closed { .. }) {
                return false;
            }
            *now = connection;
            true
        });
    }

    /// The next connection after generation `after`, waited for while there may be one.
    pub(super) async fn wire_after(&self, after: u64) -> Result<Arc<Wire>, CallError> {
        let mut phase = self.phase.subscribe();
        let is_news = |phase: &Phase| match phase {
            Phase::Open(wire) => wire.generation > after,
            Phase::Between => false,
            Phase::Ended | Phase::Lost(_) => true,
        };
        match phase.wait_for(is_news).await.as_deref() {
            Ok(Phase::Open(wire)) => Ok(Arc::clone(wire)),
            Ok(Phase::Lost(why)) => Err(CallError::Transport(why.clone())),
            Ok(Phase::Ended | Phase::Between) | Err(_) => Err(CallError::Closed),
        }
    }

    /// The connection, if calls are sent now.
    pub(super) fn wire(&self) -> Option<Arc<Wire>> {
        match &*self.phase.borrow() {
            Phase::Open(wire) => Some(Arc::clone(wire)),
            Phase::Between | Phase::Ended | Phase::Lost(_) => None,
        }
    }

    /// Why nothing is sent, unless something is.
    pub(super) fn refusal(&self) -> Option<CallError> {
        match &*self.phase.borrow() {
            Phase::Open(_) | Phase::Between => None,
            Phase::Ended => Some(CallError::Closed),
            Phase::Lost(why) => Some(CallError::Transport(why.clone())),
        }
    }

    pub(super) fn take_backlog(&self, ticket: u64) -> Option<Call> {
        let mut backlog = lock(&self.backlog);
        let at = backlog.iter().position(|(id, _)| *id == ticket)?;
        backlog.remove(at).map(|(_, call)| call)
    }

    pub(super) fn child(&self) -> Option<Arc<Child>> {
        lock(&self.child).clone()
    }
}

/// What these locks guard is whole after every statement.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
