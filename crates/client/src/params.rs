//! What goes over the wire for a thread and for a turn: the one place that knows the fields.
//!
//! The invariant here: thread calls carry the sandbox as a mode word (roots and network in `config`),
//! turns carry it as an object, and both always carry approval and sandbox, so that no server falls
//! back to a default of its own. Profiles come in fully resolved: turn over thread over client.
//!
//! Whether the gate lets them through is asked before, in [`crate::policy`].

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value, json};
use turnlane_protocol::policy::{SandboxPolicy, WorkspaceWrite};

use crate::error::CallError;
use crate::profile::{Approval, Profile, Sandbox};

/// Where roots and network of a workspace stand in the shared configuration.
const WORKSPACE_WRITE: &str = "sandbox_workspace_write";

/// The fields of `thread/start`, `thread/resume` and `thread/fork` that a profile decides.
pub(crate) fn thread_fields(
    profile: &Profile,
    cwd: Option<&str>,
    config: Option<&Map<String, Value>>,
) -> Map<String, Value> {
    let mut fields = Map::new();
    put(&mut fields, "model", profile.model.as_ref());
    put(
        &mut fields,
        "modelProvider",
        profile.model_provider.as_ref(),
    );
    put(&mut fields, "serviceTier", profile.service_tier.as_ref());
    put(&mut fields, "personality", profile.personality.as_ref());
    put(&mut fields, "cwd", cwd);
    let approval = approval_value(profile.asked_approval());
    fields.insert("approvalPolicy".to_owned(), approval);
    let mut config = config.cloned().unwrap_or_default();
    let (name, value) = thread_sandbox(&profile.asked_sandbox(), &mut config);
    fields.insert(name.to_owned(), value);
    if !config.is_empty() {
        fields.insert("config".to_owned(), Value::Object(config));
    }
    fields
}

/// The fields of `turn/start` that a profile decides: all but thread, input and keys.
pub(crate) fn turn_fields(profile: &Profile) -> Map<String, Value> {
    let mut fields = Map::new();
    let approval = approval_value(profile.asked_approval());
    fields.insert("approvalPolicy".to_owned(), approval);
    let (name, value) = match profile.asked_sandbox() {
        Sandbox::Permissions(name) => ("permissions", Value::String(name)),
        sandbox => ("sandboxPolicy", sandbox_value(&sandbox)),
    };
    fields.insert(name.to_owned(), value);
    put(&mut fields, "effort", Some(&profile.asked_effort().0));
    put(&mut fields, "model", profile.model.as_ref());
    put(&mut fields, "serviceTier", profile.service_tier.as_ref());
    put(&mut fields, "summary", profile.summary.as_ref());
    put(&mut fields, "personality", profile.personality.as_ref());
    put(&mut fields, "outputSchema", profile.output_schema.as_ref());
    fields
}

/// Adds a member if there is a value.
pub(crate) fn put<T: Serialize + ?Sized>(
    fields: &mut Map<String, Value>,
    name: &str,
    value: Option<&T>,
) {
    if let Some(Ok(value)) = value.map(serde_json::to_value) {
        fields.insert(name.to_owned(), value);
    }
}

/// An approval policy as it stands on the wire.
pub(crate) fn approval_value(approval: Approval) -> Value {
    // Plain words and five booleans: serialising them cannot fail.
    serde_json::to_value(approval).unwrap_or(Value::Null)
}

/// A sandbox as turns carry it.
pub(crate) fn sandbox_value(sandbox: &Sandbox) -> Value {
    match sandbox {
        // Words, booleans and texts: serialising them cannot fail.
        Sandbox::Policy(policy) => serde_json::to_value(policy).unwrap_or(Value::Null),
        Sandbox::Permissions(name) => json!({ "permissions": name }),
        Sandbox::Raw(value) => value.clone(),
    }
}

/// A sandbox as threads carry it: the member and its value. What the mode word cannot say goes into
/// `config`; what neither can say is sent as the object, which Turnlane reads and Codex refuses.
fn thread_sandbox(sandbox: &Sandbox, config: &mut Map<String, Value>) -> (&'static str, Value) {
    match sandbox {
        Sandbox::Permissions(name) => ("permissions", Value::from(name.as_str())),
        Sandbox::Raw(value) => match serde_json::from_value(value.clone()) {
            Ok(policy) => thread_sandbox(&Sandbox::Policy(policy), config),
            Err(_) => ("sandbox", value.clone()),
        },
        Sandbox::Policy(policy) => {
            let value = match policy {
                // Its network is given turn by turn: no mode word and no key of the configuration
                // says it, and a thread that has less is not unsafe.
                SandboxPolicy::ReadOnly { .. } => Value::from("read-only"),
                SandboxPolicy::DangerFullAccess => Value::from("danger-full-access"),
                SandboxPolicy::WorkspaceWrite(limits) => {
                    put_limits(limits, config);
                    Value::from("workspace-write")
                }
                SandboxPolicy::ExternalSandbox { .. } => sandbox_value(sandbox),
            };
            ("sandbox", value)
        }
    }
}

/// Roots and network are written even when there are none, so that the server's own configuration
/// does not add some.
fn put_limits(limits: &WorkspaceWrite, config: &mut Map<String, Value>) {
    let mut members = match config.remove(WORKSPACE_WRITE) {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    };
    members.insert("writable_roots".to_owned(), json!(limits.writable_roots));
    members.insert("network_access".to_owned(), json!(limits.network_access));
    if limits.exclude_tmpdir_env_var {
        members.insert("exclude_tmpdir_env_var".to_owned(), Value::Bool(true));
    }
    if limits.exclude_slash_tmp {
        members.insert("exclude_slash_tmp".to_owned(), Value::Bool(true));
    }
    config.insert(WORKSPACE_WRITE.to_owned(), Value::Object(members));
}

/// A working directory as it is sent: absolute against ours, without asking the file system.
pub(crate) fn absolute_cwd(cwd: &Path) -> Result<String, CallError> {
    let refused = |reason: &str| CallError::InvalidArgument {
        what: "cwd",
        reason: reason.to_owned(),
    };
    let text = cwd.to_str().ok_or_else(|| refused("cwd must be UTF-8"))?;
    if text.trim().is_empty() {
        return Err(refused("cwd must not be empty"));
    }
    if text.contains('\0') {
        return Err(refused("cwd must not contain NUL"));
    }
    let absolute = std::path::absolute(cwd)
        .map_err(|_| refused("cwd is relative and there is no current directory"))?;
    let text = absolute.into_os_string().into_string();
    text.map_err(|_| refused("the current directory must be UTF-8"))
}

#[cfg(test)]
mod tests;
