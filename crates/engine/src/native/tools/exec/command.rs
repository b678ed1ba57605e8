//! A command of the model as it would run in this turn.
//!
//! The invariant here: what is shown and asked about is what runs, in the same directory, with the
//! same shell; only keys are taken out of what is shown.
//!
//! Nothing is started here.

use std::path::Path;
use std::time::Duration;

use turnlane_protocol::approval::{Decision, OfferedDecision};
use turnlane_protocol::item::CommandAction;
use turnlane_protocol::policy::ApprovalPolicy;

use super::amendment;
use super::arguments::{Arguments, SandboxPermissions, milliseconds, tokens};
use super::quote::quoted;
use crate::native::actions;
use crate::native::danger::{Danger, is_dangerous};
use crate::native::policy::{self, CommandFacts, Escalation, REFUSED_BY_POLICY, Stance};
use crate::native::rules::Verdict;
use crate::native::sessions::{SessionInput, Shown};
use crate::native::tools::{Dangerous, LoginShell, ToolTurn};
use crate::native::words::simple_command;
use crate::said::ApprovalSubject;

/// How long a call waits for its command, in milliseconds, if the model does not say.
const YIELD_DEFAULT_MS: u64 = 10_000;
/// The least and the most it may say.
const YIELD_BOUNDS_MS: (u64, u64) = (250, 30_000);
/// The shells the model may choose from.
const SHELLS: [&str; 3] = ["bash", "zsh", "sh"];

/// A command that is ready to be judged and run.
#[derive(Debug)]
pub(super) struct Command {
    /// Program and arguments.
    pub(super) argv: [String; 3],
    /// The same in one line.
    pub(super) line: String,
    pub(super) cwd: String,
    pub(super) actions: Vec<CommandAction>,
    pub(super) stdin: SessionInput,
    pub(super) yield_time: Duration,
    pub(super) tokens_max: u64,
    /// Where the model asks to run it.
    asked: Escalation,
    rule: Verdict,
    danger: Danger,
    /// The words of the script if it is one simple command, run by the configured shell.
    words: Option<Vec<String>>,
    justification: Option<String>,
    amendment: Option<Vec<String>>,
}

impl Command {
    /// What the arguments mean in this turn; looks whether the directory is there.
    pub(super) fn of(turn: &ToolTurn, arguments: Arguments) -> Result<Self, String> {
        // Joined by components: a folder that was not named adds no `/`.
        let mut cwd = Path::new(&turn.settings.cwd).to_owned();
        cwd.extend(Path::new(arguments.folder()));
        if !cwd.is_dir() {
            return Err(format!("workdir is not a directory: {}", cwd.display()));
        }
        let escalation = match arguments.sandbox_permissions {
            Some(SandboxPermissions::RequireEscalated) => Escalation::Escalated,
            Some(SandboxPermissions::UseDefault) | None => Escalation::Confined,
        };
        let justification = arguments.justification.filter(|why| !why.trim().is_empty());
        if escalation == Escalation::Escalated && justification.is_none() {
            let text = "sandbox_permissions `require_escalated` needs a justification";
            return Err(text.to_owned());
        }
        let is_login = arguments.login.unwrap_or(match turn.tools.login {
            LoginShell::Yes => true,
            LoginShell::No => false,
        });
        let flag = if is_login { "-lc" } else { "-c" };
        let shell = arguments.shell.filter(|shell| is_shell(shell));
        let shell = shell.unwrap_or_else(|| turn.tools.shell.clone());
        // The model may name a shell that it wrote itself; no rule covers what that one does.
        let is_ours = shell == turn.tools.shell;
        let words = simple_command(&arguments.cmd).filter(|_| is_ours);
        let prefix = arguments
            .prefix_rule
            .filter(|_| is_ours)
            .unwrap_or_default();
        let line = quoted([shell.as_str(), flag, &arguments.cmd]);
        let rule = match turn.rules.judge(&arguments.cmd, &line) {
            // A rule gives nobody more than the caller of the turn has.
            Verdict::AllowedUnconfined if turn.settings.requires_sandbox => Verdict::Allowed,
            rule => rule,
        };
        Ok(Self {
            rule,
            line,
            cwd: cwd.to_string_lossy().into_owned(),
            actions: actions::of(&turn.redactor.text(&arguments.cmd)),
            stdin: match arguments.tty {
                Some(true) => SessionInput::Terminal,
                Some(false) | None => SessionInput::Closed,
            },
            yield_time: milliseconds(arguments.yield_time_ms, YIELD_DEFAULT_MS, YIELD_BOUNDS_MS),
            tokens_max: tokens(arguments.max_output_tokens, turn.tools.output_tokens_max),
            asked: escalation,
            danger: match turn.tools.dangerous {
                Dangerous::Guarded => is_dangerous(&arguments.cmd),
                Dangerous::Ordinary => Danger::No,
            },
            words,
            justification,
            amendment: amendment::proposed(prefix, &arguments.cmd),
            argv: [shell, flag.to_owned(), arguments.cmd],
        })
    }

