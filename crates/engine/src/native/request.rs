//! The body of a call to a model.
//!
//! The invariant here: `input` is the last member and settings are written in one order, so with the
//! same settings a longer history repeats every byte of a shorter one, and a provider's cache of the
//! prefix holds. One buffer serves all calls of a turn.
//!
//! Sending it, and learning which fields a provider refuses, is done elsewhere.

mod head;

use serde_json::Value;
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::method::ReasoningSummary;

use super::history::{Author, Joined, Reasoning, View};
use crate::entry::Entry;
use crate::request::RuntimeTool;

/// How many tokens a picture counts in an estimate; its bytes say nothing about them.
pub const PICTURE_TOKENS: u64 = 1_500;

/// Everything of a request but its `input`.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// The model.
    pub model: &'a str,
    /// All standing text.
    pub instructions: &'a str,
    /// The functions that the model may call.
    pub tools: &'a [RuntimeTool],
    /// How hard the model thinks; passed on as it is.
    pub effort: Option<&'a str>,
    /// How much of its reasoning it sums up.
    pub summary: Option<ReasoningSummary>,
    /// How many words it makes.
    pub verbosity: Option<&'a str>,
    /// What its last message has to look like.
    pub output_schema: Option<&'a Value>,
    /// The class of service.
    pub service_tier: Option<&'a str>,
    /// How much it may answer.
    pub max_output_tokens: Option<u64>,
    /// Whose prefix a provider's cache keeps.
    pub thread_id: ThreadId,
    /// Fields that this provider is never sent: `include`, or a part such as `text.verbosity`.
    ///
    /// `model`, `input` and `stream` are sent in any case: without them there is no request.
    pub drop: &'a [String],
}

impl<'a> Fields<'a> {
    /// The fields of a request for a summary: no tools, no form of the answer.
    pub(super) fn compacting(&self) -> Fields<'a> {
        Fields {
            tools: &[],
            output_schema: None,
            ..*self
        }
    }
}

/// One request that grows from call to call of a turn. Its bytes are complete at any time.
#[derive(Clone, Debug)]
pub struct Body {
    joined: Joined,
}

impl Body {
    /// The request for a history.
    pub fn new(fields: &Fields<'_>, view: View, history: &[Entry]) -> Self {
        let head = head::write(fields, view.reasoning);
        let mut joined = Joined::new(head, view);
        joined.append(history);
        Self { joined }
    }

    /// The request that asks for a summary of a history: no tools, no form of the answer.
    ///
    /// The question is not recorded. After an overflow the caller leaves out the oldest entry and
    /// asks again.
    pub fn compacting(
        fields: &Fields<'_>,
        view: View,
        history: &[Entry],
        (author, prompt): (&Author, &str),
    ) -> Self {
        let mut body = Self::new(&fields.compacting(), view, history);
        body.append(&[author.note(prompt)]);
        body
    }

    /// Adds what was recorded since; a compaction among it replaces what was there.
    pub fn append(&mut self, entries: &[Entry]) {
        self.joined.append(entries);
    }

    /// The same entries under other settings, for a field that the provider refuses.
    ///
    /// What is left out of the entries themselves does not change; that takes a new body.
    pub fn change(&mut self, fields: &Fields<'_>, reasoning: Reasoning) {
        self.joined.replace_head(head::write(fields, reasoning));
    }

    /// The same settings without any reasoning, for encrypted content that the provider refuses.
    pub(super) fn leave_reasoning_out(&mut self) {
        self.joined.leave_reasoning_out();
    }

    /// What is done with the provider's own reasoning.
    pub(super) fn reasoning(&self) -> Reasoning {
        self.joined.reasoning()
    }

    /// The body as it is sent.
    pub fn as_bytes(&self) -> &[u8] {
        self.joined.as_bytes()
    }

    /// How many bytes at the start stay what they are when entries are added.
    pub fn settled(&self) -> usize {
        self.joined.settled()
    }

    /// How many tokens the body probably has: a quarter of its bytes, pictures counted apart.
    pub fn estimated_tokens(&self) -> u64 {
        let pictures = PICTURE_TOKENS.saturating_mul(self.joined.picture_count() as u64);
        let bytes = self.as_bytes().len();
        let text = bytes.saturating_sub(self.joined.picture_bytes());
        super::history::tokens_of(text).saturating_add(pictures)
    }
}

#[cfg(test)]
mod tests;
