//! What waits for somebody's decision, and what was decided for the rest of the session.
//!
//! The invariant here: an approval ends exactly once, and nothing but an explicit accept of
//! somebody is an accept: time, silence and the end of the turn are not.
//!
//! Who is asked, and how, is the server's business.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use turnlane_engine::{ApprovalRequest, ApprovalSubject, Decided, Reply};
use turnlane_protocol::approval::{Approval, ApprovalKind, Decision, OfferedDecision};
use turnlane_protocol::ids::{ApprovalId, ThreadId, TurnId};

use super::rights::{CallerRights, TurnRights};
use crate::approvals::{Asking, WantedPermissions};
use crate::error::Error;

/// Why an approval that nobody answered is declined.
pub(crate) const NO_ONE_ANSWERED: &str = "no one answered";

/// A question that waits for its answer.
pub(crate) struct Open {
    /// What is asked.
    pub asking: Asking,
    /// What an accept for the session would stand for.
    pub subject: Subject,
    /// Where the answer goes.
    pub reply: Reply<Decided>,
    asked_at: Instant,
}

impl Open {
    /// Refuses a decision that was not offered, and an accept of a caller that could not have started
    /// the same thing itself. The question stays open.
    pub(crate) fn check(&self, decision: &Decision, caller: CallerRights) -> Result<(), Error> {
        let offered = &self.asking.approval.available_decisions;
        if !offered.contains(&OfferedDecision::Known(decision.clone())) {
            return Err(Error::DecisionNotOffered);
        }
        let leaves_sandbox = decision.is_accept() && self.subject.is_unconfined();
        if leaves_sandbox && caller == CallerRights::Confined {
            return Err(Error::Unconfined);
        }
        Ok(())
    }
}

/// What is asked, as far as the same thing again is told by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The command, patch or permissions, with the scope in which an accept of it counts.
    key: String,
    /// The sandbox of the turn, the directory and whether the command is escalated: an accepted
    /// beginning of a command counts only where all three are the same.
    scope: String,
    /// The command word by word, if it is one simple command.
    words: Option<Vec<String>>,
    /// True if an accept lets the agent act outside of any sandbox.
    is_unconfined: bool,
}

impl Subject {
    /// The subject of a question that a turn with these rights asks.
    pub(crate) fn new(subject: &ApprovalSubject, rights: &TurnRights) -> Self {
        let (what, cwd, escalated) = match subject {
            ApprovalSubject::Command {
                command,
                cwd,
                escalated,
                stdin,
                ..
            } => (json!(["command", command, stdin]), cwd, *escalated),
            ApprovalSubject::FileChange {
                changes, escalated, ..
            } => {
                let mut paths: Vec<_> = changes.iter().map(|change| &change.path).collect();
                paths.sort_unstable();
                paths.dedup();
                (json!(["fileChange", paths]), &rights.cwd, *escalated)
            }
            ApprovalSubject::Permissions { cwd, permissions } => {
                (json!(["permissions", permissions]), cwd, true)
            }
        };
        // A workspace is writable relative to the turn's directory, so that it is part of the sandbox.
        let scope = json!([rights.sandbox, rights.cwd, cwd, escalated]);
        Self {
            key: json!([what, scope]).to_string(),
            scope: scope.to_string(),
            words: match subject {
                ApprovalSubject::Command { words, .. } => words.clone(),
                ApprovalSubject::FileChange { .. } | ApprovalSubject::Permissions { .. } => None,
            },
            is_unconfined: escalated || !rights.sandbox.is_confined(),
        }
    }

    /// Returns true if an accept lets the agent act outside of any sandbox.
    pub(crate) fn is_unconfined(&self) -> bool {
        self.is_unconfined
    }
}

/// What was accepted for as long as the thread is loaded.
#[derive(Debug, Default)]
pub(crate) struct SessionAccepts {
    keys: HashSet<String>,
    /// Beginnings of commands, each with the scope of the command that it was accepted for.
    beginnings: HashSet<(Vec<String>, String)>,
}

impl SessionAccepts {
    /// Whether it was accepted before.
    pub(crate) fn covers(&self, subject: &Subject) -> bool {
        let begins = |(beginning, scope): &(Vec<String>, String)| {
            let words = subject.words.as_ref();
            *scope == subject.scope && words.is_some_and(|words| words.starts_with(beginning))
        };
        self.keys.contains(&subject.key) || self.beginnings.iter().any(begins)
    }

    /// Remembers a decision that is meant for more than once.
    pub(crate) fn remember(&mut self, subject: Subject, decision: &Decision) {
        match decision {
            Decision::AcceptForSession => {
                self.keys.insert(subject.key);
            }
            Decision::AcceptWithExecpolicyAmendment {
                execpolicy_amendment: beginning,
            } => {
                self.keys.insert(subject.key);
                // Every command begins with nothing, and nobody means every command.
                if !beginning.is_empty() {
                    self.beginnings.insert((beginning.clone(), subject.scope));
                }
            }
            Decision::Accept | Decision::Decline | Decision::Cancel => {}
        }
    }
}

