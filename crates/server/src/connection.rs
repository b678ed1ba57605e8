//! One connection: who is at the other end, and its requests from frame to handler.
//!
//! The invariant here: every request that comes in leaves through its responder, whatever becomes of
//! its handler; requests about one thread that change something begin in the order they came; and
//! taking the next request in never waits for the one before.
//!
//! Theory of operation: one task per connection takes messages from the inbox. A request is checked
//! (initialised, known, allowed) and becomes a task of its own, or joins the queue of its thread in
//! `order`, which has one task while it is not empty. Both are bounded by what the peer lets in
//! unanswered. The connection's task ends with the inbox; then its subscriptions and processes end.

mod handshake;
mod order;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;

use serde::{Deserialize, Serialize};
use turnlane_protocol::envelope::Stamp;
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::handshake::{Capabilities, ClientInfo};
use turnlane_protocol::ids::{QueuedTurnId, ThreadId};
use turnlane_protocol::notification::method;
use turnlane_protocol::strict;
use turnlane_rpc::{CloseReason, Inbox, Incoming, Outgoing, Peer, Request, Scope};
use turnlane_runtime::Handle;

use self::order::PerThread;
use crate::commands::Commands;
use crate::hub::ConnectionId;
use crate::job_feed::JobSubscriptions;
use crate::methods::{Call, Gate, Order, Running};
use crate::options::PeerKind;
use crate::server::Shared;
use crate::subscriptions::Followed;

/// Notifications that only clients with `experimentalApi` get.
const EXPERIMENTAL: &[&str] = &[
    method::THREAD_QUEUE_CHANGED,
    method::THREAD_SETTINGS_UPDATED,
    method::THREAD_REVERTED,
    "process/outputDelta",
    "process/exited",
];

/// Notifications that only clients that know Turnlane get.
const OURS: &[&str] = &[
    method::CONNECTION_LAGGED,
    method::APPROVAL_CHANGED,
    method::FANOUT_UPDATED,
    method::FANOUT_ITEM_UPDATED,
    method::FANOUT_ENDED,
];

/// What a client has said about itself.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) info: ClientInfo,
    pub(crate) capabilities: Capabilities,
}

/// Queued turns that go with a connection.
type BoundRows = Vec<(ThreadId, QueuedTurnId)>;

/// What a client has said, once it has; shared with what is made before it does.
pub(crate) type Introduced = Arc<OnceLock<Client>>;

/// One connection.
pub(crate) struct Connection {
    id: ConnectionId,
    shared: Arc<Shared>,
    peer: Peer,
    kind: PeerKind,
    client: Introduced,
    order: PerThread,
    followed: Followed,
    job_subscriptions: JobSubscriptions,
    /// Queued turns that go with this connection; none when it has gone.
    bound: Mutex<Option<BoundRows>>,
    commands: Commands,
}

impl Connection {
    pub(crate) fn new(
        id: ConnectionId,
        shared: Arc<Shared>,
        peer: Peer,
        kind: PeerKind,
        client: Introduced,
    ) -> Self {
        Self {
            id,
            shared,
            peer,
            kind,
            client,
            order: PerThread::default(),
            followed: Followed::default(),
            job_subscriptions: JobSubscriptions::default(),
            bound: Mutex::new(Some(BoundRows::new())),
            commands: Commands::default(),
        }
    }

    pub(crate) fn id(&self) -> ConnectionId {
        self.id
    }

