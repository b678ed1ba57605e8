//! What the service makes in the file system for its processes, and takes away again.
//!
//! Mount points in the user's directories, and directories that sandboxed processes see as `/dev/shm`.
//! The invariant here: both go with the last member of the process they were made for. What a killed
//! service left goes with the start of the next one that has the same state directory: each service has
//! an entry there with a lock, which its keeper holds until all its processes have ended.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use tokio::runtime::Handle;

use crate::sandbox::{MountPoint, MountPoints, remove_left_behind};

const LOCK: &str = "lock";
const JOURNAL: &str = "mount-points";

/// Entries of dead services that one start looks at; the rest is left to the next.
const ENTRIES_MAX: usize = 1_024;

/// What a service makes, and where it remembers that.
#[derive(Debug, Default)]
pub(super) struct Footprints {
    pub(super) mount_points: MountPoints,
    entry: Option<Arc<Entry>>,
}

/// The service's own entry in the state directory.
#[derive(Debug)]
struct Entry {
    directory: PathBuf,
    /// Held until the service is gone; the keeper holds it too.
    lock: OwnedFd,
    shared_memory: Mutex<MemoryNumbers>,
}

/// Numbered directories. One that is free again is used before a new one is made, so that rulesets
/// made for it serve again.
#[derive(Debug, Default)]
struct MemoryNumbers {
    free: Vec<u32>,
    made: u32,
}

/// What was made for one process. The driver drops it when no member of the process is left.
#[derive(Debug, Default)]
pub(crate) struct Footprint {
    mount_points: Vec<MountPoint>,
    shared_memory: Option<SharedMemory>,
}

impl Footprint {
    pub(super) fn new(mount_points: Vec<MountPoint>, shared_memory: Option<SharedMemory>) -> Self {
        Self {
            mount_points,
            shared_memory,
        }
    }

    /// Removes what others see at once. Files that the process left in its shared memory may be many,
    /// so a thread that may block removes those.
    pub(crate) fn remove(self, runtime: &Handle) {
        drop(self.mount_points);
        let Some(memory) = self.shared_memory else {
            return;
        };
        if !memory.is_clean() {
            runtime.spawn_blocking(move || drop(memory));
        }
    }
}

/// A directory that one process sees as `/dev/shm`.
#[derive(Debug)]
pub(super) struct SharedMemory {
    path: PathBuf,
    number: u32,
    entry: Arc<Entry>,
}

impl SharedMemory {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl SharedMemory {
    /// Whether it is as it was made: nothing is in it, and its mode lets the next process use it.
    fn is_clean(&self) -> bool {
        let is_empty =
            std::fs::read_dir(&self.path).is_ok_and(|mut entries| entries.next().is_none());
        let mode = self.path.symlink_metadata().map(|found| found.mode());
        is_empty && mode.is_ok_and(|mode| mode & 0o7777 == 0o700)
    }

