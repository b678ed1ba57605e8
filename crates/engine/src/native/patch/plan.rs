//! What a patch will do, computed in full before anything is written.
//!
//! The invariant here: a plan names each resolved path at most once, and holds for each what the
//! file is expected to hold before and what it shall hold after. It changes nothing by itself.
//!
//! Reading goes through [`Files`]; writing is the sibling `apply`.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use turnlane_protocol::item::{Extra, FileUpdate, FileUpdateKind};

use super::{FILE_BYTES_MAX, Operation, Patch, PatchError, Place, unified, updated};

/// Where the files of a patch are read.
pub trait Files {
    /// Where a path of the patch leads.
    fn locate(&self, path: &str) -> io::Result<Located>;

    /// What the file at a resolved path holds; `None` if there is none.
    ///
    /// What is no regular file, is no UTF-8 or longer than
    /// [`FILE_BYTES_MAX`] is an error.
    fn read(&self, path: &Path) -> io::Result<Option<String>>;
}

/// Where a path of a patch leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The path with all links resolved.
    pub path: PathBuf,
    /// Whether the name in the patch is itself a link.
    pub is_link: bool,
}

/// What one name on disk holds before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The path as the patch says it.
    pub(super) said: String,
    /// Where it leads.
    pub(super) path: PathBuf,
    pub(super) old: Option<String>,
    /// `None`: it is to be removed.
    pub(super) new: Option<String>,
    /// Whose mode the new file takes: its own old one's, or that of the file it was moved from.
    pub(super) mode_of: PathBuf,
}

/// What one name on disk holds before and after a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content<'a> {
    /// The resolved path.
    pub path: &'a Path,
    /// What it holds before; none: it is not there.
    pub old: Option<&'a str>,
    /// What it holds after; none: it is removed.
    pub new: Option<&'a str>,
    /// Where the file was moved from; that name's own removal follows.
    pub moved_from: Option<&'a Path>,
}

/// How a file is named in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Letter {
    A,
    M,
    D,
}

/// Everything a patch will do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub(super) steps: Vec<Step>,
    changes: Vec<FileUpdate>,
    lines: Vec<(Letter, String)>,
}

impl Plan {
    /// Computes what `patch` does to `files`.
    pub fn make(patch: &Patch, files: &dyn Files) -> Result<Self, PatchError> {
        let plan = Self {
            steps: Vec::new(),
            changes: Vec::new(),
            lines: Vec::new(),
        };
        let mut maker = Maker {
            files,
            plan,
            seen: HashSet::new(),
        };
        for operation in &patch.operations {
            maker.operation(operation)?;
        }
        let mut plan = maker.plan;
        // New, changed, gone: the order models know.
        plan.lines.sort_by_key(|(letter, _)| *letter);
        Ok(plan)
    }

    /// What the fileChange item lists, in the order of the patch; paths are the resolved ones.
    pub fn changes(&self) -> &[FileUpdate] {
        &self.changes
    }

    /// Every resolved path that will be written or removed.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.steps.iter().map(|step| step.path.as_path())
    }

    /// What every name holds before and after, in the order in which they are written.
    pub fn contents(&self) -> impl Iterator<Item = Content<'_>> {
        self.steps.iter().map(|step| Content {
            path: &step.path,
            old: step.old.as_deref(),
            new: step.new.as_deref(),
            moved_from: (step.mode_of != step.path).then_some(step.mode_of.as_path()),
        })
    }

    /// Inside, if the judge says so of every path.
    pub fn place(&self, judge: impl Fn(&Path) -> Place) -> Place {
        if self.paths().all(|path| judge(path) == Place::Inside) {
            Place::Inside
        } else {
            Place::Outside
        }
    }

    /// The answer to the model once the plan is applied.
    pub fn success(&self) -> String {
        let mut text = "Success. Updated the following files:\n".to_owned();
        for (letter, path) in &self.lines {
            text.push_str(match letter {
                Letter::A => "A ",
                Letter::M => "M ",
                Letter::D => "D ",
            });
            text.push_str(path);
            text.push('\n');
        }
        text
    }
}

struct Maker<'a> {
    files: &'a dyn Files,
    plan: Plan,
    seen: HashSet<PathBuf>,
}

