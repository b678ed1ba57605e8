//! Room on the disk that is kept for the ends of turns.
//!
//! The invariant here: while the store is in good health a file of 4 MiB, really allocated, lies
//! beside the database. On a full disk even a deletion needs room; removing this file makes some.
//!
//! All processes that share the database share the file: whoever finds it gone knows that another
//! one met a full disk. When to remove and restore it is decided by the writer.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::sqlite::filesystem::beside;

/// Several hundred ends of turns, or one with the largest items.
const BALLAST_BYTES: u64 = 4 << 20;

/// The file `<database>.ballast`.
#[derive(Debug)]
pub(super) struct Ballast {
    path: PathBuf,
}

impl Ballast {
    pub(super) fn beside(database: &Path) -> Self {
        Self {
            path: beside(database, ".ballast"),
        }
    }

    /// Whether it is there; an error where the system does not let us look.
    pub(super) fn is_there(&self) -> io::Result<bool> {
        self.path.try_exists()
    }

    /// Puts it there, whole; one that was cut short is completed. What could not be completed is
    /// removed again.
    pub(super) fn put(&self) -> io::Result<()> {
        let put = self.allocate();
        if put.is_err() {
            self.remove();
        }
        put
    }

    /// Removes it; whether there was one.
    pub(super) fn remove(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }

    fn allocate(&self) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&self.path)?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, BALLAST_BYTES) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            allocated => return Ok(allocated?),
        }
        let zeros = vec![0; 1 << 16];
        let mut written = 0;
        while written < BALLAST_BYTES {
            file.write_all(&zeros)?;
            written += zeros.len() as u64;
        }
        file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_ballast_takes_real_room_and_can_be_put_again() {
        let folder = tempfile::tempdir().unwrap();
        let ballast = Ballast::beside(&folder.path().join("db"));
        assert!(!ballast.is_there().unwrap());
        assert!(!ballast.remove());
        ballast.put().unwrap();
        ballast.put().unwrap();
        let metadata = fs::metadata(folder.path().join("db.ballast")).unwrap();
        assert_eq!(metadata.len(), BALLAST_BYTES);
        assert!(metadata.blocks() * 512 >= BALLAST_BYTES);
        assert!(ballast.is_there().unwrap());
        assert!(ballast.remove());
        assert!(!ballast.is_there().unwrap());
    }
}
