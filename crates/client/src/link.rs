//! The link: one connection at a time to one server, made again when it is lost.
//!
//! This module owns dialling, the handshake, the child that a link started, the window of requests in
//! flight and what repeats a call. Its tasks never run a caller's code and never wait for one:
//! whatever arrives is handed to [`Inbound`], which must return at once.
//!
//! The invariant: every call resolves. A call whose bytes may have left is failed when the connection
//! ends, not repeated, unless its caller said that repeating is harmless.

mod calls;
#[cfg(feature = "spawn")]
pub(crate) mod child;
#[cfg(not(feature = "spawn"))]
#[path = "link/no_child.rs"]
mod child;
pub(crate) mod dial;
mod handshake;
mod keep;
mod pace;
mod shared;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use turnlane_rpc::{Notification, Request, RequestIds};

use crate::endpoint::Endpoint;
use crate::error::{CallError, ConnectError, ShutdownError, TransportError, Version};
use crate::limits::{Limits, Reconnect};
use keep::Keeper;
use shared::{Phase, Shared, Wire};

/// What a notification is told to wait while nothing can be sent.
const NOTIFY_RETRY: Duration = Duration::from_millis(250);

/// Whether a call may be sent again when its answer was lost, or refused for overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// No: it could happen twice.
    Never,
    /// Yes: it only reads, or carries a key by which the server knows it.
    Harmless,
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) params: Box<RawValue>,
    /// `None`: [`Limits::rpc_timeout`].
    pub(crate) timeout: Option<Duration>,
    pub(crate) repeat: Repeat,
}

/// What a link tells its owner. Called by the reader: must not wait.
pub(crate) trait Inbound: Send + Sync + 'static {
    /// The server told something.
    fn notification(&self, notification: Notification);
    /// The server asks something.
    fn request(&self, request: Request);
    /// The connection is gone; another is tried. Not called when none is tried.
    fn lost(&self);
    /// There is another connection, initialised. Generations count from 1; not called for the first.
    fn reconnected(&self, generation: u64);
    /// There will be no other connection. Called once, always.
    fn closed(&self, why: &TransportError);
}

/// What a link is opened with.
#[derive(Debug)]
pub(crate) struct LinkOptions {
    pub(crate) endpoint: Endpoint,
    pub(crate) reconnect: Option<Reconnect>,
    pub(crate) limits: Limits,
    pub(crate) client_name: String,
    pub(crate) client_version: String,
    pub(crate) experimental_api: bool,
    /// Methods of server requests and notifications that the server shall not send.
    pub(crate) opt_out: Vec<String>,
    pub(crate) min_version: Option<Version>,
}

/// Which server a client talks to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// How it was reached, in words: `spawn codex`, `unix /…`, `ws://…`, `io`.
    pub endpoint: String,
    /// What it says of itself.
    pub user_agent: String,
    /// Which product it is.
    pub kind: ServerKind,
    /// The release whose protocol it speaks.
    pub version: Option<Version>,
    /// The product's own version; Turnlane tells it.
    pub product_version: Option<String>,
    /// The namespaces it has beyond Codex's: `queue`, `approval` and so on.
    pub features: Vec<String>,
    /// Where it keeps its state.
    pub codex_home: String,
}

/// Which product a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerKind {
    /// Ours.
    Turnlane,
    /// Codex's own.
    Codex,
    /// Something else.
    Unknown,
}

/// How the connection stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Connection {
    /// Calls are sent.
    Ready {
        /// Which connection it is, from 1.
        generation: u64,
    },
    /// Calls wait.
    Reconnecting {
        /// Which try, from 1.
        attempt: u32,
        /// How long ago the connection was lost, when this try began.
        since: Duration,
    },
    /// Calls fail.
    Closed {
        /// Why.
        reason: String,
    },
}

/// How a client ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitReport {
    /// How the child ended, if there was one.
    pub status: Option<std::process::ExitStatus>,
    /// Whether it did not end by itself in time and was terminated, or killed: `status` tells which.
    pub forced: bool,
    /// The end of what it wrote to standard error.
    pub stderr_tail: String,
}

/// Counts since the client was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientMetrics {
    /// Requests sent.
    pub sent: u64,
    /// Requests answered, with a result or an error.
    pub answered: u64,
    /// Requests not answered in time.
    pub timed_out: u64,
    /// Events of progress left out.
    pub dropped_progress: u64,
    /// Connections after the first.
    pub reconnects: u64,
}

/// A link; clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Link(Arc<Shared>);

