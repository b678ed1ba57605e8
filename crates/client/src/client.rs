//! The client: one connection to one server, and the way to everything else.
//!
//! The invariant here: a client is made by [`ClientBuilder::connect`] alone, so a client that exists
//! has been initialised and knows which server it talks to.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use crate::approvals::Approvals;
use crate::call::{CallOptions, Method, Validation};
use crate::core::{Core, Owner};
use crate::endpoint::Endpoint;
use crate::error::{CallError, ConnectError, ShutdownError, TurnError, Version};
use crate::feed::{EventStream, Filter};
use crate::hooks::HookSet;
use crate::input::Input;
use crate::jobs::Jobs;
use crate::limits::{Limits, Reconnect};
use crate::link::{ClientMetrics, Connection, ExitReport, Link, LinkOptions, ServerInfo};
use crate::outcome::TurnOutcome;
use crate::profile::Profile;
use crate::review::{Elsewhere, Reviewer, Reviews};
use crate::thread::Threads;

/// How long the daemon may take to answer before another server is tried.
#[cfg(feature = "ws")]
const DAEMON_MAX: Duration = Duration::from_millis(500);

/// A connection to a server; clones are the same one. The server that a client started ends with
/// its last handle.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) owner: Arc<Owner>,
}

/// How to connect.
#[derive(Debug)]
pub struct ClientBuilder {
    endpoint: Option<Endpoint>,
    name: String,
    version: String,
    profile: Profile,
    reviewer: Option<Arc<dyn Reviewer>>,
    elsewhere: Elsewhere,
    hooks: HookSet,
    reconnect: Option<Reconnect>,
    limits: Limits,
    validation: Validation,
    min_version: Option<Version>,
    experimental_api: bool,
}

impl Client {
    /// How to connect, with every choice open.
    pub fn builder() -> ClientBuilder {
        ClientBuilder {
            endpoint: None,
            name: "turnlane".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            profile: Profile::default(),
            reviewer: None,
            elsewhere: Elsewhere::No,
            hooks: HookSet::default(),
            reconnect: None,
            limits: Limits::default(),
            validation: Validation::default(),
            min_version: None,
            experimental_api: true,
        }
    }

    /// Connects with the defaults.
    pub async fn connect(endpoint: Endpoint) -> Result<Self, ConnectError> {
        Self::builder().endpoint(endpoint).connect().await
    }

    /// Connects to the daemon if it answers within 500 ms, else to a `turnlane app-server` of its
    /// own, else, where that program is not installed, to a `codex app-server`. Which one it was is
    /// in [`ServerInfo::endpoint`].
    pub async fn connect_default() -> Result<Self, ConnectError> {
        #[cfg(feature = "ws")]
        {
            let daemon = Self::connect(Endpoint::daemon());
            if let Ok(Ok(client)) = tokio::time::timeout(DAEMON_MAX, daemon).await {
                return Ok(client);
            }
        }
        #[cfg(feature = "spawn")]
        {
            match Self::connect(Endpoint::turnlane()).await {
                // Another failure than a missing program is the user's to see.
                Err(ConnectError::Spawn { .. }) => match Self::connect(Endpoint::codex()).await {
                    Err(ConnectError::Spawn { source, .. }) => Err(ConnectError::NoServer {
                        daemon: default_daemon(),
                        source,
                    }),
                    connected => connected,
                },
                connected => connected,
            }
        }
        #[cfg(not(feature = "spawn"))]
        Err(ConnectError::InvalidEndpoint {
            reason: "no daemon answers, and this build starts no servers".to_owned(),
        })
    }

    /// Which server this is.
    pub fn server(&self) -> ServerInfo {
        self.owner.link.server()
    }

    /// One prompt on a new thread.
    pub async fn run(
        &self,
        cwd: impl AsRef<Path>,
        prompt: impl Into<Input>,
    ) -> Result<TurnOutcome, TurnError> {
        let thread = self.threads().start(cwd).await?;
        thread.turn(prompt).run().await
    }

    /// Its threads.
    pub fn threads(&self) -> Threads {
        Threads {
            owner: Arc::clone(&self.owner),
        }
    }

    /// The open approvals of a Turnlane server.
    pub fn approvals(&self) -> Approvals {
        Approvals {
            owner: Arc::clone(&self.owner),
        }
    }

    /// The fan-out jobs of a Turnlane server.
    pub fn jobs(&self) -> Jobs {
        Jobs {
            owner: Arc::clone(&self.owner),
        }
    }

    /// One typed call.
    pub async fn call<M: Method>(&self, params: M::Params) -> Result<M::Output, CallError> {
        self.owner.call::<M>(&params).await
    }

    /// Any call.
    pub async fn call_raw(
        &self,
        method: &str,
        params: Value,
        options: CallOptions,
    ) -> Result<Value, CallError> {
        let repeat = crate::link::Repeat::Never;
        self.owner.call_as(method, &params, repeat, options).await
    }

