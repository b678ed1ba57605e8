//! What a SQLite store is opened with.
//!
//! The invariant here: every number that a test must be able to lower is a field; everything else
//! that is a number is a constant next to what it bounds.

use std::path::PathBuf;

use crate::worker::Worker;

/// How many connections read at the same time unless told otherwise.
const READERS: usize = 2;

/// How much must be free before a full store takes new work again.
const FREE_AGAIN_BYTES: u64 = 64 << 20;

/// What a SQLite store is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database; its folder must exist, the file is made (0600) when it is missing. Beside it
    /// lie `-wal`, `-shm`, `.ballast` and the folder `.workers`.
    pub path: PathBuf,
    /// Who opens it; its id must be new.
    pub worker: Worker,
    /// How many connections read at the same time; at least one.
    pub readers: usize,
    /// How many bytes must be free on the disk before a full store takes new work again.
    pub free_again_bytes: u64,
}

impl Options {
    /// The defaults: two readers, 64 MiB.
    pub fn new(path: impl Into<PathBuf>, worker: Worker) -> Self {
        Self {
            path: path.into(),
            worker,
            readers: READERS,
            free_again_bytes: FREE_AGAIN_BYTES,
        }
    }
}
