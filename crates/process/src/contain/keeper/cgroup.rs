//! The end of a cgroup and everything below it, by the keeper.
//!
//! One write kills all members at once, those that are being forked included. It returns when nobody
//! is in it any more, however long that takes: the descriptors the keeper holds say that everything
//! has ended. The directories are then removed as well as possible; an empty one does no harm.

use std::ffi::CStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{CWD, Mode, OFlags};

use super::pace::Pace;

/// Directories inside each other that are removed; a member may have made its own.
const DEPTH_MAX: usize = 32;

/// Kills everybody in `directory`, waits until it is empty and removes it.
pub(super) fn end(directory: &Path) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // Gone already: the service stopped in peace.
    let Ok(dir) = rustix::fs::openat(CWD, directory, flags, Mode::empty()) else {
        return;
    };
    let mut pace = Pace::new();
    loop {
        kill(&dir);
        let Some(events) = open(&dir, c"cgroup.events", OFlags::RDONLY) else {
            break;
        };
        // Read before the wait: only what changes after a read is told.
        if !is_populated(&events) {
            break;
        }
        let mut fds = [PollFd::new(&events, PollFlags::PRI)];
        if rustix::event::poll(&mut fds, Some(&pace.timeout())) == Ok(0) {
            pace.passed();
        }
    }
    remove(directory, DEPTH_MAX);
}

fn kill(dir: &OwnedFd) {
    if let Some(file) = open(dir, c"cgroup.kill", OFlags::WRONLY) {
        let _ = rustix::io::write(&file, b"1");
    }
}

fn open(dir: &OwnedFd, name: &CStr, flags: OFlags) -> Option<OwnedFd> {
    rustix::fs::openat(dir.as_fd(), name, flags | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn is_populated(events: &OwnedFd) -> bool {
    let mut buffer = [0; 256];
    let Ok(len) = rustix::io::pread(events, &mut buffer, 0) else {
        return false; // Removed.
    };
    let mut lines = buffer[..len].split(|byte| *byte == b'\n');
    lines.any(|line| line == b"populated 1")
}

/// From the leaves up.
fn remove(directory: &Path, depth: usize) {
    if depth > 0
        && let Ok(entries) = fs::read_dir(directory)
    {
        let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        for entry in entries.flatten().filter(is_directory) {
            remove(&entry.path(), depth - 1);
        }
    }
    let _ = fs::remove_dir(directory);
}
