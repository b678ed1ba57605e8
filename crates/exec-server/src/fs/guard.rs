//! What a call may touch, and the only ways to touch it.
//!
//! With a policy every path goes through [`resolve`], is asked about, and is then held without
//! following links; if the world moved between, all of it is done again, three times. Without a policy
//! the system resolves. To create or remove an entry, both it and its directory must be writable, as
//! the kernel wants it of a process under the same policy.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{PROC_SUPER_MAGIC, fstatfs};
use rustix::io::Errno;
use turnlane_process::{Access, PathPolicy};
use turnlane_protocol::exec_server::sandbox::SandboxIntent;

use crate::intent;

use super::failure::{Failure, Result};
use super::held::Held;
use super::resolve::{Resolved, resolve};

/// How often a call begins again when the world moved under it.
const RETRIES_MAX: usize = 3;

/// Which links of a path are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// All.
    Follow,
    /// All but one at the end: that is what is meant.
    KeepLast,
    /// None; one at the end is what is meant, one before it an error.
    Refuse,
}

/// What a call may touch.
#[derive(Debug)]
pub(super) struct Guard {
    /// `None`: everything the server may.
    policy: Option<PathPolicy>,
}

/// Something that exists and may be touched as was asked.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) held: Held,
    /// Without links if there is a policy, else as given.
    pub(super) path: PathBuf,
    /// Whether a link at the end was followed; only known with a policy.
    pub(super) by_link: bool,
}

/// A name in a directory that may be created, replaced or removed.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) directory: Held,
    pub(super) name: OsString,
    /// Without links.
    pub(super) path: PathBuf,
}

impl Guard {
    /// What an intent allows. The server's own directory and `TMPDIR` stand in for a process's.
    pub(super) fn of(intent: Option<&SandboxIntent>, hidden: &[PathBuf]) -> Result<Self> {
        if intent.is_none_or(|intent| intent.permissions.is_none()) {
            return Ok(Self::unrestricted());
        }
        // Without a directory of its own the server has no project root: a rule that needs one is
        // refused for not being absolute.
        let cwd = std::env::current_dir().unwrap_or_default();
        let tmpdir = std::env::var_os("TMPDIR").map(PathBuf::from);
        let sandbox = intent::to_sandbox(intent, &cwd, tmpdir.as_deref())
            .map_err(|error| Failure::Intent(error.0))?;
        let policy = PathPolicy::new(&sandbox, tmpdir.as_deref(), hidden)
            .map_err(|error| Failure::Intent(error.to_string()))?;
        Ok(Self {
            policy: (!policy.is_unrestricted()).then_some(policy),
        })
    }

    pub(super) fn unrestricted() -> Self {
        Self { policy: None }
    }

    pub(super) fn is_unrestricted(&self) -> bool {
        self.policy.is_none()
    }

