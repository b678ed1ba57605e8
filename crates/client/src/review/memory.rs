//! What a client remembers of questions: what it decided, and what patches were announced.
//!
//! The invariant here: both are bounded, and forgetting costs no safety: a decision that was forgotten
//! is asked for again, a patch that was forgotten is shown without its changes.

use std::collections::VecDeque;

use serde_json::Value;
use turnlane_protocol::item::{FileUpdate, ItemBody, ThreadItem};

use super::{ApprovalRequest, Decision};
use crate::ids::ThreadId;

/// How many decisions are remembered; the oldest are forgotten.
const DECISIONS_MAX: usize = 1_024;
/// The longest question that is remembered; a longer one is asked again.
const QUESTION_BYTES_MAX: usize = 16 * 1024;
/// How many open patches of one thread are remembered; the oldest are forgotten.
const PATCHES_PER_THREAD_MAX: usize = 16;
/// How many open patches are remembered in all.
const PATCHES_MAX: usize = 512;

/// Decisions that were given, so that a question asked again after a lost connection is not asked
/// twice of a person.
#[derive(Debug, Default)]
pub(super) struct Decided(VecDeque<(Question, Decision)>);

/// What makes two questions the same: everything but the times. An item can be asked about more than
/// once, first for itself and then for more permissions; these are different questions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question(String);

impl Question {
    /// None for requests about no item, and for those too long to be kept.
    pub(super) fn of(request: &ApprovalRequest) -> Option<Self> {
        request.item.as_ref()?;
        let mut params = request.params.clone();
        if let Value::Object(members) = &mut params {
            members.remove("startedAtMs");
            members.remove("expiresAtMs");
        }
        let text = format!("{} {params}", request.method);
        (text.len() <= QUESTION_BYTES_MAX).then_some(Self(text))
    }
}

impl Decided {
    pub(super) fn get(&self, question: &Question) -> Option<&Decision> {
        let mut newest_first = self.0.iter().rev();
        let found = newest_first.find(|(decided, _)| decided == question);
        found.map(|(_, decision)| decision)
    }

    pub(super) fn put(&mut self, question: Question, decision: Decision) {
        if self.0.len() == DECISIONS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((question, decision));
    }
}

/// Patches that were announced and have not ended: their approval names only the item.
#[derive(Debug, Default)]
pub(super) struct Patches(VecDeque<Patch>);

#[derive(Debug)]
struct Patch {
    thread: ThreadId,
    item: String,
    changes: Vec<FileUpdate>,
}

impl Patches {
    pub(super) fn started(&mut self, thread: &ThreadId, item: &ThreadItem) {
        let ItemBody::FileChange(patch) = &item.body else {
            return;
        };
        self.ended(thread, item);
        let of_thread = |patch: &Patch| patch.thread == *thread;
        let held = self.0.iter().filter(|patch| of_thread(patch)).count();
        if held >= PATCHES_PER_THREAD_MAX {
            if let Some(oldest) = self.0.iter().position(of_thread) {
                self.0.remove(oldest);
            }
        } else if self.0.len() >= PATCHES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Patch {
            thread: thread.clone(),
            item: item.id.to_string(),
            changes: patch.changes.clone(),
        });
    }

    pub(super) fn ended(&mut self, thread: &ThreadId, item: &ThreadItem) {
        if let ItemBody::FileChange(_) = &item.body {
            let item = item.id.to_string();
            self.0
                .retain(|patch| patch.thread != *thread || patch.item != item);
        }
    }

    pub(super) fn changes(&self, thread: &ThreadId, item: &str) -> Vec<FileUpdate> {
        let mut patches = self.0.iter();
        let found = patches.find(|patch| patch.thread == *thread && patch.item == item);
        found.map(|patch| patch.changes.clone()).unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
