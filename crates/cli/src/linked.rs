//! A server and the way to it: the daemon of a home, or a server inside this process.
//!
//! The invariant here: there is no other way to the store or to an engine, whichever command asks.
//! Ending the link ends the server only where it is in this process.
//!
//! Who asks (name, reviewer) is the caller's; what is asked, each command's.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;
use turnlane::{Client, ClientBuilder, ConnectError, Endpoint, Limits, Reconnect};

use crate::assembly::Assembly;
use crate::home;

/// How long a daemon has to answer.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(2);
/// How long a daemon that was lost is looked for.
const LOST_MAX: Duration = Duration::from_secs(30);

/// A server and the way to it.
pub(crate) struct Linked {
    pub(crate) client: Client,
    /// The server, where it is in this process.
    own: Option<Assembly>,
}

impl Linked {
    /// The daemon of this home, if one answers.
    pub(crate) async fn daemon(home: &Path, builder: ClientBuilder) -> Option<Self> {
        let socket = home::socket(home);
        if !socket.exists() {
            return None;
        }
        let limits = Limits {
            handshake: HANDSHAKE,
            ..Limits::default()
        };
        match Self::to(Endpoint::Unix(socket), builder.limits(limits)).await {
            Ok(linked) => Some(linked),
            Err(error) => {
                tracing::debug!(%error, "the daemon does not answer; a server of our own is used");
                None
            }
        }
    }

    /// A server that is a process of its own, within the limits of the builder.
    pub(crate) async fn to(
        endpoint: Endpoint,
        builder: ClientBuilder,
    ) -> Result<Self, ConnectError> {
        let reconnect = Reconnect::Backoff {
            initial: Duration::from_millis(100),
            max: Duration::from_secs(1),
            give_up_after: Some(LOST_MAX),
        };
        Self::with(endpoint, builder, reconnect).await
    }

    /// As [`Self::to`], with what is done about a lost connection.
    pub(crate) async fn with(
        endpoint: Endpoint,
        builder: ClientBuilder,
        reconnect: Reconnect,
    ) -> Result<Self, ConnectError> {
        let client = builder.endpoint(endpoint).reconnect(reconnect);
        let client = Box::pin(client.connect()).await?;
        Ok(Self { client, own: None })
    }

    /// A server that was started in this process.
    pub(crate) async fn own(assembly: Assembly, builder: ClientBuilder) -> anyhow::Result<Self> {
        let endpoint = Endpoint::io(assembly.server.in_memory());
        let connecting = builder.endpoint(endpoint).connect();
        // Boxed: what connecting may need is large.
        let client = Box::pin(connecting).await;
        let client = client.context("cannot reach the server in this process")?;
        Ok(Self {
            client,
            own: Some(assembly),
        })
    }

    /// Whether the server is a process of its own.
    pub(crate) fn is_daemon(&self) -> bool {
        self.own.is_none()
    }

    /// Leaves the server, and ends it where it is ours. Turns that still run there are stopped.
    pub(crate) async fn end(self) {
        let Self { client, own } = self;
        drop(client);
        let Some(assembly) = own else {
            return;
        };
        let never = CancellationToken::new();
        if let Err(error) = assembly.stop(Duration::ZERO, &never, &never).await {
            tracing::warn!("the server did not stop in order: {error:#}");
        }
    }
}
