//! What the owner of a client decides, once.
//!
//! Plain data. The defaults are those of the contract: `process.v1`, ten seconds to connect, ten for
//! the handshake, and no resume, so that a lost connection ends what was started over it.

use std::time::Duration;

use turnlane_rpc::auth::Secret;

/// How to connect and what a lost connection means.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Told to the server.
    pub client_name: String,
    /// Which language to speak.
    pub dialect: Dialect,
    /// From the first packet to the end of the transport's own handshake.
    pub connect_timeout: Duration,
    /// From `initialize` to its answer.
    pub initialize_timeout: Duration,
    /// What happens when the connection is lost.
    pub resume: bool,
    /// Sent as `Authorization: Bearer` over websockets, towards loopback only.
    pub bearer_token: Option<Secret>,
}

impl ClientOptions {
    /// The defaults, under this name.
    pub fn new(client_name: impl Into<String>) -> Self {
        Self {
            client_name: client_name.into(),
            dialect: Dialect::default(),
            connect_timeout: Duration::from_secs(10),
            initialize_timeout: Duration::from_secs(10),
            resume: false,
            bearer_token: None,
        }
    }
}

/// The two languages of an exec-server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// `exec-server.v0`: start, write, terminate; output and exit.
    V0,
    /// Codex's `process/*`, with our extensions where the peer has them.
    #[default]
    ProcessV1,
}
