//! From the params of `command/exec` and `process/spawn` to what the process service is asked.
//!
//! The invariant here: everything a caller can get wrong is refused before anything is started, with
//! the words and in the order of Codex; environments are the allow-list of the process service plus
//! what the caller gives, so no key of ours is in them.
//!
//! Whether this machine can enforce the sandbox, and whether the program exists, is found by the
//! spawn.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use turnlane_process::{
    EnvPolicy, EnvSpec, Inherit, Io, SpawnError, SpawnErrorKind, Spec, Stdin, Survivors,
    TerminalSize,
};
use turnlane_protocol::error::{ErrorObject, INVALID_REQUEST, ProcessFamily, Reason};
use turnlane_protocol::method::{CommandExecParams, ProcessSpawnParams, TerminalSize as WireSize};
use turnlane_protocol::policy::SandboxPolicy;

use crate::connection::Connection;
use crate::options::{PeerKind, Wanted};
use crate::rights;

/// How long a process may run whose caller does not say.
const TIMEOUT_DEFAULT: Duration = Duration::from_mins(1);

/// How much of each stream is kept or told when the caller does not say.
const CAP_DEFAULT: usize = 1024 * 1024;

/// The environment as callers write it: a value, or null to remove.
type Variables = BTreeMap<String, Option<String>>;

/// What is to be started, and what becomes of its streams.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) spec: Spec,
    pub(super) input: InputUse,
    pub(super) output: OutputUse,
}

/// What may be written to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputUse {
    /// Nothing, ever.
    None,
    /// Whatever the client sends.
    Open,
    /// Nothing more.
    Closed,
}

/// What becomes of output, and of how much of each stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputUse {
    /// It is told while it comes.
    Told {
        /// No limit without.
        cap: Option<usize>,
    },
    /// It is kept for the end.
    Kept {
        /// No limit but our own without.
        cap: Option<usize>,
    },
}

/// How a process is connected, as both families say it.
#[derive(Clone, Copy)]
struct Streams {
    tty: bool,
    size: Option<WireSize>,
    stdin: bool,
    output: bool,
}

impl Streams {
    fn io(self, family: ProcessFamily) -> Result<Io, ErrorObject> {
        match (self.tty, self.size) {
            (false, Some(_)) => Err(ErrorObject::size_without_terminal(family)),
            (false, None) => Ok(Io::Pipe {
                stdin: if self.stdin {
                    Stdin::Open
                } else {
                    Stdin::Closed
                },
            }),
            (true, None) => Ok(Io::Pty(TerminalSize::default())),
            (true, Some(size)) => Ok(Io::Pty(terminal_size(family, size)?)),
        }
    }

    fn input(self) -> InputUse {
        if self.tty || self.stdin {
            InputUse::Open
        } else {
            InputUse::None
        }
    }

    fn output(self, cap: Option<u64>) -> OutputUse {
        let cap = cap.map(|cap| usize::try_from(cap).unwrap_or(usize::MAX));
        if self.tty || self.output {
            OutputUse::Told { cap }
        } else {
            OutputUse::Kept { cap }
        }
    }
}

/// A terminal's size, if it has an area.
pub(super) fn terminal_size(
    family: ProcessFamily,
    size: WireSize,
) -> Result<TerminalSize, ErrorObject> {
    let WireSize { rows, cols } = size;
    if rows == 0 || cols == 0 {
        return Err(ErrorObject::empty_terminal(family));
    }
    Ok(TerminalSize { rows, cols })
}

impl Plan {
    /// What `command/exec` asks for. Looks at the file system for the sandbox's roots.
    pub(super) fn of_command(
        cx: &Connection,
        params: &CommandExecParams,
    ) -> Result<Self, ErrorObject> {
        const FAMILY: ProcessFamily = ProcessFamily::CommandExec;
        if params.command.is_empty() {
            return Err(ErrorObject::empty_command());
        }
        let streams = Streams {
            tty: params.tty,
            size: params.size,
            stdin: params.stream_stdin,
            output: params.stream_stdout_stderr,
        };
        if (streams.tty || streams.stdin || streams.output) && params.process_id.is_none() {
            return Err(ErrorObject::process_id_required());
        }
        let io = streams.io(FAMILY)?;
        let timeout = match (params.disable_timeout, params.timeout_ms) {
            (true, Some(_)) => return Err(ErrorObject::both_set("timeoutMs", "disableTimeout")),
            (true, None) => None,
            (false, Some(ms)) => Some(timeout(FAMILY, ms)?),
            (false, None) => Some(TIMEOUT_DEFAULT),
        };
        let cap = match (params.disable_output_cap, params.output_bytes_cap) {
            (true, Some(_)) => {
                return Err(ErrorObject::both_set("outputBytesCap", "disableOutputCap"));
            }
            (true, None) => None,
            (false, given) => Some(given.unwrap_or(CAP_DEFAULT as u64)),
        };
        let cwd = directory(cx, params.cwd.as_deref())?;
        let policy = command_policy(cx, params, &cwd)?;
        rights::check(cx, &policy)?;
        let sandbox = turnlane_exec_server::policy::sandbox(&policy, &cwd, &[]);
        let spec = Spec {
            env: environment(params.env.as_ref()),
            io,
            timeout,
            sandbox,
            survivors: Survivors::Keep,
            ..Spec::new(&params.command, cwd)
        };
        Ok(Self {
            spec,
            input: streams.input(),
            output: streams.output(cap),
        })
    }

