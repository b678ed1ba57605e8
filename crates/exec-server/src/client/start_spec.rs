//! What a caller may ask of a process, and how each peer is asked.
//!
//! The invariant here: a wish the peer cannot grant is an error before anything is sent. A limit, a
//! timeout or a sandbox is never left out in silence.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use turnlane_process::{EnvSpec, Io, Limits, Spec, Stdin, Survivors, TerminalSize};
use turnlane_protocol::error::INVALID_PARAMS;
use turnlane_protocol::exec_server::file_uri;
use turnlane_protocol::exec_server::process as wire;
use turnlane_protocol::exec_server::process::EnvPolicy;
use turnlane_protocol::exec_server::sandbox::SandboxIntent;
use turnlane_protocol::exec_server::v0;

use super::error::ClientError;
use super::peer::Peer;
use crate::{intent, local};

/// One process to start. [`StartSpec::new`] gives the defaults.
#[derive(Clone, Debug)]
pub struct StartSpec {
    /// Program and arguments; not empty.
    pub argv: Vec<String>,
    /// What the program sees as its name.
    pub arg0: Option<String>,
    /// Where it runs, on the server's machine; absolute unless the dialect is v0.
    pub cwd: PathBuf,
    /// The caller's variables; they win over the policy's.
    pub env: BTreeMap<String, String>,
    /// What it gets of the server's environment; nothing unless given.
    pub env_policy: Option<EnvPolicy>,
    /// Pipes or a terminal.
    pub io: Io,
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// What it may use.
    pub limits: Limits,
    /// What happens to descendants when the leader exits by itself.
    pub survivors: Survivors,
    /// What it may touch, in Codex's words; everything unless given.
    pub sandbox: Option<SandboxIntent>,
    /// Kept by the server and shown in its list.
    pub metadata: Option<Value>,
}

