//! `process/start`: from params to a specification, or to what is wrong with them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use turnlane_process::{
    Confined, EnvSpec, FsEnforcement, Inherit, Io, Limits, NetworkEnforcement, Sandbox, Spec,
    Stdin, Survivors, TerminalSize,
};
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::exec_server::file_uri;
use turnlane_protocol::exec_server::process::{self, SandboxInForce, StartAnswer, StartParams};
use turnlane_protocol::exec_server::sandbox::SandboxIntent;

use super::super::Shared;
use super::super::entry::{Asked, Entry};
use super::super::outbox::Responder;
use super::super::session::{Claim, Session};
use super::super::start as launching;
use super::{ID_BYTES_MAX, size};
use crate::{failure, intent, local};

/// `process/start`; the future answers.
pub(crate) fn start(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    responder: Responder,
    params: StartParams,
) -> Result<impl Future<Output = ()> + Send + 'static, ErrorObject> {
    let cwd = check(shared, &params)?;
    let asked = Asked {
        argv0: params.argv.first().cloned().unwrap_or_default(),
        cwd: params.cwd.clone(),
        tty: params.tty,
        metadata: params.metadata.clone(),
    };
    let intent = params.sandbox.clone();
    let id = params.process_id.clone();
    let spec = spec(params, cwd)?;
    let claim = session
        .claim(&id, asked)
        .map_err(|error| launching::claim_failure(error, &id))?;
    let shared = Arc::clone(shared);
    Ok(async move {
        match launch(&shared, claim, spec, intent).await {
            Err(error) => responder.fail(&error),
            Ok(entry) => {
                responder.respond(answer(&entry));
                entry.tell();
            }
        }
    })
}

/// What can be refused by looking at the params; the directory otherwise.
fn check(shared: &Shared, params: &StartParams) -> Result<PathBuf, ErrorObject> {
    if params.process_id.len() > ID_BYTES_MAX {
        let message = format!("processId must not exceed {ID_BYTES_MAX} bytes");
        return Err(failure::invalid_params(message));
    }
    if params.argv.is_empty() {
        return Err(failure::empty_argv());
    }
    let cwd = file_uri::to_path(&params.cwd)
        .map_err(|error| failure::invalid_params(error.to_string()))?;
    if params.enforce_managed_network == Some(true) {
        return Err(failure::unsupported("enforceManagedNetwork"));
    }
    if params.network_proxy.is_some() {
        return Err(failure::unsupported("networkProxy"));
    }
    if params.shell_snapshot.is_some() {
        return Err(failure::unsupported("shellSnapshot"));
    }
    match params.sandbox {
        None if !shared.options.allow_direct_exec => Err(failure::direct_exec_disabled()),
        Some(_) if !shared.options.allow_prepared_exec => Err(failure::prepared_exec_disabled()),
        None | Some(_) => Ok(cwd),
    }
}

/// Everything but the sandbox.
fn spec(params: StartParams, cwd: PathBuf) -> Result<Spec, ErrorObject> {
    let io = if params.tty {
        Io::Pty(params.size.map_or(Ok(TerminalSize::default()), size)?)
    } else {
        Io::Pipe {
            stdin: if params.pipe_stdin {
                Stdin::Open
            } else {
                Stdin::Closed
            },
        }
    };
    let mut spec = Spec::new(params.argv, cwd);
    spec.arg0 = params.arg0.map(OsString::from);
    spec.env = EnvSpec {
        policy: params.env_policy.map(local::env_policy).unwrap_or_default(),
        vars: local::variables(params.env),
    };
    spec.io = io;
    spec.timeout = params.timeout_ms.map(Duration::from_millis);
    spec.limits = params.limits.map(limits).unwrap_or_default();
    spec.survivors = match params.survivors {
        None | Some(process::Survivors::Keep) => Survivors::Keep,
        Some(process::Survivors::End) => Survivors::End,
    };
    Ok(spec)
}

fn limits(limits: process::Limits) -> Limits {
    Limits {
        cpu_time: limits.cpu_time_ms.map(Duration::from_millis),
        address_space: limits.address_space,
        file_size: limits.file_size,
        open_files: limits.open_files,
        core: limits.core,
        processes: limits.processes,
        memory_max: limits.memory_max,
        pids_max: limits.pids_max,
    }
}

async fn launch(
    shared: &Shared,
    claim: Claim,
    mut spec: Spec,
    intent: Option<SandboxIntent>,
) -> Result<Arc<Entry>, ErrorObject> {
    if intent.is_some() {
        let (cwd, tmpdir) = (spec.cwd.clone(), tmpdir(&spec.env));
        spec.sandbox = policy(intent, cwd, tmpdir).await?;
        // An intent may also say that nothing is confined; that is no sandbox under another name.
        let is_confined = match &spec.sandbox {
            Sandbox::DangerFullAccess | Sandbox::ExternalSandbox { .. } => false,
            Sandbox::ReadOnly { .. } | Sandbox::WorkspaceWrite { .. } | Sandbox::Custom { .. } => {
                true
            }
        };
        if !is_confined && !shared.options.allow_direct_exec {
            return Err(failure::direct_exec_disabled());
        }
    }
    launching::launch(shared, claim, spec).await
}

/// The policy an intent means. Patterns in it are looked up in the file system, so this is done off
/// the async threads.
async fn policy(
    intent: Option<SandboxIntent>,
    cwd: PathBuf,
    tmpdir: Option<PathBuf>,
) -> Result<Sandbox, ErrorObject> {
    let found = tokio::task::spawn_blocking(move || {
        intent::to_sandbox(intent.as_ref(), &cwd, tmpdir.as_deref())
    });
    found
        .await
        .map_err(|_panicked| failure::internal("the sandbox could not be prepared"))?
        .map_err(|error| failure::intent(&error.to_string()))
}

/// The `TMPDIR` the child will have.
fn tmpdir(env: &EnvSpec) -> Option<PathBuf> {
    const NAME: &str = "TMPDIR";
    let name = Path::new(NAME).as_os_str();
    let given = env.vars.get(name).or_else(|| env.policy.set.get(name));
    let inherited = || match env.policy.inherit {
        Inherit::All | Inherit::Listed | Inherit::Core => std::env::var_os(NAME),
        Inherit::None => None,
    };
    given.cloned().or_else(inherited).map(PathBuf::from)
}

fn answer(entry: &Entry) -> Result<StartAnswer, ErrorObject> {
    let about = super::process_of(entry)?.info();
    Ok(StartAnswer {
        process_id: entry.id.to_string(),
        sandbox_type: sandbox_type(&about.sandbox).to_owned(),
        pid: Some(about.pid),
        containment: Some(about.containment.name().to_owned()),
        sandbox: Some(in_force(&about.sandbox)),
    })
}

/// Codex's word for what is applied.
pub(super) fn sandbox_type(sandbox: &Confined) -> &'static str {
    if sandbox.is_enforced() {
        "linuxSeccomp"
    } else {
        "none"
    }
}

fn in_force(sandbox: &Confined) -> SandboxInForce {
    SandboxInForce {
        policy: sandbox.policy.to_owned(),
        fs: match sandbox.fs {
            FsEnforcement::Landlock => "landlock",
            FsEnforcement::LandlockAndMounts => "landlock+mount",
            FsEnforcement::None => "none",
        }
        .to_owned(),
        landlock_abi: sandbox.landlock_abi,
        network: match sandbox.network {
            NetworkEnforcement::Seccomp => "seccomp",
            NetworkEnforcement::Open => "open",
        }
        .to_owned(),
        scopes: sandbox.scopes,
    }
}
