//! What a directory holds.
//!
//! A link counts as what it leads to, as Codex has it; one that leads nowhere, or where nothing may be
//! read, is neither directory nor file.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;
use turnlane_process::Access;
use turnlane_protocol::exec_server::fs::{DirectoryEntry, PathParams, ReadDirectoryAnswer};

use super::failure::{Failure, Result};
use super::guard::{Guard, Links};
use super::local;

/// How many names one answer tells.
pub(super) const ENTRIES_MAX: usize = 50_000;

/// `fs/readDirectory`.
pub(super) fn list(params: &PathParams, hidden: &[PathBuf]) -> Result<ReadDirectoryAnswer> {
    let path = local(&params.path)?;
    let guard = Guard::of(params.sandbox.as_ref(), hidden)?;
    listing(&guard, &path, ENTRIES_MAX)
}

/// What a directory holds, or that it holds more than `entries_max`.
pub(super) fn listing(
    guard: &Guard,
    path: &Path,
    entries_max: usize,
) -> Result<ReadDirectoryAnswer> {
    let place = guard.hold(path, Links::Follow, Access::Read)?;
    let (names, more) = names(&mut place.held.to_list()?, entries_max)?;
    if more {
        return Err(Failure::Internal(
            format!("directory has more than {entries_max} entries").into(),
        ));
    }
    let entries = names.into_iter().map(|(name, kind)| {
        let kind = match kind {
            FileType::Symlink if guard.is_unrestricted() => {
                statat(&place.held, &name, AtFlags::empty())
                    .map(|found| FileType::from_raw_mode(found.st_mode))
                    .ok()
            }
            FileType::Symlink => guard
                .hold(&place.path.join(&name), Links::Follow, Access::Read)
                .map(|target| FileType::from_raw_mode(mode(&target.held)))
                .ok(),
            kind => Some(kind),
        };
        DirectoryEntry {
            file_name: name.to_string_lossy().into_owned(),
            is_directory: kind == Some(FileType::Directory),
            is_file: kind == Some(FileType::RegularFile),
        }
    });
    Ok(ReadDirectoryAnswer {
        entries: entries.collect(),
    })
}

fn mode(held: &super::held::Held) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    held.metadata().mode()
}

/// The first names of a directory with their kinds, links as links, and whether there are more.
pub(super) fn names(
    directory: &mut Dir,
    entries_max: usize,
) -> Result<(Vec<(OsString, FileType)>, bool)> {
    let mut names = Vec::new();
    while let Some(entry) = directory.read() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if names.len() == entries_max {
            return Ok((names, true));
        }
        let kind = match entry.file_type() {
            // Not every file system tells.
            FileType::Unknown => match statat(directory.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => FileType::from_raw_mode(found.st_mode),
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            },
            kind => kind,
        };
        names.push((name.to_owned(), kind));
    }
    Ok((names, false))
}
