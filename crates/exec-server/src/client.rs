//! The client of an exec-server: ours, Codex's, or a process service of the same program.
//!
//! An [`ExecClient`] starts processes and gives each back as a [`RemoteProcess`]. It speaks both
//! dialects over stdio, websockets and unix sockets, and none at all to a
//! [`ProcessService`] of this program; the handles are the same and mean the same.
//!
//! The invariant here: nothing outlives its owner by accident. A process ends with its handle unless
//! it was put into the background, everything ends with the last clone of the client, and every call
//! resolves when the transport ends.
//!
//! # Theory of operation
//!
//! - *One task per connection* (`link`) reads and writes. Frames go to the call they answer or to
//!   the cell of the process they are about (`routing`, `cell`); neither ever waits.
//! - *A cell* puts the events of its process in order and hands them on: to every listener
//!   (`events`, bounded, loses the oldest), and to the one reader of the lossless stream
//!   (`output`, bounded, reads on from the server when it has fallen behind).
//! - *A lost connection* ends everything, or with [`ClientOptions::resume`] is replaced by another
//!   one by the same task (`resume`).
//! - *In this program* (`in_process`) one task hands what processes wrote to the same cells.

mod cell;
mod core;
mod error;
mod events;
mod in_process;
mod kept;
pub mod launch;
mod link;
mod options;
mod outbox;
mod output;
mod peer;
mod remote;
mod resume;
mod routing;
mod start_spec;
mod transport;
mod wire;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokio::io::{AsyncRead, AsyncWrite};
use turnlane_process::ProcessService;
use turnlane_protocol::exec_server::environment::EnvironmentInfo;
use turnlane_protocol::exec_server::process as v1;
use turnlane_protocol::exec_server::v0;
use turnlane_rpc::{Duplex, Frames};

pub use error::ClientError;
pub use events::{Event, EventStream, Exit, ProcessId};
pub use options::{ClientOptions, Dialect};
pub use output::ProcessOutput;
pub use remote::{Communicated, RemoteProcess, Snapshot, Started};
pub use start_spec::StartSpec;

use self::core::{Birth, Core, Kind};
use in_process::Local;
use link::Again;
use remote::Place;
use remote::wire::WireProcess;
use transport::{Endpoint, Open, handshake};

/// A connection to an exec-server, or to a service of this program. Clones are the same connection;
/// dropping the last one ends every process that was started over it.
#[derive(Clone, Debug)]
pub struct ExecClient {
    session: Arc<Session>,
}

/// What the clones share.
#[derive(Debug)]
enum Session {
    Wire(Arc<Core>),
    Local(Arc<Local>),
}

impl Drop for Session {
    fn drop(&mut self) {
        match self {
            Self::Wire(core) => core.close(),
            Self::Local(local) => local.close(),
        }
    }
}

impl ExecClient {
    /// Speaks JSON lines over any two byte streams, e.g. the pipes of a server. Nothing is started
    /// here; [`launch`] does that. Such a session cannot be resumed.
    pub async fn connect_stdio(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        options: ClientOptions,
    ) -> Result<Self, ClientError> {
        let frames = transport::frames(Duplex::lines(reader, writer));
        Self::over(frames, options, None).await
    }

    /// Connects to a `ws://` URL. Cancelled, it leaves nothing open.
    pub async fn connect_websocket(url: &str, options: ClientOptions) -> Result<Self, ClientError> {
        Self::connect(Endpoint::WebSocket(url.to_owned()), options).await
    }

    /// Connects to a unix socket. Cancelled, it leaves nothing open.
    pub async fn connect_unix(path: &Path, options: ClientOptions) -> Result<Self, ClientError> {
        Self::connect(Endpoint::Unix(path.to_owned()), options).await
    }

    /// Uses a service of this program: no wire, no connection, and so nothing to lose. Must be
    /// called inside a tokio runtime. Of the options nothing applies.
    pub fn in_process(service: &ProcessService, _options: ClientOptions) -> Self {
        let session = Session::Local(Local::start(service));
        Self {
            session: Arc::new(session),
        }
    }

    async fn connect(endpoint: Endpoint, options: ClientOptions) -> Result<Self, ClientError> {
        let frames = endpoint.connect(&options).await?;
        Self::over(frames, options, Some(endpoint)).await
    }