    /// Any notification.
    pub async fn notify_raw(&self, method: &str, params: Value) -> Result<(), CallError> {
        crate::call::notify(&self.owner, method, &params).await
    }

    /// What the server tells, as far as `filter` wants it.
    ///
    /// Events of a thread come to those who opened it: a thread of this client that was opened on an
    /// earlier connection is resumed on the present one.
    pub fn events(&self, filter: Filter) -> EventStream {
        let thread = filter.thread.clone();
        let events = self.owner.router.events(filter);
        if let Some(thread) = thread {
            crate::thread::listen_soon(&self.owner, &thread);
        }
        events
    }

    /// How the connection stands.
    pub fn connection(&self) -> watch::Receiver<Connection> {
        self.owner.link.connection()
    }

    /// Counts since the client was made.
    pub fn metrics(&self) -> ClientMetrics {
        let mut metrics = self.owner.link.metrics();
        metrics.dropped_progress = self.owner.router.dropped();
        metrics
    }

    /// Ends the connection in order, and the server if this client started it.
    pub async fn shutdown(self, grace: Duration) -> Result<ExitReport, ShutdownError> {
        self.owner.link.shutdown(grace).await
    }
}

impl ClientBuilder {
    /// Where the server is.
    #[must_use]
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoint = Some(endpoint);
        self
    }

    /// What the client calls itself.
    #[must_use]
    pub fn client_info(mut self, name: &str, version: &str) -> Self {
        (self.name, self.version) = (name.to_owned(), version.to_owned());
        self
    }

    /// What threads and turns get where they are silent.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Who decides about approvals; without one they are declined.
    #[must_use]
    pub fn reviewer(mut self, reviewer: impl Reviewer) -> Self {
        self.reviewer = Some(Arc::new(reviewer));
        self
    }

    /// This client only watches: it is never asked for approvals.
    #[must_use]
    pub fn reviews_elsewhere(mut self) -> Self {
        self.elsewhere = Elsewhere::Yes;
        self
    }

    /// Asked before and after threads and turns of this client.
    #[must_use]
    pub fn hooks(mut self, hooks: HookSet) -> Self {
        self.hooks = hooks;
        self
    }

    /// What happens when the connection is lost.
    #[must_use]
    pub fn reconnect(mut self, reconnect: Reconnect) -> Self {
        self.reconnect = Some(reconnect);
        self
    }

    /// The bounds.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How much of calls is checked.
    #[must_use]
    pub fn validation(mut self, validation: Validation) -> Self {
        self.validation = validation;
        self
    }

    /// The oldest server that will do.
    #[must_use]
    pub fn min_version(mut self, version: Version) -> Self {
        self.min_version = Some(version);
        self
    }

    /// Whether the methods that Codex calls experimental are opened; they are unless told otherwise.
    #[must_use]
    pub fn experimental_api(mut self, on: bool) -> Self {
        self.experimental_api = on;
        self
    }

    /// Connects and initialises.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let reviewer = self.reviewer.or_else(|| self.profile.reviewer.clone());
        let opt_out = match self.elsewhere {
            Elsewhere::No => Vec::new(),
            Elsewhere::Yes if reviewer.is_some() => {
                return Err(ConnectError::InvalidArgument {
                    what: "reviews_elsewhere",
                    reason: "a reviewer is set too".to_owned(),
                });
            }
            Elsewhere::Yes => crate::review::asking_methods(),
        };
        let endpoint = self.endpoint.ok_or(ConnectError::InvalidEndpoint {
            reason: "none was given".to_owned(),
        })?;
        let reviews = Reviews::new(reviewer, self.elsewhere);
        let hooks = self.hooks.and(&self.profile.hooks);
        let core = Core::new(
            self.profile,
            hooks,
            reviews,
            self.limits.clone(),
            self.validation,
        );
        let core = Arc::new(core);
        let options = LinkOptions {
            endpoint,
            reconnect: self.reconnect,
            limits: self.limits,
            client_name: self.name,
            client_version: self.version,
            experimental_api: self.experimental_api,
            opt_out,
            min_version: self.min_version,
        };
        // In a box, since it is large and callers' futures would be.
        let opening = Link::open(options, Arc::new(Arc::clone(&core)));
        let link = Box::pin(opening).await?;
        core.set_link(link.clone());
        // From here on whatever fails closes the link.
        let owner = Arc::new(Owner { core, link });
        owner.hooks.check(&owner.server()?)?;
        if let Some(registration) = crate::hooks::register(&owner, None, &owner.hooks).await? {
            registration.keep();
        }
        Ok(Client { owner })
    }
}

/// Where a daemon is looked for, in words.
#[cfg(feature = "spawn")]
fn default_daemon() -> String {
    #[cfg(feature = "ws")]
    return Endpoint::daemon().words();
    #[cfg(not(feature = "ws"))]
    return "any socket (this build has no sockets)".to_owned();
}
