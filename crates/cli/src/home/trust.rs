//! Checks that only the user, or root, decides what Turnlane does.
//!
//! Owns the answer to one question: may this process obey the files of a home directory? A file or
//! directory is obeyed if it belongs to the effective user or to root and no other user can write to
//! it; a secret must also be unreadable for other users. The invariant here: every check looks at an
//! open descriptor, and [`read`] reads from the very descriptor that it checked, so an exchange of the
//! path between check and use changes nothing. Opening never waits: a pipe or a device is refused.
//!
//! Symbolic links are followed, because dotfile managers put them there. A link can only be placed by
//! a user who can write the home directory, and its target is checked like any other file.
//!
//! The directories above the home are not checked: a user who can write there can replace the home,
//! but not by one that belongs to us. What the files say is checked by their readers.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open};
use rustix::io::Errno;
use rustix::process::geteuid;

/// How many entries of a home are looked through for hooks.
const ENTRIES_MAX: usize = 10_000;
/// The write permissions of all users but the owner.
const WRITE_OTHERS: u32 = 0o022;
/// All permissions of all users but the owner.
const ALL_OTHERS: u32 = 0o077;

/// The kind of file that a path must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A directory that only its owner can write.
    Directory,
    /// A regular file that only its owner can write.
    Settings,
    /// A regular file that only its owner can read or write.
    Secret,
    /// A regular file or a directory that only its owner can write.
    SettingsOrDirectory,
}

/// The entries of a home directory that decide something, and what each must be.
const ENTRIES: [(&str, Kind); 11] = [
    ("run", Kind::Directory),
    ("attachments", Kind::Directory),
    ("config.toml", Kind::Settings),
    ("keys.env", Kind::Secret),
    ("token", Kind::Secret),
    ("exec-server.token", Kind::Secret),
    ("AGENTS.md", Kind::Settings),
    ("AGENTS.override.md", Kind::Settings),
    ("turnlane.db", Kind::Settings),
    ("turnlane.db-wal", Kind::Settings),
    ("turnlane.db-shm", Kind::Settings),
];

/// Entries whose names begin like this run programs.
const HOOKS: &str = "hooks";

/// A path that this process must not obey.
#[derive(Debug)]
pub(crate) struct Fault {
    path: PathBuf,
    kind: Kind,
    problem: Problem,
    /// The effective user.
    me: u32,
}

/// The reason why a path must not be obeyed.
#[derive(Debug)]
enum Problem {
    WrongType(FileType),
    ForeignOwner(u32),
    Writable(u32),
    Readable(u32),
    TooLong(u64),
    NotText,
    System(io::Error),
}

impl Fault {
    /// The file or directory that it is about.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The system's error, where there is one.
    fn system(path: &Path, kind: Kind, error: io::Error) -> Self {
        Self {
            path: path.to_owned(),
            kind,
            problem: Problem::System(error),
            me: geteuid().as_raw(),
        }
    }

    /// The path and what is wrong with it.
    pub(crate) fn problem(&self) -> String {
        let path = self.path.display();
        match &self.problem {
            Problem::WrongType(found) => {
                let wanted = match self.kind {
                    Kind::Directory => "a directory",
                    Kind::Settings | Kind::Secret => "a regular file",
                    Kind::SettingsOrDirectory => "a regular file or a directory",
                };
                format!("{path} is {}, not {wanted}", type_in_words(*found))
            }
            Problem::ForeignOwner(owner) => format!(
                "{path} belongs to user {owner}, but this process runs as user {}",
                self.me
            ),
            Problem::Writable(mode) => {
                format!("{path} can be written by other users (mode {mode:04o})")
            }
            Problem::Readable(mode) => {
                format!("{path} can be read by other users (mode {mode:04o})")
            }
            Problem::TooLong(max) => format!("{path} is longer than {max} bytes"),
            Problem::NotText => format!("{path} is not UTF-8 text"),
            Problem::System(error) => format!("cannot read {path}: {error}"),
        }
    }

