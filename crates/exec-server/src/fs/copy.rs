//! Copies: a file, a link, or with `recursive` a directory.
//!
//! Content goes from descriptor to descriptor. A link is copied as a link. Into a directory that
//! exists is copied beside what it holds; below the destination no link is followed. Modes are copied
//! without set-user-id, set-group-id and sticky bits; owners and times are not. What cannot be copied
//! in a tree (a fifo, a device, a socket) is left out.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, readlinkat, symlinkat};
use turnlane_process::Access;
use turnlane_protocol::exec_server::fs::CopyParams;

use super::failure::{Failure, Result};
use super::guard::{Guard, Links, Place, settle};
use super::held::Held;
use super::remove::{TREE_DEPTH_MAX, too_deep};
use super::resolve::resolve;
use super::{local, write};

/// The bits of a mode that are copied.
const MODE_COPIED: u32 = 0o777;

/// `fs/copy`.
pub(super) fn copy(params: &CopyParams, hidden: &[PathBuf]) -> Result<()> {
    let source = local(&params.source_path)?;
    let destination = local(&params.destination_path)?;
    let guard = Guard::of(params.sandbox.as_ref(), hidden)?;
    let from = guard.hold(&source, Links::KeepLast, Access::Read)?;
    if from.held.is_directory() {
        if !params.recursive {
            return Err(Failure::Invalid(
                "fs/copy requires recursive: true when sourcePath is a directory".into(),
            ));
        }
        tree(&guard, &from, &destination)
    } else if from.held.is_link() {
        settle(|| {
            let slot = guard.slot(&destination, Links::KeepLast)?;
            link(&from.held, &slot.directory, &slot.name)
        })
    } else {
        let content = from.held.to_read()?;
        let to = write::to_write(&guard, &destination, Links::Follow)?;
        file(&from.held, content, to)
    }
}

/// Copies a file that is open into one that is open.
fn file(from: &Held, mut content: File, mut to: File) -> Result<()> {
    let found = to.metadata()?;
    if (found.dev(), found.ino()) == from.identity() {
        return Err(Failure::Invalid(
            "fs/copy cannot copy a file to itself".into(),
        ));
    }
    to.set_len(0)?;
    std::io::copy(&mut content, &mut to)?;
    let mode = from.metadata().mode() & MODE_COPIED;
    if found.mode() & !0o170_000 != mode {
        to.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Makes a link with the target of a link that is held.
fn link(from: &Held, directory: impl AsFd, name: &OsStr) -> Result<()> {
    let target = readlinkat(from, "", Vec::new())?;
    Ok(symlinkat(target, directory, name)?)
}

/// One directory on the way down, and where its content goes.
struct Level {
    from: Dir,
    to: Held,
}

/// Copies a directory into a directory, which is made if it is missing.
fn tree(guard: &Guard, from: &Place, destination: &Path) -> Result<()> {
    // Under a policy what is held has its path already; another look could find another one.
    let source = if guard.is_unrestricted() {
        resolve(guard, &from.path, Links::KeepLast)?.path
    } else {
        from.path.clone()
    };
    let fits = |target: &Path| {
        if target.starts_with(&source) {
            return Err(into_itself());
        }
        guard.permit_below(target, Access::Write)
    };
    guard.permit_below(&source, Access::Read)?;
    // Before anything is made, and again for where it was made.
    fits(&resolve(guard, destination, Links::Follow)?.path)?;
    let to = write::with_parents(guard, destination, Links::Follow)?;
    fits(&to.path)?;
    let top = to.held.identity();
    let mut levels = vec![Level {
        from: from.held.to_list()?,
        to: to.held,
    }];
    while let Some(level) = levels.last_mut() {
        let Some(entry) = level.from.read() else {
            levels.pop();
            continue;
        };
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let held = match Held::entry(level.from.fd()?, name) {
            Ok(held) => held,
            // Gone since the directory was read.
            Err(failure) if failure.is_not_found() => continue,
            Err(failure) => return Err(failure),
        };
        if held.is_directory() {
            // The destination under another name, by a mount.
            if held.identity() == top {
                return Err(into_itself());
            }
            let below = Level {
                from: held.to_list()?,
                to: write::subdirectory(&level.to, name)?,
            };
            if levels.len() == TREE_DEPTH_MAX {
                return Err(too_deep());
            }
            levels.push(below);
        } else if held.is_link() {
            link(&held, &level.to, name)?;
        } else if held.is_file() {
            let content = held.to_read()?;
            file(&held, content, write::entry_to_write(&level.to, name)?)?;
        }
    }
    Ok(())
}

fn into_itself() -> Failure {
    Failure::Invalid("fs/copy cannot copy a directory to itself or one of its descendants".into())
}
