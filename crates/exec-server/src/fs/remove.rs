//! Files and directories that go.
//!
//! A link is removed itself, never what it leads to. Under a policy nothing is removed unless all of
//! it may be: a read-only or denied path below refuses the whole call before anything is gone.
//!
//! The tree is taken apart from descriptors: one per level, no names longer than one component.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Dir, unlinkat};
use rustix::io::Errno;
use turnlane_process::Access;
use turnlane_protocol::exec_server::fs::TreeParams;

use super::failure::{Failure, Result};
use super::guard::{Guard, Links, settle};
use super::held::Held;
use super::local;

/// How deep a tree may be that is removed or copied: each level holds a descriptor.
pub(super) const TREE_DEPTH_MAX: usize = 256;

/// How often a directory is gone through again because somebody fills it meanwhile.
const ROUNDS_MAX: usize = 8;

/// `fs/remove`.
pub(super) fn remove(params: &TreeParams, hidden: &[PathBuf]) -> Result<()> {
    let path = local(&params.path)?;
    let guard = Guard::of(params.sandbox.as_ref(), hidden)?;
    let links = match params.follow_symlinks {
        Some(false) => Links::Refuse,
        Some(true) | None => Links::KeepLast,
    };
    let removed = settle(|| {
        let slot = guard.slot(&path, links)?;
        let refused = match unlinkat(&slot.directory, &slot.name, AtFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(error) if may_be_directory(error) => error,
            Err(error) => return Err(error.into()),
        };
        let held = Held::entry(&slot.directory, &slot.name)?;
        if !held.is_directory() {
            return Err(refused.into());
        }
        if params.recursive.unwrap_or(true) {
            guard.permit_below(&slot.path, Access::Write)?;
            empty(&held)?;
        }
        Ok(unlinkat(&slot.directory, &slot.name, AtFlags::REMOVEDIR)?)
    });
    match removed {
        Err(failure) if failure.is_not_found() && params.force.unwrap_or(true) => Ok(()),
        outcome => outcome,
    }
}

/// What the system says to the removal of a directory as a file: Linux the first, others the second.
fn may_be_directory(error: Errno) -> bool {
    matches!(error, Errno::ISDIR | Errno::PERM)
}

/// One directory on the way down.
struct Level {
    directory: Dir,
    /// Its name in the level above.
    name: OsString,
    rounds: usize,
}

/// Removes everything in a directory.
fn empty(top: &Held) -> Result<()> {
    let mut levels = vec![Level::of(top, OsStr::new(""))?];
    while let Some(level) = levels.last_mut() {
        if let Some(down) = level.remove_files()? {
            if levels.len() == TREE_DEPTH_MAX {
                return Err(too_deep());
            }
            levels.push(down);
            continue;
        }
        let Some(emptied) = levels.pop() else { break };
        let Some(above) = levels.last_mut() else {
            break;
        };
        match unlinkat(above.directory.fd()?, &emptied.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            // Somebody else adds, or the file system lost its place while we removed.
            Err(Errno::NOTEMPTY | Errno::EXIST) if emptied.rounds < ROUNDS_MAX => {
                let mut again = emptied;
                again.directory.rewind();
                again.rounds += 1;
                levels.push(again);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl Level {
    fn of(held: &Held, name: &OsStr) -> Result<Self> {
        Ok(Self {
            directory: held.to_list()?,
            name: name.to_owned(),
            rounds: 0,
        })
    }

    /// Removes names until one is a directory, and enters that; `None` at the end.
    fn remove_files(&mut self) -> Result<Option<Self>> {
        while let Some(entry) = self.directory.read() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let here = self.directory.fd()?;
            let refused = match unlinkat(here, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(error) if may_be_directory(error) => error,
                Err(error) => return Err(error.into()),
            };
            return match Held::entry(here, name) {
                Ok(held) if held.is_directory() => Self::of(&held, name).map(Some),
                Ok(_) => Err(refused.into()),
                Err(failure) if failure.is_not_found() => continue,
                Err(failure) => Err(failure),
            };
        }
        Ok(None)
    }
}

pub(super) fn too_deep() -> Failure {
    Failure::Internal(format!("directory tree is deeper than {TREE_DEPTH_MAX} levels").into())
}