    /// What `process/spawn` asks for.
    pub(super) fn of_process(
        cx: &Connection,
        params: &ProcessSpawnParams,
    ) -> Result<Self, ErrorObject> {
        const FAMILY: ProcessFamily = ProcessFamily::Process;
        // There is no sandbox to choose: the method is served to those who need none.
        if rights::check(cx, &SandboxPolicy::DangerFullAccess).is_err() {
            return Err(ErrorObject::spawn_disabled());
        }
        if params.command.is_empty() {
            return Err(ErrorObject::empty_command());
        }
        if params.process_handle.is_empty() {
            return Err(ErrorObject::empty_process_handle());
        }
        let streams = Streams {
            tty: params.tty,
            size: params.size,
            stdin: params.stream_stdin,
            output: params.stream_stdout_stderr,
        };
        let io = streams.io(FAMILY)?;
        let timeout = match params.timeout_ms {
            None => Some(TIMEOUT_DEFAULT),
            Some(None) => None,
            Some(Some(ms)) => Some(timeout(FAMILY, ms)?),
        };
        let cap = params.output_bytes_cap.unwrap_or(Some(CAP_DEFAULT as u64));
        let cwd = PathBuf::from(&params.cwd);
        if !cwd.is_absolute() {
            return Err(ErrorObject::relative_cwd(&params.cwd));
        }
        let spec = Spec {
            env: environment(params.env.as_ref()),
            io,
            timeout,
            survivors: Survivors::Keep,
            ..Spec::new(&params.command, cwd)
        };
        Ok(Self {
            spec,
            input: streams.input(),
            output: streams.output(cap),
        })
    }
}

fn timeout(family: ProcessFamily, ms: i64) -> Result<Duration, ErrorObject> {
    let ms = u64::try_from(ms).map_err(|_| ErrorObject::negative_timeout(family, ms))?;
    Ok(Duration::from_millis(ms))
}

/// Where a command runs: relative paths only for whoever started us.
fn directory(cx: &Connection, given: Option<&str>) -> Result<PathBuf, ErrorObject> {
    let ours = &cx.shared().options.cwd;
    match given {
        None => Ok(ours.clone()),
        Some(given) if Path::new(given).is_absolute() => Ok(PathBuf::from(given)),
        Some(given) if cx.kind() == PeerKind::Stdio => Ok(ours.join(given)),
        Some(given) => Err(ErrorObject::relative_cwd(given)),
    }
}

/// The allow-list and what the caller gave. A removed name is removed in any case of its letters,
/// since that is what the service's patterns do.
fn environment(given: Option<&Variables>) -> EnvSpec {
    let mut spec = EnvSpec {
        policy: EnvPolicy {
            inherit: Inherit::Listed,
            ..EnvPolicy::default()
        },
        ..EnvSpec::default()
    };
    for (name, value) in given.into_iter().flatten() {
        match value {
            Some(value) => {
                spec.vars.insert(name.into(), value.into());
            }
            // No name on the allow-list has these, so there is nothing to remove.
            None if name.contains(['*', '?']) => {}
            None => spec.policy.exclude.push(name.clone()),
        }
    }
    spec
}

/// The policy a command runs under: its own, its profile's or the configured one.
fn command_policy(
    cx: &Connection,
    params: &CommandExecParams,
    cwd: &Path,
) -> Result<SandboxPolicy, ErrorObject> {
    let invalid =
        |message: String| ErrorObject::new(INVALID_REQUEST, Reason::InvalidParams, message);
    let chosen = params
        .chosen_sandbox()
        .map_err(|_| ErrorObject::sandbox_disagreement())?;
    match (chosen, params.permission_profile.as_deref()) {
        (Some(_), Some(_)) => {
            let message = "`permissionProfile` cannot be combined with `sandboxPolicy`";
            Err(invalid(message.to_owned()))
        }
        (Some(policy), None) => Ok(policy.clone()),
        (None, Some(id)) => {
            let found = cx.shared().options.defaults.permission_profile(id);
            let profile = found.map_err(ErrorObject::permission_profile)?;
            Ok(profile.policy())
        }
        (None, None) => {
            let cwd = cwd.to_string_lossy();
            let wanted = Wanted {
                cwd: &cwd,
                config: None,
                provider: None,
                model: None,
                engine: None,
            };
            let settings = cx.shared().options.defaults.settings(wanted);
            settings
                .map(|settings| settings.sandbox_policy)
                .map_err(invalid)
        }
    }
}

/// What a failed start is answered with: the system's own text where there is one, as Codex does.
pub(super) fn refusal(family: ProcessFamily, error: &SpawnError) -> ErrorObject {
    match error.kind {
        SpawnErrorKind::SandboxUnavailable | SpawnErrorKind::SandboxRefused => {
            ErrorObject::sandbox_unavailable(error.to_string())
        }
        SpawnErrorKind::EmptyArgv
        | SpawnErrorKind::NulByte
        | SpawnErrorKind::ProgramNotFound
        | SpawnErrorKind::NotExecutable
        | SpawnErrorKind::CwdNotFound
        | SpawnErrorKind::CwdDenied
        | SpawnErrorKind::TooManyProcesses
        | SpawnErrorKind::ResourceLimit
        | SpawnErrorKind::ContainmentUnavailable
        | SpawnErrorKind::Other => {
            let system = error.os_error.filter(|errno| *errno != 0);
            let why = system.map_or_else(
                || error.to_string(),
                |errno| std::io::Error::from_raw_os_error(errno).to_string(),
            );
            ErrorObject::spawn_failed(family, &why)
        }
    }
}
