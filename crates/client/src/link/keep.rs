//! The link's one task: hands over what arrives, and connects again.
//!
//! The invariant here: [`Inbound::closed`] is called exactly once, always: also when the runtime goes
//! away under the task, or when the owner's code panics. Messages are handed over in wire order.
//!
//! # Theory of operation
//!
//! The task takes messages from the peer's inbox until that ends (the connection is lost) or the link
//! is closed. After a loss it finds out whether there may be another connection ([`Keeper::plan`]),
//! tells the owner, and tries with growing pauses. It ends when the link is closed or no further
//! connection is tried. It holds the owner's [`Inbound`], so handles and owner form no circle once it
//! has ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument as _;
use turnlane_rpc::{Inbox, Incoming, Peer};

use super::child::Ending;
use super::dial::{Dialled, GRACE, STATUS_MAX, dial};
use super::pace::{Pace, Tries};
use super::shared::{Phase, Shared, Wire, count, lock};
use super::{Connection, Inbound, LinkOptions};
use crate::endpoint::Endpoint;
#[cfg(feature = "spawn")]
use crate::endpoint::Supervision;
use crate::error::{ConnectError, TransportError};
use crate::limits::Reconnect;

/// A child that was up this long has all its restarts back.
#[cfg(feature = "spawn")]
const STEADY: Duration = Duration::from_secs(30);

/// How far pauses between connections may be off, to either side.
const JITTER_PERCENT: u32 = 10;

/// How long the reason of an end is waited for; without it the end is told all the same.
const REASON_MAX: Duration = Duration::from_millis(50);

/// Said when the link was closed by its owner.
const BY_US: &str = "closed by this side";

/// See the module.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    options: LinkOptions,
    inbound: Arc<dyn Inbound>,
    generation: u64,
    tries: Tries,
    is_told: bool,
}

/// How an ended connection is replaced.
#[derive(Debug)]
struct Plan {
    pace: Pace,
    /// A connection that was up this long has all its tries back.
    steady: Duration,
    /// A child that still runs; the next one waits for its end.
    ending: Option<Ending>,
    /// No further tries after this many.
    tries_max: Option<u32>,
    /// No further tries this long after the loss.
    give_up_after: Option<Duration>,
}

impl Keeper {
    pub(super) fn new(
        shared: Arc<Shared>,
        options: LinkOptions,
        inbound: Arc<dyn Inbound>,
    ) -> Self {
        Self {
            shared,
            options,
            inbound,
            generation: 1,
            tries: Tries::default(),
            is_told: false,
        }
    }

    /// Runs until there will be no other connection.
    pub(super) async fn run(mut self, mut inbox: Inbox, mut early: Vec<Incoming>) {
        loop {
            let since = Instant::now();
            for message in early.drain(..) {
                self.hand_over(message);
            }
            if self.attend(&mut inbox).await == Attended::Closed {
                return self.finish(BY_US.to_owned());
            }
            let peer = inbox.peer().clone();
            let (plan, reason) = self.plan(&peer).await;
            let Some(plan) = plan else {
                return self.finish(reason);
            };
            drop((inbox, peer));
            self.tries.ended(since.elapsed(), plan.steady);
            match self.replace(plan, reason).await {
                Ok(dialled) => (inbox, early) = (dialled.inbox, dialled.early),
                Err(reason) => return self.finish(reason),
            }
        }
    }

    /// Hands messages over until the connection ends or the link is closed.
    async fn attend(&self, inbox: &mut Inbox) -> Attended {
        loop {
            tokio::select! {
                biased;
                () = self.shared.closing.cancelled() => return Attended::Closed,
                message = inbox.next() => match message {
                    Some(message) => self.hand_over(message),
                    None => return Attended::Lost,
                },
            }
        }
    }

    fn hand_over(&self, message: Incoming) {
        match message {
            Incoming::Notification(notification) => self.inbound.notification(notification),
            Incoming::Request(request) => self.inbound.request(request),
        }
    }

    /// What follows the end of a connection, and why it ended. The child of that connection is ended
    /// with it.
    async fn plan(&self, peer: &Peer) -> (Option<Plan>, String) {
        let Some(child) = self.shared.child() else {
            let reason = timeout(REASON_MAX, peer.closed()).await;
            let reason = reason.map_or_else(
                |_| "the connection ended".to_owned(),
                |reason| reason.to_string(),
            );
            return (self.by_reconnect(), reason);
        };
        let status = child.exited_within(STATUS_MAX).await;
        let ending = child.begin_end(GRACE);
        let Some(status) = status else {
            let plan = self.by_supervision().or_else(|| self.by_reconnect());
            let ending = Some(ending);
            let plan = plan.map(|plan| Plan { ending, ..plan });
            return (plan, "the server closed its output".to_owned());
        };
        let plan = if status.success() {
            // A server that ended by its own will is not wanted back.
            None
        } else {
            self.by_supervision().or_else(|| self.by_reconnect())
        };
        (plan, format!("the server ended: {status}"))
    }

    #[cfg(feature = "spawn")]
    fn by_supervision(&self) -> Option<Plan> {
        match &self.options.endpoint {
            Endpoint::Spawn(spec) => match spec.supervision {
                Supervision::Never => None,
                Supervision::OnCrash {
                    max_restarts,
                    base,
                    max,
                } => Some(Plan {
                    pace: pace(base, max),
                    steady: STEADY,
                    ending: None,
                    tries_max: Some(max_restarts),
                    give_up_after: None,
                }),
            },
            _ => None,
        }
    }

