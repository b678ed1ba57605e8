//! What lies below a directory, level by level, as far as the caller and our bounds let it.
//!
//! Names come sorted within their directory, directories before what they hold, the root not at all.
//! What cannot be read is told as an error and passed over; a bound that is reached is told by
//! `truncated`. Every directory is opened anew by its path, under the policy, so that a wide tree
//! costs no descriptors.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use turnlane_process::Access;
use turnlane_protocol::exec_server::file_uri;
use turnlane_protocol::exec_server::fs::{
    WalkAnswer, WalkEntry, WalkError, WalkKind, WalkOptions, WalkParams,
};

use super::directory;
use super::failure::{Failure, Result};
use super::guard::{Guard, Links, Place};
use super::local;

const DEPTH_MAX: u64 = 64;
const DIRECTORIES_MAX: u64 = 10_000;
const ENTRIES_MAX: u64 = 50_000;

/// How much paths and messages an answer may hold: the rest of a tree with long names is cut.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What an entry costs beside its path.
const ENTRY_BYTES: usize = 32;

/// `fs/walk`.
pub(super) fn walk(params: &WalkParams, hidden: &[PathBuf]) -> Result<WalkAnswer> {
    let path = local(&params.path)?;
    let options = params.options;
    check(&options)?;
    let guard = Guard::of(params.sandbox.as_ref(), hidden)?;
    let mut walk = Walk {
        links: if options.follow_directory_symlinks {
            Links::Follow
        } else {
            Links::KeepLast
        },
        guard,
        options,
        answer: WalkAnswer::default(),
        waiting: VecDeque::new(),
        seen: HashSet::new(),
        entries: 0,
        directories: 1,
        bytes: 0,
    };
    let root = walk.guard.hold(&path, walk.links, Access::Read)?;
    if !root.held.is_directory() {
        return Ok(walk.answer);
    }
    walk.seen.insert(root.held.identity());
    let mut next = Some((path, 0, Ok(root)));
    while let Some((path, depth, place)) = next {
        let looked = place.and_then(|place| walk.look(&path, depth, &place));
        match looked {
            Ok(()) => {}
            Err(Stop::Full) => break,
            Err(Stop::Here(failure)) => {
                if walk.fail(&path, &failure).is_err() {
                    break;
                }
            }
        }
        next = walk.waiting.pop_front().map(|(path, depth)| {
            let place = walk.guard.hold(&path, walk.links, Access::Read);
            (path, depth, place.map_err(Stop::Here))
        });
    }
    Ok(walk.answer)
}

fn check(options: &WalkOptions) -> Result<()> {
    let fits = options.max_depth <= DEPTH_MAX
        && (1..=DIRECTORIES_MAX).contains(&options.max_directories)
        && (1..=ENTRIES_MAX).contains(&options.max_entries);
    if fits {
        return Ok(());
    }
    Err(Failure::Invalid(
        format!(
            "fs/walk takes maxDepth up to {DEPTH_MAX}, maxDirectories from 1 to {DIRECTORIES_MAX} \
             and maxEntries from 1 to {ENTRIES_MAX}"
        )
        .into(),
    ))
}

/// Why a directory is left before its end.
enum Stop {
    /// A bound is reached: no further directory either.
    Full,
    /// This one cannot be read.
    Here(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Here(failure)
    }
}

/// One walk under way.
struct Walk {
    guard: Guard,
    links: Links,
    options: WalkOptions,
    answer: WalkAnswer,
    /// At most as many as `max_directories`.
    waiting: VecDeque<(PathBuf, u64)>,
    /// Directories that were or will be entered; only needed where links make circles.
    seen: HashSet<(u64, u64)>,
    entries: u64,
    directories: u64,
    bytes: usize,
}

impl Walk {
    fn look(&mut self, path: &Path, depth: u64, place: &Place) -> std::result::Result<(), Stop> {
        let (mut names, more) =
            directory::names(&mut place.held.to_list()?, directory::ENTRIES_MAX)?;
        names.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        for (name, kind) in names {
            if self.entries == self.options.max_entries {
                self.answer.truncated = true;
                return Err(Stop::Full);
            }
            self.entries += 1;
            let shown = path.join(&name);
            match self.kind(&place.path.join(&name), kind) {
                Ok(None) => {}
                Ok(Some(WalkKind::File)) => self.found(&shown, WalkKind::File)?,
                Ok(Some(WalkKind::Directory)) => {
                    self.found(&shown, WalkKind::Directory)?;
                    if depth < self.options.max_depth && !self.prunes(&name) {
                        self.enter(shown, depth + 1)?;
                    }
                }
                Err(failure) => self.fail(&shown, &failure)?,
            }
        }
        self.answer.truncated |= more;
        Ok(())
    }

    /// What an entry counts as; `None` if it is not told.
    fn kind(&self, path: &Path, kind: FileType) -> Result<Option<WalkKind>> {
        match kind {
            FileType::Directory => {
                self.guard.permit(path, Access::Read)?;
                Ok(Some(WalkKind::Directory))
            }
            FileType::RegularFile => {
                self.guard.permit(path, Access::Read)?;
                Ok(Some(WalkKind::File))
            }
            FileType::Symlink if self.options.follow_directory_symlinks => {
                let target = self.guard.hold(path, Links::Follow, Access::Read)?;
                Ok(target.held.is_directory().then_some(WalkKind::Directory))
            }
            _ => Ok(None),
        }
    }

    fn prunes(&self, name: &OsStr) -> bool {
        self.options.prune_hidden_directories && name.as_bytes().starts_with(b".")
    }

    fn enter(&mut self, path: PathBuf, depth: u64) -> std::result::Result<(), Stop> {
        if self.options.follow_directory_symlinks {
            match self.guard.hold(&path, Links::Follow, Access::Read) {
                Ok(place) if !self.seen.insert(place.held.identity()) => return Ok(()),
                Ok(_) => {}
                Err(failure) => return self.fail(&path, &failure),
            }
        }
        if self.directories == self.options.max_directories {
            self.answer.truncated = true;
        } else {
            self.directories += 1;
            self.waiting.push_back((path, depth));
        }
        Ok(())
    }

    fn found(&mut self, path: &Path, kind: WalkKind) -> std::result::Result<(), Stop> {
        let path = file_uri::from_path(path);
        self.reserve(path.len())?;
        self.answer.entries.push(WalkEntry { path, kind });
        Ok(())
    }

    fn fail(&mut self, path: &Path, failure: &Failure) -> std::result::Result<(), Stop> {
        let path = file_uri::from_path(path);
        let message = failure.to_string();
        self.reserve(path.len() + message.len())?;
        self.answer.errors.push(WalkError { path, message });
        Ok(())
    }

    fn reserve(&mut self, bytes: usize) -> std::result::Result<(), Stop> {
        self.bytes += bytes + ENTRY_BYTES;
        if self.bytes > ANSWER_BYTES_MAX {
            self.answer.truncated = true;
            return Err(Stop::Full);
        }
        Ok(())
    }
}
