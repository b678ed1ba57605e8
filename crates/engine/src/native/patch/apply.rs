//! Writing a plan: all of it or nothing.
//!
//! The invariant here: until every new content lies synced in a temporary file beside its target,
//! no name is changed; then names are changed by rename only, and each keeps a way back until the
//! last one is done. Folders stay open from the check of what they hold to the rename.
//!
//! Theory of operation: `stage` opens folders, checks that files are what the plan was made from
//! and writes temporaries; `commit` renames, keeping the old file under a second name; on failure
//! `restore` renames the old files back in reverse order. Temporaries and folders that were made
//! for nothing are removed either way. A process killed in between leaves whole files, some old,
//! some new, and temporaries named `.turnlane-patch-*`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::disk::{parent, read_at};
use super::plan::Step;
use super::{PatchError, Plan, Undone};

/// How many taken names are tried before giving up on a temporary.
const NAMES_MAX: usize = 100;

static NAMES: AtomicU64 = AtomicU64::new(0);

impl Plan {
    /// Writes everything, or nothing.
    ///
    /// The new contents are synced when this returns. It blocks and cannot be cancelled midway.
    /// Applied twice, the second time fails, since the files are no longer what they were.
    pub fn apply(&self) -> Result<(), PatchError> {
        self.apply_watched(&mut |_| {})
    }

    /// As [`apply`](Self::apply); `before` is called in front of each rename, with its number.
    pub(super) fn apply_watched(&self, before: &mut dyn FnMut(usize)) -> Result<(), PatchError> {
        let mut made = Vec::new();
        let mut staged: Vec<Staged<'_>> = Vec::new();
        for step in &self.steps {
            match stage(step, &mut made) {
                Ok(ready) => staged.push(ready),
                Err(source) => {
                    staged.iter().for_each(Staged::discard);
                    remove_folders(&made);
                    let (path, undone) = (step.said.clone(), Undone::Untouched);
                    return Err(PatchError::Write {
                        path,
                        source,
                        undone,
                    });
                }
            }
        }
        for at in 0..staged.len() {
            before(at);
            let Err(source) = staged[at].commit() else {
                continue;
            };
            let path = staged[at].step.said.clone();
            let failed = staged
                .iter()
                .take(at)
                .rev()
                .filter(|done| done.restore().is_err());
            let lost: Vec<_> = failed.map(|done| done.step.said.clone()).collect();
            staged.iter().skip(at).for_each(Staged::discard);
            remove_folders(&made);
            let undone = match (at, lost.is_empty()) {
                (0, _) => Undone::Untouched,
                (_, true) => Undone::Restored,
                (_, false) => Undone::Partly(lost),
            };
            return Err(PatchError::Write {
                path,
                source,
                undone,
            });
        }
        staged.iter().for_each(Staged::discard);
        Ok(())
    }
}

/// A folder that was made on the way, by the folder it is in.
struct Made {
    folder: OwnedFd,
    name: OsString,
}

fn remove_folders(made: &[Made]) {
    for Made { folder, name } in made.iter().rev() {
        // One that is used by others meanwhile stays.
        let _ = rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR);
    }
}

/// One step whose new content lies ready.
struct Staged<'a> {
    step: &'a Step,
    folder: OwnedFd,
    name: &'a OsStr,
    /// The new content.
    fresh: Option<OsString>,
    /// The second name of the old file, once its name has changed.
    aside: Option<OsString>,
    mode: Option<Mode>,
}

fn stage<'a>(step: &'a Step, made: &mut Vec<Made>) -> io::Result<Staged<'a>> {
    let (folder, name) = parent(&step.path, &mut |folder, name| {
        rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(0o777))?;
        let (folder, name) = (folder.try_clone()?, name.to_owned());
        made.push(Made { folder, name });
        Ok(())
    })?;
    let found = read_at(&folder, name)?;
    if found.as_ref().map(|(text, _)| text) != step.old.as_ref() {
        return Err(changed());
    }
    let mut mode = found.map(|(_, mode)| mode);
    if step.mode_of != step.path {
        let (folder, name) = parent(&step.mode_of, &mut |_, _| Err(Errno::NOENT.into()))?;
        mode = read_at(&folder, name)?.map(|(_, mode)| mode);
    }
    let new = step.new.as_ref();
    let fresh = new
        .map(|new| write_temporary(&folder, new, mode))
        .transpose()?;
    Ok(Staged {
        step,
        folder,
        name,
        fresh,
        aside: None,
        mode,
    })
}

