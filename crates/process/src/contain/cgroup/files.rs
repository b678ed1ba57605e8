//! The files of a cgroup directory: read, written and removed relative to a parent's descriptor.
//!
//! Nothing here remembers anything or decides what is done with a cgroup. A file that cannot be read
//! because its directory is gone counts as gone, everything else that fails as populated: who asks
//! then tries again instead of reusing something unknown.

use std::ffi::CString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Bounds, CONTROLLERS};

/// How deep cgroups that processes made of themselves are followed; the kernel stops at the depth of
/// its own path buffers, long after this.
const DEPTH_MAX: usize = 64;

/// What `cgroup.events` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occupancy {
    Empty,
    Frozen,
    Populated,
    Gone,
}

pub(super) fn open(dir: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

pub(super) fn write(dir: BorrowedFd<'_>, path: &str, bytes: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, path, flags, Mode::empty())?;
    rustix::io::write(&file, bytes).map(drop)
}

/// A descriptor of no use but to be closed.
pub(super) fn spare() -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, "/", flags, Mode::empty())
}

pub(super) fn occupancy(dir: BorrowedFd<'_>, events: &str) -> Occupancy {
    use std::os::fd::AsFd;
    match open(dir, events) {
        Ok(events) => read_occupancy(events.as_fd()),
        Err(Errno::NOENT) => Occupancy::Gone,
        Err(_) => Occupancy::Populated,
    }
}

pub(super) fn read_occupancy(events: BorrowedFd<'_>) -> Occupancy {
    let mut buffer = [0; 128];
    let text = match rustix::io::pread(events, &mut buffer, 0) {
        Ok(len) => &buffer[..len],
        Err(Errno::NODEV | Errno::NOENT) => return Occupancy::Gone,
        Err(_) => return Occupancy::Populated,
    };
    let says = |line: &[u8]| text.split(|byte| *byte == b'\n').any(|found| found == line);
    if !says(b"populated 0") {
        Occupancy::Populated
    } else if says(b"frozen 1") {
        Occupancy::Frozen
    } else {
        Occupancy::Empty
    }
}

/// Whether a process made cgroups below its own: a directory has two links and one per directory in
/// it.
pub(super) fn has_children(dir: BorrowedFd<'_>, name: &str) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| stat.st_nlink > 2)
}

/// Everybody in the directory and below it.
pub(super) fn members(dir: BorrowedFd<'_>, name: &str) -> Vec<i32> {
    let mut pids = Vec::new();
    let mut todo = vec![(name.to_owned(), 0)];
    while let Some((name, depth)) = todo.pop() {
        if let Ok(text) = read(dir, &format!("{name}/cgroup.procs")) {
            // 0 is somebody outside our pid namespace: nobody we could signal.
            let listed = text.lines().filter_map(|line| line.parse().ok());
            pids.extend(listed.filter(|pid: &i32| *pid > 0));
        }
        if depth < DEPTH_MAX && has_children(dir, &name) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            if let Ok(opened) = rustix::fs::openat(dir, &name, flags, Mode::empty()) {
                use std::os::fd::AsFd;
                let names = below(opened.as_fd()).into_iter();
                let names = names.filter_map(|name| name.into_string().ok());
                todo.extend(names.map(|child| (format!("{name}/{child}"), depth + 1)));
            }
        }
    }
    pids
}

fn read(dir: BorrowedFd<'_>, path: &str) -> Result<String, Errno> {
    let file = open(dir, path)?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match rustix::io::read(&file, &mut buffer)? {
            0 => break,
            len => bytes.extend_from_slice(&buffer[..len]),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The directories in a directory.
pub(super) fn below(dir: BorrowedFd<'_>) -> Vec<CString> {
    let Ok(entries) = Dir::read_from(dir) else {
        return Vec::new();
    };
    let entries = entries.filter_map(Result::ok);
    let directories = entries.filter(|entry| entry.file_type() == FileType::Directory);
    let names = directories.map(|entry| entry.file_name().to_owned());
    names
        .filter(|name| !matches!(name.to_bytes(), b"." | b".."))
        .collect()
}

/// Removes every directory in `dir`, the deepest first; those with somebody in them stay.
pub(super) fn remove_below(dir: BorrowedFd<'_>) {
    for name in below(dir) {
        if let Ok(name) = name.into_string() {
            remove(dir, &name);
        }
    }
}

/// Removes a directory with all below it; whether it is gone.
pub(super) fn remove(dir: BorrowedFd<'_>, name: &str) -> bool {
    remove_at(dir, name, 0)
}

fn remove_at(dir: BorrowedFd<'_>, name: &str, depth: usize) -> bool {
    use std::os::fd::AsFd;
    match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => return true,
        // Somebody is in it, or there are directories in it.
        Err(Errno::BUSY | Errno::NOTEMPTY) if depth < DEPTH_MAX && has_children(dir, name) => {}
        Err(_) => return false,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(opened) = rustix::fs::openat(dir, name, flags, Mode::empty()) {
        for child in below(opened.as_fd()) {
            if let Ok(child) = child.into_string() {
                remove_at(opened.as_fd(), &child, depth + 1);
            }
        }
    }
    rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR).is_ok()
}

/// Hands the controllers that limits need down to the cgroups of processes, as far as possible:
/// from the base to the parent, and from that on. The kernel refuses the first step where the base
/// has processes of its own and is not the root. Which ones arrived.
pub(super) fn enable(parent: &Path, dir: BorrowedFd<'_>) -> Vec<String> {
    for controller in CONTROLLERS {
        let wanted = format!("+{controller}");
        if let Some(base) = parent.parent() {
            let file = base.join("cgroup.subtree_control");
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            if let Ok(file) = rustix::fs::openat(CWD, &file, flags, Mode::empty()) {
                let _ = rustix::io::write(&file, wanted.as_bytes());
            }
        }
        let _ = write(dir, "cgroup.subtree_control", wanted.as_bytes());
    }
    let enabled = read(dir, "cgroup.subtree_control").unwrap_or_default();
    enabled.split_whitespace().map(str::to_owned).collect()
}

/// Those of the limits that a trial directory below `parent` takes.
pub(super) fn possible(parent: BorrowedFd<'_>, limits: Bounds) -> Bounds {
    const TRIAL: &str = "trial";
    if rustix::fs::mkdirat(parent, TRIAL, Mode::from_raw_mode(0o755)).is_err() {
        return Bounds::default();
    }
    let possible = limits.filter(|file, max| {
        let path = format!("{TRIAL}/{file}");
        write(parent, &path, max.to_string().as_bytes()).is_ok()
    });
    remove(parent, TRIAL);
    possible
}
