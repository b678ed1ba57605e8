//! Which answer a request gets.
//!
//! Three sources, asked in this order: rules for a text (each used once, in the order given), the
//! queue (each reply used once, in the order of requests), and closures (as often as they answer).
//! The invariant here: a reply of a rule or of the queue answers exactly one request. Pure but for
//! the closures; the lock around a script is the recorder's.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{reply::Reply, request::RecordedRequest};

pub(super) type Chooser = Arc<dyn Fn(&RecordedRequest) -> Option<Reply> + Send + Sync>;

#[derive(Default)]
pub(super) struct Script {
    rules: Vec<(String, Reply)>,
    queue: VecDeque<Reply>,
    choosers: Vec<Chooser>,
}

impl Script {
    pub(super) fn push(&mut self, reply: Reply) {
        self.queue.push_back(reply);
    }

    pub(super) fn on_text(&mut self, text: String, reply: Reply) {
        self.rules.push((text, reply));
    }

    pub(super) fn choose_with(&mut self, chooser: Chooser) {
        self.choosers.push(chooser);
    }

    /// How many replies are left to be used once.
    pub(super) fn remaining(&self) -> usize {
        self.rules.len() + self.queue.len()
    }

    /// Takes the reply for this request out of the rules and the queue.
    pub(super) fn take(&mut self, request: &RecordedRequest) -> Option<Reply> {
        let asked = request.last_user_text();
        let fits = self.rules.iter().position(|(text, _)| asked.contains(text));
        match fits {
            Some(index) => Some(self.rules.remove(index).1),
            None => self.queue.pop_front(),
        }
    }

    /// The closures to ask when [`Script::take`] found nothing. They are run without the lock, so
    /// that a closure may use the mock it answers for.
    pub(super) fn choosers(&self) -> Vec<Chooser> {
        self.choosers.clone()
    }
}
