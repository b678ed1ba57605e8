//! The standing text of a request: who the model is, where it works, and what the project says.
//!
//! The invariant here: the text follows from its parts alone and in one order, so two calls of a
//! turn have the same instructions to the byte. A part without words leaves no trace.
//!
//! Which base text applies and which documents there are is decided before.

use std::fmt::Write as _;

use turnlane_protocol::policy::{ApprovalPolicy, NetworkAccess, SandboxPolicy};

use super::documents::Document;

/// What the model is told first when nobody says otherwise.
pub const BASE: &str = include_str!("instructions/base.md");

/// What instructions are made of.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// What stands in place of [`BASE`].
    pub base: Option<&'a str>,
    /// Where the model works.
    pub environment: &'a Environment<'a>,
    /// What whoever embeds us adds.
    pub developer: Option<&'a str>,
    /// What the user and the project say, in order.
    pub documents: &'a [Document],
}

/// Where a model works, and what it may do there.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    /// The working directory.
    pub cwd: &'a str,
    /// The shell that runs commands.
    pub shell: &'a str,
    /// The operating system.
    pub os: &'a str,
    /// Today, as `2030-01-31`.
    pub date: &'a str,
    /// Where commands may write.
    pub sandbox: &'a SandboxPolicy,
    /// The folders that the sandbox leaves writable, where it confines writes to some.
    pub writable_roots: &'a [String],
    /// When the agent asks.
    pub approval: ApprovalPolicy,
}

/// The instructions of a turn.
pub fn compose(parts: &Parts<'_>) -> String {
    let mut text = parts.base.unwrap_or(BASE).trim().to_owned();
    add(&mut text, &environment(parts.environment));
    add(&mut text, parts.developer.unwrap_or_default());
    for document in parts.documents {
        let body = document.text.trim();
        if !body.is_empty() {
            add(
                &mut text,
                &format!("# {}\n\n{body}", document.path.display()),
            );
        }
    }
    text
}

fn add(text: &mut String, part: &str) {
    let part = part.trim();
    if part.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(part);
}

fn environment(place: &Environment<'_>) -> String {
    let mut text = "# Environment\n".to_owned();
    let mut line = |name: &str, value: &str| {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "- {name}: {value}");
    };
    line("working directory", place.cwd);
    line("shell", place.shell);
    line("operating system", place.os);
    line("date", place.date);
    line("writable", &writable(place));
    line("network", network(place.sandbox));
    line("approvals", approvals(place.approval));
    text
}

fn writable(place: &Environment<'_>) -> String {
    match place.sandbox {
        SandboxPolicy::ReadOnly { .. } => "nothing".to_owned(),
        SandboxPolicy::WorkspaceWrite(_) => format!(
            "{} (not .git, .codex, .agents and .turnlane in them)",
            place.writable_roots.join(", ")
        ),
        SandboxPolicy::DangerFullAccess => "everything".to_owned(),
        SandboxPolicy::ExternalSandbox { .. } => {
            "what the sandbox around this machine allows".to_owned()
        }
    }
}

fn network(sandbox: &SandboxPolicy) -> &'static str {
    let open = match sandbox {
        SandboxPolicy::ReadOnly { network_access } => *network_access,
        SandboxPolicy::WorkspaceWrite(workspace) => workspace.network_access,
        SandboxPolicy::DangerFullAccess => true,
        SandboxPolicy::ExternalSandbox { network_access } => {
            *network_access == NetworkAccess::Enabled
        }
    };
    if open { "on" } else { "off" }
}

fn approvals(policy: ApprovalPolicy) -> &'static str {
    match policy {
        ApprovalPolicy::Untrusted => {
            "untrusted. The user is asked before commands that no rule allows and before every \
             patch. To run one command without the sandbox, set `sandbox_permissions` to \
             `require_escalated` and give a short `justification`."
        }
        ApprovalPolicy::OnRequest => {
            "on-request. Commands run inside the sandbox without asking. To run one command \
             without the sandbox, set `sandbox_permissions` to `require_escalated` and give a \
             short `justification`; the user decides. Dangerous commands and patches outside of \
             the writable folders are asked about by themselves."
        }
        ApprovalPolicy::Never => {
            "never. Nobody can be asked: do not set `require_escalated`. What needs approval is \
             refused, so do the task within these limits."
        }
        ApprovalPolicy::Granular(granular) if granular.sandbox_approval => {
            "granular. Commands run inside the sandbox without asking. To run one command without \
             the sandbox, set `sandbox_permissions` to `require_escalated` and give a short \
             `justification`; some requests are refused without asking."
        }
        ApprovalPolicy::Granular(_) => {
            "granular. Requests to leave the sandbox are refused without asking: do not set \
             `require_escalated`, and do the task within these limits."
        }
    }
}

#[cfg(test)]
mod tests;
