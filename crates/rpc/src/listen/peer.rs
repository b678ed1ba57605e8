//! The other end of a connection, and the filter that may refuse it.
//!
//! The filter is the owner's: it knows which processes must not connect, for example commands that
//! the server itself runs in a sandbox. The invariant here: the filter is asked before a byte of the
//! connection is read, and a filter that fails counts as a refusal.
//!
//! A filter may read `/proc` and so block for a moment. It runs on tokio's blocking threads, and at
//! most [`CHECKS_MAX`] run at once per listener.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;

/// Filters that run at once for one listener. Further connections wait for their turn, those that
/// have sent something first.
pub(super) const CHECKS_MAX: usize = 8;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddr {
    /// A TCP client.
    Tcp {
        /// Its address.
        remote: SocketAddr,
        /// Our own address on this connection. Together the two name the peer's socket in
        /// `/proc/net/tcp`.
        local: SocketAddr,
    },
    /// A process of this user.
    Unix {
        /// Its user id.
        uid: u32,
        /// The process that connected, if the system tells. It may have ended since, or have passed
        /// the socket on.
        pid: Option<i32>,
    },
}

impl PeerAddr {
    /// Reads both addresses of a connected socket. Fails when the client is already gone.
    pub(super) fn of_tcp(stream: &TcpStream) -> io::Result<Self> {
        Ok(Self::Tcp {
            remote: stream.peer_addr()?,
            local: stream.local_addr()?,
        })
    }

    /// Reads the credentials that the kernel recorded at `connect`.
    pub(super) fn of_unix(stream: &UnixStream) -> io::Result<Self> {
        let credentials = stream.peer_cred()?;
        Ok(Self::Unix {
            uid: credentials.uid(),
            pid: credentials.pid(),
        })
    }
}

impl fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { remote, .. } => remote.fmt(f),
            Self::Unix { uid, .. } => write!(f, "unix user {uid}"),
        }
    }
}

/// Decides which peers may not connect at all. Clones share the closure.
#[derive(Clone)]
pub struct PeerFilter(Arc<dyn Fn(&PeerAddr) -> bool + Send + Sync>);

impl PeerFilter {
    /// A filter that refuses every peer for which `refuses` returns true. `refuses` may block for a
    /// moment; it is called on a thread where that is allowed, once per connection.
    pub fn new(refuses: impl Fn(&PeerAddr) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(refuses))
    }

    /// Asks the filter. May block.
    pub fn refuses(&self, peer: &PeerAddr) -> bool {
        (self.0)(peer)
    }

    /// A filter that refuses what either of the two refuses.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |peer| self.refuses(peer) || other.refuses(peer))
    }
}

/// Two filters are equal when they are clones of each other.
impl PartialEq for PeerFilter {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for PeerFilter {}

impl fmt::Debug for PeerFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerFilter(…)")
    }
}

/// Asks `filter` about `peer` without blocking the caller. `readable` resolves when the peer has sent
/// something.
pub(super) async fn is_refused(
    filter: &PeerFilter,
    peer: PeerAddr,
    checks: &Arc<Semaphore>,
    readable: impl Future<Output = io::Result<()>>,
) -> bool {
    let free = Arc::clone(checks).try_acquire_owned();
    let check = if let Ok(check) = free {
        check
    } else {
        // All checks are busy. A silent connection does not queue for one, so that any number of
        // silent connections cannot delay a client that speaks.
        if readable.await.is_err() {
            return true;
        }
        let Ok(check) = Arc::clone(checks).acquire_owned().await else {
            // Never closed; refusing is the safe side.
            return true;
        };
        check
    };
    let filter = filter.clone();
    let asked = tokio::task::spawn_blocking(move || {
        let refused = filter.refuses(&peer);
        // Released by the thread itself: the caller may be gone before the filter returns.
        drop(check);
        refused
    });
    asked.await.unwrap_or(true)
}