    fn clean(&self) -> io::Result<()> {
        std::fs::remove_dir_all(&self.path)?;
        make_directory(&self.path)
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        if !self.is_clean() {
            // Its number is not used again; the next service removes what is left.
            if let Err(error) = self.clean() {
                tracing::warn!(%error, "shared memory of a process cannot be removed");
                return;
            }
        }
        self.entry.memory_numbers().give_back(self.number);
    }
}

impl MemoryNumbers {
    fn give_back(&mut self, number: u32) {
        self.free.push(number);
        // The lowest one is taken first.
        self.free.sort_unstable_by(|a, b| b.cmp(a));
    }
}

impl Entry {
    fn memory_numbers(&self) -> std::sync::MutexGuard<'_, MemoryNumbers> {
        self.shared_memory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // The journal says nothing that is not removed by now; an entry that stays is as good as one
        // of a killed service.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Footprints {
    /// Removes what dead services left in the state directory, and makes an entry in it.
    pub(super) fn in_directory(state: &Path) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(state)?;
        let all = open(state, OFlags::DIRECTORY)?;
        // Else one service could remove the entry that another has made and not yet locked.
        flock(&all, FlockOperation::LockExclusive)?;
        for entry in std::fs::read_dir(state)?.take(ENTRIES_MAX) {
            if let Err(error) = remove_dead(&entry?.path()) {
                tracing::warn!(%error, "what a dead process left cannot be removed");
            }
        }
        // One process has few services.
        let directory = (0..ENTRIES_MAX)
            .map(|number| state.join(format!("{}-{number}", std::process::id())))
            .find(|path| !path.exists())
            .unwrap_or_default();
        make_directory(&directory)?;
        let lock = open(&directory.join(LOCK), OFlags::CREATE | OFlags::WRONLY)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let journal = File::options()
            .append(true)
            .create(true)
            .open(directory.join(JOURNAL))?;
        Ok(Self {
            mount_points: MountPoints::with_journal(journal),
            entry: Some(Arc::new(Entry {
                directory,
                lock,
                shared_memory: Mutex::default(),
            })),
        })
    }

    /// The lock that says that this service, or something of it, lives.
    pub(super) fn lock(&self) -> io::Result<Option<OwnedFd>> {
        self.entry
            .as_ref()
            .map(|entry| entry.lock.try_clone())
            .transpose()
    }

    /// A directory for the shared memory of one process, if there is a place for it.
    pub(super) fn shared_memory(&self) -> Option<SharedMemory> {
        let entry = self.entry.as_ref()?;
        let (number, is_new) = {
            let mut places = entry.memory_numbers();
            if let Some(number) = places.free.pop() {
                (number, false)
            } else {
                places.made += 1;
                (places.made, true)
            }
        };
        let path = entry.directory.join(format!("shm-{number}"));
        if is_new && let Err(error) = make_directory(&path) {
            tracing::warn!(%error, "a process has no shared memory");
            return None;
        }
        Some(SharedMemory {
            path,
            number,
            entry: Arc::clone(entry),
        })
    }
}

/// Removes an entry whose lock no process holds, and the mount points that are noted in it.
fn remove_dead(entry: &Path) -> io::Result<()> {
    if let Ok(lock) = open(&entry.join(LOCK), OFlags::WRONLY)
        && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err()
    {
        return Ok(());
    }
    remove_left_behind(&entry.join(JOURNAL))?;
    std::fs::remove_dir_all(entry)
}

fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_service_removes_what_a_dead_one_left_and_nothing_of_a_living_one() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let (dead, alive) = (
            Footprints::in_directory(&state).unwrap(),
            Footprints::in_directory(&state).unwrap(),
        );
        let keep = alive.shared_memory().unwrap();
        let left = dead.shared_memory().unwrap();
        std::fs::write(left.path().join("sem.x"), "x").unwrap();
        let gone = left.path().to_owned();
        // A killed service drops nothing; its locks end.
        flock(&dead.entry.as_ref().unwrap().lock, FlockOperation::Unlock).unwrap();
        std::mem::forget((dead, left));
        let next = Footprints::in_directory(&state).unwrap();
        assert!(!gone.exists());
        assert!(keep.path().exists());
        drop((keep, alive, next));
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
    }

    #[test]
    fn a_place_is_emptied_before_the_next_process_gets_it() {
        let folder = tempfile::tempdir().unwrap();
        let footprints = Footprints::in_directory(folder.path()).unwrap();
        let first = footprints.shared_memory().unwrap();
        let second = footprints.shared_memory().unwrap();
        let path = first.path().to_owned();
        assert_ne!(second.path(), path);
        std::fs::create_dir(path.join("deep")).unwrap();
        std::fs::write(path.join("deep/file"), "x").unwrap();
        drop(first);
        let again = footprints.shared_memory().unwrap();
        assert_eq!(again.path(), path);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    }
}
