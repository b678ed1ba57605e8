//! Room in the log's file before commits need it.
//!
//! A commit that makes the file longer has to write the file's size as well, which costs the disk many
//! times what the data costs. A log that began again at its beginning does without; one that grows, as
//! every log does after a start, gets its room in pieces from here instead.
//!
//! The invariant here: only zeros are written, only behind the end of the file, and only while our
//! transaction holds the write lock, so that nobody appends, cuts or begins the log anew meanwhile.
//! SQLite reads a log up to the first frame that is none, and zeros are none: what is written here is
//! never read. It need not be on the disk either; the sync of the next commit takes the size along.
//!
//! Nothing depends on it: where there is no room to be had, commits make the file longer themselves.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::sqlite::open::Place;

/// A page of the database and what stands before it in the log.
const FRAME_BYTES: u64 = 4_096 + 24;

/// How many frames a commit finds room for; a larger one makes the file longer itself.
const FRAMES_AHEAD: u64 = 32;

/// The least that a file grows by. A process of one turn needs hardly more.
const GROW_BYTES_MIN: u64 = 128 << 10;

/// The most, so that the commit that pays for it does not wait for long.
const GROW_BYTES_MAX: u64 = 1 << 20;

/// From here on the log is as it is: it should have begun again long ago.
const LOG_BYTES_MANY: u64 = 32 << 20;

/// The log's file, as far as its length is concerned.
#[derive(Debug)]
pub(super) struct LogRoom {
    /// None where there is no file to give room to.
    path: Option<PathBuf>,
    file: Option<File>,
    /// How long the file is, as far as we know; it may have been cut since.
    bytes: u64,
    /// How many pages the log had when we last looked.
    pages: u64,
}

impl LogRoom {
    /// The log of this database.
    pub(super) fn beside(place: &Place) -> Self {
        let path = match place {
            Place::File(path) => {
                let mut log = path.clone().into_os_string();
                log.push("-wal");
                Some(log.into())
            }
            Place::Memory => None,
        };
        Self {
            path,
            file: None,
            bytes: 0,
            pages: 0,
        }
    }

    /// Sees to it that a commit behind so many pages finds room. Only inside a transaction that
    /// writes.
    pub(super) fn make(&mut self, pages: u64) {
        if pages < self.pages {
            // It began again, and may have been cut.
            self.bytes = 0;
        }
        self.pages = pages;
        let needed = (pages + FRAMES_AHEAD) * FRAME_BYTES;
        if self.bytes >= needed || needed > LOG_BYTES_MANY {
            return;
        }
        self.bytes = match self.grow(needed) {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::debug!(%error, "the log has no room made for it");
                self.file = None;
                // Not again before it begins again.
                u64::MAX
            }
        };
    }

    /// Makes the file at least so long; how long it is.
    fn grow(&mut self, needed: u64) -> io::Result<u64> {
        let Some(path) = &self.path else {
            return Ok(u64::MAX);
        };
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(OpenOptions::new().write(true).open(path)?),
        };
        let now = file.metadata()?.len();
        if now >= needed {
            return Ok(now);
        }
        let more = now.clamp(GROW_BYTES_MIN, GROW_BYTES_MAX);
        let end = needed.max(now + more);
        let zeros = [0; 16 << 10];
        let mut at = now;
        while at < end {
            let piece = zeros
                .len()
                .min(usize::try_from(end - at).unwrap_or(usize::MAX));
            file.write_all_at(&zeros[..piece], at)?;
            at += piece as u64;
        }
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room_in(folder: &tempfile::TempDir) -> (LogRoom, impl Fn() -> u64) {
        let path = folder.path().join("lanes.db");
        let log = folder.path().join("lanes.db-wal");
        let room = LogRoom::beside(&Place::File(path));
        (room, move || log.metadata().map_or(0, |log| log.len()))
    }

    #[test]
    fn a_file_grows_in_pieces_and_keeps_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("lanes.db-wal");
        std::fs::write(&log, [7; 5_000]).unwrap();
        let (mut room, bytes) = room_in(&folder);
        room.make(1);
        let first = bytes();
        assert!((33 * FRAME_BYTES..=5_000 + GROW_BYTES_MAX).contains(&first));
        room.make(1);
        assert_eq!(bytes(), first, "there is room already");
        let held = std::fs::read(&log).unwrap();
        let (kept, zeros) = held.split_at(5_000);
        assert!(kept.iter().all(|byte| *byte == 7) && zeros.iter().all(|byte| *byte == 0));
        room.make(1_000);
        assert!(bytes() >= 1_032 * FRAME_BYTES);
    }

    #[test]
    fn a_log_that_began_again_and_was_cut_gets_room_again() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("lanes.db-wal");
        std::fs::write(&log, []).unwrap();
        let (mut room, bytes) = room_in(&folder);
        room.make(500);
        std::fs::write(&log, []).unwrap();
        room.make(3);
        assert!(bytes() >= 35 * FRAME_BYTES);
    }

    #[test]
    fn a_log_that_is_not_there_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let (mut room, bytes) = room_in(&folder);
        room.make(1);
        assert_eq!(bytes(), 0);
        assert!(!folder.path().join("lanes.db-wal").exists());
        LogRoom::beside(&Place::Memory).make(1);
    }
}
