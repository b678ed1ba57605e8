//! HTTP to a provider: one request out, one answer in, piece by piece.
//!
//! The invariants here: connections are made to the provider only, redirects are not followed, and
//! nothing is made before the first request. No text that leaves this module holds an address with
//! its query or a header. Silence is counted in bytes, before the headers of an answer and behind
//! them; there is no other limit on how long an answer takes.
//!
//! What an answer means and whether a request is made again is not known here. Dropping a future or
//! an [`Answer`] closes its connection.

mod answer;
mod clients;
mod faults;
mod trust;
mod upload;

#[cfg(test)]
pub(super) mod tests;

pub(crate) use answer::Answer;
pub(crate) use clients::{Clients, Post};

use crate::native::failure::Fault;

/// Why there is no answer, or no more of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) fault: Fault,
    /// What the library said; it may hold a key that stood in an answer, and is redacted later.
    pub(crate) text: String,
}

impl Broken {
    pub(crate) fn new(fault: Fault, text: impl Into<String>) -> Self {
        Self {
            fault,
            text: text.into(),
        }
    }
}
