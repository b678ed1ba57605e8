//! Mount points for protected names that do not exist.
//!
//! A mount needs something to be mounted on, so a missing `.git` is made as an empty directory for as
//! long as a command runs that must not create one. The invariant here: the directory is removed with
//! the last command that uses it, whichever process runs that command's service, and never while it
//! holds something. Each service that uses it holds a shared lock on it; the one that gets an exclusive
//! lock removes it. A lock ends with the process that holds it, so what a killed service left behind is
//! removed by the next service that reads its journal. Commands cannot reach the lock: they see another
//! directory, which is mounted over this one.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock};

/// How often a directory that another service removes at the same moment is made again.
const TRIES_MAX: usize = 1_000;

/// The sticky bit marks the directory as one of ours; the user's own `git init` works in it.
const MODE: Mode = Mode::from_raw_mode(0o1755);
const MARK: u32 = 0o1000;

/// Makes mount points, and remembers them where a later service finds them.
#[derive(Debug, Default)]
pub(crate) struct MountPoints {
    journal: Option<Mutex<File>>,
}

/// A directory that stays until this is dropped.
#[derive(Debug)]
pub(crate) struct MountPoint {
    path: PathBuf,
    directory: OwnedFd,
}

/// Why there is no mount point.
#[derive(Debug)]
pub(super) enum MountPointError {
    /// The directory around it cannot be written by this user, so a command cannot write it either.
    NotNeeded,
    /// It could not be made.
    Failed(io::Error),
}

impl MountPoints {
    /// Writes every mount point to this file before it is made.
    pub(crate) fn with_journal(journal: File) -> Self {
        Self {
            journal: Some(Mutex::new(journal)),
        }
    }

    /// Makes the directory, or joins those who use it.
    pub(super) fn hold(&self, path: &Path) -> Result<MountPoint, MountPointError> {
        for _ in 0..TRIES_MAX {
            let directory = match self.make(path) {
                Ok(directory) => directory,
                Err(rustix::io::Errno::NOENT) => continue,
                Err(
                    rustix::io::Errno::ACCESS | rustix::io::Errno::ROFS | rustix::io::Errno::PERM,
                ) => return Err(MountPointError::NotNeeded),
                Err(error) => return Err(MountPointError::Failed(error.into())),
            };
            // Only a service that removes the directory holds it alone, and only for a moment.
            if flock(&directory, FlockOperation::NonBlockingLockShared).is_err() {
                std::thread::yield_now();
                continue;
            }
            let point = MountPoint {
                path: path.to_owned(),
                directory,
            };
            // The last user may have removed it before we had the lock.
            if point.is_there() {
                return Ok(point);
            }
        }
        let busy = io::Error::from_raw_os_error(libc::EAGAIN);
        Err(MountPointError::Failed(busy))
    }

    fn make(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => {}
            found => return found,
        }
        self.note(path)?;
        match rustix::fs::mkdir(path, MODE) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        rustix::fs::open(path, flags, Mode::empty())
    }

    /// A path per entry, ended by a NUL byte, which no path holds.
    fn note(&self, path: &Path) -> rustix::io::Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let mut entry = path.as_os_str().as_bytes().to_vec();
        entry.push(0);
        let mut journal = journal
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let written = journal.write_all(&entry);
        written.map_err(|error| {
            rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
        })
    }
}

impl MountPoint {
    /// Whether the path still leads to the directory that is held.
    fn is_there(&self) -> bool {
        let held = rustix::fs::fstat(&self.directory);
        let found = rustix::fs::statat(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW);
        match (held, found) {
            (Ok(held), Ok(found)) => (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino),
            _ => false,
        }
    }
}

impl MountPoint {
    fn is_marked(&self) -> bool {
        rustix::fs::fstat(&self.directory).is_ok_and(|found| found.st_mode & MARK != 0)
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        let alone = flock(&self.directory, FlockOperation::NonBlockingLockExclusive);
        if alone.is_ok() && self.is_there() && self.is_marked() {
            // Fails if something is in it, and then it stays.
            let _ = rustix::fs::rmdir(&self.path);
        }
    }
}

/// Whether the directory was made here: it bears the mark, and nothing is in it.
pub(super) fn is_ours(path: &Path, found: &std::fs::Metadata) -> bool {
    let marked = found.is_dir() && found.permissions().mode() & MARK != 0;
    marked && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Removes what a dead service left behind. Entries that are in use, or hold something, stay.
pub(crate) fn remove_left_behind(journal: &Path) -> io::Result<()> {
    let file = match File::open(journal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    for entry in BufReader::new(file).split(0) {
        let path = PathBuf::from(OsString::from_vec(entry?));
        let Ok(directory) = rustix::fs::open(&path, flags, Mode::empty()) else {
            continue;
        };
        // Dropped at once, it is removed unless somebody else holds it.
        drop(MountPoint { path, directory });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_held(path: &Path) -> bool {
        path.is_dir()
    }

    #[test]
    fn a_mount_point_goes_with_its_last_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".git");
        let (ours, theirs) = (MountPoints::default(), MountPoints::default());
        let first = ours.hold(&path).unwrap();
        let second = theirs.hold(&path).unwrap();
        drop(first);
        assert!(is_held(&path));
        drop(second);
        assert!(!is_held(&path));
    }

    #[test]
    fn a_directory_that_holds_something_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".git");
        let point = MountPoints::default().hold(&path).unwrap();
        std::fs::write(path.join("HEAD"), "x").unwrap();
        drop(point);
        assert!(path.join("HEAD").exists());
    }

    #[test]
    fn what_a_dead_service_left_is_removed_and_what_is_in_use_stays() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal");
        let points = MountPoints::with_journal(File::create(&journal).unwrap());
        let (left, used) = (folder.path().join(".git"), folder.path().join(".codex"));
        // A killed service drops nothing, but its locks end.
        for path in [&left, &used] {
            let point = points.hold(path).unwrap();
            let killed = std::mem::ManuallyDrop::new(point);
            flock(&killed.directory, FlockOperation::Unlock).unwrap();
        }
        let other = MountPoints::default().hold(&used).unwrap();
        remove_left_behind(&journal).unwrap();
        assert!(!is_held(&left));
        assert!(is_held(&used));
        drop(other);
        assert!(!is_held(&used));
        remove_left_behind(&folder.path().join("none")).unwrap();
    }

    #[test]
    fn many_users_at_once_never_find_it_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join(".git");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    let points = MountPoints::default();
                    for _ in 0..200 {
                        let point = points.hold(path).unwrap();
                        assert!(point.is_there());
                    }
                });
            }
        });
        assert!(!is_held(path));
    }
}
