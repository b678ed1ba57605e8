//! What the patches of one turn changed together, as one unified diff.
//!
//! The invariant here: the diff compares each file as it was before the turn's first patch with what
//! the last one made of it, and is told only when it changed. A file that was moved is one file; one
//! that is again what it was is not in the diff. No two tracked files have the same origin, and no
//! two are at the same place.
//!
//! What commands changed is not known here. Keys are taken out by whoever tells the diff.

mod render;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::native::patch::{Content, Plan};

/// How many bytes are kept of all files together; files beyond are named without their lines.
const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The files that the patches of a turn touched, as they were and as they are.
#[derive(Debug, Default)]
pub(crate) struct TurnDiff {
    files: Vec<Tracked>,
    by_origin: HashMap<PathBuf, usize>,
    by_current: HashMap<PathBuf, usize>,
    /// Files that are too large to be kept besides the others.
    left_out: BTreeSet<PathBuf>,
    kept_bytes: usize,
    told: String,
}

/// One file.
#[derive(Debug)]
struct Tracked {
    /// Where it was before the turn, or where it was first written.
    origin: PathBuf,
    /// What it held then; none: there was none.
    before: Option<String>,
    /// Where it is; none: it is gone.
    current: Option<PathBuf>,
    /// What it holds; empty if it is gone.
    now: String,
    mode: FileMode,
    /// Its part of the diff, made when it was last touched.
    shown: String,
}

/// Whether a file may be executed, which is all that diffs tell of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileMode {
    Plain,
    Executable,
}

/// The modes of the files that a patch replaces or removes, by their resolved paths.
pub(crate) type Modes = HashMap<PathBuf, FileMode>;

impl TurnDiff {
    /// Takes in a plan that was applied; the whole diff if it is another one than before.
    ///
    /// Paths are shown relative to `cwd`, which is resolved, where they lie in it.
    pub(crate) fn take(&mut self, plan: &Plan, modes: &Modes, cwd: &Path) -> Option<String> {
        let olds: HashMap<&Path, Option<&str>> = plan
            .contents()
            .map(|content| (content.path, content.old))
            .collect();
        let mut moved = HashSet::new();
        let mut touched = BTreeSet::new();
        for content in plan.contents() {
            let from = content
                .moved_from
                .filter(|from| self.may_move(from, &content));
            if content.new.is_none() && moved.contains(content.path) {
                continue;
            }
            let source = from.unwrap_or(content.path);
            let old = olds.get(source).copied().flatten();
            if self.is_left_out(source, old, content.new) {
                self.left_out.insert(content.path.to_owned());
                continue;
            }
            if from.is_none() {
                touched.extend(self.part(content.path));
            }
            let mode = modes.get(source).copied().unwrap_or(FileMode::Plain);
            let at = self.track(source, old, mode);
            self.set(at, content.path, content.new);
            touched.insert(at);
            moved.extend(from);
        }
        for at in touched {
            self.files[at].shown = render::file(&self.files[at], cwd);
        }
        self.tell(cwd)
    }

    fn tell(&mut self, cwd: &Path) -> Option<String> {
        let mut parts: Vec<(&Path, &str)> = self
            .files
            .iter()
            .filter(|file| !file.shown.is_empty())
            .map(|file| (file.place(), file.shown.as_str()))
            .collect();
        let left_out: Vec<(&Path, String)> = self
            .left_out
            .iter()
            .map(|path| (path.as_path(), render::left_out(path, cwd)))
            .collect();
        parts.extend(left_out.iter().map(|(path, part)| (*path, part.as_str())));
        parts.sort_unstable();
        let diff = render::joined(&parts, cwd);
        if diff == self.told {
            return None;
        }
        self.told.clone_from(&diff);
        Some(diff)
    }

    /// Whether a move is shown as one: nothing was at its target, now or before the turn.
    fn may_move(&self, from: &Path, content: &Content<'_>) -> bool {
        let goes_home = || self.by_origin.get(content.path) == self.by_current.get(from);
        content.old.is_none() && (!self.by_origin.contains_key(content.path) || goes_home())
    }

    fn is_left_out(&self, path: &Path, old: Option<&str>, new: Option<&str>) -> bool {
        if self.left_out.contains(path) {
            return true;
        }
        let is_known = self.by_current.contains_key(path) || self.by_origin.contains_key(path);
        let more = old.map_or(0, str::len) + new.map_or(0, str::len);
        !is_known && self.kept_bytes + more > KEPT_BYTES_MAX
    }

    /// The file at a path, known before or not.
    fn track(&mut self, path: &Path, old: Option<&str>, mode: FileMode) -> usize {
        let known = self
            .by_current
            .get(path)
            .or_else(|| self.by_origin.get(path));
        if let Some(at) = known {
            return *at;
        }
        self.kept_bytes += old.map_or(0, str::len);
        self.push(Tracked {
            origin: path.to_owned(),
            before: old.map(str::to_owned),
            current: None,
            now: String::new(),
            mode,
            shown: String::new(),
        })
    }

    fn push(&mut self, file: Tracked) -> usize {
        let at = self.files.len();
        self.by_origin.insert(file.origin.clone(), at);
        self.files.push(file);
        at
    }

    /// Puts a file to where it is now, with what it holds there.
    fn set(&mut self, at: usize, path: &Path, new: Option<&str>) {
        let file = &mut self.files[at];
        if let Some(was) = file.current.take() {
            self.by_current.remove(&was);
        }
        self.kept_bytes = self.kept_bytes.saturating_sub(file.now.len());
        new.unwrap_or_default().clone_into(&mut file.now);
        self.kept_bytes += file.now.len();
        if new.is_some() {
            file.current = Some(path.to_owned());
            self.by_current.insert(path.to_owned(), at);
        }
    }

    /// A file that was moved away from a path which is written again: the path gets its own past
    /// back, and what was moved is a new file. Both are touched.
    fn part(&mut self, path: &Path) -> Vec<usize> {
        let Some(&at) = self.by_origin.get(path) else {
            return Vec::new();
        };
        let file = &mut self.files[at];
        let Some(elsewhere) = file.current.take_if(|current| current != path) else {
            return Vec::new();
        };
        let moved = Tracked {
            origin: elsewhere.clone(),
            before: None,
            current: Some(elsewhere.clone()),
            now: std::mem::take(&mut file.now),
            mode: file.mode,
            shown: String::new(),
        };
        let other = self.push(moved);
        self.by_current.insert(elsewhere, other);
        vec![at, other]
    }
}

impl Tracked {
    /// Where it is, or was last known.
    fn place(&self) -> &Path {
        self.current.as_deref().unwrap_or(&self.origin)
    }
}
