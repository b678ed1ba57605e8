//! A server of one's own: started for this client, ended with it.
//!
//! The client itself never starts programs; this module does, through the process service, so that
//! the server is contained like any other process. The invariant here: whatever goes wrong between
//! the start and the last use, the server and everything below it is ended, at the latest when the
//! [`LocalServer`] is dropped.

mod pipes;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use turnlane_process::{
    End, EnvPolicy, EnvSpec, Inherit, Io, Process, ProcessInfo, ProcessService, Spec, Stdin,
};

use super::ExecClient;
use super::error::ClientError;
use super::options::ClientOptions;
pub use pipes::{ChildInput, ChildOutput, StderrSink};

/// The program of a server that speaks on its standard input and output.
#[derive(Clone, Debug, Default)]
pub struct LaunchCommand {
    /// The program, e.g. `turnlane`.
    pub program: PathBuf,
    /// Its arguments, e.g. `exec-server`.
    pub args: Vec<OsString>,
    /// Variables besides those every child gets from this program.
    pub env: BTreeMap<OsString, OsString>,
}

/// A server and its client. Dropping it ends the server and everything it started, by force.
#[derive(Debug)]
pub struct LocalServer {
    /// Its client. Clones of it see a closed connection when the server is dropped.
    pub client: ExecClient,
    process: Server,
}

impl LocalServer {
    /// Pid and containment of the server.
    pub fn info(&self) -> &ProcessInfo {
        self.process.0.info()
    }
}

/// Ends the server, however it goes out of use.
#[derive(Debug)]
struct Server(Process);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.end(End::Force);
    }
}

/// Starts a server on the default service of this program and connects to it.
pub async fn spawn_local(
    command: LaunchCommand,
    options: ClientOptions,
) -> Result<LocalServer, ClientError> {
    let process = turnlane_process::spawn(spec(command)).await;
    connect(process.map_err(ClientError::Spawn)?, options).await
}

/// Starts a server on a given service and connects to it.
pub async fn spawn_local_on(
    service: &ProcessService,
    command: LaunchCommand,
    options: ClientOptions,
) -> Result<LocalServer, ClientError> {
    let process = service.spawn(spec(command)).await;
    connect(process.map_err(ClientError::Spawn)?, options).await
}

fn spec(command: LaunchCommand) -> Spec {
    let argv = std::iter::once(command.program.into_os_string()).chain(command.args);
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let mut spec = Spec::new(argv, cwd);
    spec.io = Io::Pipe { stdin: Stdin::Open };
    spec.env = EnvSpec {
        policy: EnvPolicy {
            inherit: Inherit::Listed,
            ..EnvPolicy::default()
        },
        vars: command.env,
    };
    spec
}

async fn connect(process: Process, options: ClientOptions) -> Result<LocalServer, ClientError> {
    let process = Server(process);
    let output = process.0.output();
    let output = output.map_err(|_| ClientError::OutputTaken)?;
    let reader = ChildOutput::new(output, pipes::logged());
    let writer = ChildInput::new(process.0.clone());
    let client = ExecClient::connect_stdio(reader, writer, options).await?;
    Ok(LocalServer { client, process })
}
