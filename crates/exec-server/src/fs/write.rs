//! Files and directories that are made or changed.
//!
//! A file that exists is written in place and keeps its mode, its owner and its other names; a new
//! one is created only where nothing is, so that a name that appears meanwhile is looked at again.
//! There is no temporary file and no sync: a crash may leave half of the content.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use turnlane_process::Access;
use turnlane_protocol::exec_server::fs::{TreeParams, WriteFileParams};

use super::failure::{Failure, Result};
use super::guard::{Guard, Links, Place, settle};
use super::held::Held;
use super::{links, local};

/// The mode of new files, less the umask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
/// The mode of new directories, less the umask.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o777);

/// `fs/writeFile`.
pub(super) fn file(params: &WriteFileParams, hidden: &[PathBuf]) -> Result<()> {
    let path = local(&params.path)?;
    // Before the file is touched: bad base64 must not empty it.
    let content = STANDARD.decode(&params.data_base64).map_err(|error| {
        Failure::Invalid(format!("fs/writeFile requires valid base64 dataBase64: {error}").into())
    })?;
    let guard = Guard::of(params.sandbox.as_ref(), hidden)?;
    let mut file = to_write(&guard, &path, links(params.follow_symlinks))?;
    file.set_len(0)?;
    file.write_all(&content)?;
    Ok(())
}

/// Opens the file at `path` as it is, or a new one.
pub(super) fn to_write(guard: &Guard, path: &Path, links: Links) -> Result<File> {
    settle(|| match guard.hold(path, links, Access::Write) {
        Ok(place) => place.held.to_write(),
        Err(failure) if failure.is_not_found() => {
            let slot = guard.slot(path, links)?;
            create(&slot.directory, &slot.name)
        }
        Err(failure) => Err(failure),
    })
}

/// Opens one name of a directory as it is, or a new file; a link is not followed.
pub(super) fn entry_to_write(directory: impl AsFd, name: &OsStr) -> Result<File> {
    settle(|| match Held::entry(&directory, name) {
        Ok(held) => held.to_write(),
        Err(failure) if failure.is_not_found() => create(&directory, name),
        Err(failure) => Err(failure),
    })
}

fn create(directory: impl AsFd, name: &OsStr) -> Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(directory, name, flags, FILE_MODE) {
        Ok(fd) => Ok(fd.into()),
        Err(Errno::EXIST) => Err(Failure::moved(Errno::EXIST)),
        Err(error) => Err(error.into()),
    }
}

/// `fs/createDirectory`.
pub(super) fn directory(params: &TreeParams, hidden: &[PathBuf]) -> Result<()> {
    let path = local(&params.path)?;
    let links = links(params.follow_symlinks);
    let guard = Guard::of(params.sandbox.as_ref(), hidden)?;
    if params.recursive.unwrap_or(true) {
        return with_parents(&guard, &path, links).map(drop);
    }
    // A name at the end that is taken is an error, whatever it leads to.
    let links = match links {
        Links::Follow => Links::KeepLast,
        kept => kept,
    };
    settle(|| {
        let slot = guard.slot(&path, links)?;
        Ok(mkdirat(&slot.directory, &slot.name, DIRECTORY_MODE)?)
    })
}

/// Makes what is missing of a path and holds the directory at its end.
pub(super) fn with_parents(guard: &Guard, path: &Path, links: Links) -> Result<Place> {
    settle(|| {
        let (mut place, missing) = guard.deepest(path, links)?;
        if !place.held.is_directory() {
            return Err(Errno::EXIST.into());
        }
        for name in missing {
            let path = place.path.join(&name);
            guard.permit(&place.path, Access::Write)?;
            guard.permit(&path, Access::Write)?;
            place = Place {
                held: subdirectory(&place.held, &name)?,
                path,
                by_link: place.by_link,
            };
        }
        Ok(place)
    })
}

/// Makes a directory in a directory, or takes the one that is there; never what a link leads to.
pub(super) fn subdirectory(directory: impl AsFd, name: &OsStr) -> Result<Held> {
    match mkdirat(&directory, name, DIRECTORY_MODE) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let held = Held::entry(&directory, name)?;
    if held.is_directory() {
        Ok(held)
    } else {
        // Whoever had found nothing there may look again.
        Err(Failure::moved(Errno::EXIST))
    }
}
