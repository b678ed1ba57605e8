//! The cgroups of one service: a parent directory, and below it one directory per process.
//!
//! A directory is taken for a spawn, and when its process and everybody else in it is gone it is kept
//! for the next one with the same limits, none or the default ones; at most [`IDLE_MAX`] of each are.
//! One whose process had limits of its own or made cgroups is removed, and so is one that was ever
//! killed: Linux 6.18 was seen to kill every child that is cloned into such a cgroup later. The invariant here: a directory is either taken by exactly one
//! process, idle and empty, or removed; the parent holds neither the service nor the keeper, so that
//! one write ends everybody.
//!
//! No descriptor is held per process: files are opened below the parent's descriptor when they are
//! needed. An ordinary user needs a delegated subtree, and the service must run inside it: a
//! writable directory is not enough, because the kernel lets nobody move a child across a cgroup he
//! may not write to. Who waits for emptiness and who gives directories back is in `running`.

mod bounds;
mod files;
mod find;
mod stale;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{SpawnError, SpawnErrorKind};
pub(super) use bounds::Bounds;
use bounds::missing;
use files::Occupancy;
pub(super) use find::own;

/// Empty directories that are kept for reuse, of those without and of those with default limits. More would only make the tree slower to read.
const IDLE_MAX: usize = 64;

/// The controllers that limits need.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// Prefix of the names of parents; the service's pid and start time and a random number follow.
const PREFIX: &str = "turnlane-";

/// The parent directory of one service.
#[derive(Debug)]
pub(super) struct Tree {
    /// Locked as long as the service lives, so that no other one takes it for a stale one.
    dir: OwnedFd,
    path: PathBuf,
    /// The directory's own name.
    name: String,
    controllers: Vec<String>,
    /// The default limits that can be set here.
    defaults: Bounds,
    /// With the limits each has.
    idle: Mutex<Vec<(u32, Bounds)>>,
    /// Directories that were dropped with somebody in them.
    aside: Mutex<Vec<(u32, Reuse)>>,
    next: AtomicU32,
    /// How often everybody was ended.
    kills: AtomicU32,
    /// Given up for a moment when an end finds no free descriptor.
    spare: Mutex<Option<OwnedFd>>,
}

impl Tree {
    /// Makes the parent below `base`, or says why it cannot be made. Ends and removes what services
    /// that crashed left there, before anything is started.
    pub(super) fn make(base: &Path, defaults: Bounds) -> Result<Self, String> {
        stale::remove(base);
        let random = RandomState::new().hash_one(base) & 0xffff_ffff;
        let name = format!("{PREFIX}{}-{random:08x}", stale::owner_of_this_process());
        let path = base.join(&name);
        rustix::fs::mkdir(&path, Mode::from_raw_mode(0o755)).map_err(|errno| {
            let hint = match errno {
                Errno::ACCESS | Errno::PERM => "; an ordinary user needs a delegated subtree",
                _ => "",
            };
            let base = base.display();
            format!("cannot make a cgroup in {base}: {}{hint}", text(errno))
        })?;
        Self::open(path.clone(), name, defaults).inspect_err(|_reason| {
            let _ = rustix::fs::rmdir(&path);
        })
    }

