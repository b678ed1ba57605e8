//! Who is at the other end, as it is named in texts and logs.
//!
//! The names are part of the wire: errors about a message that cannot be read carry them.

use std::fmt;
use std::net::SocketAddr;

use turnlane_rpc::listen::PeerAddr;

/// The other end of a connection. Its `Display` is the label of the wire's texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Our parent, on standard input and output. It cannot come back: when it is gone, so is
    /// everything it started.
    Stdio,
    /// A client of a TCP listener.
    Tcp(SocketAddr),
    /// A process of this user on a unix socket.
    Unix {
        /// Its user id.
        uid: u32,
    },
}

impl Peer {
    /// Whether a lost connection may be followed by another one of the same client.
    pub(crate) fn may_return(self) -> bool {
        match self {
            Self::Stdio => false,
            Self::Tcp(_) | Self::Unix { .. } => true,
        }
    }
}

impl From<PeerAddr> for Peer {
    fn from(addr: PeerAddr) -> Self {
        match addr {
            PeerAddr::Tcp { remote, .. } => Self::Tcp(remote),
            PeerAddr::Unix { uid, .. } => Self::Unix { uid },
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio => f.write_str("exec-server stdio"),
            Self::Tcp(addr) => write!(f, "exec-server websocket {addr}"),
            Self::Unix { uid } => write!(f, "exec-server unix user {uid}"),
        }
    }
}
