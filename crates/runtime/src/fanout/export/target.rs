//! The file that an export is written to: refusals, the file beside it, the rename.
//!
//! The invariant here: no reader ever sees a part of an export under its name. The file beside it is
//! locked while it is written, so that one which nobody writes any more is recognised and removed.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use turnlane_store::crash;
use turnlane_store::fanout::JobRow;

use super::ExportError;

/// The most symbolic links that are followed, as in the kernel.
const LINKS_MAX: usize = 40;

/// How often a new name is tried.
const NAME_TRIES: usize = 8;

/// The treatment of a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// It is kept, unless it is the job's own last export.
    Refused,
    /// A regular file is replaced, whatever it holds.
    Allowed,
}

/// The file that a job wrote last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastExport {
    /// Its path.
    pub path: PathBuf,
    /// The digests that its content may have: a killed export leaves the old file or the new one.
    pub digests: Vec<[u8; 32]>,
}

impl LastExport {
    /// The last export of a stored job.
    pub fn of_job(job: &JobRow) -> Option<Self> {
        let path = PathBuf::from(job.made.export_path.as_ref()?);
        let digests = [job.export_digest, job.export_next];
        let digests = digests.into_iter().flatten().collect();
        Some(Self { path, digests })
    }
}

/// A path that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The path.
    pub path: PathBuf,
    /// The input of the job, which is never written.
    pub input: Option<PathBuf>,
    /// The treatment of a file that exists.
    pub overwrite: Overwrite,
    /// The file that the job wrote last; it may replace that while nobody has changed it.
    pub last: Option<LastExport>,
}

/// Refuses a path that an export could not write, by trying. Blocks on the disk; nothing is left.
pub fn check_output(output: &Output) -> Result<(), ExportError> {
    check(output).map(drop)
}

/// A path that may be written.
#[derive(Debug)]
pub(super) struct Target {
    /// The file behind symbolic links.
    file: PathBuf,
    kind: Kind,
    overwrite: Overwrite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// There is no file.
    New,
    /// A regular file is replaced.
    Replaced,
    /// A FIFO or a device is written directly.
    Direct,
}

pub(super) fn check(output: &Output) -> Result<Target, ExportError> {
    let path = &output.path;
    let failed = |error: &std::io::Error| ExportError::unwritable(path, error);
    let refused = |reason: &str| failed(&std::io::Error::other(reason));
    let shown = || path.display().to_string();
    let file = behind_links(path).map_err(|error| failed(&error))?;
    if output
        .input
        .as_deref()
        .is_some_and(|input| same_file(&file, input))
    {
        return Err(ExportError::OutputIsInput(shown()));
    }
    let kind = match std::fs::metadata(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Kind::New,
        Err(error) => return Err(failed(&error)),
        Ok(found) if found.is_dir() => return Err(refused("it is a directory")),
        Ok(found) if found.is_file() => Kind::Replaced,
        Ok(found) if found.file_type().is_fifo() || found.file_type().is_char_device() => {
            Kind::Direct
        }
        Ok(_) => return Err(refused("it is not a regular file")),
    };
    let own = output.last.as_ref().is_some_and(|last| {
        let is_known = |digest| last.digests.contains(&digest);
        !last.digests.is_empty()
            && same_file(&file, &last.path)
            && digest(&file).is_ok_and(is_known)
    });
    if kind == Kind::Replaced && output.overwrite == Overwrite::Refused && !own {
        return Err(ExportError::OutputExists(shown()));
    }
    let target = Target {
        file,
        kind,
        overwrite: if own {
            Overwrite::Allowed
        } else {
            output.overwrite
        },
    };
    if kind != Kind::Direct {
        // Only an attempt tells whether the directory takes a file.
        target.begin().map_err(|error| failed(&error))?;
    }
    Ok(target)
}

/// The path that a chain of symbolic links ends with, whether a file is there or not.
fn behind_links(path: &Path) -> std::io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match std::fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {
                let to = std::fs::read_link(&path)?;
                path = directory(&path).join(to);
            }
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(path),
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::other("too many symbolic links"))
}