    /// Where it runs: outside of the sandbox if the model asks for it, or if a rule lets it.
    pub(super) fn escalation(&self) -> Escalation {
        match self.rule {
            Verdict::AllowedUnconfined => Escalation::Escalated,
            Verdict::Unmatched | Verdict::Allowed | Verdict::Prompt(_) | Verdict::Forbidden(_) => {
                self.asked
            }
        }
    }

    /// Whether a rule forbids it, whatever anybody decides.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self.rule, Verdict::Forbidden(_))
    }

    /// Whether a rule, not a person, lets it leave the sandbox.
    pub(super) fn leaves_by_rule(&self) -> bool {
        self.rule == Verdict::AllowedUnconfined
    }

    /// What becomes of it under an approval policy, and what the model is told if it is refused.
    pub(super) fn stance(&self, approval: ApprovalPolicy) -> (Stance, &str) {
        let facts = CommandFacts {
            dangerous: self.danger,
            escalated: self.asked,
        };
        let stance = match &self.rule {
            Verdict::Forbidden(text) => return (Stance::Refuse, text),
            Verdict::Prompt(_) => {
                policy::for_prompt(approval).max(policy::for_command(approval, facts))
            }
            Verdict::AllowedUnconfined => Stance::Run,
            Verdict::Allowed => policy::for_allowed(approval, self.asked),
            Verdict::Unmatched => policy::for_command(approval, facts),
        };
        (stance, REFUSED_BY_POLICY)
    }

    /// The only answers to a question that a rule asks: it is asked again the next time.
    pub(super) fn decisions(&self) -> Option<Vec<OfferedDecision>> {
        match self.rule {
            Verdict::Prompt(_) => {
                let once = [Decision::Accept, Decision::Decline, Decision::Cancel];
                Some(once.map(OfferedDecision::Known).into())
            }
            Verdict::Unmatched
            | Verdict::Allowed
            | Verdict::AllowedUnconfined
            | Verdict::Forbidden(_) => None,
        }
    }

    /// Why somebody is asked.
    pub(super) fn reason(&self) -> Option<String> {
        if let Verdict::Prompt(reason) = &self.rule {
            return Some(reason.clone());
        }
        let dangerous = || match self.danger {
            Danger::Yes => Some("this command may destroy what cannot be restored".to_owned()),
            Danger::No => None,
        };
        self.justification.clone().or_else(dangerous)
    }

    /// What somebody is asked, as it is shown.
    pub(super) fn subject(&self, shown: &Shown, escalation: Escalation) -> ApprovalSubject {
        let redact = |word: &String| shown.redactor().text(word).into_owned();
        // A rule that asks each time is not answered with another rule.
        let amendment = self
            .amendment
            .as_ref()
            .filter(|_| self.decisions().is_none());
        // Two different keys look the same once they are redacted.
        let is_clean = |words: &&Vec<String>| words.iter().all(|word| redact(word) == *word);
        ApprovalSubject::Command {
            command: shown.command().to_owned(),
            cwd: shown.cwd().to_owned(),
            actions: shown.actions().to_vec(),
            words: self.words.as_ref().filter(is_clean).cloned(),
            stdin: None,
            escalated: escalation == Escalation::Escalated,
            proposed_amendment: amendment.map(|words| words.iter().map(redact).collect()),
        }
    }
}

/// By its own name; where it lies is up to the model, as with every program.
fn is_shell(shell: &str) -> bool {
    let name = Path::new(shell).file_name();
    name.is_some_and(|name| SHELLS.iter().any(|known| name == *known))
}
