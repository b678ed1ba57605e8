//! What a failed launch means to whoever asked for it.
//!
//! The invariant here: a failing directory is never taken for a failing program, every error of the
//! system keeps its number, and what failed while a sandbox was set up is said to be the sandbox.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::prepare::limit_name;
use super::{LaunchError, MountStep, Plan, Stage};
use crate::error::{SpawnError, SpawnErrorKind};

impl Stage {
    /// As it is told in errors.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Clone => "clone",
            Self::Session => "session",
            Self::Limit => "limit",
            Self::Stdio => "stdio",
            Self::Namespace => "namespace",
            Self::Mount => "mount",
            Self::Cwd => "cwd",
            Self::Capabilities => "capabilities",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Exec => "exec",
        }
    }
}

impl LaunchError {
    /// The error a caller sees.
    pub(crate) fn explain(self, plan: &Plan) -> SpawnError {
        let error = match self.stage {
            Stage::Clone => self.at_clone(plan),
            Stage::Session | Stage::Stdio => self
                .scarce_or(SpawnErrorKind::Other)
                .because(self.stage.name()),
            Stage::Limit => self.at_limit(plan),
            Stage::Namespace | Stage::Capabilities | Stage::Landlock | Stage::Seccomp => {
                SpawnError::new(SpawnErrorKind::SandboxUnavailable).because(self.stage.name())
            }
            Stage::Mount => self.at_mount(plan),
            Stage::Cwd => self.at_cwd(plan),
            Stage::Exec => self.at_exec(plan),
        };
        error.os(self.errno)
    }

    /// Whether something ran out, else `kind`.
    fn scarce_or(self, kind: SpawnErrorKind) -> SpawnError {
        SpawnError::new(match self.errno {
            libc::ENOMEM | libc::EMFILE | libc::ENFILE => SpawnErrorKind::ResourceLimit,
            _ => kind,
        })
    }

    fn at_clone(self, plan: &Plan) -> SpawnError {
        let restrictions = plan.restrictions.as_ref();
        let namespaces = restrictions.is_some_and(|given| given.mounts.is_some());
        let kind = match self.errno {
            libc::EAGAIN => SpawnErrorKind::TooManyProcesses,
            // Only a clone into a cgroup says these.
            libc::EACCES | libc::EBUSY | libc::ENODEV | libc::EOPNOTSUPP => {
                SpawnErrorKind::ContainmentUnavailable
            }
            // Of a clone with namespaces: not allowed, or no more of them.
            libc::EPERM | libc::ENOSPC | libc::EUSERS | libc::EINVAL if namespaces => {
                SpawnErrorKind::SandboxUnavailable
            }
            _ => SpawnErrorKind::Other,
        };
        self.scarce_or(kind).because(self.stage.name())
    }

    fn at_limit(self, plan: &Plan) -> SpawnError {
        let limit = usize::try_from(self.index)
            .ok()
            .and_then(|index| plan.rlimits.get(index))
            .map_or("open_files", |(resource, _, _)| limit_name(*resource));
        SpawnError::new(SpawnErrorKind::ResourceLimit).because(limit)
    }

    fn at_mount(self, plan: &Plan) -> SpawnError {
        let error = SpawnError::new(SpawnErrorKind::SandboxUnavailable).because(self.stage.name());
        let mounts = plan.restrictions.as_ref().and_then(|r| r.mounts.as_ref());
        let step = usize::try_from(self.index)
            .ok()
            .and_then(|index| mounts?.steps.get(index));
        match step {
            Some(
                MountStep::BindSelf(path)
                | MountStep::ReadOnly(path)
                | MountStep::MaskDirectory(path)
                | MountStep::MaskFile(path)
                | MountStep::EmptyDirectory(path)
                | MountStep::Freeze(path)
                | MountStep::Restore(path)
                | MountStep::Instead(_, path),
            ) => error.at(as_path(path)),
            None => error,
        }
    }

    fn at_cwd(self, plan: &Plan) -> SpawnError {
        let error = match self.errno {
            libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::ENAMETOOLONG => {
                SpawnError::new(SpawnErrorKind::CwdNotFound)
            }
            libc::EACCES | libc::EPERM => SpawnError::new(SpawnErrorKind::CwdDenied),
            _ => self
                .scarce_or(SpawnErrorKind::Other)
                .because(self.stage.name()),
        };
        error.at(as_path(&plan.cwd))
    }

    fn at_exec(self, plan: &Plan) -> SpawnError {
        let error = match self.errno {
            libc::ENOENT if plan.names_a_file() => SpawnError::new(SpawnErrorKind::NotExecutable)
                .because("its interpreter was not found"),
            libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG => {
                SpawnError::new(SpawnErrorKind::ProgramNotFound)
            }
            libc::E2BIG => {
                SpawnError::new(SpawnErrorKind::ResourceLimit).because("arguments and environment")
            }
            libc::EAGAIN => SpawnError::new(SpawnErrorKind::TooManyProcesses),
            libc::EACCES
            | libc::EPERM
            | libc::ENOEXEC
            | libc::EISDIR
            | libc::EINVAL
            | libc::ELIBBAD
            | libc::ELOOP
            | libc::ETXTBSY => SpawnError::new(SpawnErrorKind::NotExecutable),
            _ => self
                .scarce_or(SpawnErrorKind::Other)
                .because(self.stage.name()),
        };
        error.at(as_path(&plan.program))
    }
}

impl Plan {
    /// Whether the program was given as a path, and there is a file. The kernel reports a missing
    /// interpreter in the words of a missing program.
    fn names_a_file(&self) -> bool {
        self.program.to_bytes().contains(&b'/')
            && as_path(&self.cwd).join(as_path(&self.program)).is_file()
    }
}

fn as_path(text: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(text.to_bytes()))
}
