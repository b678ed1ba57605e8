//! Finds the process that holds a lock on the files of a database.
//!
//! Owns the knowledge of which bytes SQLite locks, and reads the kernel's table of locks to tell who
//! holds them. The invariant here: no file of the database is ever opened. POSIX locks belong to the
//! process, and closing any descriptor of a file gives up all of its locks on that file, SQLite's
//! included; so `F_GETLK`, which needs a descriptor, is not used.
//!
//! A lock of an open file description names no process in that table. Its holder is looked for in the
//! descriptors of the processes that we may look at.
//!
//! What is done about a lock is decided by the writer.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::error::{LockHolder, StoreError};

/// The kernel's table of locks.
const TABLE: &str = "/proc/locks";
/// More of any file below `/proc` is not read.
const BYTES_MAX: u64 = 4 << 20;
/// How many processes and descriptors are looked at for a lock that names no process.
const DESCRIPTORS_MAX: usize = 100_000;

/// In the shared memory: the bytes for writing, recovery, checkpoints and five kinds of readers.
/// A writer meets them in this order.
const LOG_BYTES: [u64; 8] = [120, 122, 121, 123, 124, 125, 126, 127];
/// In the database: the bytes for a pending writer, a reserved one and the shared ones.
const DATABASE_BYTES: std::ops::RangeInclusive<u64> = 0x4000_0000..=0x4000_01FF;

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lock {
    /// None where the lock belongs to an open file description.
    pid: Option<u32>,
    writes: bool,
    device: (u32, u32),
    inode: u64,
    first: u64,
    last: u64,
}

/// Names a process that holds a lock on this database, other than this one.
///
/// Unknown where the machine does not tell, or where the lock is gone already.
pub(super) fn find(database: &Path) -> LockHolder {
    let me = std::process::id();
    let Some(table) = read(Path::new(TABLE)) else {
        return LockHolder::default();
    };
    let mut log = database.as_os_str().to_owned();
    log.push("-shm");
    let shared_memory = PathBuf::from(log);
    let locks: Vec<Lock> = table.lines().filter_map(parse).collect();
    let of = |path: &Path| -> Vec<&Lock> {
        let Ok(file) = fs::metadata(path) else {
            return Vec::new();
        };
        let device = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
        let others = locks
            .iter()
            .filter(|lock| lock.inode == file.ino() && lock.pid != Some(me));
        let (here, elsewhere): (Vec<_>, Vec<_>) = others.partition(|lock| lock.device == device);
        // Some file systems tell another device here than the kernel does in its table.
        if here.is_empty() { elsewhere } else { here }
    };
    let log_locks = of(&shared_memory);
    let holds = |byte: u64| log_locks.iter().find(move |lock| covers(lock, byte));
    let of_log = LOG_BYTES.into_iter().find_map(holds).copied();
    // Every connection shares the database; only one that writes to it is in the way.
    let is_in_the_way = |lock: &&Lock| {
        lock.writes && lock.first <= *DATABASE_BYTES.end() && lock.last >= *DATABASE_BYTES.start()
    };
    let found = of_log.or_else(|| of(database).into_iter().find(is_in_the_way));
    let Some(lock) = found else {
        return LockHolder::default();
    };
    let pid = lock.pid.or_else(|| owner_of_description(lock, me));
    LockHolder {
        pid,
        program: pid.and_then(program),
    }
}

/// Whether the kernel's table shows a lock of the `flock` kind on this file.
///
/// It shows the locks of all users, but only those of processes that this one could see by number.
pub(super) fn is_flocked(path: &Path) -> bool {
    let (Some(table), Ok(file)) = (read(Path::new(TABLE)), fs::symlink_metadata(path)) else {
        return false;
    };
    let inode = file.ino();
    table.lines().any(|line| flocked_inode(line) == Some(inode))
}

/// The inode of `1: FLOCK  ADVISORY  WRITE 4711 00:2f:1234 0 EOF`. The device is not compared: some
/// file systems tell another one here, and a wrong hit only makes a worker count as alive.
fn flocked_inode(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace().skip(1);
    if words.next()? != "FLOCK" {
        return None;
    }
    words.nth(3)?.rsplit(':').next()?.parse().ok()
}

/// Whether the database said that another process is in the way.
///
/// A reader that meets a lock for writing is told of a broken protocol after some seconds.
pub(super) fn is_lock(code: Option<ErrorCode>) -> bool {
    matches!(
        code,
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed
        )
    )
}

/// The same error, with the process that is in the way where the database is locked.
pub(super) fn named(error: StoreError, database: &Path) -> StoreError {
    let StoreError::Failed { doing, source } = &error else {
        return error;
    };
    let driver = source.downcast_ref::<rusqlite::Error>();
    if !is_lock(driver.and_then(rusqlite::Error::sqlite_error_code)) {
        return error;
    }
    StoreError::Locked {
        doing,
        holder: find(database),
        source: source.clone(),
    }
}

