//! A thing in the file system, held by a descriptor that can do nothing with it yet.
//!
//! What is held cannot be swapped: its kind is known before it is opened, and opening goes through
//! the descriptor and never through a name again. So no fifo blocks us, no device notices us, and what
//! a policy allowed is what is used.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path};

use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use super::failure::{Failure, Result};

/// Holds and nothing more.
const HOLD: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Something that exists.
#[derive(Debug)]
pub(super) struct Held {
    file: File,
    metadata: Metadata,
}

impl Held {
    /// Follows links as the system does.
    pub(super) fn following(path: &Path) -> Result<Self> {
        Self::of(openat(CWD, path, HOLD, Mode::empty())?)
    }

    /// Follows links but not one at the end: that is what is held.
    pub(super) fn not_following_the_last(path: &Path) -> Result<Self> {
        Self::of(openat(CWD, path, HOLD | OFlags::NOFOLLOW, Mode::empty())?)
    }

    /// Follows no link; one at the end is what is held.
    pub(super) fn strictly(path: &Path) -> std::result::Result<Self, StrictError> {
        let flags = HOLD | OFlags::NOFOLLOW;
        let opened = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
        let fd = match opened {
            // Kernels before 5.6 do not know the call; some containers forbid what they do not know.
            Err(Errno::NOSYS | Errno::PERM) => step_by_step(path),
            opened => opened,
        };
        Self::of(fd.map_err(StrictError::Opening)?).map_err(StrictError::Other)
    }

    /// One name in a directory, not followed.
    pub(super) fn entry(directory: impl AsFd, name: &OsStr) -> Result<Self> {
        let flags = HOLD | OFlags::NOFOLLOW;
        Self::of(openat(directory, name, flags, Mode::empty())?)
    }

    fn of(fd: OwnedFd) -> Result<Self> {
        let file = File::from(fd);
        let metadata = file.metadata()?;
        Ok(Self { file, metadata })
    }

    pub(super) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub(super) fn is_directory(&self) -> bool {
        self.metadata.is_dir()
    }

    pub(super) fn is_file(&self) -> bool {
        self.metadata.is_file()
    }

    pub(super) fn is_link(&self) -> bool {
        self.metadata.is_symlink()
    }

    /// Which inode of which file system: equal for two names of one thing.
    pub(super) fn identity(&self) -> (u64, u64) {
        (self.metadata.dev(), self.metadata.ino())
    }

    /// Opens a regular file for reading.
    pub(super) fn to_read(&self) -> Result<File> {
        self.regular()?;
        self.reopen(OFlags::RDONLY)
    }

    /// Opens a regular file for writing, as it is; nothing is cut off.
    pub(super) fn to_write(&self) -> Result<File> {
        self.regular()?;
        self.reopen(OFlags::WRONLY)
    }

    /// Opens a directory for listing.
    pub(super) fn to_list(&self) -> Result<Dir> {
        if self.is_link() {
            return Err(Errno::LOOP.into());
        }
        if !self.is_directory() {
            return Err(Errno::NOTDIR.into());
        }
        Ok(Dir::new(self.reopen(OFlags::RDONLY | OFlags::DIRECTORY)?)?)
    }

    fn regular(&self) -> Result<()> {
        let kind = self.metadata.file_type();
        if kind.is_file() {
            Ok(())
        } else if kind.is_dir() {
            Err(Errno::ISDIR.into())
        } else if kind.is_symlink() {
            Err(Errno::LOOP.into())
        } else {
            let what = if kind.is_fifo() {
                "a fifo"
            } else if kind.is_socket() {
                "a socket"
            } else {
                "a device"
            };
            Err(Failure::Invalid(format!("{what} is never opened").into()))
        }
    }

    /// Opens exactly what is held. Some "regular" files of `/proc` wait for data: never for us.
    fn reopen(&self, flags: OFlags) -> Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let name = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        match openat(CWD, name.as_str(), flags, Mode::empty()) {
            Ok(fd) => Ok(fd.into()),
            // The name exists as long as the descriptor does.
            Err(Errno::NOENT) => Err(Failure::Internal("/proc is not mounted".into())),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Why something was not held.
#[derive(Debug)]
pub(super) enum StrictError {
    /// The way there.
    Opening(Errno),
    /// What came after.
    Other(Failure),
}

impl StrictError {
    /// To somebody who had resolved the path before, the way has changed.
    pub(super) fn after_resolving(self) -> Failure {
        match self {
            Self::Opening(error) => Failure::moved(error),
            Self::Other(failure) => failure,
        }
    }
}

impl From<StrictError> for Failure {
    fn from(error: StrictError) -> Self {
        match error {
            StrictError::Opening(error) => error.into(),
            StrictError::Other(failure) => failure,
        }
    }
}

/// What [`openat2`] does, in as many calls as the path has components.
fn step_by_step(path: &Path) -> std::result::Result<OwnedFd, Errno> {
    let directory = HOLD | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let mut at = openat(CWD, "/", directory, Mode::empty())?;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let name = match part {
            Component::Normal(name) => name,
            Component::ParentDir => OsStr::new(".."),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
        };
        let flags = if parts.peek().is_some() {
            directory
        } else {
            HOLD | OFlags::NOFOLLOW
        };
        at = openat(&at, name, flags, Mode::empty())?;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn no_component_is_followed_with_or_without_openat2() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        fs::create_dir(home.join("real")).unwrap();
        fs::write(home.join("real/file"), "x").unwrap();
        std::os::unix::fs::symlink("real", home.join("link")).unwrap();
        std::os::unix::fs::symlink("file", home.join("real/last")).unwrap();
        let walk = |path: &str| step_by_step(&home.join(path)).map(|fd| Held::of(fd).unwrap());
        let call = |path: &str| match Held::strictly(&home.join(path)) {
            Ok(held) => Ok(held),
            Err(StrictError::Opening(error)) => Err(error),
            Err(StrictError::Other(other)) => panic!("{other}"),
        };
        for way in [&walk as &dyn Fn(&str) -> _, &call] {
            assert!(way("real/file").unwrap().is_file());
            assert!(way("real/last").unwrap().is_link());
            assert!(way("real").unwrap().is_directory());
            let refused = way("link/file").unwrap_err();
            assert!(matches!(refused, Errno::LOOP | Errno::NOTDIR), "{refused}");
        }
    }
}
