//! Everybody below a process, found in `/proc` and identified beyond doubt.
//!
//! The invariant: whoever is visited was a descendant of the root when it was looked at, and the
//! descriptor that comes with it can only ever mean that process. A pid read from a `children` file
//! alone proves nothing, since its process may have ended and the number may be somebody else's. So
//! each candidate's directory is opened first (it sticks to the process, not to the number), then its
//! parent is read through it, then that parent is seen to be still there.
//!
//! A walk is no snapshot: who is forked behind its back is missed. Those who must miss nobody walk
//! again, or wait for `waitpid` to say that there are no children.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, RawDir};

use super::sys::{Reach, pidfd_signal};

/// Generations one walk goes down, each of which holds a descriptor. Deeper ones come up when those
/// above them are killed.
const DEPTH_MAX: usize = 64;

/// The root of a walk: the process that adopts the orphans below it.
#[derive(Debug)]
pub(super) struct Root {
    pid: i32,
    dir: OwnedFd,
}

/// A member that was found. `dir` is its open directory in `/proc`, which takes signals as well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    pub(super) pid: i32,
    pub(super) dir: BorrowedFd<'a>,
    /// Exited and not yet reaped.
    pub(super) zombie: bool,
}

impl Member<'_> {
    /// Whether it was delivered.
    pub(super) fn signal(self, signal: i32) -> bool {
        pidfd_signal(self.dir, signal, Reach::Process).is_ok()
    }
}

/// Whether to look at somebody's children as well, and at the somebody at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    Enter,
    Skip,
}

/// In which order a walk visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// For what keeps a parent from having more children.
    ParentsFirst,
    /// For what a parent may die of: its children would be adopted and missed.
    ChildrenFirst,
}

impl Root {
    /// This process.
    pub(super) fn this() -> Option<Self> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Self::of(pid)
    }

    /// The process that has this number now. Who needs a certain one must see it alive afterwards.
    pub(super) fn of(pid: i32) -> Option<Self> {
        let dir = open_process(pid)?;
        Some(Self { pid, dir })
    }

    pub(super) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Visits everybody below. `enter` decides by pid alone who is looked at, for the root's own
    /// children only.
    pub(super) fn walk(
        &self,
        order: Order,
        enter: impl Fn(i32) -> Visit,
        mut visit: impl FnMut(Member<'_>),
    ) {
        let mut walk = Walk {
            root: self,
            order,
            visit: &mut visit,
        };
        for pid in children_of(self.dir()) {
            if enter(pid) == Visit::Enter {
                walk.look(pid, (self.pid, self.dir()), DEPTH_MAX);
            }
        }
    }

    /// Looks at the root's own children, zombies included.
    pub(super) fn children(&self, mut look: impl FnMut(i32, BorrowedFd<'_>)) {
        for pid in children_of(self.dir()) {
            if let Some(dir) = self.child(pid) {
                look(pid, dir.as_fd());
            }
        }
    }

    /// The child of the root with this pid, if there is one.
    pub(super) fn child(&self, pid: i32) -> Option<OwnedFd> {
        let dir = open_process(pid)?;
        let stat = Stat::read(dir.as_fd())?;
        (stat.parent == self.pid && is_there(self.dir())).then_some(dir)
    }
}

struct Walk<'a> {
    root: &'a Root,
    order: Order,
    visit: &'a mut dyn FnMut(Member<'_>),
}

impl Walk<'_> {
    /// Looks at somebody whom `parent`, a pid and its directory, was said to have as a child.
    fn look(&mut self, pid: i32, parent: (i32, BorrowedFd<'_>), depth: usize) {
        let Some(dir) = open_process(pid) else { return };
        let dir = dir.as_fd();
        let Some(stat) = Stat::read(dir) else { return };
        // It may have been adopted by the root since its parent was read.
        let root = (self.root.pid, self.root.dir());
        let is_child_of = |(pid, dir)| stat.parent == pid && is_there(dir);
        if !is_child_of(parent) && !is_child_of(root) {
            return;
        }
        let zombie = matches!(stat.state, b'Z' | b'X');
        let member = Member { pid, dir, zombie };
        if self.order == Order::ParentsFirst {
            (self.visit)(member);
        }
        if depth > 0 {
            for child in children_of(dir) {
                self.look(child, (pid, dir), depth - 1);
            }
        }
        if self.order == Order::ChildrenFirst {
            (self.visit)(member);
        }
    }
}

/// Whether the kernel lists the children of a task.
pub(super) fn is_supported() -> bool {
    open_at(
        rustix::fs::CWD,
        c"/proc/thread-self/children",
        OFlags::empty(),
    )
    .is_some()
}

