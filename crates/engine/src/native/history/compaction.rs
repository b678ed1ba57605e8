//! When a history is too long, and what takes its place.
//!
//! The invariant here: the new history holds the user's own words, newest first in claim and oldest
//! first in order, and one summary as its last message. Nothing of it is a call, an answer, a
//! picture or reasoning, so it needs no repair and fits every provider.
//!
//! Asking the model for the summary, hooks and items are the turn loop's business.

use serde_json::{Value, json};

use super::{Author, message, words};
use crate::entry::{Entry, EntryKind};

/// How many tokens of the user's messages survive a compaction.
pub const KEPT_TOKENS_MAX: u64 = 20_000;
/// The context of a model about which nothing is known.
pub const WINDOW_DEFAULT: u64 = 272_000;
/// At which part of the window a history is compacted at the latest.
pub const AUTO_LIMIT_PERCENT: u64 = 90;
/// How the message with the summary starts.
pub const SUMMARY_HEAD: &str = "Summary of the conversation so far, written by the model that led \
    it. Go on from here and do not repeat work that it lists as done.\n\n";
/// What the model is asked when nobody configured another prompt.
pub const COMPACT_PROMPT: &str = "\
The conversation is about to be replaced by a summary, and whoever goes on will know nothing but \
that summary and the user's messages. Write it now, as plain text, and call no tools. Say:
- what the user wants, with every constraint and preference they stated;
- what has been done, with the paths of changed files and the decisions behind the changes;
- what was found out: commands that work, errors that were seen, results of checks;
- what is under way and what remains, as next steps in order.
Be exact about names, paths and numbers, and leave out everything that no longer matters.";

/// What follows a message that was cut.
const CUT: &str = "\n[cut]";
const BYTES_PER_TOKEN: u64 = 4;

/// At how many tokens a history is compacted.
///
/// A configured limit counts up to 90 % of the window, which is also what applies without one.
pub fn token_limit(window: Option<u64>, configured: Option<u64>) -> u64 {
    let window = window.unwrap_or(WINDOW_DEFAULT);
    // Divided first where multiplying would overflow; such windows do not exist.
    let most = window
        .checked_mul(AUTO_LIMIT_PERCENT)
        .map_or(window / 100 * AUTO_LIMIT_PERCENT, |times| times / 100);
    configured.map_or(most, |configured| configured.min(most))
}

/// How full the context is: what the provider counted, and an estimate of what came after.
///
/// Made anew for every turn; before the first count the whole request is estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    counted_tokens: u64,
    estimate_then: u64,
}

impl Load {
    /// The provider counted this many tokens in all, its answer included.
    ///
    /// `estimate` is the request's estimate after the answer's entry was appended.
    pub fn count(&mut self, counted_tokens: u64, estimate: u64) {
        *self = Self {
            counted_tokens,
            estimate_then: estimate,
        };
    }

    /// How many tokens a request of this estimate probably has.
    pub fn tokens(&self, estimate: u64) -> u64 {
        let added = estimate.saturating_sub(self.estimate_then);
        self.counted_tokens.saturating_add(added)
    }

    /// Whether the history is to be compacted before a request of this estimate.
    pub fn is_due(&self, estimate: u64, limit: u64) -> bool {
        self.tokens(estimate) >= limit
    }
}

/// How many tokens this many bytes probably are.
pub(in crate::native) fn tokens_of(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

/// The entry that takes the place of a history.
pub fn compacted(author: &Author, history: &[Entry], summary: &str) -> Entry {
    let mut left = KEPT_TOKENS_MAX;
    let mut kept = Vec::new();
    'entries: for entry in history.iter().rev() {
        for text in user_texts(entry).into_iter().rev() {
            let tokens = tokens_of(text.len());
            if tokens > left {
                kept.extend(cut(&text, left));
                break 'entries;
            }
            left -= tokens;
            kept.push(text);
        }
        if entry.kind == EntryKind::Compaction {
            break;
        }
    }
    kept.reverse();
    kept.push(format!("{SUMMARY_HEAD}{}", summary.trim()));
    let items = kept.iter().map(|text| message(vec![words(text)]));
    author.entry(EntryKind::Compaction, vec![], items.collect())
}

/// The texts of the user's messages in an entry.
fn user_texts(entry: &Entry) -> Vec<String> {
    if !matches!(entry.kind, EntryKind::User | EntryKind::Compaction) {
        return vec![];
    }
    let mut items: Vec<Value> = serde_json::from_str(&entry.items).unwrap_or_default();
    if entry.kind == EntryKind::Compaction {
        // The last message of every compaction is its summary; the new one contains it.
        items.pop();
    }
    let texts = items.iter().map(text_of);
    texts.filter(|text| !text.trim().is_empty()).collect()
}

fn text_of(item: &Value) -> String {
    let parts = item["content"].as_array().into_iter().flatten();
    let texts = parts.filter(|part| part["type"] == json!("input_text"));
    let texts = texts.filter_map(|part| part["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// The start of a text that fits; none when no more than the mark would.
fn cut(text: &str, tokens: u64) -> Option<String> {
    let bytes = usize::try_from(tokens * BYTES_PER_TOKEN).unwrap_or(usize::MAX);
    let bytes = bytes.checked_sub(CUT.len())?;
    let start = &text[..text.floor_char_boundary(bytes)];
    (!start.is_empty()).then(|| format!("{start}{CUT}"))
}

#[cfg(test)]
mod tests;
