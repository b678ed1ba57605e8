//! Copies the files of one queued turn, and makes the copies durable.
//!
//! Owns everything between the path that a client named and a row's directory on disk. Two invariants
//! hold here. When [`copy_all`] returns, the copies, the file that names the thread and every directory
//! entry on the way to them are on disk: a row that survives the loss of power finds its files. And
//! copying never waits for another process: a source is opened without waiting, and whether it is a
//! regular file is asked of the descriptor that is then read, so a pipe that is swapped in is refused.
//!
//! Which rows have copies and when they are removed is decided by the parent module.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use turnlane_protocol::ids::{QueuedTurnId, ThreadId};

/// In the directory of a row: the thread that it is in.
pub(super) const THREAD: &str = "thread";
/// How much one row may have copied; what is longer no model takes.
pub(super) const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Makes a file or a directory durable. Tests note the order instead of trusting it.
pub(super) trait DiskSync {
    /// Returns when the content of `file`, which is at `path`, is on disk.
    fn sync(&self, file: &File, path: &Path) -> io::Result<()>;
}

/// The system's own sync.
pub(super) struct SystemSync;

impl DiskSync for SystemSync {
    fn sync(&self, file: &File, _path: &Path) -> io::Result<()> {
        file.sync_all()
    }
}

/// The directory of one row's copies, and the two directories above it.
#[derive(Clone, Debug)]
pub(super) struct RowDirectory {
    /// The home directory.
    pub(super) home: PathBuf,
    /// The directory of all copies, in the home.
    pub(super) all: PathBuf,
    /// The directory of this row's copies, in `all`.
    pub(super) row: PathBuf,
}

/// Copies files for a row of `thread` and replaces each path by that of its copy.
///
/// Everything is on disk when this returns. A failure may leave a part of the copies behind.
pub(super) fn copy_all<'a>(
    disk: &impl DiskSync,
    to: &RowDirectory,
    thread: ThreadId,
    now_ms: i64,
    paths: impl Iterator<Item = &'a mut String>,
) -> io::Result<()> {
    let mut private = fs::DirBuilder::new();
    private.recursive(true).mode(0o700).create(&to.row)?;
    let named = to.row.join(THREAD);
    let mut file = File::create(&named)?;
    file.write_all(thread.to_string().as_bytes())?;
    disk.sync(&file, &named)?;
    let mut room = BYTES_MAX;
    for path in paths {
        let name = QueuedTurnId::new(u64::try_from(now_ms).unwrap_or(0)).to_string();
        let from = Path::new(path.as_str());
        let mut copy = to.row.join(name);
        if let Some(extension) = from.extension() {
            copy.set_extension(extension);
        }
        room -= copy_one(disk, from, &copy, room)?;
        *path = copy
            .into_os_string()
            .into_string()
            .map_err(|_| io::Error::other("the path is not text"))?;
    }
    // From the inside out: an entry on disk never leads to something that is not.
    for directory in [&to.row, &to.all, &to.home] {
        disk.sync(&File::open(directory)?, directory)?;
    }
    Ok(())
}

/// Copies one file of at most `room` bytes; returns its length.
fn copy_one(disk: &impl DiskSync, from: &Path, to: &Path, room: u64) -> io::Result<u64> {
    let too_large =
        || io::Error::other(format!("files are larger than {BYTES_MAX} bytes together"));
    let source = open_regular(from)?;
    if source.metadata()?.len() > room {
        return Err(too_large());
    }
    let mut copy = File::create_new(to)?;
    // One byte more tells that it grew beyond the room while it was copied.
    let bytes = io::copy(&mut source.take(room + 1), &mut copy)?;
    if bytes > room {
        return Err(too_large());
    }
    disk.sync(&copy, to)?;
    Ok(bytes)
}

