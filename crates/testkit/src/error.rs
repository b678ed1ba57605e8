//! What can go wrong in a test's own tools, as opposed to in the thing under test.
//!
//! The invariant here: an error read from a failed test says what was awaited or tried and what
//! was seen until then, so that nobody has to run the test again to learn it. Assertions about
//! the thing under test are the test's; nothing in this crate panics on its behalf.

use std::fmt;
use std::io;
use std::time::Duration;

/// An error from any part of the test kit.
#[derive(thiserror::Error)]
pub enum Error {
    /// Something did not happen in time; `seen` tells what did.
    #[error("waited {limit:?} in vain for {what}{seen}")]
    TimedOut {
        /// What was awaited, as a noun phrase.
        what: String,
        /// How long it was awaited.
        limit: Duration,
        /// Empty, or what was seen instead, beginning with a separator.
        seen: String,
    },

    /// Something that was awaited can no longer happen.
    #[error("{what} cannot happen any more{seen}")]
    Over {
        /// What was awaited, as a noun phrase.
        what: String,
        /// Empty, or what was seen instead, beginning with a separator.
        seen: String,
    },

    /// The operating system refused something the test kit needs.
    #[error("the system failed while the test kit tried to {doing}")]
    System {
        /// A verb phrase: "bind a loopback port", "start sh".
        doing: String,
        /// The refusal.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: names what was tried when the system refused.
    pub(crate) fn doing<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |source| Self::System {
            doing,
            source: source.into(),
        }
    }

    /// Adds what was seen to a wait that failed; other errors stay as they are.
    pub(crate) fn seeing(self, more: &str) -> Self {
        match self {
            Self::TimedOut { what, limit, seen } => Self::TimedOut {
                what,
                limit,
                seen: format!("{seen}{more}"),
            },
            Self::Over { what, seen } => Self::Over {
                what,
                seen: format!("{seen}{more}"),
            },
            Self::System { .. } => self,
        }
    }
}

// `unwrap` and a test that returns an error print this one; the derived form would show a
// process's stderr as a single line with escaped line ends.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        if let Self::System { source, .. } = self {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}
