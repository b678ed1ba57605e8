//! Messages on their way into the lane.
//!
//! The invariant here: messages are added in the order in which they came. A few adds are under way at once, so
//! that one sync of the disk serves several. Where an add is not answered, no other is sent until all that are
//! under way have ended; then the unanswered ones are repeated in their order, one by one, before any later
//! message. A message that comes before the lane is ours waits for it.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::{Done, Origin, Shim};
use crate::lane::{Draft, Submission, Unanswered};

/// Adds under way at once. Far below what a server takes of one connection before it calls itself overloaded.
const UNDER_WAY_MAX: usize = 32;
/// Messages whose add is not answered yet; further ones are refused.
const MESSAGES_MAX: usize = 2_048;
/// The bytes of those messages.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long a message is tried while the server cannot be reached.
const UNREACHABLE_MAX: Duration = Duration::from_mins(1);
/// The pause before unanswered adds are repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(100);

/// A message that is to be added.
#[derive(Debug)]
pub(super) struct PendingMessage {
    pub(super) draft: Draft,
    pub(super) origin: Origin,
    pub(super) client_data: Option<Value>,
    /// The thread that the sender wants it to be added to.
    pub(super) expected_thread: Option<String>,
}

/// A message with its place in the order.
#[derive(Debug)]
pub(super) struct NumberedMessage {
    message: PendingMessage,
    number: u64,
    /// When it is given up, from its first add on.
    give_up: Option<Instant>,
}

/// The messages whose add is not answered yet.
#[derive(Debug, Default)]
pub(super) struct Submissions {
    /// Not sent, or to be sent again; by number.
    waiting: VecDeque<NumberedMessage>,
    under_way: usize,
    bytes: usize,
    next_number: u64,
    /// An add was not answered: adds are sent one by one until one is.
    is_repeating: bool,
    /// The pause before the next add has not passed.
    is_pausing: bool,
}

impl Submissions {
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() + self.under_way >= MESSAGES_MAX || self.bytes >= BYTES_MAX
    }

    pub(super) fn add(&mut self, message: PendingMessage) {
        self.bytes += message.draft.prompt.len();
        self.next_number += 1;
        self.waiting.push_back(NumberedMessage {
            message,
            number: self.next_number,
            give_up: None,
        });
    }

    /// The next message whose add may be sent now.
    fn next(&mut self, now: Instant) -> Option<NumberedMessage> {
        let limit = if self.is_repeating { 1 } else { UNDER_WAY_MAX };
        if self.is_pausing || self.under_way >= limit {
            return None;
        }
        let mut next = self.waiting.pop_front()?;
        next.give_up.get_or_insert(now + UNREACHABLE_MAX);
        self.under_way += 1;
        Some(next)
    }

    /// An add was answered.
    fn answered(&mut self, message: &NumberedMessage) {
        self.forget(message);
        self.under_way -= 1;
        self.is_repeating = false;
    }

    /// An add was not answered. Gives the message back when it was tried for long enough; else it waits in
    /// its place, and true means that a pause begins.
    fn unanswered(
        &mut self,
        message: NumberedMessage,
        now: Instant,
    ) -> Result<bool, Box<NumberedMessage>> {
        self.under_way -= 1;
        if message.give_up.is_some_and(|give_up| give_up <= now) {
            self.forget(&message);
            return Err(Box::new(message));
        }
        let place = self
            .waiting
            .partition_point(|other| other.number < message.number);
        self.waiting.insert(place, message);
        self.is_repeating = true;
        Ok(!std::mem::replace(&mut self.is_pausing, true))
    }

    fn forget(&mut self, message: &NumberedMessage) {
        self.bytes -= message.message.draft.prompt.len();
    }

    /// Everything that is not under way, in order.
    fn take_waiting(&mut self) -> Vec<NumberedMessage> {
        let waiting: Vec<_> = self.waiting.drain(..).collect();
        for message in &waiting {
            self.forget(message);
        }
        waiting
    }
}

impl Shim {
    /// Sends the adds that may be sent now.
    pub(super) fn submit_waiting(&mut self) {
        if !self.is_attached || self.ending.is_some() {
            return;
        }
        while let Some(next) = self.submissions.next(Instant::now()) {
            let wanted = next.message.expected_thread.as_deref();
            if wanted.is_some_and(|wanted| wanted != self.machine.thread()) {
                let reason = format!("the thread is {}", self.machine.thread());
                self.submissions.answered(&next);
                self.end_submission(next, Submission::refused("bad_request", reason));
                continue;
            }
            let lane = self.lane.clone();
            let health = self.machine.engine_trouble();
            // Without tokio's budget: a future that it stops is polled again behind later ones, whose adds
            // would then be sent first.
            self.calls
                .push(Box::pin(tokio::task::unconstrained(async move {
                    let result = lane.submit(&next.message.draft, health).await;
                    Done::Submitted {
                        message: Box::new(next),
                        result,
                    }
                })));
        }
    }

