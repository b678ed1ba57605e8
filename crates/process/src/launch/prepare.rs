//! From a spec to a plan: everything that can be checked and built before the clone.
//!
//! The invariant here: a plan holds no NUL byte, no malformed variable and no limit that would have
//! no effect. What only the kernel can know (whether the directory and the program are there, whether
//! a limit may be raised) is left to the child. The sandbox's part of the plan is added by `sandbox`.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use super::{Plan, Terminal};
use crate::error::{SpawnError, SpawnErrorKind};
use crate::spec::{Io, Limits, Spec};

/// Where programs are looked for when the child has no `PATH`.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// Checks a spec and turns it into a plan; `env` is the finished environment.
pub(crate) fn prepare(spec: &Spec, env: Vec<(OsString, OsString)>) -> Result<Plan, SpawnError> {
    let Some((program, arguments)) = spec.argv.split_first() else {
        return Err(SpawnError::new(SpawnErrorKind::EmptyArgv));
    };
    let path = env
        .iter()
        .find(|(name, _)| name == "PATH")
        .map(|(_, value)| value.clone());
    let programs = candidates(program, path.as_deref())?;
    let arg0 = spec.arg0.as_ref().unwrap_or(program);
    let argv = std::iter::once(arg0).chain(arguments);
    Ok(Plan {
        program: text(program.as_bytes(), "argv")?,
        programs,
        argv: argv
            .map(|argument| text(argument.as_bytes(), "argv"))
            .collect::<Result<_, _>>()?,
        envp: env
            .into_iter()
            .map(|(name, value)| variable(name, &value))
            .collect::<Result<_, _>>()?,
        cwd: text(spec.cwd.as_os_str().as_bytes(), "cwd")?,
        terminal: match spec.io {
            Io::Pipe { .. } => Terminal::None,
            Io::Pty(_) => Terminal::Controlling,
        },
        rlimits: rlimits(&spec.limits)?,
        restrictions: None,
    })
}

fn text(bytes: impl Into<Vec<u8>>, part: &str) -> Result<CString, SpawnError> {
    CString::new(bytes).map_err(|_| SpawnError::new(SpawnErrorKind::NulByte).because(part))
}

fn variable(name: OsString, value: &OsStr) -> Result<CString, SpawnError> {
    if name.is_empty() || name.as_bytes().contains(&b'=') {
        let detail = format!("`{}` is no name of an environment variable", name.display());
        return Err(SpawnError::new(SpawnErrorKind::Other).because(detail));
    }
    let mut pair = name.into_vec();
    pair.push(b'=');
    pair.extend_from_slice(value.as_bytes());
    text(pair, "env")
}

/// The files to try. A name with a slash is a path, relative to the child's directory; others are
/// looked for in the child's own `PATH`, where an empty entry is the child's directory.
fn candidates(program: &OsStr, path: Option<&OsStr>) -> Result<Vec<CString>, SpawnError> {
    let name = program.as_bytes();
    if name.is_empty() {
        return Err(SpawnError::new(SpawnErrorKind::ProgramNotFound)
            .at(program)
            .os(libc::ENOENT));
    }
    if name.contains(&b'/') {
        return Ok(vec![text(name, "argv")?]);
    }
    let path = path.map_or(DEFAULT_PATH, OsStrExt::as_bytes);
    path.split(|byte| *byte == b':')
        .map(|directory| {
            let directory = if directory.is_empty() {
                b"."
            } else {
                directory
            };
            text([directory, b"/", name].concat(), "argv")
        })
        .collect()
}

/// The name of a limit, as callers write it, for errors.
pub(super) fn limit_name(resource: u32) -> &'static str {
    match resource {
        libc::RLIMIT_CPU => "cpu_time",
        libc::RLIMIT_AS => "address_space",
        libc::RLIMIT_FSIZE => "file_size",
        libc::RLIMIT_NOFILE => "open_files",
        libc::RLIMIT_CORE => "core",
        libc::RLIMIT_NPROC => "processes",
        libc::RLIMIT_LOCKS => "mark",
        _ => "limit",
    }
}

/// Soft and hard are the same: a limit the process could raise again would be none. The limits of
/// the containment (`memory_max`, `pids_max`) are not ours.
fn rlimits(limits: &Limits) -> Result<Vec<(u32, u64, u64)>, SpawnError> {
    if limits.processes.is_some() && rustix::process::getuid().is_root() {
        return Err(SpawnError::new(SpawnErrorKind::ResourceLimit)
            .because("processes: a limit per user does not hold for uid 0"));
    }
    let given = [
        (libc::RLIMIT_CPU, limits.cpu_time.map(whole_seconds)),
        (libc::RLIMIT_AS, limits.address_space),
        (libc::RLIMIT_FSIZE, limits.file_size),
        (libc::RLIMIT_NOFILE, limits.open_files),
        (libc::RLIMIT_CORE, Some(limits.core.unwrap_or(0))),
        (libc::RLIMIT_NPROC, limits.processes),
    ];
    Ok(given
        .into_iter()
        .filter_map(|(resource, limit)| Some((resource, limit?, limit?)))
        .collect())
}

/// Rounded up, and at least one: zero means one to the kernel as well, with a delay.
fn whole_seconds(time: Duration) -> u64 {
    let more = u64::from(time.subsec_nanos() > 0);
    time.as_secs().saturating_add(more).max(1)
}

#[cfg(test)]
mod tests;