    async fn over(
        frames: Frames,
        options: ClientOptions,
        endpoint: Option<Endpoint>,
    ) -> Result<Self, ClientError> {
        let (peer, open) = handshake(frames, &options, None).await?;
        let again = endpoint
            .filter(|_| options.resume)
            .map(|endpoint| Again { endpoint, options });
        let core = Arc::new(Core::new(peer));
        Ok(Self::run(core, open, again))
    }

    fn run(core: Arc<Core>, open: Open, again: Option<Again>) -> Self {
        tokio::spawn(link::run(Arc::clone(&core), open, again));
        Self {
            session: Arc::new(Session::Wire(core)),
        }
    }

    /// Starts a process. Cancelled, or dropped before the answer, it leaves no process behind.
    pub async fn start(&self, spec: StartSpec) -> Result<RemoteProcess, ClientError> {
        let core = match &*self.session {
            Session::Wire(core) => core,
            Session::Local(local) => return local.spawn(&spec).await,
        };
        match core.peer.dialect {
            Dialect::V0 => start_v0(core, &spec).await,
            Dialect::ProcessV1 => start_process_v1(core, &spec).await,
        }
    }

    /// Everything that happens from now on, to all processes of this client. Any number may listen,
    /// and none of them stalls anything.
    pub fn events(&self) -> EventStream {
        match &*self.session {
            Session::Wire(core) => core.hub.subscribe(),
            Session::Local(local) => local.hub.subscribe(),
        }
    }

    /// The processes of this session, oldest first.
    pub async fn list(&self) -> Result<Vec<v1::ListedProcess>, ClientError> {
        match &*self.session {
            Session::Wire(core) => {
                core.peer.require(peer::LIST)?;
                let empty = serde_json::json!({});
                let answer: v1::ListAnswer = core.call(v1::LIST, &empty).await?;
                Ok(answer.processes)
            }
            Session::Local(local) => Ok(local.list()),
        }
    }

    /// What the server told about its machine; `None` in v0 and in this program.
    pub fn environment(&self) -> Option<&EnvironmentInfo> {
        match &*self.session {
            Session::Wire(core) => core.peer.environment.as_ref(),
            Session::Local(_) => None,
        }
    }

    /// The session's name at the server; `None` where there are no sessions.
    pub fn session_id(&self) -> Option<&str> {
        match &*self.session {
            Session::Wire(core) => core.peer.session_id.as_deref(),
            Session::Local(_) => None,
        }
    }
}

async fn start_process_v1(
    core: &Arc<Core>,
    spec: &StartSpec,
) -> Result<RemoteProcess, ClientError> {
    let id = ProcessId::new(&format!("p{}", core.next_id()));
    let params = spec.to_process_v1(&core.peer, id.as_str())?;
    // Before it is asked for: Codex's server may tell output before it answers (seen in 0.166).
    let cell = core.adopt(&id, spec.io);
    // From here on the handle ends the process, also if nobody waits for the answer any more.
    let place = Place::Wire(WireProcess {
        core: Arc::clone(core),
    });
    let mut process = RemoteProcess::new(cell, place);
    match core.call::<v1::StartAnswer>(v1::START, &params).await {
        Ok(answer) => Ok(process.started_as(Started {
            pid: answer.pid,
            containment: answer.containment,
            is_sandboxed: Some(answer.sandbox_type != "none"),
        })),
        Err(error) => {
            core.lock().cells.remove(id.as_str());
            if matches!(error, ClientError::Rpc { .. }) {
                process.disarm();
            }
            Err(error)
        }
    }
}

async fn start_v0(core: &Arc<Core>, spec: &StartSpec) -> Result<RemoteProcess, ClientError> {
    let params = spec.to_v0()?;
    let cell = Arc::new(OnceLock::new());
    let kind = Kind::StartV0(Birth {
        io: spec.io,
        cell: Arc::clone(&cell),
    });
    core.call_as::<v0::ExecAnswer>(kind, v0::EXEC, &params)
        .await?;
    let Some(cell) = cell.get().cloned() else {
        return Err(ClientError::Protocol("a process without a name".to_owned()));
    };
    let place = Place::Wire(WireProcess {
        core: Arc::clone(core),
    });
    Ok(RemoteProcess::new(cell, place))
}