    fn open(path: PathBuf, name: String, defaults: Bounds) -> Result<Self, String> {
        let failed =
            |what: &str, errno| format!("cannot {what} {}: {}", path.display(), text(errno));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(CWD, &path, flags, Mode::empty())
            .map_err(|errno| failed("open", errno))?;
        rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| failed("lock", errno))?;
        files::write(dir.as_fd(), "cgroup.kill", b"1").map_err(|errno| match errno {
            Errno::NOENT => "the kernel has no `cgroup.kill` (it came with 5.14)".to_owned(),
            errno => failed("write to cgroup.kill of", errno),
        })?;
        let controllers = files::enable(&path, dir.as_fd());
        let spare =
            files::spare().map_err(|errno| failed("open a spare descriptor beside", errno))?;
        let defaults = files::possible(dir.as_fd(), defaults);
        Ok(Self {
            dir,
            path,
            name,
            controllers,
            defaults,
            idle: Mutex::new(Vec::with_capacity(IDLE_MAX)),
            aside: Mutex::new(Vec::new()),
            next: AtomicU32::new(0),
            kills: AtomicU32::new(0),
            spare: Mutex::new(Some(spare)),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What can be limited below this directory.
    pub(super) fn controllers(&self) -> &[String] {
        &self.controllers
    }

    /// The default limits that can be set here.
    pub(super) fn defaults(&self) -> Bounds {
        self.defaults
    }

    /// How often everybody was ended.
    pub(super) fn kills(&self) -> u32 {
        self.kills.load(Ordering::Acquire)
    }

    /// Whether a line of `/proc/<pid>/cgroup` is about a cgroup of ours. Dead processes are still
    /// listed where they were, also after the directory is gone.
    pub(super) fn owns(&self, line: &str) -> bool {
        line.starts_with("0::") && line.split('/').any(|part| part == self.name)
    }

    /// An empty directory for one process and its descriptor for the clone.
    pub(super) fn take(self: &Arc<Self>, bounds: Bounds) -> Result<(Slot, OwnedFd), SpawnError> {
        for (controller, _, _) in bounds.needed() {
            if !self.controllers.iter().any(|found| found == controller) {
                return Err(missing(controller));
            }
        }
        // Read first: a kill in between makes this one count as killed.
        let reuse = if bounds == Bounds::default() || bounds == self.defaults {
            Reuse::Unkilled(self.kills(), bounds)
        } else {
            Reuse::No
        };
        let idle = match reuse {
            Reuse::Unkilled(..) => self.take_idle(bounds),
            Reuse::No | Reuse::GivenBack => None,
        };
        let (number, missing_limits) = match idle {
            // It has its limits from the first time.
            Some(number) => (number, Bounds::default()),
            None => (self.add()?, bounds),
        };
        let slot = Slot {
            tree: Arc::clone(self),
            number,
            reuse,
            killed: AtomicBool::new(false),
        };
        for (controller, file, max) in missing_limits.needed() {
            let path = format!("{}/{file}", directory(slot.number));
            files::write(self.dir.as_fd(), &path, max.to_string().as_bytes())
                .map_err(|errno| missing(controller).os(errno.raw_os_error()))?;
        }
        let dir = self.enter(&directory(slot.number))?;
        Ok((slot, dir))
    }

    fn take_idle(&self, bounds: Bounds) -> Option<u32> {
        let mut idle = lock(&self.idle);
        let at = idle.iter().rposition(|(_, found)| *found == bounds)?;
        Some(idle.swap_remove(at).0)
    }

    /// The descriptor of one directory for all processes whose containment is only their group. An
    /// end of the service reaches them there, their own does not reach beyond the group.
    pub(super) fn common(&self) -> Result<OwnedFd, SpawnError> {
        let name = self.common_name();
        match rustix::fs::mkdirat(&self.dir, &*name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => self.enter(&name),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    /// Another one after each end of everybody.
    fn common_name(&self) -> String {
        format!("common{}", self.kills())
    }

    fn enter(&self, name: &str) -> Result<OwnedFd, SpawnError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.dir, name, flags, Mode::empty())
            .map_err(|errno| self.failed(errno))
    }

    fn add(&self) -> Result<u32, SpawnError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        rustix::fs::mkdirat(&self.dir, directory(number), Mode::from_raw_mode(0o755))
            .map_err(|errno| self.failed(errno))?;
        Ok(number)
    }

    /// Takes an empty directory back; `false` while somebody is in it.
    fn accept(&self, number: u32, reuse: Reuse) -> bool {
        let name = directory(number);
        let dir = self.dir.as_fd();
        match files::occupancy(dir, &format!("{name}/cgroup.events")) {
            Occupancy::Populated => return false,
            Occupancy::Empty if !files::has_children(dir, &name) => {
                let mut idle = lock(&self.idle);
                // Compared under the lock: an end of everybody counts first and then empties the
                // list, so one that was there when it was written is not in the list afterwards.
                if let Reuse::Unkilled(kills, bounds) = reuse
                    && kills == self.kills()
                    && idle.iter().filter(|(_, found)| *found == bounds).count() < IDLE_MAX
                {
                    idle.push((number, bounds));
                    return true;
                }
            }
            // A frozen one would freeze the next process; one that is gone needs nothing.
            Occupancy::Empty | Occupancy::Frozen | Occupancy::Gone => {}
        }
        files::remove(dir, &name)
    }

    /// Tries again what was put aside.
    pub(super) fn tidy(&self) {
        let aside = std::mem::take(&mut *lock(&self.aside));
        for (number, reuse) in aside {
            if !self.accept(number, reuse) {
                lock(&self.aside).push((number, reuse));
            }
        }
    }

    fn failed(&self, errno: Errno) -> SpawnError {
        let kind = match errno {
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOSPC => {
                SpawnErrorKind::ResourceLimit
            }
            Errno::AGAIN => SpawnErrorKind::TooManyProcesses,
            _ => SpawnErrorKind::ContainmentUnavailable,
        };
        SpawnError::new(kind)
            .at(&self.path)
            .os(errno.raw_os_error())
    }

    /// Ends everybody in every directory. No directory that was there is used again.
    pub(super) fn kill_all(&self) {
        let common = self.common_name();
        self.kills.fetch_add(1, Ordering::AcqRel);
        let idle = std::mem::take(&mut *lock(&self.idle));
        if let Err(errno) = self.end("cgroup.kill") {
            tracing::error!(path = %self.path.display(), %errno, "cgroup.kill failed");
        }
        // Again: a directory that was taken since the count above was there when it was written.
        self.kills.fetch_add(1, Ordering::AcqRel);
        let idle = idle.into_iter().map(|(number, _)| (number, Reuse::No));
        lock(&self.aside).extend(idle);
        files::remove(self.dir.as_fd(), &common);
    }

    /// Writes to a `cgroup.kill`. An end must not fail for want of a descriptor: there is a spare one.
    fn end(&self, path: &str) -> Result<(), Errno> {
        match files::write(self.dir.as_fd(), path, b"1") {
            Err(Errno::MFILE | Errno::NFILE) => {
                let mut spare = lock(&self.spare);
                drop(spare.take());
                let result = files::write(self.dir.as_fd(), path, b"1");
                *spare = files::spare().ok();
                result
            }
            result => result,
        }
    }

    /// Removes every directory and the parent; whether it is gone. Those that are not empty stay.
    pub(super) fn remove(&self) -> bool {
        lock(&self.idle).clear();
        files::remove_below(self.dir.as_fd());
        rustix::fs::rmdir(&self.path).is_ok()
    }

    /// Readable as priority data when somebody enters or the last one leaves.
    pub(super) fn events(&self) -> io::Result<OwnedFd> {
        Ok(files::open(self.dir.as_fd(), "cgroup.events")?)
    }

    #[cfg(test)]
    pub(super) fn idle_len(&self) -> usize {
        lock(&self.idle).len()
    }

    #[cfg(test)]
    pub(super) fn made_len(&self) -> usize {
        let names = files::below(self.dir.as_fd());
        let own = names
            .iter()
            .filter(|name| name.to_bytes().starts_with(b"p"));
        own.count()
    }
}

/// One taken directory. Dropping it gives it back; one that is not empty is put aside and tried
/// again by [`Tree::tidy`].
#[derive(Debug)]
pub(super) struct Slot {
    tree: Arc<Tree>,
    number: u32,
    reuse: Reuse,
    killed: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reuse {
    /// By the next process with the same limits, if the whole tree was killed no more often than this.
    Unkilled(u32, Bounds),
    /// It has limits of its process's own or was killed.
    No,
    /// It is no longer ours.
    GivenBack,
}

impl Slot {
    /// Ends everybody in it, at once.
    pub(super) fn kill(&self) -> Result<(), Errno> {
        self.killed.store(true, Ordering::Relaxed);
        self.tree
            .end(&format!("{}/cgroup.kill", directory(self.number)))
    }

