//! Listening sockets: connections come in, checked and framed they go out.
//!
//! A [`Listener`] owns one TCP or unix socket and turns each connection into a
//! [`Duplex`](crate::Duplex), or answers it as plain HTTP. The invariant here: nobody gets a
//! `Duplex` who did not pass every check of `check.rs`, in that order. On TCP that is Host, Origin
//! and token; on a unix socket it is the mode of the file and the user id of the peer, besides which
//! only a page (an `Origin`) is refused, since clients write whatever they like into `Host` there.
//!
//! What is said on a connection is not known here, and a live connection is not watched over: it
//! belongs to whoever took it. It only carries a permit, so that the limit counts it to its end.
//!
//! # Theory of operation
//!
//! [`Listener::run`] is one task that accepts. Each connection becomes a task of its own, so a slow
//! client delays nobody; such a task ends with its handshake, after [`Options::head_time_max`] for
//! the head and [`REQUEST_TIME_MAX`] for everything. There are no channels: a finished connection is
//! given to a closure. The tasks are bounded by [`Options::unadmitted_max`] (connections that have
//! proved nothing yet; the oldest makes way for a new one) plus the [`ConnectionLimit`]. One more
//! task writes the summaries of `refusal_log.rs`.
//! Cancelling the token ends the accepting task and the handshakes under way; a failure to accept
//! (no file descriptors left) is waited out and never ends it.

mod arrival;
mod check;
mod counters;
mod error;
mod handshake;
mod host;
mod limit;
mod options;
mod overload;
mod peer;
mod refusal_log;
mod service;
mod socket;
mod unadmitted;
mod unix;
mod upgrade;
mod url;

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};

pub use arrival::{Accepted, AdmittedBy, REQUEST_TIME_MAX};
pub use check::{OwnOrigin, Paths};
pub use error::ListenError;
pub use limit::{CONNECTIONS_MAX, ConnectionLimit};
pub use options::{Options, UNADMITTED_MAX};
pub use peer::{PeerAddr, PeerFilter};
pub use service::{Bound, Handle, Listener};
pub use url::{ListenUrl, ListenUrlError};

pub(crate) use socket::{Socket, Stream, tcp_socket};
pub(crate) use upgrade::{WEBSOCKET_VERSION, accept_key, has_token};

use counters::Counters;
use refusal_log::RefusalLog;
use tokio::sync::Semaphore;

/// What an HTTP handler answers.
pub type HttpResponse = Response<Full<Bytes>>;

/// Answers plain requests that passed every check.
type HttpHandler = Arc<dyn Fn(Request<Incoming>) -> HttpAnswer + Send + Sync>;
type HttpAnswer = Pin<Box<dyn Future<Output = HttpResponse> + Send>>;

/// What all connections of a listener share.
struct Site {
    options: Options,
    ready: Arc<dyn Fn() -> Result<(), &'static str> + Send + Sync>,
    http: Option<HttpHandler>,
    counters: Arc<Counters>,
    refusals: RefusalLog,
    /// One permit for each peer check that runs.
    peer_checks: Arc<Semaphore>,
}

#[cfg(test)]
mod tests;