    /// An add has ended, with an answer or without.
    pub(super) fn submission_done(
        &mut self,
        message: NumberedMessage,
        result: Result<Submission, Unanswered>,
    ) {
        match result {
            Ok(submission) => {
                self.submissions.answered(&message);
                self.end_submission(message, submission);
            }
            Err(unanswered) => match self.submissions.unanswered(message, Instant::now()) {
                Ok(true) => self.calls.push(Box::pin(async {
                    tokio::time::sleep(REPEAT_PAUSE).await;
                    Done::RepeatSubmissions
                })),
                Ok(false) => {}
                Err(message) => self.end_submission(*message, unanswered.into_refusal()),
            },
        }
        self.submit_waiting();
    }

    /// The pause after an unanswered add has passed.
    pub(super) fn repeat_submissions(&mut self) {
        self.submissions.is_pausing = false;
        self.submit_waiting();
    }

    /// Refuses what was not sent: the shim ends.
    pub(super) fn refuse_waiting(&mut self) {
        for message in self.submissions.take_waiting() {
            self.end_submission(
                message,
                Submission::refused("closing", "the shim is ending"),
            );
        }
    }

    fn end_submission(&mut self, message: NumberedMessage, submission: Submission) {
        let PendingMessage {
            draft,
            origin,
            client_data,
            ..
        } = message.message;
        self.submitted(draft.message, &origin, client_data, submission);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::MessageName;

    fn message(id: &str) -> PendingMessage {
        PendingMessage {
            draft: Draft {
                message: MessageName {
                    id: id.to_owned(),
                    is_given: true,
                },
                prompt: "hello".to_owned(),
                from: "me".to_owned(),
                first_attempt: 1,
            },
            origin: Origin {
                client: 1,
                req: None,
            },
            client_data: None,
            expected_thread: None,
        }
    }

    fn id(message: &NumberedMessage) -> &str {
        &message.message.draft.message.id
    }

    fn with(ids: &[&str]) -> Submissions {
        let mut submissions = Submissions::default();
        for id in ids {
            submissions.add(message(id));
        }
        submissions
    }

    #[test]
    fn unanswered_adds_are_repeated_in_their_order_and_before_later_ones() {
        let now = Instant::now();
        let mut submissions = with(&["a", "b", "c"]);
        let a = submissions.next(now).unwrap();
        let b = submissions.next(now).unwrap();
        assert!(submissions.unanswered(b, now).unwrap(), "a pause begins");
        assert!(submissions.next(now).is_none(), "c stays behind b");
        assert!(!submissions.unanswered(a, now).unwrap(), "the pause lasts");
        submissions.is_pausing = false;
        let first = submissions.next(now).unwrap();
        assert_eq!(id(&first), "a");
        assert!(submissions.next(now).is_none(), "one by one");
        submissions.answered(&first);
        let rest: Vec<_> = std::iter::from_fn(|| submissions.next(now)).collect();
        assert_eq!(rest.iter().map(id).collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn a_message_is_given_up_a_minute_after_its_first_add() {
        let now = Instant::now();
        let mut submissions = with(&["a"]);
        let a = submissions.next(now).unwrap();
        assert!(submissions.unanswered(a, now).is_ok());
        submissions.is_pausing = false;
        let later = now + UNREACHABLE_MAX;
        let a = submissions.next(later).unwrap();
        let given_up = submissions.unanswered(a, later).unwrap_err();
        assert_eq!(id(&given_up), "a");
        assert_eq!(submissions.bytes, 0);
    }

    #[test]
    fn adds_under_way_and_messages_are_bounded() {
        let now = Instant::now();
        let mut submissions = Submissions::default();
        for _ in 0..MESSAGES_MAX {
            assert!(!submissions.is_full());
            submissions.add(message("m"));
        }
        assert!(submissions.is_full());
        let sent = std::iter::from_fn(|| submissions.next(now)).count();
        assert_eq!(sent, UNDER_WAY_MAX);
        assert!(submissions.is_full(), "those under way count");
        assert_eq!(submissions.take_waiting().len(), MESSAGES_MAX - sent);
    }
}