    /// The command or the step that mends it; none where only the system's error is known.
    pub(crate) fn remedy(&self) -> Option<String> {
        let path = quoted(&self.path);
        match self.problem {
            Problem::WrongType(_) => Some(format!("move it away: mv {path} {path}.old")),
            // Taking the files of another user over would lock that user out, so it comes second.
            Problem::ForeignOwner(owner) if self.me == 0 => Some(format!(
                "run turnlane as that user: sudo -u '#{owner}' turnlane ..., \
                 or take it over: chown 0 {path}"
            )),
            Problem::ForeignOwner(_) => {
                Some(format!("take it over: sudo chown {} {path}", self.me))
            }
            Problem::Writable(_) | Problem::Readable(_) => {
                let mode = match self.kind {
                    Kind::Directory => "700",
                    Kind::Secret => "600",
                    Kind::Settings | Kind::SettingsOrDirectory => "go-w",
                };
                Some(format!("run: chmod {mode} {path}"))
            }
            Problem::TooLong(_) | Problem::NotText => {
                Some("shorten it, or move it away".to_owned())
            }
            Problem::System(_) => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem())?;
        match self.remedy() {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}

/// Reads a whole text file that this process obeys; none where there is no file.
///
/// The text comes from the descriptor that was checked. A file longer than `bytes_max` is refused.
pub(crate) fn read(path: &Path, kind: Kind, bytes_max: u64) -> Result<Option<String>, Fault> {
    // Without O_NONBLOCK opening a pipe would wait for a writer; a terminal must not become ours.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let Some((descriptor, _)) = open_checked(path, kind, flags)? else {
        return Ok(None);
    };
    let fault = |problem| Fault {
        path: path.to_owned(),
        kind,
        problem,
        me: geteuid().as_raw(),
    };
    let mut content = Vec::new();
    // One byte more tells that it is too long, also where the file grows while it is read.
    let mut bounded = File::from(descriptor).take(bytes_max.saturating_add(1));
    bounded
        .read_to_end(&mut content)
        .map_err(|error| fault(Problem::System(error)))?;
    if content.len() as u64 > bytes_max {
        return Err(fault(Problem::TooLong(bytes_max)));
    }
    let text = String::from_utf8(content).map_err(|_| fault(Problem::NotText))?;
    Ok(Some(text))
}

/// Checks a path without reading it; a path where nothing is passes.
pub(crate) fn check(path: &Path, kind: Kind) -> Result<(), Fault> {
    // O_PATH needs no permission to read and has no effect on what is there, a device included.
    open_checked(path, kind, OFlags::PATH).map(drop)
}

/// Every fault of a home directory and of the entries in it that decide something.
///
/// A home that does not exist has none. Entries of a home that is not ours are not looked at.
pub(crate) fn faults(home: &Path) -> Vec<Fault> {
    if let Err(fault) = check(home, Kind::Directory) {
        let stays = matches!(fault.problem, Problem::Writable(_));
        let mut found = vec![fault];
        if stays {
            found.extend(faults_of_entries(home));
        }
        return found;
    }
    faults_of_entries(home).collect()
}

fn faults_of_entries(home: &Path) -> impl Iterator<Item = Fault> {
    let named = ENTRIES.map(|(name, kind)| (home.join(name), kind));
    let entries = std::fs::read_dir(home).into_iter().flatten();
    let is_hook = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(HOOKS.as_bytes());
    let hooks = entries
        .take(ENTRIES_MAX)
        .flatten()
        .filter(move |entry| is_hook(&entry.file_name()))
        .map(|entry| (entry.path(), Kind::SettingsOrDirectory));
    let all = named.into_iter().chain(hooks);
    all.filter_map(|(path, kind)| check(&path, kind).err())
}

/// Opens a path and checks what was opened.
fn open_checked(path: &Path, kind: Kind, flags: OFlags) -> Result<Option<(OwnedFd, Stat)>, Fault> {
    let system = |error: Errno| Fault::system(path, kind, error.into());
    let descriptor = match open(path, flags | OFlags::CLOEXEC, Mode::empty()) {
        Ok(descriptor) => descriptor,
        Err(Errno::NOENT) => return Ok(None),
        // A socket cannot be opened; O_PATH tells what it is.
        Err(Errno::NXIO) => return check(path, kind).map(|()| None),
        Err(error) => return Err(system(error)),
    };
    let stat = fstat(&descriptor).map_err(system)?;
    let me = geteuid().as_raw();
    match judge(kind, stat.st_uid, stat.st_mode, me) {
        None => Ok(Some((descriptor, stat))),
        Some(problem) => Err(Fault {
            path: path.to_owned(),
            kind,
            problem,
            me,
        }),
    }
}

/// The first reason why a file with this owner and mode must not be obeyed by user `me`.
fn judge(kind: Kind, owner: u32, raw_mode: u32, me: u32) -> Option<Problem> {
    let found = FileType::from_raw_mode(raw_mode);
    let mode = raw_mode & 0o7777;
    let fits = match kind {
        Kind::Directory => found == FileType::Directory,
        Kind::Settings | Kind::Secret => found == FileType::RegularFile,
        Kind::SettingsOrDirectory => {
            matches!(found, FileType::RegularFile | FileType::Directory)
        }
    };
    if !fits {
        return Some(Problem::WrongType(found));
    }
    // Root can change every file anyway.
    if owner != me && owner != 0 {
        return Some(Problem::ForeignOwner(owner));
    }
    if mode & WRITE_OTHERS != 0 {
        return Some(Problem::Writable(mode));
    }
    if kind == Kind::Secret && mode & ALL_OTHERS != 0 {
        return Some(Problem::Readable(mode));
    }
    None
}

fn type_in_words(found: FileType) -> &'static str {
    match found {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something unknown",
    }
}

/// The path as a word of a shell.
pub(crate) fn quoted(path: &Path) -> String {
    crate::shown::text::quoted(&path.display().to_string())
}

#[cfg(test)]
mod tests;
