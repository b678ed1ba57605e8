//! A JSON text that the store keeps without looking into it.
//!
//! The invariant here: what was put in comes back byte for byte. Whether it is JSON at all is the
//! caller's business, so a change of the wire can never become a migration by accident.

use std::fmt;
use std::sync::Arc;

/// An opaque JSON text; cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

impl Json {
    /// Keeps a text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// Only the length: payloads may hold what nobody wants in a log.
impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} bytes)", self.0.len())
    }
}
