//! What a process may touch: policies, and how they are enforced.
//!
//! A policy is enforced completely or the spawn fails. There is no partial mode and no fall-back.
//! What this machine can enforce was found by a trial child at the start of the service.

mod aliases;
mod denial;
mod filter;
mod landlock;
mod layout;
mod mount_points;
mod policy;
mod probe;
mod probed;
mod rulesets;
#[cfg(test)]
mod tests;

pub(crate) use self::denial::looks_denied;
pub use self::landlock::{ABI_MIN as LANDLOCK_ABI_MIN, ABI_SCOPES as LANDLOCK_ABI_SCOPES};
pub(crate) use self::mount_points::{MountPoint, MountPoints, remove_left_behind};
pub use self::policy::PathPolicy;
pub(crate) use self::probed::Probed;

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{SpawnError, SpawnErrorKind};
use crate::launch::{MountStep, Mounts, Restrictions};
use crate::report::{Confined, FsEnforcement, MountsBy, NetworkEnforcement};

use self::filter::Network;
use self::landlock::Ruleset;
use self::layout::{Cover, Layout};
use self::mount_points::MountPointError;
use self::policy::Rules;
use self::rulesets::Rulesets;

/// What a process may touch.
///
/// Under every enforced policy the hidden paths of the service, the sockets of other programs and all
/// devices but a few stay closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// Reads everything, writes nothing.
    ReadOnly {
        /// Whether it may use the network.
        network: bool,
    },
    /// Reads everything, writes under the roots, `$TMPDIR` and `/tmp`; `.git`, `.codex`, `.agents`
    /// and `.turnlane` directly under a root stay read-only and cannot be created, unless one of them
    /// is itself a root.
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
    rulesets: Arc<Rulesets>,
}

/// A policy made ready for one child.
#[derive(Debug)]
pub(crate) struct Confinement {
    /// `None` when nothing is applied.
    pub(crate) restrictions: Option<Restrictions>,
    pub(crate) ruleset: Option<OwnedFd>,
    pub(crate) confined: Confined,
    /// Must live as long as anything of the child does.
    pub(crate) mount_points: Vec<MountPoint>,
}

/// What a policy must know of the child and its service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    /// The child's `TMPDIR`.
    pub(crate) tmpdir: Option<&'a Path>,
    /// Its terminal.
    pub(crate) pts: Option<&'a Path>,
    /// Paths that no sandbox may see.
    pub(crate) hidden: &'a [PathBuf],
    /// Whether roots may be named by paths with links.
    pub(crate) root_links: RootLinks,
    /// An empty directory of the child's own, for shared memory.
    pub(crate) shared_memory: Option<&'a Path>,
    /// Whether the network includes sockets of the user's other programs.
    pub(crate) local_sockets: LocalSockets,
    pub(crate) absent_mounts: AbsentMounts,
    pub(crate) mount_points: &'a MountPoints,
}

/// Whether the roots of a policy may be named by paths with links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RootLinks {
    /// They are followed, unless a command under the same policy could replace one of them.
    #[default]
    Followed,
    /// They are refused: the roots were resolved before, and what is a link now was none then.
    Refused,
}

/// Whether a process with network may also use sockets of this machine's other programs: ssh-agent,
/// Docker, D-Bus, X11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalSockets {
    /// It may not; `AF_UNIX` sockets cannot be made, connected pairs can.
    #[default]
    Closed,
    /// It may use all of them that its user may use.
    Open,
}

/// What happens to a policy that needs mounts, on a machine that offers none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbsentMounts {
    /// The spawn fails.
    #[default]
    Refuse,
    /// The process runs with Landlock and the filter alone: what surrounds the service, such as a
    /// container, is the sandbox. Protected names inside of a writable root can be written then, and
    /// modes, owners and times of files can be changed outside of it. What may not be seen at all is
    /// still refused where only a mount could hide it.
    Tolerate,
}

impl Machine {
    /// Tries everything with trial children; blocks.
    #[cfg(test)]
    pub(crate) fn probe() -> Self {
        Probed::default().machine().clone()
    }

