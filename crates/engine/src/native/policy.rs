//! What the approval policy says about a command or a patch: run it, ask, or refuse.
//!
//! The invariant here: every cell of the approval table is one arm below and one row of the tests,
//! and where two cells meet (a command that is dangerous and escalated) the stricter one holds. What
//! is refused is refused without anybody being asked.
//!
//! Asking and remembering answers is the runtime's business; the sandbox, which is the wall, is the
//! process service's.

mod place;

#[cfg(test)]
mod tests;

use turnlane_protocol::policy::ApprovalPolicy;

use super::danger::Danger;
use super::patch::Place;

pub(crate) use place::Writable;

/// What the model is told when the policy lets nobody be asked.
pub(crate) const REFUSED_BY_POLICY: &str = "refused: needs approval and approvalPolicy is never";
/// What the model is told when somebody declined a command without a reason.
pub(crate) const COMMAND_REJECTED: &str = "exec command rejected by user";
/// What the model is told when somebody declined a patch without a reason.
pub(crate) const PATCH_REJECTED: &str = "patch rejected by user";

/// What becomes of a call; the later the stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stance {
    /// It is done.
    Run,
    /// It is done if somebody accepts.
    Ask,
    /// It is not done.
    Refuse,
}

/// Where a command asks to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escalation {
    /// In the turn's sandbox.
    Confined,
    /// Outside of it: `require_escalated`.
    Escalated,
}

/// What the policy looks at in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandFacts {
    pub(crate) dangerous: Danger,
    pub(crate) escalated: Escalation,
}

/// What is done about a command that the sandbox denied something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The model gets the result.
    Tell,
    /// Somebody is asked; accepted, it runs again without a sandbox.
    AskUnconfined,
}

/// What becomes of a command.
pub(crate) fn for_command(approval: ApprovalPolicy, facts: CommandFacts) -> Stance {
    let ordinary = match approval {
        ApprovalPolicy::Untrusted => Stance::Ask,
        ApprovalPolicy::OnRequest | ApprovalPolicy::Never | ApprovalPolicy::Granular(_) => {
            Stance::Run
        }
    };
    let danger = match facts.dangerous {
        Danger::No => Stance::Run,
        Danger::Yes => asked(approval, Flag::Rules),
    };
    let escalation = match facts.escalated {
        Escalation::Confined => Stance::Run,
        Escalation::Escalated => asked(approval, Flag::SandboxApproval),
    };
    ordinary.max(danger).max(escalation)
}

/// What becomes of a command that a rule asks about.
pub(crate) fn for_prompt(approval: ApprovalPolicy) -> Stance {
    asked(approval, Flag::Rules)
}

/// What becomes of a command that a rule allows inside the sandbox.
pub(crate) fn for_allowed(approval: ApprovalPolicy, escalated: Escalation) -> Stance {
    match escalated {
        Escalation::Confined => Stance::Run,
        Escalation::Escalated => asked(approval, Flag::SandboxApproval),
    }
}

/// What is done when the sandbox denied a command something.
pub(crate) fn after_denial(approval: ApprovalPolicy) -> Denied {
    match approval {
        ApprovalPolicy::Untrusted => Denied::AskUnconfined,
        ApprovalPolicy::Granular(flags) if flags.sandbox_approval => Denied::AskUnconfined,
        ApprovalPolicy::OnRequest | ApprovalPolicy::Never | ApprovalPolicy::Granular(_) => {
            Denied::Tell
        }
    }
}

/// What becomes of a patch whose files all lie inside, or do not.
pub(crate) fn for_patch(approval: ApprovalPolicy, place: Place) -> Stance {
    match (approval, place) {
        (ApprovalPolicy::Untrusted, Place::Inside) => Stance::Ask,
        (
            ApprovalPolicy::OnRequest | ApprovalPolicy::Never | ApprovalPolicy::Granular(_),
            Place::Inside,
        ) => Stance::Run,
        (approval, Place::Outside) => asked(approval, Flag::SandboxApproval),
    }
}

/// What the model is told about a call that somebody declined: the reason, where there is one.
pub(crate) fn rejected(usual: &str, reason: Option<String>) -> String {
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    reason.unwrap_or_else(|| usual.to_owned())
}

/// Which switch of a granular policy allows the question.
#[derive(Clone, Copy)]
enum Flag {
    Rules,
    SandboxApproval,
}

/// What becomes of something that nobody does without being asked.
fn asked(approval: ApprovalPolicy, flag: Flag) -> Stance {
    match approval {
        ApprovalPolicy::Untrusted | ApprovalPolicy::OnRequest => Stance::Ask,
        ApprovalPolicy::Never => Stance::Refuse,
        ApprovalPolicy::Granular(flags) => {
            let may_ask = match flag {
                Flag::Rules => flags.rules,
                Flag::SandboxApproval => flags.sandbox_approval,
            };
            if may_ask { Stance::Ask } else { Stance::Refuse }
        }
    }
}