    /// What all connections of the server share: options, runtime, other connections.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn kind(&self) -> PeerKind {
        self.kind
    }

    /// The threads that this connection follows.
    pub(crate) fn followed(&self) -> &Followed {
        &self.followed
    }

    /// The fan-out jobs that this connection is told of.
    pub(crate) fn job_subscriptions(&self) -> &JobSubscriptions {
        &self.job_subscriptions
    }

    /// Whether it follows this one.
    pub(crate) fn follows(&self, thread: ThreadId) -> bool {
        self.followed.has(thread)
    }

    /// Remembers a queued turn that goes with this connection. One whose connection went while it was
    /// being added goes at once: nobody else would take it out.
    pub(crate) fn bind(&self, thread: ThreadId, row: QueuedTurnId) {
        if let Some(bound) = &mut *self.bound() {
            bound.push((thread, row));
            return;
        }
        let runtime = self.shared.options.runtime.clone();
        tokio::spawn(async move { unbind(&runtime, thread, row).await });
    }

    fn bound(&self) -> MutexGuard<'_, Option<BoundRows>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The processes of this connection.
    pub(crate) fn commands(&self) -> &Commands {
        &self.commands
    }

    /// The client's name, once it has said it.
    pub(crate) fn client_name(&self) -> Option<&str> {
        self.client.get().map(|client| client.info.name.as_str())
    }

    /// Whether the client reads our own members of answers.
    pub(crate) fn knows_turnlane(&self) -> bool {
        self.capabilities()
            .is_some_and(Capabilities::knows_turnlane)
    }

    fn capabilities(&self) -> Option<&Capabilities> {
        self.client.get().map(|client| &client.capabilities)
    }

    /// Whether the client gets this notification, or is asked this.
    pub(crate) fn wants(&self, method: &str) -> bool {
        let Some(capabilities) = self.capabilities() else {
            return false;
        };
        let allowed = capabilities.experimental_api || !EXPERIMENTAL.contains(&method);
        let known = capabilities.wants_turnlane_events() || !OURS.contains(&method);
        allowed && known && !capabilities.opts_out_of(method)
    }

    /// Tells this client something of its own, such as the output of a process it started; kept
    /// and in order within `scope`.
    pub(crate) fn notify(&self, method: &str, params: &impl Serialize, scope: Option<Scope>) {
        if !self.wants(method) {
            return;
        }
        let stamp = Stamp {
            emitted_at_ms: self.shared.options.clock.now_ms(),
            seq: None,
        };
        match turnlane_protocol::envelope::encode_notification(method, params, Some(stamp)) {
            Ok(frame) => self.peer.notify(&Outgoing::kept(frame, scope)),
            Err(error) => tracing::error!(%error, method, "a notification cannot be written"),
        }
    }

    /// Serves the connection until it ends.
    pub(crate) async fn run(self: Arc<Self>, mut inbox: Inbox) -> CloseReason {
        let listed = Listed(&self);
        while let Some(message) = inbox.next().await {
            match message {
                Incoming::Request(request) => self.take(request),
                // Nothing a client tells us means anything; `initialized` is not waited for.
                Incoming::Notification(_) => {}
            }
        }
        drop(inbox);
        drop(listed);
        self.leave_all().await;
        self.commands.end().await;
        let reason = self.peer.closed().await;
        // A request that was under way may have begun to follow.
        self.leave_all().await;
        reason
    }

    /// Ends what goes with the connection: subscriptions, bound rows, bindings.
    async fn leave_all(&self) {
        let runtime = &self.shared.options.runtime;
        for (thread, id) in self.followed.take_all() {
            // One that is still joining takes itself out.
            if let Some(id) = id {
                runtime.unsubscribe(thread, id).await;
            }
        }
        let bound = self.bound().take();
        for (thread, row) in bound.into_iter().flatten() {
            unbind(runtime, thread, row).await;
        }
        // Last: whoever binds next finds the lanes as this connection left them.
        self.shared.bindings.release_all(self);
    }

    fn take(self: &Arc<Self>, request: Request) {
        let Request {
            method,
            params,
            responder,
        } = request;
        self.shared.metrics.request();
        if method == handshake::METHOD {
            return responder.respond(self.initialize(&params));
        }
        let Some(capabilities) = self.capabilities() else {
            return responder.error(&ErrorObject::not_initialized());
        };
        let Some(found) = self.shared.methods.get(&method) else {
            self.shared.metrics.unknown_request();
            return responder.error(&ErrorObject::unknown_method(&method));
        };
        let refusal = match found.gate {
            Gate::Experimental if !capabilities.experimental_api => {
                Some(ErrorObject::experimental(&method))
            }
            Gate::Events if !capabilities.wants_turnlane_events() => {
                Some(ErrorObject::capability(&method, "turnlane.events"))
            }
            Gate::Open | Gate::Experimental | Gate::Events => None,
        };
        if let Some(refusal) = refusal {
            return responder.error(&refusal);
        }
        let thread = match found.order {
            Order::Free => None,
            Order::PerThread => thread_of(params.raw()),
            Order::PerProcess => process_of(params.raw()),
            Order::PerJob => job_of(params.raw()),
        };
        let running = (found.run)(Call {
            cx: Arc::clone(self),
            params,
            responder,
        });
        let running = unharmed(found.name, Arc::clone(&self.shared), running);
        match thread {
            None => drop(tokio::spawn(running)),
            Some(thread) => self.order.add(thread, running),
        }
    }
}

/// Takes a queued turn out whose connection is gone.
async fn unbind(runtime: &Handle, thread: ThreadId, row: QueuedTurnId) {
    // A turn that has begun is not in the queue any more.
    if let Err(error) = runtime.delete(thread, row).await {
        tracing::warn!(%error, "a queued turn of a lost connection stays");
    }
}

/// A connection that all others may be told of; taken out of the hub also when its task is dropped,
/// since the two hold each other.
struct Listed<'a>(&'a Connection);

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.0.shared.hub.remove(self.0.id);
    }
}

/// The thread that params are about, if they name one.
fn thread_of(raw: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Named {
        thread_id: String,
    }
    let named: Named = strict::read(raw).ok()?;
    // However it is spelled, it is the same thread.
    let id = named.thread_id.parse::<ThreadId>();
    Some(id.map_or(named.thread_id, |id| id.to_string()))
}

/// The process that params are about, if they name one; unlike any thread's id.
fn process_of(raw: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Named {
        process_id: Option<String>,
        process_handle: Option<String>,
    }
    let named: Named = strict::read(raw).ok()?;
    let command = named.process_id.map(|id| format!("command {id}"));
    command.or_else(|| {
        named
            .process_handle
            .map(|handle| format!("process {handle}"))
    })
}

/// The fan-out job that params are about, if they name one; unlike any thread's id.
fn job_of(raw: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Named {
        job_id: String,
    }
    let named: Named = strict::read(raw).ok()?;
    Some(format!("job {}", named.job_id))
}

/// A handler whose panic ends itself and nothing else; its request is answered by its responder.
fn unharmed(method: &'static str, shared: Arc<Shared>, mut running: Running) -> Running {
    Box::pin(std::future::poll_fn(move |cx| {
        let poll = AssertUnwindSafe(|| running.as_mut().poll(cx));
        std::panic::catch_unwind(poll).unwrap_or_else(|_panic| {
            tracing::error!(method, "a handler panicked");
            shared.metrics.panicked();
            Poll::Ready(())
        })
    }))
}
