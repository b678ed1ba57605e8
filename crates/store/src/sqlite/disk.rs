//! Whether there is room on the disk, and what is done when there is none.
//!
//! The invariant here: in good health the ballast lies beside the database. It is removed when a
//! write finds the disk full, and put back when enough is free; in between nothing new is taken
//! in. A ballast that is gone means that another process found the disk full: then so is it for
//! us, unless there is enough room to put it back. Only a lack of room counts as full: a directory that
//! cannot be looked into says nothing about the room in it.

use std::fmt;
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
    // That the ballast cannot be looked at was logged.
    told_denied: bool,
}

/// No room on the disk, in the system's words, and how much is needed.
#[derive(Debug)]
struct NoRoom {
    system: Source,
    needed_bytes: u64,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = self.needed_bytes.div_ceil(1 << 20);
        write!(f, "{}; {mebibytes} MiB must be free", self.system)
    }
}

impl std::error::Error for NoRoom {}

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
            told_denied: false,
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
        let mut full = full;
        if full.is_none()
            && let Err(error) = ballast.put()
        {
            if error.kind() != io::ErrorKind::StorageFull {
                return Err(filesystem::refused(error, place.name(), "put the ballast"));
            }
            full = Some(Arc::new(error));
        }
        let files = Files {
            database: place.name().to_owned(),
            ballast,
            free_again_bytes,
        };
        disk.full = full.map(|system| files.no_room(system));
        disk.files = Some(files);
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
        self.full = Some(files.no_room(source));
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
        let restored = match files.ballast.is_there() {
            Ok(true) if self.full.is_none() => Ok(()),
            Ok(_) => files.restore(),
            Err(error) => Err(error),
        };
        match restored {
            Ok(()) => {
                self.full = None;
                self.told_denied = false;
            }
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                // The first reason says most.
                if self.full.is_none() {
                    self.full = Some(files.no_room(Arc::new(error)));
                }
            }
            // Whether there is room is not known; a write that finds none will tell.
            Err(error) if !self.told_denied => {
                self.told_denied = true;
                let path = files.database.display();
                tracing::warn!(%error, "the room kept beside {path} cannot be looked at");
            }
            Err(_) => {}
        }
    }
}

impl Files {
    fn restore(&self) -> io::Result<()> {
        if filesystem::free_bytes(&self.database)? < self.free_again_bytes {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        self.ballast.put()
    }

    fn no_room(&self, system: Source) -> Source {
        Arc::new(NoRoom {
            system,
            needed_bytes: self.free_again_bytes,
        })
    }
}

/// Tells whether an earlier process left the disk full, before the database is opened.
///
/// A database without its ballast was found full by a process that may be dead by now. The bytes that the
/// removed ballast freed are for the ends of turns: without this look the next process would put the
/// ballast back into them and take in work until its first write fails.
pub(super) fn left_full(ballast: &Ballast, place: &Place, free_again_bytes: u64) -> Option<Source> {
    let database = place.name();
    // The file of a database that was never opened is empty, and nobody has put its ballast yet.
    let was_opened = database.metadata().is_ok_and(|file| file.len() > 0);
    let left = was_opened && ballast.is_there().is_ok_and(|is_there| !is_there);
    let is_short = || filesystem::free_bytes(database).is_ok_and(|free| free < free_again_bytes);
    (left && is_short()).then(|| Arc::new(io::Error::from(rustix::io::Errno::NOSPC)) as Source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(folder: &std::path::Path, free_again_bytes: u64) -> Disk {
        let place = Place::File(folder.join("db"));
        let ballast = Ballast::beside(place.name());
        let full = left_full(&ballast, &place, free_again_bytes);
        Disk::open(ballast, &place, free_again_bytes, full).unwrap()
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
    fn the_error_of_a_full_disk_says_how_much_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = disk(folder.path(), 8 << 20);
        disk.found_full(Arc::new(io::Error::from(rustix::io::Errno::NOSPC)));
        let said = disk.full().unwrap().to_string();
        assert_eq!(
            said,
            "No space left on device (os error 28); 8 MiB must be free"
        );
    }

    #[test]
    fn a_ballast_that_cannot_be_looked_at_does_not_mean_full() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = disk(folder.path(), 1);
        // A directory that is no directory is refused to every user, root included.
        let files = disk.files.as_mut().unwrap();
        files.ballast = Ballast::beside(&folder.path().join("db.ballast/db"));
        let start = start();
        disk.look(start);
        assert_eq!(disk.health(), Health::Good);
        disk.found_full(no_room());
        disk.look(start + LOOK_EVERY);
        assert_eq!(disk.health(), Health::Full, "it was full before");
    }

    #[test]
    fn a_worker_that_starts_on_a_full_disk_does_not_take_the_room_of_the_ballast_for_free() {
        let folder = tempfile::tempdir().unwrap();
        let mut dying = disk(folder.path(), u64::MAX);
        std::fs::write(folder.path().join("db"), "pages").unwrap();
        dying.found_full(no_room());
        let started = disk(folder.path(), u64::MAX);
        assert_eq!(started.health(), Health::Full);
        assert!(!folder.path().join("db.ballast").exists());
        assert_eq!(disk(folder.path(), 1).health(), Health::Good);
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
