//! How a process ended.
//!
//! One rule for pipes and terminals: an exit is its code, a signal is 128 and its number, a timeout
//! is 124, and a status nobody could learn is -1. Who decides which is the driver.

use std::time::Duration;

/// How the leader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitStatus {
    /// The code a shell would show; 124 for a timeout, -1 when it was lost.
    pub code: i32,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Why.
    pub reason: Reason,
    /// What it used.
    pub rusage: Rusage,
}

/// Why a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// By itself.
    Exited,
    /// By a signal nobody here was asked to send.
    Signaled,
    /// Because it was ended here.
    Terminated,
    /// It ran longer than it was allowed to.
    Timeout,
    /// The keeper died with its status.
    Lost,
}

/// Processor time and memory of the leader and those it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rusage {
    /// In user mode.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
    /// The most memory that was resident, in bytes.
    pub max_resident_bytes: u64,
}
