//! A listener of ours: who comes in is served, and plain requests get their pages.
//!
//! The invariants here: what a connection may do depends on what proved that it may connect, and that
//! is told by the listener, never by the client. A door that nobody has opened yet turns nobody away:
//! who comes early waits, and whoever asks is told that we are not ready. A peer that the server
//! refuses is served by no listener, whether it came before the server was there or after.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use turnlane_rpc::listen::{
    Accepted, AdmittedBy, HttpResponse, Listener, PeerAddr, PeerFilter, REQUEST_TIME_MAX,
};

use crate::options::PeerKind;
use crate::server::Server;

/// Where the metrics are; the listener has asked for the token before.
const METRICS_PATH: &str = "/metrics";

/// The way in to a server that may still be starting; clones are the same one.
///
/// Listeners run from the first moment on, so that `/healthz` and `/readyz` answer while what dead
/// workers left is being decided. Connections wait for [`Door::open`]; their number is bounded by the
/// listener's limit.
#[derive(Clone)]
pub struct Door {
    server: Arc<watch::Sender<Option<Behind>>>,
}

/// The server behind a door.
#[derive(Clone)]
struct Behind {
    server: Server,
    /// When the door was opened; none for a door that never was closed.
    since: Option<Instant>,
}

impl Behind {
    /// Whether a connection that is accepted now may have passed the listener's filter while there
    /// was no server whose filter could be asked.
    fn may_be_unfiltered(&self) -> bool {
        self.since
            .is_some_and(|since| since.elapsed() < REQUEST_TIME_MAX)
    }
}

impl Door {
    /// A door with nothing behind it yet.
    pub fn closed() -> Self {
        Self::with(None)
    }

    fn with(server: Option<Behind>) -> Self {
        Self {
            server: Arc::new(watch::Sender::new(server)),
        }
    }

    /// Lets everybody in who waits, and who comes later. The first server stays.
    pub fn open(&self, server: Server) {
        self.server.send_if_modified(|behind| {
            let is_first = behind.is_none();
            let since = Some(Instant::now());
            behind.get_or_insert(Behind { server, since });
            is_first
        });
    }

    /// Whether requests are served, and why not: what `/readyz` says.
    pub fn ready(&self) -> Result<(), &'static str> {
        match self.behind() {
            Some(server) => server.readiness(),
            None => Err("not ready: recovering from a crash"),
        }
    }

    fn behind(&self) -> Option<Server> {
        let behind = self.server.borrow();
        behind.as_ref().map(|behind| behind.server.clone())
    }

    /// Serves a listener until `shutdown` is cancelled. Also answers `/readyz` and `/metrics`.
    /// Connections live on when it returns, and [`Server::stop`] ends them; those that still wait are
    /// closed.
    pub async fn run_listener(&self, listener: Listener, shutdown: CancellationToken) {
        let (asked, scraped, door) = (self.clone(), self.clone(), self.clone());
        let filtered = self.clone();
        let listener = listener
            .refuse_peers(PeerFilter::new(move |peer| filtered.refuses(peer)))
            .on_ready(move || asked.ready())
            .on_http(move |request| {
                let is_metrics = request.uri().path() == METRICS_PATH;
                let server = scraped.behind();
                async move {
                    match (is_metrics, server) {
                        (true, Some(server)) => page(200, server.metrics().await),
                        (true, None) => page(503, "starting".to_owned()),
                        (false, _) => page(400, "expected a websocket handshake".to_owned()),
                    }
                }
            });
        let waits_until = shutdown.clone();
        let accepted = move |accepted: Accepted| {
            let (door, given_up) = (door.clone(), waits_until.clone());
            tokio::spawn(async move { door.receive(accepted, given_up).await });
        };
        listener.run(shutdown, accepted).await;
    }

    async fn receive(&self, accepted: Accepted, given_up: CancellationToken) {
        let kind = match accepted.admitted_by {
            AdmittedBy::CapabilityToken | AdmittedBy::SignedBearerToken => PeerKind::WebSocket,
            AdmittedBy::Nothing => PeerKind::OpenWebSocket,
            AdmittedBy::SameUser => PeerKind::Unix,
        };
        let mut behind = self.server.subscribe();
        let behind = tokio::select! {
            biased;
            // The sender is ours, so this ends only with a server.
            Ok(found) = behind.wait_for(Option::is_some) => found.clone(),
            () = given_up.cancelled() => None,
        };
        let Some(behind) = behind else {
            return;
        };
        if behind.may_be_unfiltered() && self.refuses_late(accepted.peer).await {
            tracing::debug!(peer = %accepted.peer, "connection refused: the peer may not connect");
            return;
        }
        behind.server.serve(accepted.duplex, kind).await;
    }

    /// Asks the server's filter; without a server nobody is refused yet. May block.
    fn refuses(&self, peer: &PeerAddr) -> bool {
        let server = self.behind();
        server.is_some_and(|server| {
            let filter = server.shared.options.refuse_peer.as_ref();
            filter.is_some_and(|filter| filter.refuses(peer))
        })
    }

    /// As [`Self::refuses`], off the async threads. A filter that fails refuses.
    async fn refuses_late(&self, peer: PeerAddr) -> bool {
        let door = self.clone();
        let asked = tokio::task::spawn_blocking(move || door.refuses(&peer));
        asked.await.unwrap_or(true)
    }
}

impl Server {
    /// Serves a listener until `shutdown` is cancelled. Also answers `/readyz` and `/metrics`.
    /// Connections live on when it returns; [`Server::stop`] ends them.
    pub async fn run_listener(&self, listener: Listener, shutdown: CancellationToken) {
        let door = Door::with(Some(Behind {
            server: self.clone(),
            since: None,
        }));
        door.run_listener(listener, shutdown).await;
    }
}

/// A plain text as an answer.
fn page(code: u16, text: String) -> HttpResponse {
    let mut response = HttpResponse::new(text.into());
    if let Ok(status) = code.try_into() {
        *response.status_mut() = status;
    }
    if let Ok(kind) = "text/plain; version=0.0.4; charset=utf-8".parse() {
        response.headers_mut().insert("content-type", kind);
    }
    response
}
