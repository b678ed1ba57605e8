//! Whether there is room on the disk, and what is done when there is none.
//!
//! The invariant here: in good health the ballast lies beside the database. It is removed when a
//! write finds the disk full, and put back when enough is free; in between nothing new is taken
//! in. A ballast that is gone means that another process found the disk full: then so is it for
//! us, unless there is enough room to put it back.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Source, StoreError};
use crate::sqlite::ballast::Ballast;
use crate::sqlite::filesystem;
use crate::sqlite::open::Place;
use crate::worker::Health;

/// How often the disk is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The disk of a database, or nothing for one in memory.
#[derive(Debug)]
pub(super) struct Disk {
    files: Option<Files>,
    // What the system said when it was found full.
    full: Option<Source>,
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Files {
    database: PathBuf,
    ballast: Ballast,
    free_again_bytes: u64,
}

impl Disk {
    /// The disk of a database in memory: it is never full.
    pub(super) fn none() -> Self {
        Self {
            files: None,
            full: None,
            looked: None,
        }
    }

    /// Puts the ballast in place, unless the disk is known to be full.
    pub(super) fn open(
        ballast: Ballast,
        place: &Place,
        free_again_bytes: u64,
        full: Option<Source>,
    ) -> Result<Self, StoreError> {
        let mut disk = Self::none();
        disk.full = full;
        if disk.full.is_none()
            && let Err(error) = ballast.put()
        {
            if error.kind() != io::ErrorKind::StorageFull {
                return Err(StoreError::failed("put the ballast")(error));
            }
            disk.full = Some(Arc::new(error));
        }
        disk.files = Some(Files {
            database: place.name().to_owned(),
            ballast,
            free_again_bytes,
        });
        Ok(disk)
    }

    /// What the store is as far as the disk is concerned.
    pub(super) fn health(&self) -> Health {
        match self.full {
            None => Health::Good,
            Some(_) => Health::Full,
        }
    }

    /// Why nothing new is taken in, if so.
    pub(super) fn full(&self) -> Option<&Source> {
        self.full.as_ref()
    }

    /// Notes that a write found the disk full; whether trying again makes sense.
    pub(super) fn found_full(&mut self, source: Source) -> bool {
        let Some(files) = &self.files else {
            return false;
        };
        let removed = files.ballast.remove();
        let new = self.full.is_none();
        self.full = Some(source);
        removed || new
    }

    /// Whether an error that does not say so may come from a full disk.
    pub(super) fn is_out_of_room(&self) -> bool {
        let files = self.files.as_ref();
        files.is_some_and(|files| filesystem::is_out_of_room(&files.database))
    }

    /// Looks whether the disk is full or free again, if that was not done a moment ago.
    pub(super) fn look(&mut self, now: Instant) {
        let soon = |looked: Instant| now.saturating_duration_since(looked) < LOOK_EVERY;
        let Some(files) = &self.files else {
            return;
        };
        if self.looked.is_some_and(soon) {
            return;
        }
        self.looked = Some(now);
        if self.full.is_none() && files.ballast.is_there() {
            return;
        }
        self.full = match files.restore() {
            Ok(()) => None,
            // The first reason says most.
            Err(error) => Some(self.full.take().unwrap_or_else(|| Arc::new(error))),
        };
    }
}

impl Files {
    fn restore(&self) -> io::Result<()> {
        if filesystem::free_bytes(&self.database)? < self.free_again_bytes {
            let text = "too little is free to take in new work";
            return Err(io::Error::new(io::ErrorKind::StorageFull, text));
        }
        self.ballast.put()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(folder: &std::path::Path, free_again_bytes: u64) -> Disk {
        let place = Place::File(folder.join("db"));
        let ballast = Ballast::beside(place.name());
        Disk::open(ballast, &place, free_again_bytes, None).unwrap()
    }

    fn no_room() -> Source {
        Arc::new(io::Error::from(io::ErrorKind::StorageFull))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the start of a made-up time line"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn a_full_disk_is_good_again_when_enough_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = disk(folder.path(), 1);
        let start = start();
        assert_eq!(disk.health(), Health::Good);
        disk.look(start);
        assert!(disk.found_full(no_room()));
        assert!(!disk.found_full(no_room()), "there is nothing more to give");
        assert!(!folder.path().join("db.ballast").exists());
        disk.look(start + LOOK_EVERY / 2);
        assert_eq!(disk.health(), Health::Full, "looked a moment ago");
        disk.look(start + LOOK_EVERY);
        assert_eq!(disk.health(), Health::Good);
        assert!(folder.path().join("db.ballast").exists());
    }

    #[test]
    fn a_disk_stays_full_while_too_little_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = disk(folder.path(), u64::MAX);
        let start = start();
        disk.found_full(no_room());
        disk.look(start);
        assert_eq!(disk.health(), Health::Full);
        assert!(!folder.path().join("db.ballast").exists());
    }

    #[test]
    fn a_ballast_that_another_process_removed_means_full() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = disk(folder.path(), u64::MAX);
        let start = start();
        disk.look(start);
        assert_eq!(disk.health(), Health::Good);
        std::fs::remove_file(folder.path().join("db.ballast")).unwrap();
        disk.look(start + LOOK_EVERY);
        assert_eq!(disk.health(), Health::Full);
    }
}
