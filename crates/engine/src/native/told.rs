//! Warnings that a thread has been told before.
//!
//! The invariant here: a text is told once per thread, and again only after so many others that it
//! was forgotten. It is kept in memory: after a restart it is told again.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use turnlane_protocol::ids::ThreadId;

/// How many texts are known; more of them and all are forgotten.
const TEXTS_MAX: usize = 4_096;

/// The warnings that threads have been told.
#[derive(Debug, Default)]
pub(crate) struct ToldWarnings {
    known: Mutex<HashSet<(ThreadId, String)>>,
}

impl ToldWarnings {
    /// Removes what the thread was told before, and remembers the rest.
    pub(crate) fn retain_new(&self, thread: ThreadId, warnings: &mut Vec<String>) {
        if warnings.is_empty() {
            return;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TEXTS_MAX {
            known.clear();
        }
        warnings.retain(|text| known.insert((thread, text.clone())));
    }
}