    /// Makes a policy ready, or says why it cannot be enforced. Blocks on the file system for as long
    /// as it takes to look at the policy's paths.
    pub(crate) fn confine(
        &self,
        policy: &Sandbox,
        around: Surroundings<'_>,
    ) -> Result<Confinement, SpawnError> {
        let network = policy.network(around.local_sockets);
        let Some(mut rules) = Rules::of(policy, around.tmpdir, around.hidden)? else {
            return match network {
                Network::Open | Network::OpenWithLocal => Ok(Confinement::none(policy)),
                Network::Off => self.confine_network(policy),
            };
        };
        if around.root_links == RootLinks::Refused {
            rules.refuse_links()?;
        }
        let abi = self.landlock_abi()?;
        let mount_points = self.mount_points(&mut rules, around.mount_points)?;
        let mut layout = Layout::of(&rules, around.pts)?;
        let is_frozen = layout.is_frozen();
        if self.mounts.is_ok() {
            layout = layout.with_mounts(&rules);
            if let (false, Some(own)) = (is_frozen, around.shared_memory) {
                layout.with_shared_memory(&rules, own);
            }
        }
        let mounts = match self.mounts(&layout, &rules) {
            Err(_) if layout.needs_no_mask() && around.absent_mounts == AbsentMounts::Tolerate => {
                None
            }
            mounts => mounts?,
        };
        let filter = self.filter(filter::Scope {
            network,
            files: if is_frozen {
                filter::Files::Frozen
            } else {
                filter::Files::Confined
            },
            ipc: match mounts {
                None => filter::Ipc::Shared,
                Some(_) => filter::Ipc::Own,
            },
        })?;
        let about = landlock::About {
            files: landlock::Files::Confined,
            tcp: match network {
                Network::Open | Network::OpenWithLocal => landlock::Tcp::Untouched,
                Network::Off => landlock::Tcp::Forbidden,
            },
        };
        Ok(Confinement {
            confined: Confined {
                policy: policy.name(),
                fs: match mounts {
                    None => FsEnforcement::Landlock,
                    Some(_) => FsEnforcement::LandlockAndMounts,
                },
                landlock_abi: Some(abi),
                network: network.enforcement(),
                scopes: landlock::has_scopes(abi),
            },
            ruleset: Some(self.rulesets.of(abi, about, &layout, around.pts)?),
            restrictions: Some(Restrictions {
                mounts,
                capabilities_kept: capabilities_kept(),
                filter,
            }),
            mount_points,
        })
    }

    /// Makes what protected names are mounted on. A name that no command can create needs nothing.
    fn mount_points(
        &self,
        rules: &mut Rules,
        made: &MountPoints,
    ) -> Result<Vec<MountPoint>, SpawnError> {
        let missing: Vec<PathBuf> = rules.missing().map(Path::to_owned).collect();
        let mut held = Vec::with_capacity(missing.len());
        // Without mounts the policy is refused; nothing must be left behind for that.
        for path in missing.iter().filter(|_| self.mounts.is_ok()) {
            match made.hold(path) {
                Ok(point) => held.push(point),
                Err(MountPointError::NotNeeded) => rules.give_up(path),
                Err(MountPointError::Failed(error)) => {
                    return Err(policy::unresolved(path, &error)
                        .because("a mount point that keeps it from being created cannot be made"));
                }
            }
        }
        Ok(held)
    }

    /// Files are somebody else's concern, the network is not.
    fn confine_network(&self, policy: &Sandbox) -> Result<Confinement, SpawnError> {
        let filter = self.filter(filter::Scope {
            network: Network::Off,
            files: filter::Files::Untouched,
            ipc: filter::Ipc::Shared,
        })?;
        // The filter suffices; the ruleset also keeps it out of processes that are not filtered.
        let abi = self
            .landlock
            .iter()
            .copied()
            .find(|abi| landlock::has_tcp(*abi));
        let about = landlock::About {
            files: landlock::Files::Untouched,
            tcp: landlock::Tcp::Forbidden,
        };
        let ruleset = abi.map(|abi| Ruleset::new(abi, about).map_err(|error| unavailable(&error)));
        Ok(Confinement {
            restrictions: Some(Restrictions {
                mounts: None,
                capabilities_kept: capabilities_kept(),
                filter,
            }),
            ruleset: ruleset.transpose()?.map(Ruleset::into_fd),
            confined: Confined {
                landlock_abi: abi,
                network: Network::Off.enforcement(),
                ..Confinement::none(policy).confined
            },
            mount_points: Vec::new(),
        })
    }

    fn landlock_abi(&self) -> Result<u32, SpawnError> {
        let absent = |why: &str| {
            SpawnError::new(SpawnErrorKind::SandboxUnavailable).because(format!("Landlock: {why}"))
        };
        match &self.landlock {
            Ok(abi) if *abi >= landlock::ABI_MIN => Ok(*abi),
            Ok(abi) => Err(absent(&format!(
                "version {abi} cannot refuse truncation, version {} is needed",
                landlock::ABI_MIN
            ))),
            Err(why) => Err(absent(why)),
        }
    }

