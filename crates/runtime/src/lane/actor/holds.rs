//! Who is told what holds a lane.
//!
//! The invariant here: a hold is told once to those who follow the thread when it begins, and once to
//! each client that follows it later, as a `warning`.
//!
//! The texts are in [`crate::lane::hold`].

use std::sync::Arc;

use turnlane_protocol::notification::{ServerNotification, Warning};

use super::Actor;
use crate::ids;
use crate::lane::hold::{self, Hold};
use crate::notice::{Notice, NoticeBody};

impl Actor {
    /// What holds the lane now.
    fn holds(&self) -> Vec<Hold> {
        let thread = ids::wire_thread(self.thread);
        let lane = self.lane.as_ref();
        let mut holds =
            lane.map_or_else(Vec::new, |lane| hold::of_queue(thread, lane, self.now_ms()));
        if !self.subscribers.can_answer() {
            let open = self
                .running
                .as_ref()
                .map(|running| running.approvals.list());
            let first = open.into_iter().flatten().next();
            holds.extend(first.map(|asking| hold::of_question(&asking.approval)));
        }
        holds
    }

    /// Tells the subscribers of holds that have begun.
    pub(super) fn tell_holds(&mut self) {
        if self.subscribers.count() == 0 {
            return;
        }
        let holds = self.holds();
        for hold in &holds {
            if !self.told_holds.contains(hold) {
                self.tell_said(self.warning(hold));
            }
        }
        self.told_holds = holds;
    }

    /// What a new subscriber is told of holds, with the number of its cut, beside what it missed.
    pub(super) fn holds_for_joiner(
        &mut self,
        seq: u64,
        missed: &[Arc<Notice>],
    ) -> Vec<Arc<Notice>> {
        let holds = self.holds();
        let is_missed = |hold: &&Hold| missed.iter().any(|notice| warns_of(notice, hold));
        let notice = |hold: &Hold| {
            Arc::new(Notice {
                thread: ids::wire_thread(self.thread),
                seq,
                at_ms: self.now_ms(),
                body: NoticeBody::Said(Box::new(self.warning(hold))),
            })
        };
        let untold = holds.iter().filter(|hold| !is_missed(hold));
        let notices = untold.map(notice).collect();
        if self.subscribers.count() == 1 {
            // Nobody else is left to be told.
            self.told_holds = holds;
        }
        notices
    }

    fn warning(&self, hold: &Hold) -> ServerNotification {
        ServerNotification::Warning(Warning {
            thread_id: Some(ids::wire_thread(self.thread)),
            message: hold.text.clone(),
        })
    }
}

fn warns_of(notice: &Notice, hold: &Hold) -> bool {
    match &notice.body {
        NoticeBody::Said(said) => match said.as_ref() {
            ServerNotification::Warning(warning) => warning.message == hold.text,
            _ => false,
        },
        _ => false,
    }
}