impl StartSpec {
    /// `argv` in `cwd` with an empty environment, pipes, a closed standard input and no sandbox.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            arg0: None,
            cwd: cwd.into(),
            env: BTreeMap::new(),
            env_policy: None,
            io: Io::Pipe {
                stdin: Stdin::Closed,
            },
            timeout: None,
            limits: Limits::default(),
            survivors: Survivors::Keep,
            sandbox: None,
            metadata: None,
        }
    }

    /// The same with one more variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// The same with an open standard input.
    #[must_use]
    pub fn with_stdin(mut self) -> Self {
        self.io = Io::Pipe { stdin: Stdin::Open };
        self
    }

    /// The same on a terminal.
    #[must_use]
    pub fn on_terminal(mut self, size: TerminalSize) -> Self {
        self.io = Io::Pty(size);
        self
    }

    fn is_tty(&self) -> bool {
        matches!(self.io, Io::Pty(_))
    }

    /// Params of `process/start`.
    pub(super) fn to_process_v1(
        &self,
        peer: &Peer,
        process_id: &str,
    ) -> Result<wire::StartParams, ClientError> {
        if !peer.is_ours() {
            self.refuse(&self.ours())?;
        }
        let (tty, pipe_stdin, size) = match self.io {
            Io::Pipe { stdin } => (false, stdin == Stdin::Open, None),
            Io::Pty(size) => (
                true,
                false,
                (size != TerminalSize::default()).then_some(size),
            ),
        };
        Ok(wire::StartParams {
            process_id: process_id.to_owned(),
            argv: self.argv.clone(),
            cwd: uri_of(&self.cwd),
            env: self.env.clone(),
            tty,
            arg0: self.arg0.clone(),
            env_policy: self.env_policy.clone(),
            pipe_stdin,
            sandbox: self.sandbox.clone(),
            metadata: self.metadata.clone(),
            size: size.map(|size| wire::Size {
                rows: size.rows.into(),
                cols: size.cols.into(),
            }),
            timeout_ms: self.timeout.map(millis),
            limits: (self.limits != Limits::default()).then(|| limits_to_wire(&self.limits)),
            survivors: (self.survivors == Survivors::End).then_some(wire::Survivors::End),
            ..wire::StartParams::default()
        })
    }

    /// Params of `command/exec`.
    pub(super) fn to_v0(&self) -> Result<v0::ExecParams, ClientError> {
        let mut unknown = self.ours();
        unknown.extend([
            ("pipeStdin", self.io == Io::Pipe { stdin: Stdin::Open }),
            ("envPolicy", self.env_policy.is_some()),
            ("sandbox", self.sandbox.is_some()),
            ("metadata", self.metadata.is_some()),
        ]);
        self.refuse(&unknown)?;
        let cwd = self.cwd.to_str();
        Ok(v0::ExecParams {
            argv: self.argv.clone(),
            cwd: cwd
                .ok_or_else(|| ClientError::rpc(INVALID_PARAMS, "cwd is not UTF-8"))?
                .to_owned(),
            env: self.env.clone(),
            tty: self.is_tty(),
            arg0: self.arg0.clone(),
        })
    }

    /// The same process on a service of this program.
    pub(super) fn to_spec(&self) -> Result<Spec, ClientError> {
        if self.argv.is_empty() {
            return Err(ClientError::rpc(INVALID_PARAMS, "argv must not be empty"));
        }
        if !self.cwd.is_absolute() {
            let error = file_uri::FileUriError::NoScheme;
            return Err(ClientError::rpc(INVALID_PARAMS, error.to_string()));
        }
        let tmpdir = self.env.get("TMPDIR").map(Path::new);
        let sandbox = intent::to_sandbox(self.sandbox.as_ref(), &self.cwd, tmpdir);
        let sandbox = sandbox.map_err(|why| {
            let text = format!("sandbox intent cannot be enforced on this executor: {why}");
            ClientError::rpc(INVALID_PARAMS, text)
        })?;
        let mut spec = Spec::new(&self.argv, &self.cwd);
        spec.arg0 = self.arg0.clone().map(Into::into);
        spec.env = EnvSpec {
            policy: self
                .env_policy
                .clone()
                .map(local::env_policy)
                .unwrap_or_default(),
            vars: local::variables(self.env.clone()),
        };
        spec.io = self.io;
        spec.timeout = self.timeout;
        spec.limits = self.limits;
        spec.survivors = self.survivors;
        spec.sandbox = sandbox;
        Ok(spec)
    }

    /// The wishes only our server knows, and whether each is made.
    fn ours(&self) -> Vec<(&'static str, bool)> {
        let plain_size = match self.io {
            Io::Pipe { .. } => true,
            Io::Pty(size) => size == TerminalSize::default(),
        };
        vec![
            ("size", !plain_size),
            ("timeoutMs", self.timeout.is_some()),
            ("limits", self.limits != Limits::default()),
            ("survivors", self.survivors == Survivors::End),
        ]
    }

    #[expect(clippy::unused_self, reason = "reads as what it is about")]
    fn refuse(&self, wishes: &[(&'static str, bool)]) -> Result<(), ClientError> {
        match wishes.iter().find(|(_, wished)| *wished) {
            Some((name, _)) => Err(ClientError::unsupported(format!("process/start {name}"))),
            None => Ok(()),
        }
    }
}

/// A relative path is sent as it is: the server says what is wrong with it.
fn uri_of(path: &Path) -> String {
    if path.is_absolute() {
        file_uri::from_path(path)
    } else {
        path.to_string_lossy().into_owned()
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn limits_to_wire(limits: &Limits) -> wire::Limits {
    wire::Limits {
        cpu_time_ms: limits.cpu_time.map(millis),
        address_space: limits.address_space,
        file_size: limits.file_size,
        open_files: limits.open_files,
        core: limits.core,
        processes: limits.processes,
        memory_max: limits.memory_max,
        pids_max: limits.pids_max,
    }
}
