//! What a SQLite store is opened with.
//!
//! The invariant here: every number that a test must be able to lower is a field; everything else
//! that is a number is a constant next to what it bounds.

use std::path::PathBuf;

use crate::worker::Worker;

/// How many connections read at the same time unless told otherwise.
const READERS: usize = 2;

/// How many bytes must be free before a full store takes new work again: the ballast is put back, and
/// as much again is left for the log until it is copied. After the disk was found full and the ballast
/// was removed, less than this is free, so a store does not change between full and good by itself.
pub const ROOM_NEEDED_BYTES: u64 = 8 << 20;

/// What becomes of the log when a store closes that was the last to use the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogAtClose {
    /// It is copied home: the database is one file again.
    #[default]
    Home,
    /// A short one stays beside the database, as after a crash, and the next who opens reads it: for a
    /// process of one turn, which would copy and make it anew each time.
    StaysShort,
}

/// What a SQLite store is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database; its folder must exist, the file is made (0600) when it is missing. Beside it
    /// lie `-wal`, `-shm`, `.ballast` and the folder `.workers`.
    pub path: PathBuf,
    /// Who opens it; its id must be new.
    pub worker: Worker,
    /// How many connections read at the same time. None: reads wait in line with the writes, which is
    /// cheaper for a process that reads little and waits for what it writes.
    pub readers: usize,
    /// How many bytes must be free on the disk before a full store takes new work again.
    pub free_again_bytes: u64,
    /// What becomes of the log at a close.
    pub log_at_close: LogAtClose,
}

impl Options {
    /// The defaults: two readers, 8 MiB, the log home at the close.
    pub fn new(path: impl Into<PathBuf>, worker: Worker) -> Self {
        Self {
            path: path.into(),
            worker,
            readers: READERS,
            free_again_bytes: ROOM_NEEDED_BYTES,
            log_at_close: LogAtClose::default(),
        }
    }
}