impl Maker<'_> {
    fn operation(&mut self, operation: &Operation) -> Result<(), PatchError> {
        match operation {
            Operation::Add { path, content } => {
                let located = self.locate(path)?;
                self.claim(path, &located.path)?;
                let old = self.read(path, &located.path)?;
                self.change(path, &located.path, old.as_deref(), Some(content), None);
                self.step(path, &located.path, old, Some(content.clone()), None)
            }
            Operation::Delete { path } => {
                let located = self.locate(path)?;
                self.claim(path, &located.path)?;
                let old = self.existing(path, &located)?;
                no_link(path, &located)?;
                self.change(path, &located.path, Some(&old), None, None);
                self.step(path, &located.path, Some(old), None, None)
            }
            Operation::Update {
                path,
                move_to,
                chunks,
            } => {
                let located = self.locate(path)?;
                self.claim(path, &located.path)?;
                let old = self.existing(path, &located)?;
                let new = updated(&old, chunks, path)?;
                let target = match move_to {
                    Some(to) => Some((to, self.locate(to)?.path)),
                    None => None,
                };
                // A move to the file itself is none.
                let Some((to, target)) = target.filter(|(_, target)| *target != located.path)
                else {
                    self.change(path, &located.path, Some(&old), Some(&new), None);
                    return self.step(path, &located.path, Some(old), Some(new), None);
                };
                no_link(path, &located)?;
                self.claim(to, &target)?;
                let replaced = self.read(to, &target)?;
                let moved = Some((to.as_str(), target.as_path()));
                self.change(path, &located.path, Some(&old), Some(&new), moved);
                self.step(to, &target, replaced, Some(new), Some(&located.path))?;
                self.step(path, &located.path, Some(old), None, None)
            }
        }
    }

    fn locate(&self, said: &str) -> Result<Located, PatchError> {
        self.files
            .locate(said)
            .map_err(|source| unreadable(said, source))
    }

    fn claim(&mut self, said: &str, path: &Path) -> Result<(), PatchError> {
        if self.seen.insert(path.to_owned()) {
            return Ok(());
        }
        Err(PatchError::Invalid(format!(
            "multiple operations target {said}"
        )))
    }

    fn read(&self, said: &str, path: &Path) -> Result<Option<String>, PatchError> {
        self.files
            .read(path)
            .map_err(|source| unreadable(said, source))
    }

    fn existing(&self, said: &str, located: &Located) -> Result<String, PatchError> {
        let missing = || unreadable(said, rustix::io::Errno::NOENT.into());
        self.read(said, &located.path)?.ok_or_else(missing)
    }

    fn change(
        &mut self,
        said: &str,
        path: &Path,
        old: Option<&str>,
        new: Option<&str>,
        moved: Option<(&str, &Path)>,
    ) {
        let (letter, kind, diff) = match (old, new) {
            (Some(old), Some(new)) => {
                let move_path = moved.map(|(_, to)| to.display().to_string());
                (
                    Letter::M,
                    FileUpdateKind::Update { move_path },
                    unified(old, new),
                )
            }
            (None, new) => (
                Letter::A,
                FileUpdateKind::Add,
                new.unwrap_or_default().to_owned(),
            ),
            (Some(old), None) => (Letter::D, FileUpdateKind::Delete, old.to_owned()),
        };
        let path = path.display().to_string();
        self.plan.changes.push(FileUpdate {
            path,
            kind,
            diff,
            extra: Extra::new(),
        });
        let said = moved.map_or(said, |(to, _)| to);
        self.plan.lines.push((letter, said.to_owned()));
    }

    fn step(
        &mut self,
        said: &str,
        path: &Path,
        old: Option<String>,
        new: Option<String>,
        mode_of: Option<&Path>,
    ) -> Result<(), PatchError> {
        if new.as_ref().is_some_and(|new| new.len() > FILE_BYTES_MAX) {
            let problem = format!("{said} would be larger than {FILE_BYTES_MAX} bytes");
            return Err(PatchError::Invalid(problem));
        }
        let mode_of = mode_of.unwrap_or(path).to_owned();
        let (said, path) = (said.to_owned(), path.to_owned());
        self.plan.steps.push(Step {
            said,
            path,
            old,
            new,
            mode_of,
        });
        Ok(())
    }
}

fn no_link(said: &str, located: &Located) -> Result<(), PatchError> {
    if located.is_link {
        // Removing the target would leave the link dangling; removing the link is another thing
        // than what the diff says.
        let source = io::Error::other("is a link, not a regular file");
        return Err(unreadable(said, source));
    }
    Ok(())
}

fn unreadable(said: &str, source: io::Error) -> PatchError {
    PatchError::Read {
        path: said.to_owned(),
        source,
    }
}
