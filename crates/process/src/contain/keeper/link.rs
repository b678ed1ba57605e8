//! The service's end of the keeper.

use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use super::held::{Held, Starting};
use crate::launch::{ChildEnds, LaunchError, Plan, Slots};

/// What the keeper is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job<'a> {
    /// `reaper`: starts processes in holders and ends them when the service is gone.
    Hold,
    /// `cgroup`: ends this directory and everything below it when the service is gone.
    EndCgroup(&'a Path),
}

/// A running keeper. Dropping it makes the keeper end everything and exit, and waits for that a
/// moment.
#[derive(Debug)]
pub(crate) struct KeeperLink {}

impl KeeperLink {
    /// Starts the keeper and waits until it is ready (bounded). `program` with its arguments, or this
    /// program again if it called the hook. A program that is no keeper is ended and refused. `hold`
    /// is copied: the keeper and its holders have them open until everything has ended.
    pub(crate) fn start(
        slots: &mut Slots,
        program: Option<&[OsString]>,
        hold: &[OwnedFd],
        job: Job<'_>,
    ) -> io::Result<Self> {
        let _ = (slots, program, hold, job);
        todo!()
    }

    pub(crate) fn pid(&self) -> i32 {
        todo!()
    }

    /// Readable once the keeper is dead; for `AsyncFd` or `poll`.
    pub(crate) fn pidfd(&self) -> BorrowedFd<'_> {
        todo!()
    }

    pub(crate) fn is_dead(&self) -> bool {
        todo!()
    }

    /// Asks for a process without waiting for it. Any thread, any number in flight. An error is the
    /// keeper's or the system's, and nothing was started.
    pub(crate) fn begin(
        &self,
        plan: &Plan,
        ends: &ChildEnds,
        ruleset: Option<BorrowedFd<'_>>,
    ) -> io::Result<Starting> {
        let _ = (plan, ends, ruleset);
        todo!()
    }

    /// [`KeeperLink::begin`] and a blocking wait for its result.
    pub(crate) fn spawn_held(
        &self,
        plan: &Plan,
        ends: &ChildEnds,
        ruleset: Option<BorrowedFd<'_>>,
    ) -> io::Result<Result<Held, LaunchError>> {
        let _ = (plan, ends, ruleset);
        todo!()
    }
}

/// Reaps holders that fell to this process because their keeper died; how many are left that still
/// live. To be called after a keeper's death until it says 0 (each holder's `Gone` is a good moment).
pub(crate) fn reap_fallen_holders() -> usize {
    todo!()
}
