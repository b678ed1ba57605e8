//! Files on disk, reached without following links.
//!
//! The invariant here: a resolved path is opened folder by folder from the root, each step
//! refusing a link, so that a link put in after the path was judged makes the step fail. Nothing
//! but a regular file is read.
//!
//! Who may write where is not known here; see [`Roots`](super::Roots).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{FILE_BYTES_MAX, Files, Located, resolve};

/// What a folder is opened for: to be walked through, which needs no right to list it.
#[cfg(target_os = "linux")]
const WALK: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const WALK: OFlags = OFlags::RDONLY;

/// The files of this machine, seen from a folder.
#[derive(Clone, Debug)]
pub struct DiskFiles {
    cwd: PathBuf,
}

impl DiskFiles {
    /// Relative paths start at `cwd`, which is absolute; for a patch behind a `cd` it is the
    /// command's folder joined with that of the `cd`.
    pub fn new(cwd: PathBuf) -> Self {
        Self { cwd }
    }
}

impl Files for DiskFiles {
    fn locate(&self, path: &str) -> io::Result<Located> {
        // By components: a slash at the end would make the system follow the link.
        let whole: PathBuf = self.cwd.join(path).components().collect();
        let is_link = whole
            .symlink_metadata()
            .is_ok_and(|found| found.is_symlink());
        let path = resolve(&self.cwd, Path::new(path))?;
        Ok(Located { path, is_link })
    }

    fn read(&self, path: &Path) -> io::Result<Option<String>> {
        let (folder, name) = match parent(path, &mut |_, _| Err(Errno::NOENT.into())) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(read_at(&folder, name)?.map(|(text, _)| text))
    }
}

/// Opens the folder of a resolved path; `missing` makes a folder that is not there, or fails.
pub(super) fn parent<'a>(
    path: &'a Path,
    missing: &mut dyn FnMut(&OwnedFd, &OsStr) -> io::Result<()>,
) -> io::Result<(OwnedFd, &'a OsStr)> {
    let name = path.file_name().ok_or(Errno::ISDIR)?;
    let flags = WALK | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = rustix::fs::open("/", flags, Mode::empty())?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        let Component::Normal(part) = part else {
            continue;
        };
        folder = match rustix::fs::openat(&folder, part, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                missing(&folder, part)?;
                rustix::fs::openat(&folder, part, flags, Mode::empty())?
            }
            opened => opened?,
        };
    }
    Ok((folder, name))
}

/// What a file holds and its mode; `None` if there is none.
pub(super) fn read_at(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<(String, Mode)>> {
    // A pipe must not hold us up before it is seen to be one.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    let found = rustix::fs::fstat(&opened)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(Errno::ISDIR.into()),
        _ => return Err(io::Error::other("not a regular file")),
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
    File::from(opened).take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() > FILE_BYTES_MAX {
        let problem = format!("the file is larger than {FILE_BYTES_MAX} bytes");
        return Err(io::Error::other(problem));
    }
    let no_text = |_| io::Error::other("the file is not UTF-8");
    let text = String::from_utf8(bytes).map_err(no_text)?;
    Ok(Some((text, Mode::from_raw_mode(found.st_mode & 0o7777))))
}
