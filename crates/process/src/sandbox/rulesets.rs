//! Landlock rulesets made of a layout, and the ones that were made lately.
//!
//! A grant for reading that leaves paths out becomes one grant for every entry beside the way to them.
//! That is a hundred system calls in an ordinary home directory, so rulesets are kept and used again
//! while the directories they were made of are the same. The invariant here: a kept ruleset never
//! grants more than a new one would. Rules name inodes, and every granted path is compared with the
//! inode it led to; an entry that appeared since is at worst not readable.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, StatxFlags};

use super::aliases::Aliases;
use super::landlock::{About, Ruleset};
use super::layout::{Layout, always_writable};
use super::{Access, policy};
use crate::error::SpawnError;

/// Rulesets kept at once: one per policy and terminal in use. The oldest one goes.
const KEPT_MAX: usize = 32;

/// Entries beside the way to a hidden path that are granted one by one. A directory with more makes
/// the policy one that cannot be enforced.
const ENTRIES_MAX: usize = 50_000;

/// The rulesets made lately.
#[derive(Debug, Default)]
pub(super) struct Rulesets {
    kept: Mutex<VecDeque<KeptRuleset>>,
}

#[derive(Debug)]
struct KeptRuleset {
    key: Key,
    stamps: Vec<Stamp>,
    /// The mounts when it was made: a mount over a granted directory brings another inode.
    mounts: Arc<Aliases>,
    fd: OwnedFd,
}

/// Everything a ruleset is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    abi: u32,
    about: About,
    grants: Vec<(PathBuf, Access)>,
    excluded: BTreeSet<PathBuf>,
    pts: Option<PathBuf>,
}

/// What a path led to.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    device: (u32, u32),
    inode: u64,
    /// Of a directory whose entries were granted one by one: when they last changed.
    changed: Option<(i64, u32)>,
}

impl Rulesets {
    /// The ruleset of a layout, for a process with this terminal.
    pub(super) fn of(
        &self,
        abi: u32,
        about: About,
        layout: &Layout,
        pts: Option<&Path>,
    ) -> Result<OwnedFd, SpawnError> {
        let key = Key {
            abi,
            about,
            grants: layout.grants.clone(),
            excluded: layout.excluded.clone(),
            pts: pts.map(Path::to_owned),
        };
        let mounts = Aliases::now().map_err(|error| super::unavailable(&error))?;
        if let Some(fd) = self.find(&key, &mounts) {
            return Ok(fd);
        }
        let (ruleset, stamps) = make(&key)?;
        let fd = ruleset.into_fd();
        let used = fd.try_clone().map_err(|error| super::unavailable(&error))?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.truncate(KEPT_MAX - 1);
        kept.push_front(KeptRuleset {
            key,
            stamps,
            mounts,
            fd,
        });
        Ok(used)
    }

    fn find(&self, key: &Key, mounts: &Arc<Aliases>) -> Option<OwnedFd> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|kept| kept.key == *key)?;
        let found = kept.remove(at)?;
        let same = |stamp: &Stamp| stamp.is_current();
        if !Arc::ptr_eq(&found.mounts, mounts) || !found.stamps.iter().all(same) {
            return None;
        }
        let fd = found.fd.try_clone().ok()?;
        kept.push_front(found);
        Some(fd)
    }
}

fn make(key: &Key) -> Result<(Ruleset, Vec<Stamp>), SpawnError> {
    let ruleset = Ruleset::new(key.abi, key.about).map_err(|error| super::unavailable(&error))?;
    let mut maker = Maker {
        ruleset,
        excluded: &key.excluded,
        stamps: Vec::new(),
        entries: 0,
    };
    for (path, access) in &key.grants {
        let granted = match access {
            Access::Read => maker.read(path),
            Access::Deny | Access::Write => maker.grant(path, *access),
        };
        match granted {
            // A machine without one of the readable devices has nothing to allow.
            Err(error) if path.starts_with("/dev") && error.kind() == io::ErrorKind::NotFound => {}
            granted => granted.map_err(|error| policy::unresolved(path, &error))?,
        }
    }
    for device in always_writable(key.pts.as_deref()) {
        match maker.ruleset.grant(device, Access::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            granted => granted.map_err(|error| policy::unresolved(device, &error))?,
        }
    }
    Ok((maker.ruleset, maker.stamps))
}

struct Maker<'a> {
    ruleset: Ruleset,
    excluded: &'a BTreeSet<PathBuf>,
    stamps: Vec<Stamp>,
    entries: usize,
}

impl Maker<'_> {
    fn grant(&mut self, path: &Path, access: Access) -> io::Result<()> {
        // Before the grant: an inode that comes between the two makes the stamp wrong, not the grant.
        let stamp = Stamp::of(path, Watched::Itself)?;
        self.ruleset.grant(path, access)?;
        self.stamps.push(stamp);
        Ok(())
    }

    /// Grants reading at the path and below, but for what is excluded.
    fn read(&mut self, path: &Path) -> io::Result<()> {
        if self.excluded.contains(path) {
            self.stamps.push(Stamp::of(path, Watched::Itself)?);
            return self.ruleset.grant_listing(path);
        }
        if !self.is_divided(path) {
            return self.grant(path, Access::Read);
        }
        self.stamps.push(Stamp::of(path, Watched::Entries)?);
        // Names below stay visible by this; mounts hide them where there are any.
        self.ruleset.grant_listing(path)?;
        self.divide(path)
    }

    fn divide(&mut self, directory: &Path) -> io::Result<()> {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return Err(io::Error::from_raw_os_error(libc::E2BIG));
            }
            let path = entry.path();
            // A link needs no right; what it leads to has its own.
            if self.excluded.contains(&path) || entry.file_type()?.is_symlink() {
                continue;
            }
            if self.is_divided(&path) {
                self.stamps.push(Stamp::of(&path, Watched::Entries)?);
                self.divide(&path)?;
                continue;
            }
            match self.ruleset.grant(&path, Access::Read) {
                // It went away, or is a mount that only its owner may enter.
                Err(error) if is_passed_over(&error) => {}
                granted => granted?,
            }
        }
        Ok(())
    }

    /// Whether something below the path is excluded.
    fn is_divided(&self, path: &Path) -> bool {
        let mut below = self.excluded.range(path.to_owned()..);
        below.any(|excluded| excluded != path && excluded.starts_with(path))
    }
}

fn is_passed_over(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::EACCES | libc::ELOOP | libc::ENOTDIR)
    )
}

/// What of a path must stay the same.
#[derive(Clone, Copy)]
enum Watched {
    Itself,
    Entries,
}

impl Stamp {
    fn of(path: &Path, watched: Watched) -> io::Result<Self> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let seen = rustix::fs::statx(CWD, path, flags, StatxFlags::INO | StatxFlags::CTIME)?;
        Ok(Self {
            path: path.to_owned(),
            device: (seen.stx_dev_major, seen.stx_dev_minor),
            inode: seen.stx_ino,
            changed: match watched {
                Watched::Itself => None,
                Watched::Entries => Some((seen.stx_ctime.tv_sec, seen.stx_ctime.tv_nsec)),
            },
        })
    }

    fn is_current(&self) -> bool {
        let watched = match self.changed {
            None => Watched::Itself,
            Some(_) => Watched::Entries,
        };
        Self::of(&self.path, watched).is_ok_and(|now| now == *self)
    }
}