    #[cfg(not(feature = "spawn"))]
    fn by_supervision(&self) -> Option<Plan> {
        None
    }

    fn by_reconnect(&self) -> Option<Plan> {
        let given = self.options.reconnect.clone();
        match given.unwrap_or_else(|| default_for(&self.options.endpoint)) {
            Reconnect::Never => None,
            Reconnect::Backoff {
                initial,
                max,
                give_up_after,
            } => Some(Plan {
                pace: pace(initial, max),
                steady: max,
                ending: None,
                tries_max: None,
                give_up_after,
            }),
        }
    }

    /// Tries until there is another connection; an error says why there is none.
    async fn replace(&mut self, plan: Plan, mut reason: String) -> Result<Dialled, String> {
        let lost = Instant::now();
        self.shared.enter(Phase::Between);
        self.inbound.lost();
        if let Some(ending) = plan.ending {
            // Two servers at once might share a home. One that cannot be killed was reported.
            let _ = ending.finished().await;
        }
        let mut attempt = 0;
        loop {
            let mut pause = match self.tries.take(plan.tries_max) {
                Ok(before) => plan.pace.pause(before),
                Err(before) => {
                    return Err(format!("{reason}; it was restarted {before} times"));
                }
            };
            if let Some(limit) = plan.give_up_after {
                let left = limit.saturating_sub(lost.elapsed());
                if left.is_zero() {
                    return Err(format!("{reason}; no other connection in time"));
                }
                pause = pause.min(left);
            }
            attempt += 1;
            self.shared.tell(Connection::Reconnecting {
                attempt,
                since: lost.elapsed(),
            });
            let span = tracing::info_span!("reconnect", attempt);
            let tried = async {
                sleep(pause).await;
                dial(&self.options, &self.shared.ids).await
            };
            let tried = tokio::select! {
                biased;
                () = self.shared.closing.cancelled() => return Err(BY_US.to_owned()),
                tried = tried.instrument(span) => tried,
            };
            match tried {
                Ok(dialled) => return self.reopened(dialled),
                Err(error) if is_hopeless(&error) => return Err(error.to_string()),
                Err(error) => {
                    tracing::debug!(%error, attempt, "no connection");
                    reason = error.to_string();
                }
            }
        }
    }

    /// Another connection is there: calls go on.
    fn reopened(&mut self, dialled: Dialled) -> Result<Dialled, String> {
        self.generation += 1;
        let generation = self.generation;
        let wire = Arc::new(Wire::new(generation, dialled.peer.clone()));
        {
            let mut server = self.shared.server.write();
            let server = server
                .as_deref_mut()
                .unwrap_or_else(|poisoned| poisoned.get_mut());
            server.clone_from(&dialled.server);
        }
        // The old one was ended when it was lost; if it still ends, its drop changes nothing.
        let old = std::mem::replace(&mut *lock(&self.shared.child), dialled.child.clone());
        drop(old);
        if self.shared.enter(Phase::Open(wire)).is_none() {
            // Whoever closed the link may not have seen this child.
            if let Some(child) = &dialled.child {
                child.begin_end(GRACE);
            }
            return Err(BY_US.to_owned());
        }
        count(&self.shared.counts.reconnects);
        self.shared.tell(Connection::Ready { generation });
        self.inbound.reconnected(generation);
        Ok(dialled)
    }

    fn finish(&mut self, reason: String) {
        self.is_told = true;
        let why = TransportError::Closed { reason };
        self.shared.enter(Phase::Lost(why.clone()));
        self.shared.tell(Connection::Closed {
            reason: match &why {
                TransportError::Closed { reason } => reason.clone(),
                TransportError::FrameTooLarge { .. } => why.to_string(),
            },
        });
        // Who closes a link ends its child too, and says how much time that has.
        if !self.shared.closing.is_cancelled()
            && let Some(child) = self.shared.child()
        {
            child.begin_end(GRACE);
        }
        self.shared.finished.cancel();
        self.inbound.closed(&why);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.is_told {
            self.finish("the client's runtime is gone".to_owned());
        }
    }
}

/// Why messages are no longer handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attended {
    Lost,
    Closed,
}

fn pace(first: Duration, longest: Duration) -> Pace {
    Pace {
        first,
        longest,
        jitter_percent: JITTER_PERCENT,
    }
}

/// Sockets are connected to again; what somebody made, or started, is not.
fn default_for(endpoint: &Endpoint) -> Reconnect {
    match endpoint {
        #[cfg(feature = "spawn")]
        Endpoint::Spawn(_) => Reconnect::Never,
        #[cfg(feature = "ws")]
        Endpoint::Unix(_) | Endpoint::WebSocket(_) => Reconnect::backoff(),
        Endpoint::Io(_) => Reconnect::Never,
    }
}

/// Whether the next try would fail in the same way.
fn is_hopeless(error: &ConnectError) -> bool {
    matches!(
        error,
        ConnectError::InvalidEndpoint { .. }
            | ConnectError::Unauthorized { .. }
            | ConnectError::VersionTooOld { .. }
            | ConnectError::VersionUnknown { .. }
            | ConnectError::InvalidArgument { .. }
    )
}
