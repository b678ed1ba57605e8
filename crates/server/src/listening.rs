//! A listener of ours: who comes in is served, and plain requests get their pages.
//!
//! The invariant here: what a connection may do depends on what proved that it may connect, and that
//! is told by the listener, never by the client.

use tokio_util::sync::CancellationToken;
use turnlane_rpc::listen::{Accepted, AdmittedBy, HttpResponse, Listener};

use crate::options::PeerKind;
use crate::server::Server;

/// Where the metrics are; the listener has asked for the token before.
const METRICS_PATH: &str = "/metrics";

impl Server {
    /// Serves a listener until `shutdown` is cancelled. Also answers `/readyz` and `/metrics`.
    /// Connections live on when it returns; [`Server::stop`] ends them.
    pub async fn run_listener(&self, listener: Listener, shutdown: CancellationToken) {
        let (asked, scraped, server) = (self.clone(), self.clone(), self.clone());
        let listener = listener
            .on_ready(move || asked.ready())
            .on_http(move |request| {
                let page = (request.uri().path() == METRICS_PATH).then(|| scraped.metrics());
                std::future::ready(http_answer(page))
            });
        let accepted = move |accepted: Accepted| {
            let server = server.clone();
            let kind = match accepted.admitted_by {
                AdmittedBy::CapabilityToken | AdmittedBy::SignedBearerToken => PeerKind::WebSocket,
                AdmittedBy::Nothing => PeerKind::OpenWebSocket,
                AdmittedBy::SameUser => PeerKind::Unix,
            };
            tokio::spawn(async move { server.serve(accepted.duplex, kind).await });
        };
        listener.run(shutdown, accepted).await;
    }
}

/// The metrics, or that this is no page.
fn http_answer(page: Option<String>) -> HttpResponse {
    let found = page.is_some();
    let text = page.unwrap_or_else(|| "expected a websocket handshake".to_owned());
    let mut response = HttpResponse::new(text.into());
    if !found && let Ok(status) = 400.try_into() {
        *response.status_mut() = status;
    }
    if let Ok(kind) = "text/plain; version=0.0.4; charset=utf-8".parse() {
        response.headers_mut().insert("content-type", kind);
    }
    response
}
