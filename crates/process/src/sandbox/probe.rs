//! What this machine can enforce, found by trying.
//!
//! A trial child applies one thing and then fails to execute a program that does not exist: whoever
//! came that far could apply it. No version is compared and no setting is read, since containers,
//! other security modules and settings may forbid what the kernel knows. A trial leaves nothing
//! behind.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use super::{filter, landlock};
use crate::launch::{
    ChildEnds, LaunchError, MountStep, Mounts, Plan, Restrictions, Slots, Stage, Terminal, launch,
};
use crate::report::MountsBy;

/// Never there: nobody can make it, not even as root.
const NO_PROGRAM: &std::ffi::CStr = c"/proc/turnlane-trial";

/// Tries Landlock.
pub(super) fn landlock() -> Result<u32, String> {
    trial()?.landlock()
}

/// Tries filters of system calls.
pub(super) fn seccomp() -> Result<(), String> {
    trial()?.seccomp()
}

/// Tries mounts in a namespace.
pub(super) fn mounts() -> Result<MountsBy, String> {
    trial()?.mounts()
}

fn trial() -> Result<Trial, String> {
    Trial::new().map_err(|error| format!("no trial child: {error}"))
}

struct Trial {
    slots: Slots,
    ends: ChildEnds,
}

impl Trial {
    fn new() -> io::Result<Self> {
        let null = || {
            File::options()
                .read(true)
                .write(true)
                .open("/dev/null")
                .map(Into::into)
        };
        Ok(Self {
            slots: Slots::reserve()?,
            ends: ChildEnds {
                stdin: null()?,
                stdout: null()?,
                stderr: null()?,
            },
        })
    }

    fn landlock(&mut self) -> Result<u32, String> {
        let abi = landlock::abi().map_err(|error| match error.raw_os_error() {
            Some(libc::ENOSYS) => "not built into this kernel".to_owned(),
            Some(libc::EOPNOTSUPP) => "switched off at boot".to_owned(),
            _ => error.to_string(),
        })?;
        let about = landlock::About {
            files: landlock::Files::Confined,
            tcp: landlock::Tcp::Forbidden,
        };
        let ruleset = landlock::Ruleset::new(abi, about)
            .map_err(|error| format!("no ruleset can be made: {error}"))?;
        let fd = ruleset.into_fd();
        self.run(Restrictions::default(), Some(fd.as_fd()))?;
        Ok(abi)
    }

    fn seccomp(&mut self) -> Result<(), String> {
        let strictest = filter::Scope {
            network: filter::Network::Off,
            files: filter::Files::Frozen,
            ipc: filter::Ipc::Shared,
        };
        let filter = filter::program(strictest).ok_or(filter::UNKNOWN_ARCHITECTURE)?;
        let restrictions = Restrictions {
            filter,
            ..Restrictions::default()
        };
        self.run(restrictions, None)
    }

    /// Every kind of mount, since the namespace alone says nothing about them.
    fn mounts(&mut self) -> Result<MountsBy, String> {
        let by = if rustix::process::geteuid().is_root() {
            MountsBy::Root
        } else {
            MountsBy::UserNamespace
        };
        let mounts = Mounts {
            user_namespace: by.user_namespace(),
            steps: vec![
                MountStep::Freeze(c"/".to_owned()),
                MountStep::Restore(c"/dev".to_owned()),
                MountStep::BindSelf(c"/dev".to_owned()),
                MountStep::MaskFile(c"/dev/zero".to_owned()),
                MountStep::ReadOnly(c"/dev".to_owned()),
                MountStep::MaskDirectory(c"/dev".to_owned()),
                MountStep::EmptyDirectory(c"/dev".to_owned()),
            ],
        };
        let restrictions = Restrictions {
            mounts: Some(mounts),
            ..Restrictions::default()
        };
        self.run(restrictions, None)?;
        Ok(by)
    }

    fn run(
        &mut self,
        restrictions: Restrictions,
        ruleset: Option<std::os::fd::BorrowedFd<'_>>,
    ) -> Result<(), String> {
        let plan = Plan {
            program: NO_PROGRAM.to_owned(),
            programs: vec![NO_PROGRAM.to_owned()],
            argv: vec![CString::default()],
            envp: Vec::new(),
            cwd: c"/".to_owned(),
            terminal: Terminal::None,
            rlimits: Vec::new(),
            restrictions: Some(restrictions),
        };
        match launch(&mut self.slots, &plan, &self.ends, ruleset, None) {
            // It came as far as it could.
            Ok(_)
            | Err(LaunchError {
                stage: Stage::Exec, ..
            }) => Ok(()),
            Err(error) => Err(told(error)),
        }
    }
}

fn told(error: LaunchError) -> String {
    let what = match error.stage {
        Stage::Clone => "no such namespace for a child",
        Stage::Namespace => "ids cannot be mapped in a user namespace",
        Stage::Mount => "a mount in a namespace of its own was refused",
        Stage::Capabilities => "capabilities cannot be dropped",
        Stage::Landlock => "a ruleset cannot be applied",
        Stage::Seccomp => "a filter cannot be applied",
        Stage::Session | Stage::Limit | Stage::Stdio | Stage::Cwd | Stage::Exec => {
            "the trial child failed"
        }
    };
    let why = io::Error::from_raw_os_error(error.errno);
    format!("{what}: {why}")
}