/// Opens a regular file for reading, and nothing else; never waits.
fn open_regular(path: &Path) -> io::Result<File> {
    // Without O_NONBLOCK opening a pipe would wait for a writer, and some files below /proc would
    // wait in every read. O_NOCTTY: a terminal that is named must not become ours.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("not a file"))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    use rustix::fs::{CWD, mkfifoat};

    use super::*;

    /// Longer than any copy takes on a loaded machine.
    const DEADLINE: Duration = Duration::from_mins(1);

    /// Notes what is synced, with the entries that a directory has by then.
    #[derive(Default)]
    struct Journal(RefCell<Vec<PathBuf>>);

    impl DiskSync for Journal {
        fn sync(&self, file: &File, path: &Path) -> io::Result<()> {
            let opened = file.metadata()?;
            let named = fs::metadata(path)?;
            assert_eq!((opened.dev(), opened.ino()), (named.dev(), named.ino()));
            self.0.borrow_mut().push(path.to_owned());
            Ok(())
        }
    }

    fn row(home: &Path) -> RowDirectory {
        let all = home.join("attachments");
        RowDirectory {
            home: home.to_owned(),
            row: all.join("row"),
            all,
        }
    }

    fn copied(to: &RowDirectory, disk: &impl DiskSync, from: &Path) -> io::Result<PathBuf> {
        let mut path = from.to_str().unwrap().to_owned();
        copy_all(disk, to, ThreadId::new(1), 1, std::iter::once(&mut path))?;
        Ok(PathBuf::from(path))
    }

    /// Runs it on a thread of its own and fails where it hangs.
    fn in_time<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
        let (send, receive) = mpsc::channel();
        thread::spawn(move || send.send(run()));
        let ended = receive.recv_timeout(DEADLINE);
        ended.unwrap_or_else(|_| panic!("{what} hangs"))
    }

    #[test]
    fn content_is_synced_before_the_entries_that_lead_to_it() {
        let home = tempfile::tempdir().unwrap();
        let source = home.path().join("shot.png");
        fs::write(&source, "as it was").unwrap();
        let (journal, to) = (Journal::default(), row(home.path()));
        let copy = copied(&to, &journal, &source).unwrap();
        assert_eq!(fs::read(&copy).unwrap(), b"as it was");
        let expected = [to.row.join(THREAD), copy, to.row, to.all, to.home];
        assert_eq!(*journal.0.borrow(), expected);
    }

    #[test]
    fn a_sync_that_fails_refuses_the_row() {
        struct Broken(&'static str);
        impl DiskSync for Broken {
            fn sync(&self, _file: &File, path: &Path) -> io::Result<()> {
                if path.ends_with(self.0) {
                    return Err(io::Error::other("the disk is gone"));
                }
                Ok(())
            }
        }
        for place in ["thread", "row", "attachments", "home"] {
            let folder = tempfile::tempdir().unwrap();
            let home = folder.path().join("home");
            fs::create_dir(&home).unwrap();
            let source = folder.path().join("shot.png");
            fs::write(&source, "x").unwrap();
            let error = copied(&row(&home), &Broken(place), &source).unwrap_err();
            assert_eq!(error.to_string(), "the disk is gone", "{place}");
        }
    }

    #[test]
    fn a_pipe_a_directory_and_a_device_are_refused_at_once() {
        let home = tempfile::tempdir().unwrap();
        let pipe = home.path().join("pipe.png");
        mkfifoat(CWD, &pipe, Mode::from(0o600)).unwrap();
        for from in [pipe, home.path().to_owned(), PathBuf::from("/dev/zero")] {
            let (to, shown) = (row(home.path()), from.display().to_string());
            let refused = in_time(&shown, move || copied(&to, &SystemSync, &from));
            assert_eq!(refused.unwrap_err().to_string(), "not a file", "{shown}");
        }
    }

    #[test]
    fn a_pipe_that_is_swapped_in_never_holds_up_a_copy() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        let (pipe, file, named) = (path("pipe"), path("file"), path("shot.png"));
        mkfifoat(CWD, &pipe, Mode::from(0o600)).unwrap();
        fs::write(&file, "content").unwrap();
        fs::hard_link(&file, &named).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let swapping = thread::spawn({
            let (stop, named, draft) = (Arc::clone(&stop), named.clone(), path("draft"));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    for other in [&pipe, &file] {
                        fs::hard_link(other, &draft).unwrap();
                        fs::rename(&draft, &named).unwrap();
                        // A rename between two names of one file does nothing.
                        let _ = fs::remove_file(&draft);
                    }
                }
            }
        });
        let to = row(home.path());
        let (copies, refusals) = in_time("a copy", move || {
            let mut ended = (0, 0);
            for _ in 0..2_000 {
                match copied(&to, &SystemSync, &named) {
                    Ok(copy) => {
                        assert_eq!(fs::read(copy).unwrap(), b"content");
                        ended.0 += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.to_string(), "not a file");
                        ended.1 += 1;
                    }
                }
                if ended.0 >= 20 && ended.1 >= 20 {
                    break;
                }
            }
            ended
        });
        stop.store(true, Ordering::Relaxed);
        swapping.join().unwrap();
        assert!(copies + refusals >= 40, "{copies} {refusals}");
    }

    #[test]
    fn more_bytes_than_a_row_may_have_are_refused_before_they_are_copied() {
        let home = tempfile::tempdir().unwrap();
        let source = home.path().join("sparse.png");
        File::create(&source)
            .unwrap()
            .set_len(BYTES_MAX + 1)
            .unwrap();
        let to = row(home.path());
        let error = copied(&to, &SystemSync, &source).unwrap_err().to_string();
        assert!(error.starts_with("files are larger than"), "{error}");
        let left: Vec<_> = fs::read_dir(&to.row).unwrap().collect();
        assert_eq!(left.len(), 1, "only the name of the thread");
    }
}
