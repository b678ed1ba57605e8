//! What an owner decides about a listener.

use std::time::Duration;

use super::socket::SEND_BUFFER_BYTES;
use super::{ConnectionLimit, OwnOrigin, Paths, PeerFilter};

/// Connections a listener keeps that have not been admitted yet, unless told otherwise. As many as
/// may be admitted, so that a burst of honest clients drops none of them.
pub const UNADMITTED_MAX: usize = 256;

/// The configuration of a listener; the defaults are those of the app-server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names besides our own that `Host` may carry: `name` for every port, or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// Origins of pages that may talk to us, exactly as a browser writes them.
    pub allowed_origins: Vec<String>,
    /// Whether pages that came from us may.
    pub own_origin: OwnOrigin,
    /// Which paths exist.
    pub paths: Paths,
    /// How many admitted connections may be open; clones of it count together.
    pub connections: ConnectionLimit,
    /// How many connections of this listener may be open that are not admitted yet. When there is
    /// one more, the oldest of them is closed.
    pub unadmitted_max: usize,
    /// How long such a connection stays open at least. New ones wait for it in the system's backlog.
    pub unadmitted_time_min: Duration,
    /// Refuses peers before a byte of their connection is read.
    pub refuse_peer: Option<PeerFilter>,
    /// How long a client may take to send the head of its request.
    pub head_time_max: Duration,
    /// How long that head may be.
    pub head_bytes_max: usize,
    /// What the system is asked to hold of what we send on a TCP connection; Linux holds twice as
    /// much. It bounds what is lost with a connection.
    pub send_buffer_bytes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            own_origin: OwnOrigin::Allowed,
            paths: Paths::Any,
            connections: ConnectionLimit::default(),
            unadmitted_max: UNADMITTED_MAX,
            // An honest client writes its request right after it has connected.
            unadmitted_time_min: Duration::from_millis(20),
            refuse_peer: None,
            head_time_max: Duration::from_secs(5),
            head_bytes_max: 16 * 1024,
            send_buffer_bytes: SEND_BUFFER_BYTES,
        }
    }
}
