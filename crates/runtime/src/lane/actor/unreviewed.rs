//! Approvals of a thread whose reviewer is `auto_review`: declined at once.
//!
//! The invariant here: no client is asked. A client that sends `auto_review` may accept whatever it
//! is asked, because it relies on a reviewer that this server does not have. The question and its
//! decision are recorded in one write, so that no list ever shows the question as open.
//!
//! Questions to people are in `said`.

use turnlane_engine::{ApprovalRequest, Decided, Reply};
use turnlane_protocol::approval::Decision;
use turnlane_protocol::notification::{Decider, ServerNotification, Warning};
use turnlane_store::approval::{ApprovalAsked, ApprovalResolved};
use turnlane_store::turn::Level;

use super::Actor;
use crate::ids;
use crate::lane::approvals;
use crate::lane::rows;
use crate::notice::NoticeBody;

/// The reason, as the model is told it.
const FOR_THE_MODEL: &str = "declined: this needs an approval, and this server has no reviewer for \
    approvals. Do not try to reach the same result in another way.";

/// The warning for people.
const FOR_PEOPLE: &str = "approvalsReviewer is `auto_review`, and this server has no reviewer: \
    whatever needs an approval is declined. Set approvalsReviewer to `user` to be asked instead.";

impl Actor {
    /// Declines the question, and warns once per thread that no client is asked.
    pub(super) fn decline_unreviewed(&mut self, request: &ApprovalRequest, reply: Reply<Decided>) {
        let now_ms = self.now_ms();
        let thread = ids::wire_thread(self.thread);
        let Some(running) = &mut self.running else {
            return;
        };
        let id = ids::new_approval(now_ms);
        let place = (thread, running.turn_id());
        let asking = approvals::asking(id, place, request, now_ms, Some(now_ms));
        let (decision, by) = (Decision::Decline, Decider::Policy);
        let reason = Some(FOR_THE_MODEL.to_owned());
        running.put.asked.push(ApprovalAsked {
            id: id.as_uuid().into(),
            turn: running.accepted.turn.id,
            body: rows::write(&asking),
            requested_ms: now_ms,
            expires_ms: Some(now_ms),
        });
        running.put.resolved.push(ApprovalResolved {
            id: id.as_uuid().into(),
            decision: rows::write(&decision).as_str().to_owned(),
            decided_by: Some(rows::write(&by).as_str().trim_matches('"').to_owned()),
            reason: reason.clone(),
            resolved_ms: now_ms,
        });
        // Recorded before the engine can act on it.
        if self.closing.is_none() {
            self.write(Level::Visible, None);
        }
        let decided = Decided {
            reason: reason.clone(),
            ..Decided::new(decision.clone())
        };
        // An engine that has stopped waiting needs no answer.
        let _ = reply.send(decided);
        self.tell_everybody(NoticeBody::ApprovalResolved {
            approval: Box::new(asking.approval),
            decision,
            by,
            reason,
        });
        if self.warned.is_new(FOR_PEOPLE) {
            self.tell_said(ServerNotification::Warning(Warning {
                thread_id: Some(thread),
                message: FOR_PEOPLE.to_owned(),
            }));
        }
    }
}
