//! Why a patch was not applied, in the words models know.
//!
//! The invariant here: [`PatchError::text`] is the whole answer to the model. The texts are the
//! ones models were trained with, so they are not reworded.
//!
//! What is logged or shown to people is not decided here.

use std::io;

/// Why a patch was not applied.
///
/// Every variant but [`Write`](PatchError::Write) means that nothing was touched.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// The patch is not a patch as a whole.
    #[error("invalid patch: {0}")]
    Invalid(String),
    /// One line of the patch is wrong.
    #[error("invalid hunk at line {line}, {problem}")]
    Hunk {
        /// The line, from 1, where `*** Begin Patch` is line 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// The patch has no operation.
    #[error("No files were modified.")]
    Empty,
    /// The line behind `@@` is not in the file.
    #[error("Failed to find context '{context}' in {path}")]
    Context {
        /// The line.
        context: String,
        /// The file, as the patch says it.
        path: String,
    },
    /// The old lines of a chunk are not in the file.
    #[error("Failed to find expected lines in {path}:\n{lines}")]
    Lines {
        /// The old lines.
        lines: String,
        /// The file, as the patch says it.
        path: String,
    },
    /// A file cannot be read, or is none that a patch may touch.
    #[error("Failed to read {path}: {source}")]
    Read {
        /// The file, as the patch says it.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("Failed to write {path}: {source}. {undone}")]
    Write {
        /// The file, as the patch says it.
        path: String,
        /// What the system said.
        source: io::Error,
        /// What became of the files before it.
        undone: Undone,
    },
}

/// What became of the files a failed patch had already changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undone {
    /// It failed before the first change.
    #[error("No files were modified.")]
    Untouched,
    /// They are as they were.
    #[error("The files changed before it were restored.")]
    Restored,
    /// Some are not as they were.
    #[error("These files could not be restored: {}", .0.join(", "))]
    Partly(
        /// The files, as the patch says them.
        Vec<String>,
    ),
}

impl PatchError {
    /// The answer to the model.
    pub fn text(&self) -> String {
        match self {
            Self::Empty => self.to_string(),
            Self::Write { .. } => format!("apply_patch failed: {self}"),
            Self::Invalid(_)
            | Self::Hunk { .. }
            | Self::Context { .. }
            | Self::Lines { .. }
            | Self::Read { .. } => format!("apply_patch verification failed: {self}"),
        }
    }
}
