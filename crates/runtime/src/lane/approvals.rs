//! What waits for somebody's decision, and what was decided for the rest of the session.
//!
//! The invariant here: an approval ends exactly once, and nothing but an explicit accept of
//! somebody is an accept: time, silence and the end of the turn are not.
//!
//! Who is asked, and how, is the server's business.

use std::time::Duration;

use tokio::time::Instant;
use turnlane_engine::{ApprovalRequest, ApprovalSubject, Decided, Reply};
use turnlane_protocol::approval::{Approval, ApprovalKind, Decision, OfferedDecision};
use turnlane_protocol::ids::{ApprovalId, ThreadId, TurnId};

/// Why an approval that nobody answered is declined.
pub(crate) const NO_ONE_ANSWERED: &str = "no one answered";

/// A question that waits for its answer.
pub(crate) struct Open {
    /// What is asked.
    pub approval: Approval,
    /// What an accept for the session would stand for.
    pub key: SessionKey,
    /// Where the answer goes.
    pub reply: Reply<Decided>,
    asked_at: Instant,
}

/// What an accept for the session stands for: the same thing again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey(String);

impl SessionKey {
    /// The key of what is asked.
    pub(crate) fn of(subject: &ApprovalSubject) -> Self {
        Self(match subject {
            ApprovalSubject::Command {
                command,
                cwd,
                escalated,
                ..
            } => serde_json::json!(["command", command, cwd, escalated]).to_string(),
            ApprovalSubject::FileChange { changes, .. } => {
                let mut paths: Vec<_> = changes.iter().map(|change| &change.path).collect();
                paths.sort_unstable();
                paths.dedup();
                serde_json::json!(["fileChange", paths]).to_string()
            }
        })
    }
}

/// How long approvals wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// While somebody listens.
    pub attended: Duration,
    /// While nobody does.
    pub unattended: Duration,
}

/// The open approvals of one turn.
#[derive(Default)]
pub(crate) struct Approvals {
    open: Vec<Open>,
}

impl Approvals {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn ask(
        &mut self,
        approval: Approval,
        key: SessionKey,
        reply: Reply<Decided>,
        now: Instant,
    ) {
        self.open.push(Open {
            approval,
            key,
            reply,
            asked_at: now,
        });
    }

    /// What is asked, oldest first.
    pub(crate) fn list(&self) -> Vec<Approval> {
        self.open.iter().map(|open| open.approval.clone()).collect()
    }

    /// Takes an approval out to end it.
    pub(crate) fn take(&mut self, id: ApprovalId) -> Option<Open> {
        let found = |open: &Open| open.approval.approval_id == id;
        let at = self.open.iter().position(found)?;
        Some(self.open.remove(at))
    }

    /// Takes the first out that has waited too long.
    pub(crate) fn take_expired(
        &mut self,
        now: Instant,
        unattended_since: Option<Instant>,
        patience: Patience,
    ) -> Option<Open> {
        let expired = |open: &Open| deadline(open, unattended_since, patience) <= now;
        let at = self.open.iter().position(expired)?;
        Some(self.open.remove(at))
    }

    /// When the next one has waited too long.
    pub(crate) fn next_deadline(
        &self,
        unattended_since: Option<Instant>,
        patience: Patience,
    ) -> Option<Instant> {
        let deadlines = self
            .open
            .iter()
            .map(|open| deadline(open, unattended_since, patience));
        deadlines.min()
    }

    /// Takes all out whose engine does not wait any more.
    pub(crate) fn take_withdrawn(&mut self) -> Vec<Open> {
        let (withdrawn, open) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|open| open.reply.is_closed());
        self.open = open;
        withdrawn
    }

    /// Takes all out, for the end of the turn.
    pub(crate) fn take_all(&mut self) -> Vec<Open> {
        std::mem::take(&mut self.open)
    }
}

fn deadline(open: &Open, unattended_since: Option<Instant>, patience: Patience) -> Instant {
    let attended = open.asked_at + patience.attended;
    match unattended_since {
        None => attended,
        Some(since) => attended.min(since.max(open.asked_at) + patience.unattended),
    }
}

/// What is asked, as clients see it.
pub(crate) fn shown(
    id: ApprovalId,
    place: (ThreadId, TurnId),
    request: &ApprovalRequest,
    now_ms: i64,
    expires_ms: i64,
) -> Approval {
    let (kind, command, cwd, changes) = match &request.subject {
        ApprovalSubject::Command { command, cwd, .. } => (
            ApprovalKind::Command,
            Some(command.clone()),
            Some(cwd.clone()),
            None,
        ),
        ApprovalSubject::FileChange { changes, .. } => {
            (ApprovalKind::FileChange, None, None, Some(changes.clone()))
        }
    };
    let usual = || {
        let known = OfferedDecision::Known;
        vec![
            known(Decision::Accept),
            known(Decision::AcceptForSession),
            known(Decision::Decline),
            known(Decision::Cancel),
        ]
    };
    Approval {
        approval_id: id,
        thread_id: place.0,
        turn_id: place.1,
        item_id: request.item_id.clone(),
        kind,
        command,
        cwd,
        changes,
        reason: request.reason.clone(),
        available_decisions: request.available_decisions.clone().unwrap_or_else(usual),
        requested_at_ms: now_ms,
        expires_at_ms: expires_ms,
    }
}
