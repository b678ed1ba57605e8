//! The reserved low descriptors through which children get their streams.
//!
//! The child's copy of the table of descriptors ends at the highest slot, so its size does not
//! depend on how many descriptors the service has open. The invariant here: between two launches
//! every slot is `/dev/null`, so that no pipe is held open by us. One launch at a time uses them,
//! which `&mut` says.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::io::{DupFlags, Errno};
use rustix::process::{Resource, Rlimit};

use super::ChildEnds;
use super::clone::Stack;

/// The soft limit of descriptors this program was started with.
static OPEN_FILES: OnceLock<u64> = OnceLock::new();

/// The reserved low descriptors and the stack a launch uses; one launch at a time.
#[derive(Debug)]
pub(crate) struct Slots {
    stdio: [OwnedFd; 3],
    ruleset: OwnedFd,
    null: OwnedFd,
    open_files: u64,
    pub(super) stack: Stack,
}

impl Slots {
    /// Takes the lowest free descriptors above 2. Early is better: the higher they are, the more a
    /// launch copies. The first call in a program also notes its limit of descriptors.
    pub(crate) fn reserve() -> io::Result<Self> {
        let now = || rustix::process::getrlimit(Resource::Nofile).current;
        let open_files = *OPEN_FILES.get_or_init(|| now().unwrap_or(u64::MAX));
        let null = super::ends::null()?;
        let slot = || rustix::io::fcntl_dupfd_cloexec(&null, 3);
        let stdio = [slot()?, slot()?, slot()?];
        let ruleset = slot()?;
        Ok(Self {
            stdio,
            ruleset,
            null,
            open_files,
            stack: Stack::new()?,
        })
    }

    /// Raises this program's own soft limit of descriptors to the hard one. Children still get
    /// what the program was started with. Again: nothing.
    #[expect(
        clippy::unused_self,
        reason = "slots are the proof that the limit was noted before it is raised"
    )]
    pub(crate) fn raise_open_files(&self) -> io::Result<()> {
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        Ok(rustix::process::setrlimit(Resource::Nofile, raised)?)
    }

    /// The soft limit of descriptors children get.
    pub(super) fn open_files(&self) -> u64 {
        self.open_files
    }

    pub(super) fn stdio(&self) -> [i32; 3] {
        self.stdio.each_ref().map(AsRawFd::as_raw_fd)
    }

    pub(super) fn ruleset(&self) -> i32 {
        self.ruleset.as_raw_fd()
    }

    /// The highest of them.
    pub(super) fn last(&self) -> i32 {
        self.stdio().into_iter().fold(self.ruleset(), i32::max)
    }

    /// Puts the child's ends in place; after a failure too they must be cleared.
    pub(super) fn fill(
        &mut self,
        ends: &ChildEnds,
        ruleset: Option<BorrowedFd<'_>>,
    ) -> Result<(), Errno> {
        let [stdin, stdout, stderr] = &mut self.stdio;
        put(ends.stdin.as_fd(), stdin)?;
        put(ends.stdout.as_fd(), stdout)?;
        put(ends.stderr.as_fd(), stderr)?;
        if let Some(ruleset) = ruleset {
            put(ruleset, &mut self.ruleset)?;
        }
        Ok(())
    }

    /// Lets go of the child's ends.
    pub(super) fn clear(&mut self) {
        for slot in self.stdio.iter_mut().chain([&mut self.ruleset]) {
            if let Err(error) = put(self.null.as_fd(), slot) {
                // A stream would never end. The kernel has no reason for this: both are open.
                tracing::error!(%error, "a reserved descriptor could not be cleared");
            }
        }
    }
}

fn put(from: BorrowedFd<'_>, slot: &mut OwnedFd) -> Result<(), Errno> {
    // Another thread that is opening a file at this moment may make the slot busy or be told of a
    // signal; both pass.
    rustix::io::retry_on_intr(|| {
        rustix::io::dup3(from, slot, DupFlags::CLOEXEC).map_err(|error| match error {
            Errno::BUSY => Errno::INTR,
            other => other,
        })
    })
}
