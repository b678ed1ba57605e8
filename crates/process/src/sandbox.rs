//! What a process may touch: policies, and how they are enforced.
//!
//! A policy is enforced completely or the spawn fails. There is no partial mode and no fall-back.
//! What this machine can enforce was found by a trial child at the start of the service.

mod denial;
mod policy;

pub use self::denial::looks_denied;
pub use self::policy::PathPolicy;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::error::{SpawnError, SpawnErrorKind};
use crate::launch::Restrictions;
use crate::report::{Confined, FsEnforcement, MountsBy, NetworkEnforcement};

/// What a process may touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// Reads everything, writes nothing.
    ReadOnly {
        /// Whether it may use the network.
        network: bool,
    },
    /// Reads everything, writes under the roots, `$TMPDIR` and `/tmp`; `.git`, `.codex`, `.agents`
    /// and `.turnlane` directly under a root stay read-only if they exist.
    WorkspaceWrite {
        /// Existing directories, not `/`.
        roots: Vec<PathBuf>,
        /// Whether it may use the network.
        network: bool,
        /// `$TMPDIR` is not writable.
        exclude_tmpdir: bool,
        /// `/tmp` is not writable.
        exclude_slash_tmp: bool,
    },
    /// The most specific path decides; what no rule covers is denied.
    Custom {
        /// Paths and what is allowed below them. Of equal paths deny wins over read over write.
        rules: Vec<PathRule>,
        /// Whether it may use the network.
        network: bool,
    },
    /// Nothing is applied.
    DangerFullAccess,
    /// The caller claims that somebody else confines it; only the network is ours.
    ExternalSandbox {
        /// Whether it may use the network.
        network: bool,
    },
}

/// One rule of [`Sandbox::Custom`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRule {
    /// An absolute path.
    pub path: PathBuf,
    /// What is allowed there and below.
    pub access: Access,
    /// What to do when it does not exist.
    pub missing: MissingPath,
}

/// What a rule allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Nothing.
    Deny,
    /// Reading and executing.
    Read,
    /// Everything.
    Write,
}

/// What a rule about a path that does not exist means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingPath {
    /// Nothing.
    Skip,
    /// The policy is refused.
    Refuse,
}

/// What this machine can enforce.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) landlock: Result<u32, String>,
    pub(crate) seccomp: Result<(), String>,
    pub(crate) mounts: Result<MountsBy, String>,
}

/// A policy made ready for one child.
#[derive(Debug)]
pub(crate) struct Confinement {
    /// `None` when nothing is applied.
    pub(crate) restrictions: Option<Restrictions>,
    pub(crate) ruleset: Option<OwnedFd>,
    pub(crate) confined: Confined,
}

/// What of the child a policy must know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    /// The child's `TMPDIR`.
    pub(crate) tmpdir: Option<&'a Path>,
    /// Its terminal.
    pub(crate) pts: Option<&'a Path>,
}

impl Machine {
    /// Tries everything with trial children; blocks.
    pub(crate) fn probe() -> Self {
        let untried = "no trial child yet";
        Self {
            landlock: Err(untried.to_owned()),
            seccomp: Err(untried.to_owned()),
            mounts: Err(untried.to_owned()),
        }
    }

    /// Makes a policy ready, or says why it cannot be enforced.
    pub(crate) fn confine(
        &self,
        policy: &Sandbox,
        around: Surroundings<'_>,
    ) -> Result<Confinement, SpawnError> {
        let _ = around;
        let confined = Confined {
            policy: policy.name(),
            fs: FsEnforcement::None,
            landlock_abi: None,
            network: NetworkEnforcement::Open,
            scopes: false,
        };
        match policy {
            Sandbox::DangerFullAccess | Sandbox::ExternalSandbox { network: true } => {
                Ok(Confinement {
                    restrictions: None,
                    ruleset: None,
                    confined,
                })
            }
            _ => Err(SpawnError::new(SpawnErrorKind::SandboxUnavailable)),
        }
    }
}

impl Sandbox {
    /// The word used in reports and on the wire.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ReadOnly { .. } => "read-only",
            Self::WorkspaceWrite { .. } => "workspace-write",
            Self::Custom { .. } => "custom",
            Self::DangerFullAccess => "danger-full-access",
            Self::ExternalSandbox { .. } => "external",
        }
    }
}
