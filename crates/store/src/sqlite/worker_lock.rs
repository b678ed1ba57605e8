//! Which workers live: one locked file per worker, beside the database.
//!
//! The invariant here: **a worker is dead exactly when its lock can be taken or its file is
//! missing.** The file is made and locked before the worker's row is written and removed after it
//! was deleted. The system frees the lock with the last process that holds the descriptor, however
//! that process ends, so there is no timer, no lease and no mistaken process id.
//!
//! A file is removed only under its exclusive lock, and whoever has locked a new file looks
//! whether it is still the one of that name: so a file that has just been made may be taken for a
//! dead worker's, and yet nobody goes on with a lock on a file that was removed.
//!
//! A lock file of another user cannot be opened; whether its worker lives is then decided by
//! `worker_life`. What becomes of a dead worker's lanes is decided by recovery.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use uuid::Uuid;

use crate::error::StoreError;
use crate::ids::{ThreadId, WorkerId};
use crate::sqlite::filesystem::beside;
use crate::sqlite::lock_holder;

/// How many lanes are remembered as told; the warnings of later ones are left out.
const TOLD_MAX: usize = 10_000;

/// What a look at a worker's lock file tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LockState {
    /// The lock can be taken, or there is no file.
    Free,
    /// The worker, or its keeper, holds it.
    Held,
    /// This user cannot open the file.
    Denied(PathBuf),
}

/// The files of all workers that share a database.
#[derive(Clone, Debug)]
pub(crate) enum WorkerLocks {
    /// The directory they lie in, and the lanes whose undecided owner was told.
    Folder(PathBuf, Arc<Mutex<HashSet<ThreadId>>>),
    /// Nobody shares a database in memory: every other worker is dead.
    Alone,
}

impl WorkerLocks {
    /// The folder `<database>.workers`, made (0700) when it is missing.
    pub(super) fn beside(database: &Path) -> Result<Self, StoreError> {
        let folder = beside(database, ".workers");
        let made = DirBuilder::new().mode(0o700).create(&folder);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(StoreError::failed("make the folder of the workers' locks"))?,
        }
        Ok(Self::within(folder))
    }

    /// The lock files in this directory, which exists.
    pub(super) fn within(directory: PathBuf) -> Self {
        Self::Folder(directory, Arc::default())
    }

    /// Whether this lane's undecided owner is told for the first time.
    pub(super) fn tells_first(&self, thread: ThreadId) -> bool {
        let Self::Folder(_, told) = self else {
            return false;
        };
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < TOLD_MAX && told.insert(thread)
    }

    /// Makes and locks the file of a new worker. Fails when there is one of that name.
    pub(super) fn hold(&self, worker: WorkerId) -> Result<HeldLock, StoreError> {
        let Some(path) = self.path(worker) else {
            return Ok(HeldLock { file: None });
        };
        loop {
            let made = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path);
            let file = made.map_err(StoreError::failed("make the worker's lock"))?;
            // Waits for nobody but one who sweeps up, for a moment: nobody else knows the worker
            // before its row is written.
            loop {
                match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
                    Err(Errno::INTR) => {}
                    locked => {
                        break locked.map_err(StoreError::failed("take the worker's lock"))?;
                    }
                }
            }
            if is_at(&file, &path) {
                let file = Some((Arc::new(file), path));
                return Ok(HeldLock { file });
            }
        }
    }

    /// The workers that have files.
    pub(super) fn files(&self) -> Vec<WorkerId> {
        let Self::Folder(folder, _) = self else {
            return Vec::new();
        };
        let listed = fs::read_dir(folder);
        let listed = listed.inspect_err(|error| tracing::warn!(%error, "cannot list the locks"));
        let names = listed.into_iter().flatten().flatten();
        let ids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<Uuid>().ok());
        ids.map(WorkerId::from).collect()
    }

    /// Tries the lock of a worker.
    ///
    /// When the system will not tell, the lock counts as held: a lane that waits can be helped, a
    /// lane that two workers run cannot.
    pub(super) fn state(&self, worker: WorkerId) -> LockState {
        let Some(path) = self.path(worker) else {
            return LockState::Free;
        };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return LockState::Free,
            Err(_) => return LockState::Denied(path),
        };
        // Shared, so that two who look at once do not take each other for the worker.
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => LockState::Free,
            Err(error) => {
                if error != Errno::WOULDBLOCK {
                    tracing::warn!(%worker, %error, "cannot tell whether a worker lives");
                }
                LockState::Held
            }
        }
    }

    /// Removes the file of a worker that was found dead and has no row any more.
    pub(super) fn forget_dead(&self, worker: WorkerId) {
        match self.state(worker) {
            // Another user's file in a directory of ours.
            LockState::Denied(path) if !lock_holder::is_flocked(&path) => remove(&path, worker),
            LockState::Denied(_) | LockState::Free | LockState::Held => self.forget(worker),
        }
    }

    /// Removes the file of a worker that has no row, unless that worker lives after all.
    pub(super) fn forget(&self, worker: WorkerId) {
        let Some(path) = self.path(worker) else {
            return;
        };
        let Ok(file) = File::open(&path) else {
            return;
        };
        let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        if locked.is_err() || !is_at(&file, &path) {
            return;
        }
        remove(&path, worker);
    }

    fn path(&self, worker: WorkerId) -> Option<PathBuf> {
        match self {
            Self::Folder(folder, _) => Some(folder.join(worker.to_string())),
            Self::Alone => None,
        }
    }
}

