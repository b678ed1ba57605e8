//! From a socket the system accepted to a connection we accept.
//!
//! Until a connection is admitted it holds a [`Place`] among the unadmitted ones and can be dropped
//! for a new connection at any moment.

use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};

use super::check::{HostRule, OwnOrigin, Policy};
use super::handshake::{self, HandshakeError, Visit};
use super::peer::{PeerAddr, is_refused};
use super::refusal_log::RefusalKind;
use super::unadmitted::Place;
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
    pub(super) place: Place,
    pub(super) auth: WsAuth,
    /// On a unix socket: who the peer must be.
    pub(super) own_uid: Option<u32>,
}

impl Arrival {
    pub(super) async fn receive(self, site: &Site) -> Option<Accepted> {
        let place = self.place;
        let handshake = async {
            match self.stream {
                Stream::Tcp(stream) => receive_tcp(stream, self.auth, site, &place).await,
                Stream::Unix(stream) => receive_unix(stream, self.own_uid, site, &place).await,
            }
        };
        let accepted = tokio::select! {
            // The handshake first: a request that has arrived is answered even if its connection
            // was chosen to make way in the meantime.
            biased;
            received = timeout(REQUEST_TIME_MAX, handshake) => {
                let Ok(received) = received else {
                    site.log_unfinished(|| tracing::debug!("a request took too long"));
                    return None;
                };
                received?
            }
            () = place.dropped() => {
                site.log_unfinished(|| tracing::debug!("dropped for a new connection"));
                return None;
            }
        };
        tracing::debug!(peer = %accepted.peer, by = ?accepted.admitted_by, "connection accepted");
        Some(accepted)
    }
}

async fn receive_tcp(
    stream: TcpStream,
    auth: WsAuth,
    site: &Site,
    place: &Place,
) -> Option<Accepted> {
    let admitted_by = match &auth {
        WsAuth::CapabilityToken(_) => AdmittedBy::CapabilityToken,
        WsAuth::SignedBearerToken(_) => AdmittedBy::SignedBearerToken,
        WsAuth::None => AdmittedBy::Nothing,
    };
    // These fail when the client has already gone.
    let (peer, local) = (PeerAddr::of_tcp(&stream).ok()?, stream.local_addr().ok()?);
    stream.set_nodelay(true).ok()?;
    let head_time_left = site.let_in(peer, stream.readable()).await?;
    let policy = site.policy(auth, HostRule::Ours { local: local.ip() });
    let socket = Socket::new(Stream::Tcp(stream));
    let visit = Visit { site, peer, place };
    let outcome = handshake::http(socket, head_time_left, &policy, &visit).await;
    site.finish(outcome, peer, admitted_by)
}

pub(super) async fn receive_unix(
    stream: UnixStream,
    own_uid: Option<u32>,
    site: &Site,
    place: &Place,
) -> Option<Accepted> {
    let peer = PeerAddr::of_unix(&stream).ok()?;
    if !matches!(peer, PeerAddr::Unix { uid, .. } if own_uid == Some(uid)) {
        site.counters.foreign_user();
        if site.refusals.admits(RefusalKind::User) {
            tracing::warn!(%peer, "connection refused: another user");
        }
        return None;
    }
    let head_time_left = site.let_in(peer, stream.readable()).await?;
    let policy = Policy {
        own_origin: OwnOrigin::Refused,
        ..site.policy(WsAuth::None, HostRule::Any)
    };
    let visit = Visit { site, peer, place };
    let outcome = handshake::unix(stream, head_time_left, &policy, &visit).await;
    site.finish(outcome, peer, AdmittedBy::SameUser)
}

impl Site {
    /// Asks the owner's filter about a peer. Returns how much time is left for the head of its
    /// request, or nothing if the peer is refused or the filter took all of that time.
    async fn let_in(
        &self,
        peer: PeerAddr,
        readable: impl Future<Output = std::io::Result<()>>,
    ) -> Option<Duration> {
        let time_max = self.options.head_time_max;
        let Some(filter) = &self.options.refuse_peer else {
            return Some(time_max);
        };
        let started = Instant::now();
        let asked = is_refused(filter, peer, &self.peer_checks, readable);
        match timeout(time_max, asked).await {
            Ok(false) => Some(time_max.saturating_sub(started.elapsed())),
            Ok(true) => {
                self.counters.peer_refused();
                if self.refusals.admits(RefusalKind::Peer) {
                    let pid = match peer {
                        PeerAddr::Unix { pid, .. } => pid,
                        PeerAddr::Tcp { .. } => None,
                    };
                    tracing::warn!(%peer, pid, "connection refused: the peer may not connect");
                }
                None
            }
            Err(_) => {
                self.log_unfinished(|| tracing::debug!(%peer, "the peer check took too long"));
                None
            }
        }
    }

    fn finish(
        &self,
        outcome: Result<Option<Duplex>, HandshakeError>,
        peer: PeerAddr,
        admitted_by: AdmittedBy,
    ) -> Option<Accepted> {
        let log = |error: &HandshakeError| {
            self.log_unfinished(|| tracing::debug!(%peer, %error, "handshake failed"));
        };
        let duplex = outcome.inspect_err(log).ok()??;
        Some(Accepted {
            duplex,
            peer,
            admitted_by,
        })
    }

    /// Strangers cause these lines too, so they are bounded although they are not warnings.
    fn log_unfinished(&self, write: impl FnOnce()) {
        if self.refusals.admits(RefusalKind::Unfinished) {
            write();
        }
    }

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
