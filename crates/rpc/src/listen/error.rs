//! Why a listener does not start. Once it runs, nothing but its owner ends it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An error from binding a [`super::Listener`].
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Others could reach the address and nothing would stop them. The owner configures auth.
    #[error("refusing to listen on {addr} without authentication; use --ws-auth")]
    Unauthenticated {
        /// The address asked for.
        addr: SocketAddr,
    },

    /// Somebody answers on the socket, or is about to. The caller becomes its client or gives up.
    #[error("{} is already served by a running process", path.display())]
    AlreadyServed {
        /// The socket.
        path: PathBuf,
    },

    /// Something else has the socket's name. It is not ours to remove.
    #[error("{} exists and is not a socket", path.display())]
    NotASocket {
        /// What is there.
        path: PathBuf,
    },

    /// Others could put their own socket in the place of ours. The owner closes the directory.
    #[error("others can replace files in {} (mode {mode:04o}, owner {uid}); use a private directory", path.display())]
    UnsafeDirectory {
        /// The directory of the socket.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// Its owner.
        uid: u32,
    },

    /// The operating system knows no socket names this long. The caller chooses a shorter one.
    #[error("the socket path {} is too long", path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
    },

    /// The operating system failed: the address is taken, or not ours.
    #[error("cannot listen on {on}")]
    Bind {
        /// The address or path.
        on: String,
        /// What the system said.
        source: io::Error,
    },
}
