//! A value that cannot be shown by accident.
//!
//! The invariant here: nothing but [`Secret::expose`] gives the value, so every place where a key
//! leaves our hands is found by that word. There is no `Display`, no serialisation.
//!
//! Texts that a key got into by other ways are cleaned by [`redact`](super::super::redact).

use std::fmt;

use super::super::redact::REDACTED;

/// A value that cannot be shown by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Keeps a value.
    pub fn new(value: impl Into<Box<str>>) -> Self {
        Self(value.into())
    }

    /// The value, for the one place that sends it or looks for it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}
