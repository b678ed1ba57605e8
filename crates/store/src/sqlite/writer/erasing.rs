//! Leaves nothing of what was deleted: neither in the log, nor as free pages in the file.
//!
//! The invariant here: a deletion is answered after the log that held the deleted text was copied home
//! and cut to nothing, unless a reader of some process stood in the way; then the writer tries again
//! whenever it is idle. SQLite overwrites what is deleted in the database itself (`secure_delete`).
//!
//! Free pages are given back to the system in small steps while nothing else waits. Databases that an
//! earlier version made keep theirs until `turnlane store compact`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::Connection;

use super::Writer;
use crate::sqlite::checkpoint;
use crate::sqlite::open;

/// How many free pages stay in the file, because the next turns need pages again: 1 MiB.
const FREE_PAGES_KEPT: i64 = 256;
/// How many pages one step gives back: 1 MiB.
const PAGES_PER_STEP: i64 = 256;

/// What is still to be done after deletions.
#[derive(Debug)]
pub(super) struct Erasing {
    /// The log may hold deleted text.
    log: bool,
    /// The file may hold free pages.
    pages: bool,
}

impl Erasing {
    /// A file that was just opened may have free pages.
    pub(super) fn new() -> Self {
        Self {
            log: false,
            pages: true,
        }
    }
}

impl Writer {
    /// Empties the log if the batch deleted something.
    pub(super) fn erase_deleted(&mut self) {
        if self.shared.erased.swap(false, Ordering::Relaxed) {
            self.erasing = Erasing {
                log: true,
                pages: true,
            };
            self.erase_log();
        }
    }

    /// Goes on with what is left to do; waits for nobody.
    pub(super) fn go_on_erasing(&mut self) {
        let in_trouble = self.disk.full().is_some()
            || self.denied
            || self.locked_by.is_some()
            || self.strikes.any();
        if in_trouble {
            return;
        }
        self.erase_log();
        if self.erasing.pages {
            match give_back(&self.connection) {
                Ok(Step::More) => {}
                Ok(Step::Last) => {
                    // The file becomes shorter when the log is copied home.
                    self.erasing.log = true;
                    self.erasing.pages = false;
                }
                Ok(Step::None) => self.erasing.pages = false,
                // Another process writes; free pages can wait.
                Err(error) => tracing::debug!(%error, "no free pages were given back"),
            }
        }
    }

    fn erase_log(&mut self) {
        if !self.erasing.log {
            return;
        }
        let connection = &self.connection;
        let emptied = connection
            .busy_timeout(Duration::ZERO)
            .and_then(|()| checkpoint::empty_log(connection));
        if let Err(error) = connection.busy_timeout(open::BUSY) {
            tracing::error!(%error, "the database cannot be told to wait");
        }
        match emptied {
            Ok(()) => {
                self.erasing.log = false;
                self.log.emptied();
            }
            Err(error) => tracing::debug!(%error, "the log is emptied later"),
        }
    }
}

/// What a step found.
enum Step {
    None,
    More,
    Last,
}

/// Gives some free pages back.
fn give_back(connection: &Connection) -> rusqlite::Result<Step> {
    const INCREMENTAL: i64 = 2;
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get(0));
    let free: i64 = number("freelist_count")?;
    let surplus = free - FREE_PAGES_KEPT;
    if surplus <= 0 || number("auto_vacuum")? != INCREMENTAL {
        return Ok(Step::None);
    }
    let pages = surplus.min(PAGES_PER_STEP);
    connection.execute_batch(&format!("PRAGMA incremental_vacuum({pages})"))?;
    Ok(if surplus > PAGES_PER_STEP {
        Step::More
    } else {
        Step::Last
    })
}