/// The name of a process, if it has the one given.
pub(super) fn is_named(dir: BorrowedFd<'_>, name: &CStr) -> bool {
    let mut buffer = [0; 32];
    let text = read_start(dir, c"comm", &mut buffer);
    text.and_then(|text| text.strip_suffix(b"\n")) == Some(name.to_bytes())
}

/// A zombie still is.
fn is_there(dir: BorrowedFd<'_>) -> bool {
    match pidfd_signal(dir, 0, Reach::Process) {
        Ok(()) => true,
        // Somebody there, whom we may not signal.
        Err(error) => error.raw_os_error() == Some(libc::EPERM),
    }
}

fn open_process(pid: i32) -> Option<OwnedFd> {
    let mut name = [0; 24];
    open_at(
        rustix::fs::CWD,
        number_path(&mut name, b"/proc/", pid, b"")?,
        OFlags::DIRECTORY,
    )
}

/// `before`, the number and `after` as a path, without allocating.
fn number_path<'a>(
    buffer: &'a mut [u8],
    before: &[u8],
    number: i32,
    after: &[u8],
) -> Option<&'a CStr> {
    use std::io::Write;
    let mut rest = &mut *buffer;
    rest.write_all(before).ok()?;
    write!(rest, "{number}").ok()?;
    rest.write_all(after).ok()?;
    rest.write_all(&[0]).ok()?;
    CStr::from_bytes_until_nul(buffer).ok()
}

fn open_at(dir: BorrowedFd<'_>, path: &CStr, flags: OFlags) -> Option<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::openat(dir, path, flags, Mode::empty()).ok()
}

/// The first bytes of a small file.
fn read_start<'a>(dir: BorrowedFd<'_>, path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let file = open_at(dir, path, OFlags::empty())?;
    let len = rustix::io::read(&file, &mut *buffer).ok()?;
    buffer.get(..len)
}

/// Children of all threads of a process: every thread can be a parent.
fn children_of(dir: BorrowedFd<'_>) -> Vec<i32> {
    let mut children = Vec::new();
    let Some(tasks) = open_at(dir, c"task", OFlags::DIRECTORY) else {
        return children;
    };
    let mut space = [MaybeUninit::<u8>::uninit(); 1024];
    let mut entries = RawDir::new(&tasks, &mut space);
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name().to_bytes();
        let Some(thread) = std::str::from_utf8(name)
            .ok()
            .and_then(|name| name.parse().ok())
        else {
            continue; // `.` and `..`
        };
        let mut path = [0; 24];
        let path = number_path(&mut path, b"", thread, b"/children");
        let file = path.and_then(|path| open_at(tasks.as_fd(), path, OFlags::empty()));
        if let Some(file) = file {
            read_pids(file.as_fd(), &mut children);
        }
    }
    children
}

/// Decimal numbers with a space behind each.
fn read_pids(file: BorrowedFd<'_>, pids: &mut Vec<i32>) {
    let mut buffer = [0; 2048];
    let mut pid = 0_i32;
    while let Ok(len @ 1..) = rustix::io::read(file, &mut buffer) {
        for byte in &buffer[..len] {
            if byte.is_ascii_digit() {
                pid = pid
                    .saturating_mul(10)
                    .saturating_add(i32::from(byte - b'0'));
            } else if pid > 0 {
                pids.push(std::mem::take(&mut pid));
            }
        }
    }
}

/// What we need of `/proc/<pid>/stat`.
struct Stat {
    state: u8,
    parent: i32,
}

impl Stat {
    fn read(dir: BorrowedFd<'_>) -> Option<Self> {
        let mut buffer = [0; 512];
        Self::parse(read_start(dir, c"stat", &mut buffer)?)
    }

    /// `pid (name) state parent ...`; the name may contain anything, the rest no parenthesis.
    fn parse(text: &[u8]) -> Option<Self> {
        let name_end = text.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(text.get(name_end + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        Some(Self { state, parent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_parentheses_does_not_hide_the_parent() {
        let stat = Stat::parse(b"12 (a) R 1 (b)) S 77 12 12 0 -1").unwrap();
        assert_eq!((stat.state, stat.parent), (b'S', 77));
        assert!(Stat::parse(b"12 (a").is_none());
    }

    #[test]
    fn pids_are_read_across_the_pieces_of_a_long_list() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let expected: Vec<i32> = (1_000_000..1_001_000).collect();
        let mut text = String::new();
        for pid in &expected {
            text.push_str(&pid.to_string());
            text.push(' ');
        }
        assert_eq!(
            rustix::io::write(&writer, text.as_bytes()).unwrap(),
            text.len()
        );
        drop(writer);
        let mut pids = Vec::new();
        read_pids(reader.as_fd(), &mut pids);
        assert_eq!(pids, expected);
    }

    #[test]
    fn a_process_that_is_no_child_is_not_taken_for_one() {
        let root = Root::this().unwrap();
        assert!(root.child(1).is_none());
    }
}