fn covers(lock: &Lock, byte: u64) -> bool {
    (lock.first..=lock.last).contains(&byte)
}

/// Reads `1: POSIX  ADVISORY  READ 4711 00:2f:1234 120 127`; none for locks of another kind and for
/// processes that only wait for one.
fn parse(line: &str) -> Option<Lock> {
    let mut words = line.split_whitespace().skip(1);
    let kind = words.next()?;
    if !matches!(kind, "POSIX" | "OFDLCK") {
        return None;
    }
    let writes = match words.nth(1)? {
        "WRITE" => true,
        "READ" => false,
        _ => return None,
    };
    let pid = words.next()?.parse::<i64>().ok()?;
    let mut file = words.next()?.split(':');
    let mut hex = || u32::from_str_radix(file.next()?, 16).ok();
    let device = (hex()?, hex()?);
    let inode = file.next()?.parse().ok()?;
    let first = words.next()?.parse().ok()?;
    let last = match words.next()? {
        "EOF" => u64::MAX,
        last => last.parse().ok()?,
    };
    Some(Lock {
        pid: u32::try_from(pid).ok().filter(|pid| *pid != 0),
        writes,
        device,
        inode,
        first,
        last,
    })
}

/// A process, other than `me`, with a descriptor that holds this lock.
fn owner_of_description(lock: &Lock, me: u32) -> Option<u32> {
    let mut left = DESCRIPTORS_MAX;
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let descriptors = fs::read_dir(process.path().join("fdinfo"));
        for descriptor in descriptors.into_iter().flatten().flatten() {
            left = left.checked_sub(1)?;
            let Some(text) = read(&descriptor.path()) else {
                continue;
            };
            let mut held = text
                .lines()
                .filter_map(|line| parse(line.strip_prefix("lock:")?));
            if pid != me && held.any(|held| held == *lock) {
                return Some(pid);
            }
        }
    }
    None
}

/// The name that a process goes by. It chooses it, so only plain characters are taken over.
fn program(pid: u32) -> Option<String> {
    let name = read(&PathBuf::from(format!("/proc/{pid}/comm")))?;
    let plain = |char: char| if char.is_ascii_graphic() { char } else { '?' };
    Some(name.trim_end_matches('\n').chars().map(plain).collect())
}

fn read(path: &Path) -> Option<String> {
    let mut content = Vec::new();
    let file = File::open(path).ok()?;
    file.take(BYTES_MAX).read_to_end(&mut content).ok()?;
    Some(String::from_utf8_lossy(&content).into_owned())
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi::{SQLITE_BUSY, SQLITE_FULL, SQLITE_IOERR, SQLITE_LOCKED, SQLITE_PROTOCOL};

    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let read = Lock {
            pid: Some(4711),
            writes: false,
            device: (0, 0x2f),
            inode: 1234,
            first: 120,
            last: 127,
        };
        let line = "1: POSIX  ADVISORY  READ 4711 00:2f:1234 120 127";
        assert_eq!(parse(line), Some(read.clone()));
        let description = Lock {
            pid: None,
            writes: true,
            last: u64::MAX,
            ..read
        };
        let line = "23: OFDLCK ADVISORY  WRITE -1 00:2f:1234 120 EOF";
        assert_eq!(parse(line), Some(description));
        for other in [
            "1: FLOCK  ADVISORY  WRITE 4711 00:2f:1234 0 EOF",
            "1: -> POSIX  ADVISORY  WRITE 4711 00:2f:1234 120 120",
            "1: LEASE  ACTIVE    READ 4711 00:2f:1234 0 EOF",
            "1: POSIX  ADVISORY  READ 4711",
            "",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn every_answer_that_means_a_lock_is_known() {
        let failed = |code| {
            let error = rusqlite::ffi::Error::new(code);
            StoreError::failed("try")(rusqlite::Error::SqliteFailure(error, None))
        };
        let path = Path::new("/no/such/lanes.db");
        for code in [SQLITE_BUSY, SQLITE_LOCKED, SQLITE_PROTOCOL] {
            let named = named(failed(code), path);
            assert!(
                matches!(named, StoreError::Locked { doing: "try", .. }),
                "{named}"
            );
        }
        for code in [SQLITE_IOERR, SQLITE_FULL] {
            let same = named(failed(code), path);
            assert!(matches!(same, StoreError::Failed { .. }), "{same}");
        }
    }

    #[test]
    fn a_database_that_nobody_locks_has_no_holder() {
        let folder = tempfile::tempdir().unwrap();
        let found = find(&folder.path().join("absent.db"));
        assert_eq!(found, LockHolder::default());
        assert_eq!(found.to_string(), "a process that cannot be named");
    }
}