fn directory(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Returns true if both paths lead to one file.
fn same_file(one: &Path, other: &Path) -> bool {
    let inode = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    };
    let canonical = |path: &Path| std::fs::canonicalize(path).ok();
    (inode(one).is_some() && inode(one) == inode(other))
        || (canonical(one).is_some() && canonical(one) == canonical(other))
}

fn digest(file: &Path) -> std::io::Result<[u8; 32]> {
    let mut file = File::open(file)?;
    let mut hasher = Sha256::new();
    let mut bytes = vec![0; 64 * 1024];
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(hasher.finalize().into()),
            count => hasher.update(&bytes[..count]),
        }
    }
}

impl Target {
    /// Opens the file beside the target, or the target itself where it is written directly.
    pub(super) fn begin(&self) -> std::io::Result<OutputFile> {
        if self.kind == Kind::Direct {
            let file = OpenOptions::new().write(true).open(&self.file)?;
            return Ok(OutputFile { file, beside: None });
        }
        let folder = directory(&self.file);
        let prefix = prefix(&self.file);
        sweep(folder, &prefix);
        for _ in 0..NAME_TRIES {
            let path = folder.join(new_name(&prefix));
            let made = OpenOptions::new().write(true).create_new(true).open(&path);
            let file = match made {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made?,
            };
            // A sweep of another export may have come between: then the file is gone, or will be.
            if file.try_lock().is_ok() {
                let beside = Beside {
                    path,
                    target: self.file.clone(),
                    overwrite: self.overwrite,
                    renamed: false,
                };
                return Ok(OutputFile {
                    file,
                    beside: Some(beside),
                });
            }
        }
        Err(std::io::Error::other("no file could be made beside it"))
    }
}

/// The beginning of the names beside a file; a hash, since the file's own name may be as long as names
/// can be.
fn prefix(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default();
    let hash = Sha256::digest(name.as_encoded_bytes());
    let hash = hash.iter().take(8);
    let hash = hash.fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    format!(".turnlane-export-{hash:016x}-")
}

fn new_name(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{}-{count}.tmp", std::process::id())
}

/// Removes files beside the target that a killed export has left: nobody holds their lock.
fn sweep(folder: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let left = name.to_str().is_some_and(|name| {
            name.starts_with(prefix) && Path::new(name).extension().is_some_and(|end| end == "tmp")
        });
        if left
            && let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            // A file that cannot be removed is tried again by the next export.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct OutputFile {
    file: File,
    /// None where the target itself is written.
    beside: Option<Beside>,
}

/// The file beside the target; removed unless it was renamed.
#[derive(Debug)]
struct Beside {
    path: PathBuf,
    target: PathBuf,
    overwrite: Overwrite,
    renamed: bool,
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.renamed {
            // A file that cannot be removed is swept by the next export.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl OutputFile {
    /// Writes a text and returns the file again: it travels between threads.
    pub(super) fn written(mut self, text: &[u8]) -> std::io::Result<Self> {
        self.file.write_all(text)?;
        Ok(self)
    }

    /// Makes the file durable under its name.
    pub(super) fn finish(self) -> std::io::Result<()> {
        let Some(mut beside) = self.beside else {
            return Ok(());
        };
        let existing = std::fs::metadata(&beside.target);
        if let Ok(existing) = existing {
            if beside.overwrite == Overwrite::Refused {
                return Err(ErrorKind::AlreadyExists.into());
            }
            // Readers of the replaced file stay readers. Another owner's mode may not be settable.
            let _ = self.file.set_permissions(existing.permissions());
        }
        self.file.sync_all()?;
        crash::point("fanout:export:before-rename");
        std::fs::rename(&beside.path, &beside.target)?;
        beside.renamed = true;
        crash::point("fanout:export:after-rename");
        File::open(directory(&beside.target))?.sync_all()
    }
}