fn remove(path: &Path, worker: WorkerId) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%worker, %error, "cannot remove a dead worker's lock");
        }
        _ => {}
    }
}

/// Whether this is the file of that name.
fn is_at(file: &File, path: &Path) -> bool {
    let which = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let there = fs::metadata(path).map(which);
    let ours = file.metadata().map(which);
    matches!((there, ours), (Ok(there), Ok(ours)) if there == ours)
}

/// The lock of this worker; others take it for dead from its drop on.
#[derive(Debug)]
pub(super) struct HeldLock {
    file: Option<(Arc<File>, PathBuf)>,
}

impl HeldLock {
    /// The locked file, for as long as this worker holds it itself.
    pub(super) fn file(&self) -> Weak<File> {
        let file = self.file.as_ref();
        file.map_or_else(Weak::new, |(file, _)| Arc::downgrade(file))
    }

    /// Removes the file as well, for a worker that leaves no row behind.
    pub(super) fn remove(self) {
        let Some((_file, path)) = self.file else {
            return;
        };
        if let Err(error) = fs::remove_file(path) {
            tracing::warn!(%error, "cannot remove the worker's own lock");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(number: u128) -> WorkerId {
        WorkerId::from(Uuid::from_u128(number))
    }

    fn is_dead(locks: &WorkerLocks, number: u128) -> bool {
        locks.state(worker(number)) == LockState::Free
    }

    #[test]
    fn a_worker_lives_as_long_as_its_lock_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let locks = WorkerLocks::beside(&folder.path().join("db")).unwrap();
        assert!(is_dead(&locks, 1), "no file");
        let held = locks.hold(worker(1)).unwrap();
        assert!(!is_dead(&locks, 1));
        assert!(!is_dead(&locks, 1), "looking changes nothing");
        locks.forget(worker(1));
        assert!(!is_dead(&locks, 1), "a living worker's file stays");
        drop(held);
        assert!(is_dead(&locks, 1));
        assert!(locks.hold(worker(1)).is_err(), "no worker starts twice");
        locks.forget(worker(1));
        locks.forget(worker(1));
        locks.hold(worker(1)).unwrap().remove();
        assert!(locks.hold(worker(1)).is_ok(), "removed files leave nothing");
    }

    #[test]
    fn a_new_lock_outlives_those_who_sweep_up_at_the_same_moment() {
        let folder = tempfile::tempdir().unwrap();
        let locks = WorkerLocks::beside(&folder.path().join("db")).unwrap();
        let (begin, begun) = std::sync::mpsc::sync_channel(0);
        let sweeping = locks.clone();
        let sweeper = std::thread::spawn(move || {
            for number in begun {
                for _ in 0..20 {
                    sweeping.forget(worker(number));
                }
            }
        });
        for number in 1..=200 {
            begin.send(number).unwrap();
            let held = locks.hold(worker(number)).unwrap();
            assert!(locks.path(worker(number)).unwrap().exists());
            assert!(!is_dead(&locks, number));
            held.remove();
        }
        drop(begin);
        sweeper.join().unwrap();
        assert!(locks.files().is_empty());
    }
}
