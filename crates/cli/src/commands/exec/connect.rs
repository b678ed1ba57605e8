//! Which server a run is a client of: the daemon of this home, or one inside this process.
//!
//! The invariant here: there is no other way to the store or to an engine. A daemon is used if it
//! answers; what only this process knows (keys in its environment, a script, a profile) is never
//! sent to one, so a run that needs it has a server of its own.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;
use turnlane::{ApprovalRequest, Client, ClientBuilder, Decision, Endpoint, Limits, Reconnect};

use super::refusal::Refused;
use super::setup::Setup;
use crate::args::ExecOptions;
use crate::assembly::{Assembly, Kind};
use crate::config::ConfigFiles;
use crate::home;

/// How long a daemon has to answer.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// How long a daemon that was lost is looked for.
const LOST_MAX: Duration = Duration::from_secs(30);
/// What runs are called that nobody gave another name.
const NAME: &str = "turnlane_exec";
/// Gives them another name.
const NAME_VARIABLE: &str = "CODEX_INTERNAL_ORIGINATOR_OVERRIDE";
/// Why nothing is approved.
const NO_REVIEWER: &str = "no reviewer in exec";

/// A server and the way to it.
pub(super) struct Linked {
    pub(super) client: Client,
    /// The server, where it is in this process.
    own: Option<Assembly>,
}

impl Linked {
    /// Finds or starts a server.
    pub(super) async fn new(setup: &mut Setup, options: &ExecOptions) -> Result<Self, Refused> {
        if !needs_own(setup, options)
            && let Some(client) = daemon(&setup.home).await
        {
            return Ok(Self { client, own: None });
        }
        home::make(&setup.home)?;
        let files = std::mem::replace(&mut setup.files, ConfigFiles::none());
        let assembly = Assembly::start(
            Kind::Exec,
            options.script.as_deref(),
            &setup.home,
            setup.codex_home.as_deref(),
            files,
        )
        .await?;
        let endpoint = Endpoint::io(assembly.server.in_memory());
        let connecting = builder().endpoint(endpoint).connect();
        // Boxed: what connecting may need is large.
        let client = Box::pin(connecting).await;
        let client = client.context("cannot reach the server in this process")?;
        Ok(Self {
            client,
            own: Some(assembly),
        })
    }

    /// Leaves the server, and ends it where it is ours. Turns that still run there are stopped.
    pub(super) async fn end(self) {
        let Self { client, own } = self;
        drop(client);
        let Some(assembly) = own else {
            return;
        };
        if let Err(error) = assembly
            .stop(Duration::ZERO, &CancellationToken::new())
            .await
        {
            tracing::warn!("the server did not stop in order: {error:#}");
        }
    }
}

/// Whether a daemon could not do what is wanted.
fn needs_own(setup: &Setup, options: &ExecOptions) -> bool {
    options.script.is_some()
        || options.profile.is_some()
        || options.ignore_user_config
        || options.strict_config
        || setup.said.stays_here()
        || std::env::var_os("CODEX_API_KEY").is_some_and(|key| !key.is_empty())
}

/// The daemon of this home, if one answers.
pub(super) async fn daemon(home: &Path) -> Option<Client> {
    let socket = home::socket(home);
    if !socket.exists() {
        return None;
    }
    let reconnect = Reconnect::Backoff {
        initial: Duration::from_millis(100),
        max: Duration::from_secs(1),
        give_up_after: Some(LOST_MAX),
    };
    let limits = Limits {
        handshake: HANDSHAKE,
        ..Limits::default()
    };
    let client = builder()
        .endpoint(Endpoint::Unix(socket))
        .reconnect(reconnect)
        .limits(limits);
    match Box::pin(client.connect()).await {
        Ok(client) => Some(client),
        Err(error) => {
            tracing::debug!(%error, "the daemon does not answer; a server of our own is used");
            None
        }
    }
}

fn builder() -> ClientBuilder {
    let given = std::env::var(NAME_VARIABLE).ok();
    let given = given.filter(|name| !name.trim().is_empty());
    let name = given.as_deref().map_or(NAME, str::trim);
    Client::builder()
        .client_info(name, env!("CARGO_PKG_VERSION"))
        .reviewer(|_request: &ApprovalRequest| Decision::Decline {
            reason: Some(NO_REVIEWER.to_owned()),
        })
}
