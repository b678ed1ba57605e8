//! What others see of a loaded lane without asking its task.
//!
//! The invariant here: it is written by the lane's task alone, before it tells what it says, so
//! whoever was told a status and looks finds that one or a later one.
//!
//! What the status of a thread means is told by the task; a thread without a face is not loaded.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tokio::sync::Notify;
use turnlane_protocol::thread::{ActiveFlag, ThreadStatus};

/// The outside of a loaded lane.
#[derive(Debug, Default)]
pub(crate) struct Face {
    /// Makes the task look at its queue.
    pub wake: Notify,
    status: AtomicU8,
    wanted: AtomicBool,
}

/// Loaded, and nothing has happened since.
const FRESH: u8 = 0;
const SYSTEM_ERROR: u8 = 1;
const ACTIVE: u8 = 2;
const WAITING: u8 = 3;
const NOT_LOADED: u8 = 4;
const IDLE: u8 = 5;

impl Face {
    /// Notes that somebody needs the lane for more than the question what became of a turn.
    pub(crate) fn want(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    /// Returns true if somebody needs the lane for more than that.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Shows what the thread does.
    pub(crate) fn show(&self, status: &ThreadStatus) {
        let shown = match status {
            ThreadStatus::Idle => IDLE,
            ThreadStatus::SystemError => SYSTEM_ERROR,
            ThreadStatus::Active { active_flags } if active_flags.is_empty() => ACTIVE,
            ThreadStatus::Active { .. } => WAITING,
            ThreadStatus::NotLoaded => NOT_LOADED,
        };
        self.status.store(shown, Ordering::Release);
    }

    /// Whether nothing was shown since the thread was loaded.
    pub(crate) fn is_fresh(&self) -> bool {
        self.status.load(Ordering::Acquire) == FRESH
    }

    /// The last turn before the thread was loaded failed; nothing if anything was shown since.
    pub(crate) fn show_old_failure(&self) {
        let (fresh, failed) = (FRESH, SYSTEM_ERROR);
        // What was shown since is newer.
        let _ = self
            .status
            .compare_exchange(fresh, failed, Ordering::AcqRel, Ordering::Acquire);
    }

    /// What the thread does.
    pub(crate) fn status(&self) -> ThreadStatus {
        match self.status.load(Ordering::Acquire) {
            SYSTEM_ERROR => ThreadStatus::SystemError,
            ACTIVE => ThreadStatus::Active {
                active_flags: Vec::new(),
            },
            WAITING => ThreadStatus::Active {
                active_flags: vec![ActiveFlag::WaitingOnApproval],
            },
            NOT_LOADED => ThreadStatus::NotLoaded,
            _ => ThreadStatus::Idle,
        }
    }
}