/// How long approvals wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// From the question on; none: without limit.
    pub attended: Option<Duration>,
    /// While no subscriber can answer; none: without limit.
    pub unattended: Option<Duration>,
}

impl Patience {
    /// When a question that was asked then has waited too long; none: never.
    pub(crate) fn deadline(
        self,
        asked_at: Instant,
        unattended_since: Option<Instant>,
    ) -> Option<Instant> {
        let attended = self.attended.map(|wait| asked_at + wait);
        let alone = unattended_since.map(|since| since.max(asked_at));
        let alone = alone.zip(self.unattended).map(|(since, wait)| since + wait);
        [attended, alone].into_iter().flatten().min()
    }
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
        asking: Asking,
        subject: Subject,
        reply: Reply<Decided>,
        now: Instant,
    ) {
        self.open.push(Open {
            asking,
            subject,
            reply,
            asked_at: now,
        });
    }

    /// What is asked, oldest first.
    pub(crate) fn list(&self) -> Vec<Asking> {
        self.open.iter().map(|open| open.asking.clone()).collect()
    }

    /// An approval that waits.
    pub(crate) fn find(&self, id: ApprovalId) -> Option<&Open> {
        let found = |open: &&Open| open.asking.approval.approval_id == id;
        self.open.iter().find(found)
    }

    /// Takes an approval out to end it.
    pub(crate) fn take(&mut self, id: ApprovalId) -> Option<Open> {
        let found = |open: &Open| open.asking.approval.approval_id == id;
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
        let expired = |open: &Open| {
            let deadline = patience.deadline(open.asked_at, unattended_since);
            deadline.is_some_and(|deadline| deadline <= now)
        };
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
            .filter_map(|open| patience.deadline(open.asked_at, unattended_since));
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

/// What is asked, as clients see it.
pub(crate) fn asking(
    id: ApprovalId,
    place: (ThreadId, TurnId),
    request: &ApprovalRequest,
    now_ms: i64,
    expires_ms: Option<i64>,
) -> Asking {
    let approval = Approval {
        approval_id: id,
        thread_id: place.0,
        turn_id: place.1,
        item_id: request.item_id.clone(),
        kind: match &request.subject {
            ApprovalSubject::Command { .. } => ApprovalKind::Command,
            ApprovalSubject::FileChange { .. } => ApprovalKind::FileChange,
            ApprovalSubject::Permissions { .. } => ApprovalKind::Permissions,
        },
        command: None,
        cwd: None,
        changes: None,
        reason: request.reason.clone(),
        available_decisions: Vec::new(),
        requested_at_ms: now_ms,
        expires_at_ms: expires_ms,
    };
    let mut asking = Asking {
        approval,
        command_actions: Vec::new(),
        proposed_execpolicy_amendment: None,
        grant_root: None,
        permissions: None,
    };
    let approval = &mut asking.approval;
    match &request.subject {
        ApprovalSubject::Command {
            command,
            cwd,
            actions,
            proposed_amendment,
            words: _,
            stdin: _,
            escalated: _,
        } => {
            approval.command = Some(command.clone());
            approval.cwd = Some(cwd.clone());
            asking.command_actions.clone_from(actions);
            asking
                .proposed_execpolicy_amendment
                .clone_from(proposed_amendment);
        }
        ApprovalSubject::FileChange {
            changes,
            grant_root,
            escalated: _,
        } => {
            approval.changes = Some(changes.clone());
            asking.grant_root.clone_from(grant_root);
        }
        ApprovalSubject::Permissions { cwd, permissions } => {
            asking.permissions = Some(WantedPermissions {
                cwd: cwd.clone(),
                permissions: permissions.clone(),
            });
        }
    }
    let amendment = asking.proposed_execpolicy_amendment.as_ref();
    let offered = request.available_decisions.clone();
    asking.approval.available_decisions = offered.unwrap_or_else(|| usual(amendment));
    asking
}

/// What may be answered when the engine leaves it to us.
fn usual(amendment: Option<&Vec<String>>) -> Vec<OfferedDecision> {
    let amended = amendment.map(|words| Decision::AcceptWithExecpolicyAmendment {
        execpolicy_amendment: words.clone(),
    });
    let yes = [Decision::Accept, Decision::AcceptForSession];
    let no = [Decision::Decline, Decision::Cancel];
    let all = yes.into_iter().chain(amended).chain(no);
    all.map(OfferedDecision::Known).collect()
}

#[cfg(test)]
mod tests;