impl Staged<'_> {
    /// Gives the name its new file, or takes it away; a failure leaves the name as it was.
    fn commit(&mut self) -> io::Result<()> {
        if let Some(old) = &self.step.old {
            self.aside = Some(self.keep_old(old)?);
        }
        let (folder, name) = (&self.folder, self.name);
        match (&self.fresh, &self.aside) {
            (Some(fresh), Some(_)) => rustix::fs::renameat(folder, fresh, folder, name)?,
            (Some(fresh), None) => rename_new(folder, fresh, name)?,
            (None, _) => rustix::fs::unlinkat(folder, name, AtFlags::empty())?,
        }
        Ok(())
    }

    /// A second name for the old file; where there are no hard links, a copy.
    fn keep_old(&self, old: &str) -> io::Result<OsString> {
        let (folder, name) = (&self.folder, self.name);
        let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(changed());
        }
        for _ in 0..NAMES_MAX {
            let aside = temporary_name();
            match rustix::fs::linkat(folder, name, folder, &aside, AtFlags::empty()) {
                Ok(()) => return Ok(aside),
                // Left there by a process that was killed.
                Err(Errno::EXIST) => {}
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK | Errno::ACCESS) => {
                    return write_temporary(folder, old, self.mode);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    fn restore(&self) -> io::Result<()> {
        let (folder, name) = (&self.folder, self.name);
        if let Some(aside) = &self.aside {
            rustix::fs::renameat(folder, aside, folder, name)?;
        } else {
            rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
        }
        Ok(())
    }

    /// Removes what lies beside the file, whatever there still is of it.
    fn discard(&self) {
        for name in self.fresh.iter().chain(&self.aside) {
            // Most often there is none: it was renamed.
            let _ = rustix::fs::unlinkat(&self.folder, name, AtFlags::empty());
        }
    }
}

fn changed() -> io::Error {
    io::Error::other("the file changed after the patch was verified")
}

/// A rename that replaces nothing, where the file system knows that.
fn rename_new(folder: &OwnedFd, fresh: &OsStr, name: &OsStr) -> io::Result<()> {
    let flags = RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(folder, fresh, folder, name, flags) {
        Err(Errno::INVAL | Errno::NOSYS) => Ok(rustix::fs::renameat(folder, fresh, folder, name)?),
        renamed => Ok(renamed?),
    }
}

fn temporary_name() -> OsString {
    let number = NAMES.fetch_add(1, Ordering::Relaxed);
    format!(".turnlane-patch-{}-{number}", std::process::id()).into()
}

/// Writes and syncs a new file under a name nobody has.
fn write_temporary(folder: &OwnedFd, text: &str, mode: Option<Mode>) -> io::Result<OsString> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Without an old file the process's mask decides; with one nobody may read more than before.
    let first = Mode::from_raw_mode(if mode.is_some() { 0o600 } else { 0o666 });
    for _ in 0..NAMES_MAX {
        let name = temporary_name();
        let opened = match rustix::fs::openat(folder, &name, flags, first) {
            Err(Errno::EXIST) => continue,
            opened => opened?,
        };
        let written = write_synced(opened, text, mode);
        if written.is_err() {
            let _ = rustix::fs::unlinkat(folder, &name, AtFlags::empty());
        }
        return written.map(|()| name);
    }
    Err(Errno::EXIST.into())
}

fn write_synced(file: OwnedFd, text: &str, mode: Option<Mode>) -> io::Result<()> {
    let mut file = File::from(file);
    file.write_all(text.as_bytes())?;
    if let Some(mode) = mode {
        rustix::fs::fchmod(&file, mode)?;
    }
    file.sync_all()
}
