//! Uncommitted work, kept in a private ref when an agent is stopped.
//!
//! Owned here: which files are kept and under which ref. The invariant: HEAD, branch, index, work tree,
//! stash and configuration stay as they are, no program that the repository names is run, and the whole
//! takes at most the time it is given. A failure is reported and never delays the end.
//!
//! The copy of the user's index carries what git knows of unchanged files, so a large work tree is not read
//! again. Files are added by name: adding everything would enter nested repositories and run what their
//! configuration names.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use turnlane_process::{Git, GitError, ProcessService};

/// New content of one ref.
const CONTENT_BYTES_MAX: u64 = 100 * 1_048_576;
/// Refs of one member that are kept.
const REFS_KEPT: usize = 20;
/// Names of files that a report lists.
const LISTED_MAX: usize = 100;
/// How long preserving may take.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(5);

/// What to preserve, and as what.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) processes: ProcessService,
    pub(crate) cwd: PathBuf,
    pub(crate) id: String,
    pub(crate) reason: String,
    pub(crate) unix_ms: i64,
}

/// Work that could not be preserved.
#[derive(Debug, thiserror::Error)]
enum PreserveError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// What was preserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preserved {
    pub(crate) reference: String,
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    /// Files that were left out because they are too large or cannot be read.
    pub(crate) left_out: Vec<String>,
}

/// Preserves what differs from HEAD; none where nothing does, or where there is no repository.
pub(crate) async fn preserve(wish: Wish, limit: Duration) -> Result<Option<Preserved>, String> {
    match tokio::time::timeout(limit, attempt(&wish)).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err(format!("git took longer than {} ms", limit.as_millis())),
    }
}

/// Copies the index with its time. Git takes a file that changed in the second of the index's own time for
/// possibly changed; a copy with a later time would hide such a change.
fn copy_index(from: &Path, to: &Path) -> std::io::Result<()> {
    let time = fs::metadata(from)?.modified()?;
    fs::copy(from, to)?;
    fs::File::options().write(true).open(to)?.set_modified(time)
}

async fn attempt(wish: &Wish) -> Result<Option<Preserved>, PreserveError> {
    let mut above = wish.cwd.ancestors();
    if !above.any(|directory| directory.join(".git").exists()) {
        return Ok(None);
    }
    let git = Git::find(&wish.processes, &wish.cwd).await?;
    let staging = Staging::new()?;
    let git = git.with_index(staging.0.join("index"));
    let head = git.resolve("HEAD^{commit}").await?;
    let own_index = git.directory().join("index");
    if own_index.exists() {
        copy_index(&own_index, &staging.0.join("index"))?;
    } else if let Some(head) = &head {
        git.run(&["read-tree", head], b"").await?;
    }
    let changed = git.differing_from_index().await?;
    let untracked = git.untracked().await?;
    let selection = select(git.work_tree(), changed, untracked);
    if !selection.removed.is_empty() {
        let arguments = ["update-index", "-z", "--force-remove", "--stdin"];
        git.run(&arguments, &joined(&selection.removed)).await?;
    }
    if !selection.added.is_empty() {
        let arguments = [
            "update-index",
            "-z",
            "--add",
            "--remove",
            "--replace",
            "--stdin",
        ];
        git.run(&arguments, &joined(&selection.added)).await?;
    }
    let tree = git.line(&["write-tree"]).await?;
    let head_tree = git.resolve("HEAD^{tree}").await?;
    if head_tree.as_ref() == Some(&tree) {
        return Ok(None);
    }
    let message = format!("turnlane preserve {} {}", wish.id, wish.reason);
    let mut arguments = vec!["commit-tree", &tree, "-m", &message];
    if let Some(head) = &head {
        arguments.extend(["-p", head]);
    }
    let commit = git.line(&arguments).await?;
    let prefix = format!("refs/turnlane/preserve/{}", wish.id);
    let reference = format!("{prefix}/{}", wish.unix_ms);
    git.run(&["update-ref", &reference, &commit], b"").await?;
    forget_old(&git, &prefix).await?;
    Ok(Some(Preserved {
        reference,
        files: selection.added.len() + selection.removed.len(),
        bytes: selection.bytes,
        left_out: selection.left_out,
    }))
}

/// Keeps the newest refs of a member.
async fn forget_old(git: &Git, prefix: &str) -> Result<(), GitError> {
    let arguments = [
        "for-each-ref",
        "--format=%(refname)",
        "--sort=-refname",
        prefix,
    ];
    let listed = git.run(&arguments, b"").await?;
    let listed = String::from_utf8_lossy(&listed);
    for reference in listed.lines().skip(REFS_KEPT) {
        git.run(&["update-ref", "-d", reference], b"").await?;
    }
    Ok(())
}

/// Which files go into the ref.
#[derive(Debug, Default)]
struct Selection {
    added: Vec<Vec<u8>>,
    removed: Vec<Vec<u8>>,
    bytes: u64,
    left_out: Vec<String>,
}

fn select(work_tree: &Path, changed: Vec<Vec<u8>>, untracked: Vec<Vec<u8>>) -> Selection {
    let mut selection = Selection::default();
    let mut known = HashSet::new();
    for name in changed.into_iter().chain(untracked) {
        // A name with a slash at its end is a nested repository.
        if name.ends_with(b"/") || !known.insert(name.clone()) {
            continue;
        }
        let path = work_tree.join(OsStr::from_bytes(&name));
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            selection.removed.push(name);
            continue;
        };
        let kind = metadata.file_type();
        if kind.is_dir() {
            // A directory in the place of a file: its files are untracked ones.
            selection.removed.push(name);
            continue;
        }
        let is_kept = kind.is_file() || kind.is_symlink();
        let is_readable = kind.is_symlink() || fs::File::open(&path).is_ok();
        let bytes = selection.bytes.saturating_add(metadata.len());
        if is_kept && is_readable && bytes <= CONTENT_BYTES_MAX {
            selection.bytes = bytes;
            selection.added.push(name);
        } else if selection.left_out.len() < LISTED_MAX {
            let name = String::from_utf8_lossy(&name);
            selection.left_out.push(name.into_owned());
        }
    }
    selection
}

fn joined(names: &[Vec<u8>]) -> Vec<u8> {
    let mut all = Vec::new();
    for name in names {
        all.extend_from_slice(name);
        all.push(0);
    }
    all
}

/// A directory for the temporary index, gone when dropped.
struct Staging(PathBuf);

impl Staging {
    fn new() -> std::io::Result<Self> {
        let name = format!("turnlane-preserve-{}", uuid::Uuid::now_v7());
        let path = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
