//! Capabilities, new privileges and system calls: what a child gives up for good.
//!
//! Runs in the child, so the rules of `child` hold: system calls only, on what was prepared. All of
//! it concerns the calling task alone and is inherited by what it starts. What is kept and what a
//! filter says is decided by `sandbox`.

use super::Stage;
use super::child::{Step, at};
use super::syscall::{address, call, word};

/// Without the arguments nobody needs.
pub(super) fn prctl(option: i32, argument: usize, second: usize) -> Result<usize, i32> {
    // SAFETY: none of the options used here reads or writes memory, and all concern this task only.
    unsafe { call(libc::SYS_prctl, [word(option), argument, second, 0, 0, 0]) }
}

/// The highest capability there could be.
const CAPABILITIES: usize = 64;

/// Headers and sets of `capset`, in the kernel's layout.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilitySet {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// Gives up all capabilities but `kept`, in every set.
pub(super) fn drop_capabilities(kept: u64) -> Step {
    for capability in 0..CAPABILITIES {
        if kept & (1 << capability) != 0 {
            continue;
        }
        match prctl(libc::PR_CAPBSET_DROP, capability, 0) {
            Ok(_) => {}
            // EINVAL: no such capability, nor a higher one. EPERM: without CAP_SETPCAP the bounding
            // set stays. It then has no effect either: what it bounds is gained by an exec only,
            // and `no_new_privs` lets an exec gain nothing.
            Err(libc::EINVAL | libc::EPERM) => break,
            failed @ Err(_) => return at(Stage::Capabilities, failed),
        }
    }
    at(
        Stage::Capabilities,
        prctl(
            libc::PR_CAP_AMBIENT,
            word(libc::PR_CAP_AMBIENT_CLEAR_ALL),
            0,
        ),
    )?;
    let header = CapabilityHeader {
        version: CAPABILITY_VERSION_3,
        pid: 0,
    };
    let mut sets = [CapabilitySet::default(); 2];
    // SAFETY: header and sets have the layout of this version and live here; pid 0 is this task.
    at(Stage::Capabilities, unsafe {
        call(
            libc::SYS_capget,
            [
                address(&raw const header),
                address(&raw mut sets),
                0,
                0,
                0,
                0,
            ],
        )
    })?;
    // One that was never there cannot be kept, and asking for it would fail.
    for (set, word) in sets
        .iter_mut()
        .zip([kept & u64::from(u32::MAX), kept >> 32])
    {
        let mask = set.permitted & u32::try_from(word).unwrap_or(0);
        *set = CapabilitySet {
            effective: mask,
            permitted: mask,
            inheritable: mask,
        };
    }
    // SAFETY: as above.
    at(Stage::Capabilities, unsafe {
        call(
            libc::SYS_capset,
            [
                address(&raw const header),
                address(&raw const sets),
                0,
                0,
                0,
                0,
            ],
        )
    })
}

/// An exec gives nothing that was not there before, by no bit of the file's mode.
pub(super) fn forbid_new_ones() -> Step {
    at(Stage::Capabilities, prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0))
}

/// The last thing given up; from here on the filter decides over every call.
pub(super) fn filter_calls(filter: &[[u8; 8]]) -> Step {
    /// `sock_fprog`; the kernel copies the filter byte by byte and asks for no alignment.
    #[repr(C)]
    struct Program {
        len: u16,
        filter: *const [u8; 8],
    }
    if filter.is_empty() {
        return Ok(());
    }
    let Ok(len) = u16::try_from(filter.len()) else {
        return at(Stage::Seccomp, Err(libc::EINVAL));
    };
    let program = Program {
        len,
        filter: filter.as_ptr(),
    };
    // SAFETY: the program and its filter live until the call returns; without the flag that says
    // otherwise it applies to this task only.
    at(Stage::Seccomp, unsafe {
        call(
            libc::SYS_seccomp,
            [
                libc::SECCOMP_SET_MODE_FILTER as usize,
                0,
                address(&raw const program),
                0,
                0,
                0,
            ],
        )
    })
}
