//! How a command is started: its environment, its sandbox, its streams.
//!
//! The invariant here: a command gets the sandbox of its turn unless somebody let it go without, and
//! an environment that was built for it, in which there are no keys.
//!
//! Enforcing a sandbox is the process service's business; it is enforced completely or the command
//! does not start.

use std::ffi::OsString;
use std::path::Path;

use turnlane_exec_server::policy;
use turnlane_process::{
    Containment, ContainmentKind, EnvSpec, Io, RootLinks, Sandbox, Spec, Stdin, TerminalSize,
};

use super::command::Command;
use crate::native::policy::Escalation;
use crate::native::sessions::SessionInput;
use crate::native::tools::ToolTurn;
use crate::request::TurnSettings;

/// Programs shall write plain text and not wait for anybody to turn the page.
const PLAIN_OUTPUT: [(&str, &str); 4] = [
    ("NO_COLOR", "1"),
    ("TERM", "dumb"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
];

/// A command as the process service starts it.
pub(super) fn spec(turn: &ToolTurn, command: &Command, escalation: Escalation) -> Spec {
    let mut spec = Spec::new(&command.argv, &command.cwd);
    spec.env = environment(turn);
    spec.io = match command.stdin {
        SessionInput::Terminal => Io::Pty(TerminalSize::default()),
        SessionInput::Closed => Io::Pipe {
            stdin: Stdin::Closed,
        },
    };
    spec.sandbox = match sandbox_for(&turn.settings, escalation) {
        // A rule lets the command leave the sandbox, another one closes the network: both hold.
        Sandbox::DangerFullAccess if command.leaves_by_rule() && turn.rules.closes_network() => {
            Sandbox::ExternalSandbox { network: false }
        }
        sandbox => sandbox,
    };
    // The directories of a thread were resolved when they were named.
    spec.root_links = RootLinks::Refused;
    // Where there is no keeper, the group is all there is.
    spec.containment = match turn.service.report().containment {
        ContainmentKind::Cgroup | ContainmentKind::Reaper => Containment::Tree,
        ContainmentKind::Group => Containment::Group,
    };
    spec
}

fn environment(turn: &ToolTurn) -> EnvSpec {
    let pair = |(name, value): (&str, &str)| (OsString::from(name), OsString::from(value));
    let own = turn.tools.variables.iter();
    let own = own.map(|(name, value)| (name.as_str(), value.as_str()));
    EnvSpec {
        policy: turn.tools.environment.clone(),
        vars: PLAIN_OUTPUT.into_iter().chain(own).map(pair).collect(),
    }
}

/// What a command of a turn with these settings may touch; looks at the file system, so it blocks.
pub(crate) fn sandbox_for(settings: &TurnSettings, escalation: Escalation) -> Sandbox {
    match escalation {
        Escalation::Escalated => Sandbox::DangerFullAccess,
        Escalation::Confined => {
            policy::sandbox(&settings.sandbox_policy, Path::new(&settings.cwd), &[])
        }
    }
}
