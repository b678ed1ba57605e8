//! Why nothing was run: a reason for people, written as the last line of standard error.
//!
//! The invariant here: a refusal is decided before a thread is made and before a model is asked, so
//! standard output stays empty.

use std::fmt;

/// Why nothing was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused(String);

impl Refused {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<anyhow::Error> for Refused {
    fn from(error: anyhow::Error) -> Self {
        Self(format!("Error: {error:#}"))
    }
}
