//! Bringing the log home: when, and on whose connection.
//!
//! The invariant here: no commit waits for a checkpoint while the log is of a sane size. From
//! 4 MiB on a thread of its own, started then, copies it into the database while the writer goes on. Only when
//! that never catches up, because there is no moment without a commit, the writer does it itself
//! between two batches; a log that is copied whole starts again at its beginning.
//!
//! After a sync that failed, the log may have holes that only a loss of power shows; then it is
//! emptied before anything is built on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, ffi};

use crate::sqlite::open::{self, Place, Purpose};
use crate::sqlite::waiting::{Taken, Waiting};
use crate::sqlite::{LogAtClose, Shared};

/// From here on the log is copied: 4 MiB in pages of 4 KiB.
const LOG_PAGES: u64 = 1_024;

/// From here on the writer does it: 16 MiB. A log that still grows costs every sync a write of the
/// file's size; one that began again does not.
const LOG_PAGES_MANY: u64 = 4 * LOG_PAGES;

/// How much the log grows before anybody tries again; a long read may stand in the way.
const LOG_PAGES_MORE: u64 = LOG_PAGES / 4;

/// Below this a log may stay when the store closes: 1 MiB, which the next who opens reads and sums up
/// in less than a millisecond.
const LOG_PAGES_SHORT: u64 = LOG_PAGES / 4;

/// How long the log is, and when something is done about it.
#[derive(Debug)]
pub(super) struct LogWatch {
    pages: Arc<AtomicU64>,
    next: u64,
    at_close: LogAtClose,
}

/// What should be done about the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// The checkpoint thread should copy it.
    Ask,
    /// The writer should copy it now.
    Here,
}

impl LogWatch {
    pub(super) fn new(at_close: LogAtClose) -> Self {
        Self {
            pages: Arc::new(AtomicU64::new(0)),
            next: LOG_PAGES,
            at_close,
        }
    }

    /// How long the log was after our last commit.
    pub(super) fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// Notes that the log was emptied.
    pub(super) fn emptied(&mut self) {
        self.pages.store(0, Ordering::Relaxed);
        self.next = LOG_PAGES;
    }

    /// Whether the log need not be copied home when the store closes.
    pub(super) fn may_stay(&self) -> bool {
        match self.at_close {
            LogAtClose::Home => false,
            LogAtClose::StaysShort => self.pages.load(Ordering::Relaxed) < LOG_PAGES_SHORT,
        }
    }

    /// Learns from this connection, after every commit, how long the log is.
    pub(super) fn follow(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let pages = Arc::clone(&self.pages);
        connection.wal_hook(Some(move |_: &mut Wal, now: i32| {
            pages.store(u64::try_from(now).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))
    }

    /// What should be done after a commit.
    pub(super) fn due(&mut self) -> Due {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < LOG_PAGES {
            self.next = LOG_PAGES;
            return Due::Nothing;
        }
        if pages < self.next {
            return Due::Nothing;
        }
        self.next = pages + LOG_PAGES_MORE;
        if pages < LOG_PAGES_MANY {
            Due::Ask
        } else {
            Due::Here
        }
    }
}

/// Copies the log whenever it is asked to, until the queue is closed. Without a connection nobody
/// does, and the log grows until the writer copies it.
pub(super) fn run(place: &Place, asked: &Waiting<()>, shared: &Shared) {
    let connection = match open::connect(place, Purpose::Checkpoint) {
        Ok(connection) => connection,
        Err(error) => {
            tracing::warn!(%error, "the database cannot be opened to copy its log");
            return;
        }
    };
    while let Taken::Jobs(_) = asked.take(1, None) {
        // A sync of the log that fails here fails on the writer's descriptor as well: the system
        // tells every one that was open.
        let _ = copy_log(&connection, shared);
    }
}

/// Copies as much of the log as no reader and no other process stands in the way of.
///
/// A failure changes nothing and is not lost: the log stays, and its growth asks again. But what
/// is in the log may then not be on the disk.
pub(super) fn copy_log(connection: &Connection, shared: &Shared) -> rusqlite::Result<()> {
    let copied = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    });
    match copied {
        Ok((log_pages, copied_pages)) => {
            shared.tally.checkpoints.fetch_add(1, Ordering::Relaxed);
            tracing::trace!(log_pages, copied_pages, "checkpoint");
        }
        Err(ref error) => tracing::warn!(%error, "the log could not be copied into the database"),
    }
    copied.map(drop)
}

/// Copies all of the log into the database, syncs that, and cuts the log to nothing; or fails, and
/// the log is still needed.
///
/// Waits for readers, of all processes, as long as a connection waits for anybody.
pub(super) fn empty_log(connection: &Connection) -> rusqlite::Result<()> {
    let in_the_way: i64 =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if in_the_way != 0 {
        let busy = ffi::Error::new(ffi::SQLITE_BUSY);
        return Err(rusqlite::Error::SqliteFailure(busy, None));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_copied_elsewhere_and_a_very_long_one_here() {
        let mut watch = LogWatch::new(LogAtClose::Home);
        let mut at = |pages| {
            watch.pages.store(pages, Ordering::Relaxed);
            watch.due()
        };
        assert_eq!(at(LOG_PAGES - 1), Due::Nothing);
        assert_eq!(at(LOG_PAGES), Due::Ask);
        assert_eq!(at(LOG_PAGES + 1), Due::Nothing, "asked already");
        assert_eq!(at(LOG_PAGES + LOG_PAGES_MORE), Due::Ask);
        assert_eq!(at(LOG_PAGES_MANY), Due::Here);
        assert_eq!(at(10), Due::Nothing, "it began again");
        assert_eq!(at(LOG_PAGES), Due::Ask);
    }

    #[test]
    fn only_a_short_log_may_stay_and_only_where_that_is_wanted() {
        let may_stay = |at_close, pages| {
            let watch = LogWatch::new(at_close);
            watch.pages.store(pages, Ordering::Relaxed);
            watch.may_stay()
        };
        assert!(may_stay(LogAtClose::StaysShort, LOG_PAGES_SHORT - 1));
        assert!(!may_stay(LogAtClose::StaysShort, LOG_PAGES_SHORT));
        assert!(!may_stay(LogAtClose::Home, 1));
    }
}
