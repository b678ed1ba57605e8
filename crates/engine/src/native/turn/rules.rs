//! The rules that hold for a turn, and what they take from its settings.
//!
//! The invariant here: rules that cannot be loaded completely stop the turn, and a rule never gives a
//! turn more than its settings do.
//!
//! What rules mean for a command is said by the tool `exec_command`.

use std::path::Path;
use std::sync::Arc;

use turnlane_protocol::policy::{NetworkAccess, SandboxPolicy};

use super::prepare::bad_request;
use crate::native::Shared;
use crate::native::config::{NativeConfig, rule_sources, trusted_project};
use crate::native::rules::{RuleDirectories, RuleSet};
use crate::outcome::EngineError;

/// The rules about commands that hold in a directory.
pub(crate) fn rules(
    shared: &Shared,
    config: &NativeConfig,
    cwd: Option<&str>,
) -> Result<Arc<RuleSet>, Box<EngineError>> {
    let project = cwd.map(|cwd| trusted_project(config, cwd)).transpose();
    let project = project.map_err(|error| Box::new(error.turn_error()))?;
    let project = project.unwrap_or_default();
    let homes = [shared.codex_home.as_deref(), Some(&shared.turnlane_home)];
    let homes: Vec<&Path> = homes.into_iter().flatten().collect();
    let sources = rule_sources(config).map_err(|error| Box::new(error.turn_error()))?;
    let directories = RuleDirectories::new(sources, &homes, &project);
    let loaded = shared.rules.load(&directories);
    loaded.map_err(|error| bad_request(&error.to_string()))
}

/// Takes the network from a policy that has it; false: it had none.
pub(super) fn close_network(policy: &mut SandboxPolicy) -> bool {
    match policy {
        // Files stay as open as they were.
        SandboxPolicy::DangerFullAccess => {
            *policy = SandboxPolicy::ExternalSandbox {
                network_access: NetworkAccess::Restricted,
            };
            true
        }
        SandboxPolicy::ExternalSandbox { network_access } => {
            let was_open = *network_access == NetworkAccess::Enabled;
            *network_access = NetworkAccess::Restricted;
            was_open
        }
        SandboxPolicy::ReadOnly { network_access } => std::mem::take(network_access),
        SandboxPolicy::WorkspaceWrite(limits) => std::mem::take(&mut limits.network_access),
    }
}