    /// Whether `need` is allowed at a path without links.
    pub(super) fn permit(&self, path: &Path, need: Access) -> Result<()> {
        match &self.policy {
            Some(policy) if policy.access(path) < need || is_of_a_process(path) => {
                Err(Errno::ACCESS.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether `need` is allowed at a path and everywhere below it.
    pub(super) fn permit_below(&self, path: &Path, need: Access) -> Result<()> {
        match &self.policy {
            Some(policy) if policy.least_below(path) < need => Err(Errno::ACCESS.into()),
            Some(_) | None => self.permit(path, need),
        }
    }

    /// Holds what exists at `path`.
    pub(super) fn hold(&self, path: &Path, links: Links, need: Access) -> Result<Place> {
        if self.policy.is_none() {
            let held = match links {
                Links::Follow => Held::following(path)?,
                Links::KeepLast => Held::not_following_the_last(path)?,
                Links::Refuse => Held::strictly(path)?,
            };
            return Ok(Place {
                held,
                path: path.to_owned(),
                by_link: false,
            });
        }
        settle(|| {
            let resolved = resolve(self, path, links)?;
            self.permit(&resolved.path, need)?;
            if resolved.missing > 0 {
                return Err(Errno::NOENT.into());
            }
            let held = self.hold_resolved(&resolved.path)?;
            if held.is_link() && links == Links::Follow {
                return Err(Failure::moved(Errno::LOOP));
            }
            Ok(Place {
                held,
                path: resolved.path,
                by_link: resolved.by_link,
            })
        })
    }

    /// The place of a name that may be written. Not repeated: who uses the place repeats both.
    pub(super) fn slot(&self, path: &Path, links: Links) -> Result<Slot> {
        let resolved = resolve(self, path, links)?;
        self.permit(&resolved.path, Access::Write)?;
        if resolved.missing > 1 {
            return Err(Errno::NOENT.into());
        }
        self.slot_of(&resolved)
    }

    fn slot_of(&self, resolved: &Resolved) -> Result<Slot> {
        let (Some(parent), Some(name)) = (resolved.path.parent(), resolved.path.file_name()) else {
            return Err(Errno::INVAL.into());
        };
        self.permit(parent, Access::Write)?;
        Ok(Slot {
            directory: self.hold_resolved(parent)?,
            name: name.to_owned(),
            path: resolved.path.clone(),
        })
    }

    /// Holds the directory that exists deepest on the way to `path`, and the names below it that are
    /// missing.
    pub(super) fn deepest(&self, path: &Path, links: Links) -> Result<(Place, Vec<OsString>)> {
        let resolved = resolve(self, path, links)?;
        self.permit(&resolved.path, Access::Read)?;
        let mut at = resolved.path;
        let mut missing = Vec::new();
        for _ in 0..resolved.missing {
            missing.extend(at.file_name().map(ToOwned::to_owned));
            at.pop();
        }
        missing.reverse();
        let place = Place {
            held: self.hold_resolved(&at)?,
            path: at,
            by_link: resolved.by_link,
        };
        Ok((place, missing))
    }

    /// Holds a path that was resolved and permitted.
    fn hold_resolved(&self, path: &Path) -> Result<Held> {
        let held = Held::strictly(path).map_err(super::held::StrictError::after_resolving)?;
        // A second mount of /proc shows the server's own memory and environment as the first does.
        let elsewhere = || !path.starts_with("/proc");
        if self.policy.is_some() && elsewhere() && is_proc(&held)? {
            return Err(Errno::ACCESS.into());
        }
        Ok(held)
    }
}

/// Whether a path lies in a process's part of `/proc`. A confined process cannot look at processes
/// outside of its own confinement, and `self` would be the server.
fn is_of_a_process(path: &Path) -> bool {
    let Ok(inside) = path.strip_prefix("/proc") else {
        return false;
    };
    match inside.components().next() {
        Some(Component::Normal(name)) => name.as_encoded_bytes().iter().all(u8::is_ascii_digit),
        Some(_) | None => false,
    }
}

fn is_proc(held: &Held) -> Result<bool> {
    Ok(fstatfs(held)?.f_type == PROC_SUPER_MAGIC)
}

/// Runs `step` until the world holds still for as long as it takes.
pub(super) fn settle<T>(mut step: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..RETRIES_MAX {
        match step() {
            Err(Failure::Moved(_)) => {}
            settled => return settled,
        }
    }
    step()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_the_numbers_below_proc() {
        for (path, is) in [
            ("/proc/1", true),
            ("/proc/42/environ", true),
            ("/proc", false),
            ("/proc/meminfo", false),
            ("/proc/sys/42", false),
            ("/process/1", false),
            ("/1", false),
        ] {
            assert_eq!(is_of_a_process(Path::new(path)), is, "{path}");
        }
    }

    #[test]
    fn a_world_that_never_holds_still_ends_the_call() {
        let mut tries = 0;
        let outcome: Result<()> = settle(|| {
            tries += 1;
            Err(Failure::moved(Errno::LOOP))
        });
        assert!(outcome.is_err());
        assert_eq!(tries, 4);
        let mut tries = 0;
        let outcome = settle(|| {
            tries += 1;
            if tries < 4 {
                Err(Failure::moved(Errno::NOENT))
            } else {
                Ok(tries)
            }
        });
        assert_eq!(outcome.unwrap(), 4);
    }
}
