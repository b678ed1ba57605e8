//! What waits for somebody's decision, and what was decided for the rest of the session.
//!
//! The invariant here: an approval ends exactly once, and nothing but an explicit accept of
//! somebody is an accept: time, silence and the end of the turn are not.
//!
//! Who is asked, and how, is the server's business.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;
use turnlane_engine::{ApprovalRequest, ApprovalSubject, Decided, Reply};
use turnlane_protocol::approval::{Approval, ApprovalKind, Decision, OfferedDecision};
use turnlane_protocol::ids::{ApprovalId, ThreadId, TurnId};

use crate::approvals::{Asking, WantedPermissions};

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

/// What is asked, as far as the same thing again is told by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Command, directory and whether it is escalated; or the set of paths.
    key: String,
    /// The command word by word, where its words are plain.
    words: Vec<String>,
    escalated: bool,
}

impl Subject {
    pub(crate) fn of(subject: &ApprovalSubject) -> Self {
        match subject {
            ApprovalSubject::Command {
                command,
                cwd,
                escalated,
                ..
            } => Self {
                key: serde_json::json!(["command", command, cwd, escalated]).to_string(),
                words: plain_words(command),
                escalated: *escalated,
            },
            ApprovalSubject::FileChange { changes, .. } => {
                let mut paths: Vec<_> = changes.iter().map(|change| &change.path).collect();
                paths.sort_unstable();
                paths.dedup();
                Self {
                    key: serde_json::json!(["fileChange", paths]).to_string(),
                    words: Vec::new(),
                    escalated: false,
                }
            }
            ApprovalSubject::Permissions { cwd, permissions } => Self {
                key: serde_json::json!(["permissions", cwd, permissions]).to_string(),
                words: Vec::new(),
                escalated: false,
            },
        }
    }
}

/// The words of a command line that no shell would read otherwise than they stand there; none when
/// one could.
fn plain_words(command: &str) -> Vec<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || " -_./:=,@%+".contains(c);
    if !command.chars().all(plain) {
        return Vec::new();
    }
    command.split_whitespace().map(str::to_owned).collect()
}

/// What was accepted for as long as the thread is loaded.
#[derive(Debug, Default)]
pub(crate) struct SessionAccepts {
    keys: HashSet<String>,
    /// Beginnings of commands, and whether the command they were accepted for was escalated.
    beginnings: Vec<(Vec<String>, bool)>,
}

impl SessionAccepts {
    /// Whether it was accepted before.
    pub(crate) fn covers(&self, subject: &Subject) -> bool {
        let begins = |(beginning, escalated): &(Vec<String>, bool)| {
            *escalated == subject.escalated && subject.words.starts_with(beginning)
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
                    let beginning = (beginning.clone(), subject.escalated);
                    self.beginnings.push(beginning);
                }
            }
            Decision::Accept | Decision::Decline | Decision::Cancel => {}
        }
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
pub(crate) fn asking(
    id: ApprovalId,
    place: (ThreadId, TurnId),
    request: &ApprovalRequest,
    now_ms: i64,
    expires_ms: i64,
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
            escalated: _,
            proposed_amendment,
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
mod tests {
    use super::*;

    fn command(command: &str, escalated: bool) -> Subject {
        Subject::of(&ApprovalSubject::Command {
            command: command.to_owned(),
            cwd: "/w".to_owned(),
            actions: Vec::new(),
            escalated,
            proposed_amendment: None,
        })
    }

    fn beginning(words: &[&str]) -> Decision {
        Decision::AcceptWithExecpolicyAmendment {
            execpolicy_amendment: words.iter().map(|word| (*word).to_owned()).collect(),
        }
    }

    #[test]
    fn an_accepted_beginning_covers_plain_commands_that_begin_so() {
        let mut session = SessionAccepts::default();
        session.remember(command("git log -1", false), &beginning(&["git", "log"]));
        let covers = |text: &str| session.covers(&command(text, false));
        assert!(covers("git log") && covers("git log --oneline src/a.rs"));
        for other in [
            "git",
            "git logs",
            "git -C / log",
            "git log; rm -r .",
            "git log && rm x",
            "git log $(rm x)",
            "git log `rm x`",
            "git log > x",
            "git log | sh",
            "git log\nrm x",
        ] {
            assert!(!covers(other), "{other}");
        }
        assert!(
            !session.covers(&command("git log", true)),
            "not outside of the sandbox"
        );
    }

    #[test]
    fn an_empty_beginning_covers_only_the_command_itself() {
        let mut session = SessionAccepts::default();
        session.remember(command("make", false), &beginning(&[]));
        assert!(session.covers(&command("make", false)));
        assert!(!session.covers(&command("make install", false)));
        assert!(!session.covers(&command("rm x", false)));
    }

    #[test]
    fn one_accept_or_a_refusal_is_not_remembered() {
        let mut session = SessionAccepts::default();
        for decision in [Decision::Accept, Decision::Decline, Decision::Cancel] {
            session.remember(command("make", false), &decision);
        }
        assert!(!session.covers(&command("make", false)));
    }
}
