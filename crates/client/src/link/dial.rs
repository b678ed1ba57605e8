//! Dialling: from an endpoint to a connection that was initialised.
//!
//! The invariant here: what fails leaves nothing behind, and says which row of the contract's table it
//! is. Nothing is tried twice; who wants to try again asks again.

use std::sync::Arc;
use std::time::Duration;

use turnlane_rpc::{Duplex, Framing, Inbox, Incoming, Peer, PeerOptions, RequestIds};

use super::child::Child;
use super::handshake::{Failed, in_time, initialise};
use super::{LinkOptions, ServerInfo};
use crate::endpoint::Endpoint;
use crate::error::ConnectError;

/// How long the exit status of a child is awaited after its output ended.
pub(super) const STATUS_MAX: Duration = Duration::from_millis(250);

/// How long a child may take to end by itself when nobody said otherwise.
pub(super) const GRACE: Duration = Duration::from_millis(750);

/// Unwritten bytes at which callers wait.
pub(super) const UNWRITTEN_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A connection that was initialised.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) peer: Peer,
    pub(super) inbox: Inbox,
    /// What came before the answer to `initialize`.
    pub(super) early: Vec<Incoming>,
    pub(super) server: ServerInfo,
    pub(super) child: Option<Arc<Child>>,
}

/// Connects and initialises, within [`crate::Limits::handshake`].
pub(super) async fn dial(options: &LinkOptions, ids: &RequestIds) -> Result<Dialled, ConnectError> {
    // Boxed, since handshakes are large and callers keep this future in theirs.
    in_time(options.limits.handshake, Box::pin(connect(options, ids))).await
}

async fn connect(options: &LinkOptions, ids: &RequestIds) -> Result<Dialled, ConnectError> {
    let (duplex, child) = open(options).await?;
    let framing = Framing {
        frame_bytes_max: options.limits.max_frame,
        ..Framing::default()
    };
    let peer_options = PeerOptions {
        limits: peer_limits(options.limits.max_frame),
        ids: ids.clone(),
        ..PeerOptions::default()
    };
    let (peer, mut inbox) = Peer::start(duplex.framed(&framing), peer_options);
    match initialise(options, &peer, &mut inbox, ids.next_id()).await {
        Ok(found) => Ok(Dialled {
            peer,
            inbox,
            early: found.early,
            server: found.server,
            child,
        }),
        Err(Failed::Because(error)) => Err(error),
        Err(Failed::Ended) => Err(exited(child.as_deref()).await),
    }
}

/// A client reads whatever it has written itself: a server that waits for us to read must not be
/// waited for. So reading stops for nothing but messages that nobody takes, and what may wait to be
/// written is bounded by the callers, who wait at [`UNWRITTEN_BYTES_MAX`].
fn peer_limits(max_frame: usize) -> turnlane_rpc::Limits {
    let bytes_max = max_frame
        .saturating_mul(2)
        .saturating_add(2 * UNWRITTEN_BYTES_MAX);
    turnlane_rpc::Limits {
        unanswered_max: 2 * turnlane_rpc::UNANSWERED_IN_PROCESS_MAX,
        unwritten_bytes_max: bytes_max,
        waiting_bytes_max: bytes_max,
        ..turnlane_rpc::Limits::default()
    }
}

/// The connection ended before the answer; of a child it is known how.
async fn exited(child: Option<&Child>) -> ConnectError {
    let (status, stderr_tail) = match child {
        Some(child) => (child.exited_within(STATUS_MAX).await, child.stderr_tail()),
        None => (None, String::new()),
    };
    ConnectError::ServerExited {
        status,
        stderr_tail,
    }
}

async fn open(options: &LinkOptions) -> Result<(Duplex, Option<Arc<Child>>), ConnectError> {
    match &options.endpoint {
        #[cfg(feature = "spawn")]
        Endpoint::Spawn(spec) => {
            let started = Child::start(spec, options.limits.stderr_tail, GRACE).await;
            started.map(|(child, duplex)| (duplex, Some(Arc::new(child))))
        }
        #[cfg(feature = "ws")]
        Endpoint::Unix(path) => {
            if path.as_os_str().is_empty() {
                return Err(ConnectError::InvalidEndpoint {
                    reason: "no path of a socket; TURNLANE_HOME must be absolute, or HOME set"
                        .to_owned(),
                });
            }
            let connect = ws_options(None, &[], options.limits.handshake)?;
            let duplex = turnlane_rpc::connect::connect_unix(path, &connect).await;
            duplex
                .map(|duplex| (duplex, None))
                .map_err(|error| sorted(error, &options.endpoint.words()))
        }
        #[cfg(feature = "ws")]
        Endpoint::WebSocket(spec) => {
            let token = spec.token.clone();
            let connect = ws_options(token, &spec.headers, options.limits.handshake)?;
            let duplex = turnlane_rpc::connect::connect_ws(&spec.url, &connect).await;
            duplex
                .map(|duplex| (duplex, None))
                .map_err(|error| sorted(error, &options.endpoint.words()))
        }
        Endpoint::Io(io) => io.take().map(|duplex| (duplex, None)),
    }
}

#[cfg(feature = "ws")]
fn ws_options(
    token: Option<crate::endpoint::Secret>,
    headers: &[(String, String)],
    time_max: Duration,
) -> Result<turnlane_rpc::connect::Options, ConnectError> {
    let options = turnlane_rpc::connect::Options {
        token,
        time_max,
        ..Default::default()
    };
    headers.iter().try_fold(options, |options, (name, value)| {
        options
            .header(name, value)
            .map_err(|error| sorted(error, ""))
    })
}

/// Whether a websocket endpoint makes sense, found out without a packet.
#[cfg(feature = "ws")]
pub(crate) fn check_ws(spec: &crate::endpoint::WsSpec) -> Result<(), ConnectError> {
    let options = ws_options(spec.token.clone(), &spec.headers, Duration::ZERO)?;
    turnlane_rpc::connect::check_ws(&spec.url, &options).map_err(|error| sorted(error, ""))
}

/// `at`: the address, for errors of a connection that was tried.
#[cfg(feature = "ws")]
fn sorted(error: turnlane_rpc::connect::ConnectError, at: &str) -> ConnectError {
    use turnlane_rpc::connect::ConnectError as Wire;
    match error {
        Wire::InvalidEndpoint { reason } => ConnectError::InvalidEndpoint { reason },
        Wire::Refused { source } => ConnectError::Refused {
            at: at.to_owned(),
            source,
        },
        Wire::Unauthorized { body } => ConnectError::Unauthorized { body },
        Wire::HttpStatus { code, body } => ConnectError::HttpStatus { code, body },
        Wire::Timeout { after } => ConnectError::HandshakeTimeout { after },
        Wire::Protocol { detail } => ConnectError::Protocol {
            detail: detail.to_owned(),
        },
        other => ConnectError::Protocol {
            detail: other.to_string(),
        },
    }
}