    fn filter(&self, scope: filter::Scope) -> Result<Vec<[u8; 8]>, SpawnError> {
        let absent = |why: &str| {
            SpawnError::new(SpawnErrorKind::SandboxUnavailable)
                .because(format!("filter of system calls: {why}"))
        };
        self.seccomp.as_ref().map_err(|why| absent(why))?;
        filter::program(scope).ok_or_else(|| absent(filter::UNKNOWN_ARCHITECTURE))
    }

    fn mounts(&self, layout: &Layout, rules: &Rules) -> Result<Option<Mounts>, SpawnError> {
        let mut covers = layout
            .mounts
            .iter()
            .map(|(path, cover)| (path.as_path(), cover));
        // The most telling one is what is to be protected, not what lies above it; and what exists.
        let existing = |(_, cover): &(_, &Cover)| matches!(cover, Cover::ReadOnly | Cover::Mask);
        let missing = |(_, cover): &(_, &Cover)| matches!(cover, Cover::Empty);
        let protected = covers
            .clone()
            .find(existing)
            .or_else(|| covers.clone().find(missing));
        // Without mounts, modes and attributes around a writable path could be changed.
        let is_partly_writable = rules.access(Path::new("/")) < Access::Write;
        let writable = layout.first_writable().filter(|_| is_partly_writable);
        let Some(path) = protected
            .or_else(|| covers.next())
            .map(|(path, _)| path)
            .or(writable)
        else {
            return Ok(None);
        };
        let by = self.mounts.as_ref().map_err(|why| {
            policy::refused(path).because(format!("it needs a mount of its own: {why}"))
        })?;
        let steps = layout.mounts.iter().map(|(path, cover)| step(path, cover));
        Ok(Some(Mounts {
            user_namespace: by.user_namespace(),
            steps: steps.collect::<Result<_, _>>()?,
        }))
    }
}

impl MountsBy {
    /// The ids to keep in a user namespace. Root gets none: in it, what belongs to others could not be
    /// written.
    fn user_namespace(self) -> Option<(u32, u32)> {
        match self {
            Self::Root => None,
            Self::UserNamespace => Some((
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            )),
        }
    }
}

impl Confinement {
    fn none(policy: &Sandbox) -> Self {
        Self {
            restrictions: None,
            ruleset: None,
            confined: Confined {
                policy: policy.name(),
                fs: FsEnforcement::None,
                landlock_abi: None,
                network: NetworkEnforcement::Open,
                scopes: false,
            },
            mount_points: Vec::new(),
        }
    }
}

fn step(path: &Path, cover: &Cover) -> Result<MountStep, SpawnError> {
    let name = name_of(path)?;
    Ok(match cover {
        Cover::Pin => MountStep::BindSelf(name),
        Cover::ReadOnly => MountStep::ReadOnly(name),
        Cover::Empty => MountStep::EmptyDirectory(name),
        Cover::Open => MountStep::Restore(name),
        Cover::Freeze => MountStep::Freeze(name),
        Cover::Instead(other) => MountStep::Instead(name_of(other)?, name),
        Cover::Mask if path.is_dir() => MountStep::MaskDirectory(name),
        Cover::Mask => MountStep::MaskFile(name),
    })
}

fn name_of(path: &Path) -> Result<CString, SpawnError> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| SpawnError::new(SpawnErrorKind::NulByte).at(path))
}

/// Root must be able to write roots that belong to others, and nothing else of what it could.
fn capabilities_kept() -> u64 {
    const CHOWN: u64 = 1 << 0;
    const DAC_OVERRIDE: u64 = 1 << 1;
    const FOWNER: u64 = 1 << 3;
    if rustix::process::geteuid().is_root() {
        CHOWN | DAC_OVERRIDE | FOWNER
    } else {
        0
    }
}

fn unavailable(error: &io::Error) -> SpawnError {
    SpawnError::new(SpawnErrorKind::SandboxUnavailable)
        .os(error.raw_os_error().unwrap_or(libc::EIO))
        .because("Landlock ruleset")
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

    fn network(&self, local: LocalSockets) -> Network {
        let is_open = match self {
            Self::ReadOnly { network }
            | Self::WorkspaceWrite { network, .. }
            | Self::Custom { network, .. }
            | Self::ExternalSandbox { network } => *network,
            Self::DangerFullAccess => true,
        };
        match (is_open, local) {
            (false, _) => Network::Off,
            (true, LocalSockets::Closed) => Network::Open,
            (true, LocalSockets::Open) => Network::OpenWithLocal,
        }
    }
}
