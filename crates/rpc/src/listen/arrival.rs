//! From a socket the system accepted to a connection we accept.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::check::{HostRule, OwnOrigin, Policy};
use super::handshake::{self, HandshakeError};
use super::{Site, Socket, Stream};
use crate::auth::WsAuth;
use crate::duplex::Duplex;

/// How long a connection may take to become a [`Duplex`] or to be answered as plain HTTP.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// A connection that passed every check.
#[derive(Debug)]
pub struct Accepted {
    /// The connection. It counts against the limit until it is gone.
    pub duplex: Duplex,
    /// Who is at the other end.
    pub peer: PeerAddr,
    /// Why it was let in.
    pub admitted_by: AdmittedBy,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddr {
    /// A TCP client.
    Tcp(SocketAddr),
    /// A process of this user.
    Unix {
        /// Its user id.
        uid: u32,
    },
}

/// What proved that a client may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmittedBy {
    /// The capability token.
    CapabilityToken,
    /// A signed bearer token.
    SignedBearerToken,
    /// Nothing; the listener asks for no token.
    Nothing,
    /// It runs as the user we run as.
    SameUser,
}

/// A connection that was accepted by the system and not yet by us.
pub(super) struct Arrival {
    pub(super) stream: Stream,
    pub(super) permit: OwnedSemaphorePermit,
    pub(super) auth: WsAuth,
    /// On a unix socket: who the peer must be.
    pub(super) own_uid: Option<u32>,
}

impl Arrival {
    pub(super) async fn receive(self, site: &Site) -> Option<Accepted> {
        let (permit, own_uid) = (self.permit, self.own_uid);
        let handshake = async {
            match self.stream {
                Stream::Tcp(stream) => receive_tcp(stream, self.auth, site).await,
                Stream::Unix(stream) => receive_unix(stream, own_uid, site).await,
            }
        };
        let mut accepted = timeout(REQUEST_TIME_MAX, handshake)
            .await
            .inspect_err(|_| tracing::debug!("a request took too long"))
            .ok()??;
        accepted.duplex.permit = Some(permit);
        tracing::debug!(peer = %accepted.peer, by = ?accepted.admitted_by, "connection accepted");
        Some(accepted)
    }
}

async fn receive_tcp(stream: TcpStream, auth: WsAuth, site: &Site) -> Option<Accepted> {
    let admitted_by = match &auth {
        WsAuth::CapabilityToken(_) => AdmittedBy::CapabilityToken,
        WsAuth::SignedBearerToken(_) => AdmittedBy::SignedBearerToken,
        WsAuth::None => AdmittedBy::Nothing,
    };
    // These fail when the client has already gone.
    let (peer, local) = (stream.peer_addr().ok()?, stream.local_addr().ok()?);
    stream.set_nodelay(true).ok()?;
    let policy = site.policy(auth, HostRule::Ours { local: local.ip() });
    let peer = PeerAddr::Tcp(peer);
    let socket = Socket::new(Stream::Tcp(stream));
    let head_time_max = site.options.head_time_max;
    let outcome = handshake::http(socket, head_time_max, site, &policy, peer).await;
    finish(outcome, peer, admitted_by)
}

pub(super) async fn receive_unix(
    stream: UnixStream,
    own_uid: Option<u32>,
    site: &Site,
) -> Option<Accepted> {
    let uid = stream.peer_cred().ok()?.uid();
    let peer = PeerAddr::Unix { uid };
    if own_uid != Some(uid) {
        site.counters.foreign_user();
        tracing::warn!(%peer, "connection refused: another user");
        return None;
    }
    let policy = Policy {
        own_origin: OwnOrigin::Refused,
        ..site.policy(WsAuth::None, HostRule::Any)
    };
    let outcome = handshake::unix(stream, site, &policy, peer).await;
    finish(outcome, peer, AdmittedBy::SameUser)
}

fn finish(
    outcome: Result<Option<Duplex>, HandshakeError>,
    peer: PeerAddr,
    admitted_by: AdmittedBy,
) -> Option<Accepted> {
    let duplex = outcome
        .inspect_err(|error| tracing::debug!(%peer, %error, "handshake failed"))
        .ok()??;
    Some(Accepted {
        duplex,
        peer,
        admitted_by,
    })
}

impl Site {
    fn policy(&self, auth: WsAuth, host: HostRule) -> Policy {
        Policy {
            auth,
            host,
            allowed_hosts: self.options.allowed_hosts.clone(),
            allowed_origins: self.options.allowed_origins.clone(),
            own_origin: self.options.own_origin,
            paths: self.options.paths.clone(),
        }
    }
}

impl fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix { uid } => write!(f, "unix user {uid}"),
        }
    }
}
