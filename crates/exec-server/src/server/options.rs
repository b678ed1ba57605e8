//! What the owner of a server decides, once.

use std::time::Duration;

use turnlane_rpc::listen::{self, ConnectionLimit, OwnOrigin, Paths, PeerFilter};

/// Where plain HTTP finds the metrics.
pub(crate) const METRICS_PATH: &str = "/metrics";

/// Linux doubles it. What is on its way when a connection is lost must be less than what stays
/// readable of a process beside its undelivered output, 384 KiB: of that, this is 144 KiB (base64),
/// a batch 91 KiB, the message that was cut in two 64 KiB, and the rest is for the way itself.
const SEND_BUFFER_BYTES: u32 = 96 * 1024;

/// Options of a server; plain data with the defaults of `[exec_server]` in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which dialect a client gets that does not name one.
    pub dialect: DialectChoice,
    /// Processes one connection (`exec-server.v0`) or session (`process.v1`) may have.
    pub processes_per_connection_max: usize,
    /// Processes of all connections together.
    pub processes_max: usize,
    /// Whether a process may be started without a `sandbox`.
    pub allow_direct_exec: bool,
    /// Whether a process may be started with one.
    pub allow_prepared_exec: bool,
    /// How long a session and its processes outlive a lost connection; clients may lower it.
    pub detached_session_ttl: Duration,
    /// Connections of all listeners that share [`Options::listen`].
    pub connections_max: usize,
    /// The longest message that is read.
    pub message_bytes_max: usize,
    /// Names besides our own that `Host` may carry.
    pub allowed_hosts: Vec<String>,
    /// Origins of pages that may connect.
    pub allowed_origins: Vec<String>,
    /// How long the name of a closed process stays taken and its output readable.
    pub retain_after_close: Duration,
    /// Refuses peers of every listener that the server runs, before a byte of their connection is
    /// read.
    pub refuse_peer: Option<PeerFilter>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dialect: DialectChoice::Auto,
            processes_per_connection_max: 4096,
            processes_max: 16_384,
            allow_direct_exec: true,
            allow_prepared_exec: true,
            detached_session_ttl: Duration::from_secs(30),
            connections_max: 256,
            message_bytes_max: 16 * 1024 * 1024,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            retain_after_close: Duration::from_secs(30),
            refuse_peer: None,
        }
    }
}

impl Options {
    /// What a listener must be bound with to serve these options: websockets on `/` only, no
    /// pages of our own, `/metrics` behind the token.
    pub fn listen(&self) -> listen::Options {
        listen::Options {
            allowed_hosts: self.allowed_hosts.clone(),
            allowed_origins: self.allowed_origins.clone(),
            own_origin: OwnOrigin::Refused,
            paths: Paths::Only(vec![METRICS_PATH.to_owned()]),
            connections: ConnectionLimit::new(self.connections_max),
            send_buffer_bytes: SEND_BUFFER_BYTES,
            ..listen::Options::default()
        }
    }
}

/// Which dialect a client gets that does not name one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DialectChoice {
    /// `process.v1` if its `initialize` has the key `resumeSessionId`, else `exec-server.v0`.
    #[default]
    Auto,
    /// `exec-server.v0`
    V0,
    /// `process.v1`, whose rules then hold from the first byte.
    Process,
}
