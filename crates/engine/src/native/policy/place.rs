//! Where a turn may write without asking: the judge of patches.
//!
//! The invariant here: a path is inside only if a sandboxed command of the same turn could write it
//! too, and no component below the writable root is a protected name, whether it exists yet or not.
//! What cannot be judged is outside.
//!
//! Paths are resolved before they are judged here, and opened without following links afterwards;
//! both are the business of [`patch`](crate::native::patch).

use std::path::{Path, PathBuf};

use turnlane_process::{Access, PathPolicy, Sandbox};

use crate::native::patch::{Place, Roots};

/// Where patches may write without asking.
#[derive(Debug)]
pub(crate) enum Writable {
    /// Everywhere: nothing confines the turn, or not we.
    Everywhere,
    /// Nowhere.
    Nowhere,
    /// Where both agree.
    Within {
        /// What commands may write, links and mounts considered.
        commands: PathPolicy,
        /// The same folders, with protected names closed at every depth.
        roots: Roots,
    },
}

impl Writable {
    /// Reads a turn's sandbox, the one its commands get, against the files as they are now; blocks.
    ///
    /// `tmpdir` is the `TMPDIR` of the turn's commands; `hidden` are the paths that its process service
    /// hides from them.
    pub(crate) fn of(sandbox: &Sandbox, tmpdir: Option<&Path>, hidden: &[PathBuf]) -> Self {
        let mut folders = match sandbox {
            Sandbox::DangerFullAccess | Sandbox::ExternalSandbox { .. } => return Self::Everywhere,
            // No turn has rules of its own yet; what is not understood opens nothing.
            Sandbox::ReadOnly { .. } | Sandbox::Custom { .. } => return Self::Nowhere,
            Sandbox::WorkspaceWrite { roots, .. } => roots.clone(),
        };
        let Ok(commands) = PathPolicy::new(sandbox, tmpdir, hidden) else {
            return Self::Nowhere;
        };
        // The roots of a thread were resolved when they were named: a link came later.
        if commands.linked_root().is_some() {
            return Self::Nowhere;
        }
        // Temporary folders are opened or not by what commands may do.
        let shared = [tmpdir, Some(Path::new("/tmp"))].into_iter().flatten();
        folders.extend(shared.filter(|path| path.is_absolute()).map(Path::to_owned));
        Self::Within {
            commands,
            roots: Roots::new(folders),
        }
    }

    /// Judges a resolved path.
    pub(crate) fn judge(&self, resolved: &Path) -> Place {
        match self {
            Self::Everywhere => Place::Inside,
            Self::Nowhere => Place::Outside,
            Self::Within { commands, roots } => {
                // To make, replace or remove a name its folder has to be writable as well.
                let parent = resolved.parent().unwrap_or(resolved);
                let writes = |path| commands.access(path) == Access::Write;
                if writes(resolved) && writes(parent) {
                    roots.judge(resolved)
                } else {
                    Place::Outside
                }
            }
        }
    }
}
