//! What can go wrong before an engine runs anything.
//!
//! The invariant here: an error about a script says where in it: file, line, column and key.
//!
//! What goes wrong in a turn is not an error of this crate but an outcome; see
//! [`TurnOutcome`](crate::TurnOutcome).

/// Why an engine could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A script cannot be read.
    #[error("cannot read the script {file}")]
    Unreadable {
        /// Where it should be.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A script is neither YAML nor JSON.
    #[error("{file}:{line}:{column}: {problem}")]
    Syntax {
        /// The script.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong there.
        problem: String,
    },
    /// A script says something that cannot be played.
    #[error("{file}:{line}:{column}: {key}: {problem}")]
    Script {
        /// The script.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The key with everything above it: `turns[0].steps[1].exec.exit`.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
}
