//! The privilege gate: what is refused before a byte is written, and what a server may not widen.
//!
//! The invariant here: whatever is not read-only without network is privileged, words we do not know
//! included. The checks run in the order of the contract and the first hit wins.
//!
//! What is asked for where nobody chose is decided in [`crate::profile`].

use serde::Deserialize;
use serde_json::{Map, Value, json};
use turnlane_protocol::policy::{NetworkAccess, SandboxPolicy};

use crate::error::PolicyError;
use crate::params::{approval_value, sandbox_value};
use crate::profile::{Approval, Escalation, Profile, Sandbox, UnattendedWrites};

/// What a thread was granted.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EffectivePolicy {
    /// The working directory.
    pub cwd: String,
    /// The model.
    pub model: String,
    /// Who serves it.
    pub model_provider: String,
    /// When the agent asks, as the server said it; null when it did not.
    pub approval: Value,
    /// Where commands may write, as the server said it; null when it did not.
    pub sandbox: Value,
}

/// Keys of the configuration that decide about permissions, themselves and everything below them.
const GUARDED_KEYS: &[&str] = &[
    "sandbox_mode",
    "sandbox_workspace_write",
    "approval_policy",
    "permissions",
    "default_permissions",
    "bypass_hook_trust",
];

/// Refuses what the gate does not let through.
pub(crate) fn check(
    profile: &Profile,
    cwd: Option<&str>,
    config: Option<&Map<String, Value>>,
) -> Result<(), PolicyError> {
    let sandbox = profile.asked_sandbox();
    if is_privileged(&sandbox) {
        if profile.escalation == Escalation::Refused {
            return Err(PolicyError::EscalationNotAllowed);
        }
        let unattended =
            profile.unattended_writes == UnattendedWrites::Allowed && is_workspace_write(&sandbox);
        if profile.asked_approval() == Approval::Never && !unattended {
            return Err(PolicyError::ApprovalRequired);
        }
        if !has_scope(&sandbox, cwd) {
            return Err(PolicyError::ScopeRequired);
        }
        check_shape(&sandbox)?;
    }
    match config.and_then(guarded_key) {
        Some(key) if profile.escalation == Escalation::Refused => {
            Err(PolicyError::ConfigBypass { key })
        }
        _ => Ok(()),
    }
}

fn is_privileged(sandbox: &Sandbox) -> bool {
    !matches!(
        sandbox,
        Sandbox::Policy(SandboxPolicy::ReadOnly {
            network_access: false
        })
    )
}

fn is_workspace_write(sandbox: &Sandbox) -> bool {
    match sandbox {
        Sandbox::Policy(policy) => matches!(policy, SandboxPolicy::WorkspaceWrite(_)),
        Sandbox::Raw(value) => value.get("type").and_then(Value::as_str) == Some("workspaceWrite"),
        Sandbox::Permissions(_) => false,
    }
}

fn has_scope(sandbox: &Sandbox, cwd: Option<&str>) -> bool {
    let is_named = |text: &str| !text.trim().is_empty();
    let has_root = match sandbox {
        Sandbox::Policy(SandboxPolicy::WorkspaceWrite(limits)) => {
            limits.writable_roots.iter().any(|root| is_named(root))
        }
        Sandbox::Raw(value) => value
            .get("writableRoots")
            .and_then(Value::as_array)
            .is_some_and(|roots| roots.iter().filter_map(Value::as_str).any(is_named)),
        Sandbox::Policy(_) | Sandbox::Permissions(_) => false,
    };
    has_root || cwd.is_some_and(is_named)
}

fn check_shape(sandbox: &Sandbox) -> Result<(), PolicyError> {
    let Sandbox::Raw(value) = sandbox else {
        return Ok(());
    };
    let invalid = |reason| Err(PolicyError::InvalidSandbox { reason });
    let Value::Object(members) = value else {
        return invalid("sandboxPolicy must be an object when provided");
    };
    match members.get("type").and_then(Value::as_str) {
        Some(word) if !word.trim().is_empty() => Ok(()),
        _ => invalid("sandboxPolicy.type must be a non-empty string"),
    }
}