impl Link {
    /// Dials, initialises and starts the link's task on the runtime of the caller. Cancelled, it
    /// leaves nothing behind: a child that was started is ended.
    pub(crate) async fn open(
        options: LinkOptions,
        inbound: Arc<dyn Inbound>,
    ) -> Result<Self, ConnectError> {
        let runtime = Handle::try_current().map_err(|_| ConnectError::InvalidArgument {
            what: "connect",
            reason: "must be called inside a tokio runtime".to_owned(),
        })?;
        let ids = RequestIds::default();
        let span = tracing::info_span!("client.connect", endpoint = options.endpoint.words());
        let dialled = dial::dial(&options, &ids).instrument(span).await?;
        let first = 1;
        let wire = Arc::new(Wire::new(first, dialled.peer));
        let shared = Arc::new(Shared {
            limits: options.limits.clone(),
            experimental_api: options.experimental_api,
            phase: watch::Sender::new(Phase::Open(wire)),
            connection: watch::Sender::new(Connection::Ready { generation: first }),
            server: RwLock::new(dialled.server),
            child: Mutex::new(dialled.child),
            // A window of nothing would let no call through.
            window: Arc::new(Semaphore::new(
                options.limits.in_flight.clamp(1, Semaphore::MAX_PERMITS),
            )),
            gate: Semaphore::new(1),
            backlog: Mutex::default(),
            ids,
            counts: shared::Counts::default(),
            closing: CancellationToken::new(),
            finished: CancellationToken::new(),
            runtime: runtime.clone(),
        });
        let keeper = Keeper::new(Arc::clone(&shared), options, inbound);
        runtime.spawn(keeper.run(dialled.inbox, dialled.early));
        Ok(Self(shared))
    }

    /// Sends a request and waits for its answer's raw result. Dropping the future stops waiting; the
    /// request may be executed all the same.
    pub(crate) async fn call(&self, call: Call) -> Result<Box<RawValue>, CallError> {
        self.0.call(&call).await
    }

    /// Sends a request whose answer nobody waits for; never waits, also outside a runtime: how a drop
    /// interrupts a turn. What was given before [`Link::close`] is written before the connection is
    /// closed.
    pub(crate) fn send_detached(&self, call: Call) {
        self.0.send_detached(call);
    }

    /// Sends a notification. Waits while too much is unwritten; while there is no connection nothing
    /// is sent and the error says so.
    pub(crate) async fn notify(&self, method: &str, params: &RawValue) -> Result<(), CallError> {
        if let Some(refusal) = self.0.refusal() {
            return Err(refusal);
        }
        self.0.fits(params.get().len())?;
        let busy = || CallError::Overloaded {
            retry_after: NOTIFY_RETRY,
        };
        let wire = self.0.wire().ok_or_else(busy)?;
        wire.peer.room(dial::UNWRITTEN_BYTES_MAX).await;
        let told = wire.peer.tell(method, &params);
        told.map_err(|error| CallError::InvalidArgument {
            what: "params",
            reason: error.to_string(),
        })
    }

    pub(crate) fn server(&self) -> ServerInfo {
        let server = self.0.server.read();
        server.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Which connection calls are sent on, from 1; 0 while there is none.
    pub(crate) fn generation(&self) -> u64 {
        self.0.wire().map_or(0, |wire| wire.generation)
    }

    /// Runs something beside its caller, for as long as the link's runtime lives.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.runtime.spawn(work);
    }

    pub(crate) fn connection(&self) -> watch::Receiver<Connection> {
        self.0.connection.subscribe()
    }

    pub(crate) fn metrics(&self) -> ClientMetrics {
        self.0.counts.metrics()
    }

    /// Ends the link in order and waits for it: what was queued is written, a child gets `grace`
    /// before it is terminated. Called again, or after [`Link::close`]: an error. Cancelled, the end
    /// goes on.
    pub(crate) async fn shutdown(&self, grace: Duration) -> Result<ExitReport, ShutdownError> {
        let Some((before, ending)) = self.begin_end(grace) else {
            return Err(ShutdownError::Closed);
        };
        if let Phase::Open(wire) = before {
            // What was queued is written before this returns, unless the server does not read.
            let _ = timeout(grace.max(dial::GRACE), wire.peer.closed()).await;
        }
        let report = match ending {
            Some(ending) => ending.finished().await.map_err(ShutdownError::Process)?,
            None => ExitReport::default(),
        };
        // The link's task has nothing left to do; only a runtime that is not driven keeps it.
        let _ = timeout(dial::GRACE, self.0.finished.cancelled()).await;
        Ok(report)
    }

    /// Ends the link in order without waiting; works without a runtime. What was queued before is
    /// written first, as long as the link's runtime lives. Called again: nothing.
    pub(crate) fn close(&self) {
        self.begin_end(dial::GRACE);
    }

    /// Stops new calls and begins the end; `None` if somebody did before. A link that was lost can
    /// still be ended once, to learn how its child ended.
    fn begin_end(&self, grace: Duration) -> Option<(Phase, Option<child::Ending>)> {
        let shared = &self.0;
        let before = shared.end()?;
        // Before anything else ends, so that whoever sees an end knows whose it is.
        shared.closing.cancel();
        if let Phase::Open(wire) = &before {
            shared.flush_backlog(wire);
            wire.peer.close();
        }
        shared.tell(Connection::Closed {
            reason: "closed by this side".to_owned(),
        });
        let ending = shared.child().map(|child| child.begin_end(grace));
        Some((before, ending))
    }
}