    /// Everybody in it and in cgroups below it who has not exited.
    pub(super) fn members(&self) -> Vec<i32> {
        files::members(self.tree.dir.as_fd(), &directory(self.number))
    }

    /// Its `cgroup.events`, for whoever waits for emptiness.
    pub(super) fn events(&self) -> io::Result<OwnedFd> {
        let path = format!("{}/cgroup.events", directory(self.number));
        Ok(files::open(self.tree.dir.as_fd(), &path)?)
    }

    /// Keeps the directory for the next process or removes it; `false` while somebody is in it.
    pub(super) fn give_back(&mut self) -> bool {
        if self.killed.load(Ordering::Relaxed) && matches!(self.reuse, Reuse::Unkilled(..)) {
            self.reuse = Reuse::No;
        }
        if self.reuse != Reuse::GivenBack && self.tree.accept(self.number, self.reuse) {
            self.reuse = Reuse::GivenBack;
        }
        self.reuse == Reuse::GivenBack
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.give_back() {
            lock(&self.tree.aside).push((self.number, self.reuse));
        }
    }
}

/// Waits until the cgroup whose `cgroup.events` this is has no process, or `max` has passed. Blocks.
pub(super) fn wait_until_empty(events: &OwnedFd, max: Duration) {
    let step = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    for _ in 0..max.as_millis() / 100 {
        if says_empty(events.as_fd()) {
            return;
        }
        let mut fds = [PollFd::new(events, PollFlags::PRI)];
        let _ = rustix::event::poll(&mut fds, Some(&step));
    }
}

/// Whether `events`, a descriptor of a `cgroup.events`, says that nobody is left.
pub(super) fn says_empty(events: BorrowedFd<'_>) -> bool {
    files::read_occupancy(events) != Occupancy::Populated
}

fn directory(number: u32) -> String {
    format!("p{number}")
}

fn text(errno: Errno) -> io::Error {
    io::Error::from(errno)
}

/// What these locks guard is whole after every statement.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
