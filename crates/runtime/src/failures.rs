//! How many turns failed, by why.
//!
//! The invariant here: the kinds are the words of the protocol, so there are few of them; a word that
//! only another engine knows is counted as `other`, and nothing that came from outside becomes a name.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use turnlane_protocol::turn_error::ErrorKind;

/// Turns that failed since the start, by the word for why.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<BTreeMap<String, u64>>);

impl Failures {
    /// One more turn has failed.
    pub(crate) fn add(&self, kind: Option<&ErrorKind>) {
        let word = match kind {
            None => "unknown".to_owned(),
            Some(ErrorKind::Unlisted(_)) => "other".to_owned(),
            Some(kind) => match serde_json::to_value(kind) {
                Ok(serde_json::Value::String(word)) => word,
                Ok(_) | Err(_) => "other".to_owned(),
            },
        };
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(word).or_default() += 1;
    }

    /// The words with their counts.
    pub(crate) fn counts(&self) -> Vec<(String, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs = counts.iter().map(|(word, count)| (word.clone(), *count));
        pairs.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_word_of_ours_fits_is_counted_as_other() {
        let failures = Failures::default();
        failures.add(Some(&ErrorKind::RateLimited));
        failures.add(Some(&ErrorKind::RateLimited));
        failures.add(Some(&ErrorKind::Unlisted("x\"} 1".to_owned())));
        failures.add(None);
        let expected = [("other", 1), ("rate_limited", 2), ("unknown", 1)];
        let expected = expected.map(|(word, count)| (word.to_owned(), count));
        assert_eq!(failures.counts(), expected);
    }
}
