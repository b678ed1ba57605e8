//! A whole server inside the process: store, engines, runtime and connections in memory.
//!
//! For programs that want durable threads without a server beside them, and for tests and examples
//! of clients. The invariant here: the server lives until it is stopped, or until the last of its
//! handles and connections is gone; then it stops by itself, and what ran is recorded as
//! interrupted.
//!
//! It listens nowhere and reads no configuration; both are the binary's business.

mod config;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use turnlane_process::ProcessService;
use turnlane_rpc::Duplex;
use turnlane_runtime::fanout::worktree::{self, WorktreeOptions};
use turnlane_runtime::store::StoreError;
use turnlane_runtime::store::sqlite::{Options as StoreOptions, SqliteStore};
use turnlane_runtime::{Clock, Runtime, SystemClock, this_worker};

use crate::options::{Options, PeerKind, ProcessSpawn};
use crate::server::{DATABASE, Server};
use config::Fixed;

pub use config::EmbeddedConfig;

/// Why an embedded server did not start, or did not stop cleanly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedError {
    /// The folder, or the database in it, cannot be used.
    #[error("cannot open the store")]
    Store(#[from] StoreError),
    /// The folder cannot be made, or the working directory is gone.
    #[error("cannot use the folder")]
    Folder(#[from] std::io::Error),
    /// Nothing that runs commands could be started.
    #[error("cannot start the process service")]
    Processes(#[from] turnlane_process::StartError),
    /// What earlier workers left could not be decided, or the end not recorded.
    #[error("the runtime failed")]
    Runtime(#[from] turnlane_runtime::Error),
}

/// A server inside this process; clones are the same one.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use serde_json::{Value, json};
/// use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
/// use turnlane_rpc::{Peer, PeerOptions};
/// use turnlane_server::{Embedded, EmbeddedConfig};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let script = "version: 1\nfallback: {say: \"You said: {input}\"}";
/// let script = Script::parse("example.yaml", script, AbortSteps::Refused)?;
/// let engine = Arc::new(Scripted::new(script, Arc::new(|| 0)));
/// let server = Embedded::start(EmbeddedConfig::new(engine)).await?;
///
/// // Any client speaks with the other end.
/// let (client, _inbox) = Peer::start(server.connect(), PeerOptions::default());
/// let greeting = json!({"clientInfo": {"name": "example", "version": "1"}});
/// client.call::<Value>("initialize", &greeting).await?;
/// let started: Value = client.call("thread/start", &json!({})).await?;
/// assert!(started["thread"]["id"].is_string());
///
/// server.stop(Duration::ZERO).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Embedded {
    whole: Arc<Whole>,
}

/// Everything that runs; the handles and every connection hold it.
struct Whole {
    server: Server,
    /// Gone once it is being stopped.
    parts: Mutex<Option<Parts>>,
}

/// What has to be stopped.
struct Parts {
    runtime: Runtime,
    /// Only one of our own; another is its owner's to stop.
    service: Option<ProcessService>,
}

impl Embedded {
    /// Starts a server.
    ///
    /// When this returns, what earlier workers left in the folder is decided, and waiting turns of
    /// the store are being run.
    pub async fn start(config: EmbeddedConfig) -> Result<Self, EmbeddedError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let worker = this_worker("embedded", &*clock);
        let worker_id = turnlane_protocol::ids::WorkerId::from_uuid(worker.id.as_uuid());
        let cwd = std::env::current_dir()?;
        let home = config.folder.clone().unwrap_or_else(|| cwd.clone());
        let store = match &config.folder {
            None => SqliteStore::open_in_memory(worker)?,
            Some(folder) => {
                std::fs::create_dir_all(folder)?;
                SqliteStore::open(StoreOptions::new(folder.join(DATABASE), worker))?
            }
        };
        let (service, own_service) = if let Some(service) = config.service {
            (service, None)
        } else {
            let service = ProcessService::start(turnlane_process::Options {
                hold: store.worker_lock()?.into_iter().collect(),
                hidden: config.folder.clone().into_iter().collect(),
                state: config
                    .folder
                    .as_ref()
                    .map(|folder| folder.join("run/process")),
                ..turnlane_process::Options::default()
            })?;
            (service.clone(), Some(service))
        };
        let fixed = Fixed::new(config.settings, &config.engines);
        let mut options = config.runtime;
        options.on_interrupt = config.on_interrupt;
        options
            .fanout
            .worktrees
            .get_or_insert_with(|| WorktreeOptions {
                processes: service.clone(),
                dir: worktree::default_dir(|name| std::env::var_os(name)),
                home: config.folder.clone(),
            });
        let runtime = Runtime::start(Arc::new(store), config.engines, Arc::clone(&clock), options);
        let runtime = runtime.await?;
        let server = Server::new(Options {
            runtime: runtime.handle(),
            service,
            defaults: config.defaults.unwrap_or_else(|| Arc::new(fixed)),
            clock,
            home,
            cwd,
            worker_id,
            process_spawn: ProcessSpawn::Allow,
            on_interrupt: config.on_interrupt,
            features: crate::features(),
            fanout: config.fanout,
            refuse_peer: None,
        });
        let parts = Mutex::new(Some(Parts {
            runtime,
            service: own_service,
        }));
        let whole = Arc::new(Whole { server, parts });
        Ok(Self { whole })
    }

    /// One more connection; the returned end is the client's.
    ///
    /// It is served, and keeps the server alive, until that end is dropped. After a stop it is closed
    /// at once.
    pub fn connect(&self) -> Duplex {
        let (near, far) = Duplex::memory();
        let whole = Arc::clone(&self.whole);
        tokio::spawn(async move { whole.server.serve(far, PeerKind::Stdio).await });
        near
    }

    /// Stops: no new turns; running ones may go on for `grace` and are interrupted then. Everything
    /// is recorded and every connection closed when this returns.
    ///
    /// Called again, also on a clone, it only waits for the connections. Cancelled, it goes on and
    /// nobody waits for it.
    pub async fn stop(&self, grace: Duration) -> Result<(), EmbeddedError> {
        let stopped = match self.whole.take() {
            // A task that was told to stop everything ends only with its tokio runtime.
            Some(parts) => tokio::spawn(parts.stop(grace)).await.unwrap_or(Ok(())),
            None => Ok(()),
        };
        self.whole.server.stop().await;
        Ok(stopped?)
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").finish_non_exhaustive()
    }
}

impl Parts {
    async fn stop(self, grace: Duration) -> Result<(), turnlane_runtime::Error> {
        let stopped = self.runtime.stop(grace).await;
        if let Some(service) = self.service {
            service.stop().await;
        }
        stopped
    }
}

impl Whole {
    fn take(&self) -> Option<Parts> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.take()
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        // Outside of a tokio runtime nothing of it runs any more.
        if let (Some(parts), Ok(tokio)) = (self.take(), tokio::runtime::Handle::try_current()) {
            tokio.spawn(async move {
                if let Err(error) = parts.stop(Duration::ZERO).await {
                    tracing::warn!(%error, "an embedded server was not stopped cleanly");
                }
            });
        }
    }
}