fn guarded_key(config: &Map<String, Value>) -> Option<String> {
    let is_guarded = |key: &&String| {
        // The path is read as generously as a server might read it.
        let first = key.split('.').next().unwrap_or_default();
        let first = first.trim().trim_matches(['"', '\'']);
        GUARDED_KEYS.contains(&first)
    };
    config.keys().find(is_guarded).cloned()
}

/// Refuses what a server granted beyond what was asked.
///
/// A server that does not say what it granted is not refused: turns carry both policies again.
pub(crate) fn check_granted(
    asked: (&Approval, &Sandbox),
    granted: &EffectivePolicy,
) -> Result<(), PolicyError> {
    let (&approval, sandbox) = asked;
    let is_more = approval_rank(&granted.approval) > approval_rank(&approval_value(approval))
        || sandbox_is_more(&granted.sandbox, sandbox);
    if !is_more {
        return Ok(());
    }
    let asked =
        json!({"approvalPolicy": approval_value(approval), "sandbox": sandbox_value(sandbox)});
    let granted = json!({"approvalPolicy": granted.approval, "sandbox": granted.sandbox});
    Err(PolicyError::Widened {
        asked: asked.to_string(),
        granted: granted.to_string(),
    })
}

/// Fewer questions are more: `untrusted` < `on-request` and `granular` < `never` < unknown.
fn approval_rank(approval: &Value) -> u8 {
    match Option::<Approval>::deserialize(approval) {
        Ok(None) => 0,
        Ok(Some(Approval::Untrusted)) => 1,
        Ok(Some(Approval::OnRequest | Approval::Granular(_))) => 2,
        Ok(Some(Approval::Never)) => 3,
        Err(_) => 4,
    }
}

/// What a policy lets happen, from little to much; beyond the last one is the unknown.
fn sandbox_rank(policy: &SandboxPolicy) -> u8 {
    match policy {
        SandboxPolicy::ReadOnly {
            network_access: false,
        } => 0,
        SandboxPolicy::ReadOnly {
            network_access: true,
        } => 1,
        SandboxPolicy::WorkspaceWrite(limits) => 2 + u8::from(limits.network_access),
        SandboxPolicy::ExternalSandbox {
            network_access: NetworkAccess::Restricted,
        } => 4,
        SandboxPolicy::ExternalSandbox {
            network_access: NetworkAccess::Enabled,
        } => 5,
        SandboxPolicy::DangerFullAccess => 6,
    }
}

fn sandbox_is_more(granted: &Value, asked: &Sandbox) -> bool {
    if granted.is_null() {
        return false;
    }
    let asked = match asked {
        Sandbox::Policy(policy) => policy.clone(),
        // What such a set contains only the server knows, so nothing can be compared.
        Sandbox::Permissions(_) => return false,
        Sandbox::Raw(value) => match SandboxPolicy::deserialize(value) {
            Ok(policy) => policy,
            // We do not know what we asked for: only the very same is not more.
            Err(_) => return granted != value,
        },
    };
    let Ok(granted) = SandboxPolicy::deserialize(granted) else {
        return true;
    };
    if let (SandboxPolicy::WorkspaceWrite(granted), SandboxPolicy::WorkspaceWrite(asked)) =
        (&granted, &asked)
    {
        let has_other_root = |root: &String| !asked.writable_roots.contains(root);
        return granted.writable_roots.iter().any(has_other_root)
            || (granted.network_access && !asked.network_access)
            || (!granted.exclude_slash_tmp && asked.exclude_slash_tmp)
            || (!granted.exclude_tmpdir_env_var && asked.exclude_tmpdir_env_var);
    }
    sandbox_rank(&granted) > sandbox_rank(&asked)
}

#[cfg(test)]
mod tests;
