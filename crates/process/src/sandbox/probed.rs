//! What this machine can enforce, tried when somebody asks for it.
//!
//! The invariant here: each thing is tried once, and whoever asks while it is tried waits for the
//! result. Trials are those of `probe`; what a policy needs of the machine is decided by its callers.

use std::sync::{Arc, OnceLock};

use super::aliases::Aliases;
use super::{Machine, probe};
use crate::report::MountsBy;

/// The results so far.
#[derive(Debug, Default)]
pub(crate) struct Probed {
    landlock: OnceLock<Result<u32, String>>,
    seccomp: OnceLock<Result<(), String>>,
    mounts: OnceLock<Result<MountsBy, String>>,
    machine: OnceLock<Machine>,
}

impl Probed {
    pub(crate) fn landlock(&self) -> &Result<u32, String> {
        self.landlock.get_or_init(probe::landlock)
    }

    pub(crate) fn seccomp(&self) -> &Result<(), String> {
        self.seccomp.get_or_init(probe::seccomp)
    }

    pub(crate) fn mounts(&self) -> &Result<MountsBy, String> {
        self.mounts.get_or_init(probe::mounts)
    }

    /// Everything; blocks for the time of three spawns when nothing was tried yet.
    pub(crate) fn machine(&self) -> &Machine {
        self.machine.get_or_init(|| {
            // Opens what stays open; a policy that needs it says why it cannot be read.
            let _ = Aliases::now();
            Machine {
                landlock: self.landlock().clone(),
                seccomp: self.seccomp().clone(),
                mounts: self.mounts().clone(),
                rulesets: Arc::default(),
            }
        })
    }
}
