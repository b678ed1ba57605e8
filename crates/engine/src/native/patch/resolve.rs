//! Where a path of a patch leads, and whether that is inside.
//!
//! The invariant here: a resolved path has no link and no `..` in it at the time it was resolved,
//! also behind its deepest existing ancestor. A link as last component leads to its target, so it
//! is the target that is judged.
//!
//! That no link appears later is not promised here; the sibling `disk` opens folders so that such
//! a swap fails.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// How many links one path may go through; as many as Linux allows.
const LINKS_MAX: usize = 40;

/// Names inside a writable root that stay closed to patches.
const PROTECTED: [&str; 4] = [".git", ".codex", ".agents", ".turnlane"];

/// What a judge says about a resolved path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A patch may write there without being asked about.
    Inside,
    /// It may not.
    Outside,
}

/// A judge by folders: inside is what lies in one of them and in no protected folder there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    folders: Vec<PathBuf>,
}

impl Roots {
    /// Resolves the folders; one that cannot be resolved holds nothing.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let folders = folders
            .into_iter()
            .filter_map(|folder| folder.canonicalize().ok());
        Self {
            folders: folders.collect(),
        }
    }

    /// Judges a resolved path.
    pub fn judge(&self, path: &Path) -> Place {
        let open = |folder: &PathBuf| {
            path.strip_prefix(folder).is_ok_and(|rest| {
                rest.components().all(|part| match part {
                    // Some file systems do not tell upper from lower case.
                    Component::Normal(name) => !PROTECTED
                        .iter()
                        .any(|closed| name.eq_ignore_ascii_case(closed)),
                    Component::CurDir => true,
                    Component::ParentDir | Component::RootDir | Component::Prefix(_) => false,
                })
            })
        };
        if self.folders.iter().any(open) {
            Place::Inside
        } else {
            Place::Outside
        }
    }
}

enum Step {
    Root,
    Up,
    Into(OsString),
}

/// Where `path` leads, seen from `cwd`, which is absolute.
///
/// What does not exist is taken as it is written, so the result may be a file still to be made.
pub fn resolve(cwd: &Path, path: &Path) -> io::Result<PathBuf> {
    let mut steps = VecDeque::new();
    push_front(&mut steps, path);
    push_front(&mut steps, cwd);
    let mut resolved = PathBuf::from("/");
    let mut links = 0;
    while let Some(step) = steps.pop_front() {
        match step {
            Step::Root => resolved = PathBuf::from("/"),
            Step::Up => {
                resolved.pop();
            }
            Step::Into(name) => {
                resolved.push(name);
                let Some(target) = link_target(&resolved)? else {
                    continue;
                };
                links += 1;
                if links > LINKS_MAX {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                resolved.pop();
                push_front(&mut steps, &target);
            }
        }
    }
    Ok(resolved)
}

fn push_front(steps: &mut VecDeque<Step>, path: &Path) {
    for part in path.components().rev() {
        match part {
            Component::RootDir => steps.push_front(Step::Root),
            Component::ParentDir => steps.push_front(Step::Up),
            Component::Normal(name) => steps.push_front(Step::Into(name.to_owned())),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

fn link_target(path: &Path) -> io::Result<Option<PathBuf>> {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => path.read_link().map(Some),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
