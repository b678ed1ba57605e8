//! Permission profiles: names that stand for a sandbox.
//!
//! The invariant here: a name is one of the three built-in profiles or an error. A profile of a
//! `[permissions]` table is never read as something near it: what it limits cannot be expressed by a
//! [`SandboxPolicy`], so it is refused by name.

use serde_json::{Map, Value};

use super::{SandboxPolicy, WorkspaceWrite};

/// How many characters of a caller's own name a text repeats.
const QUOTED_CHARS_MAX: usize = 64;
/// How many profiles a chain of `extends` may have; a longer one is refused as a cycle is.
const CHAIN_MAX: usize = 64;

/// A profile that needs no configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltinProfile {
    /// `:read-only`.
    ReadOnly,
    /// `:workspace`.
    Workspace,
    /// `:danger-full-access`.
    DangerFullAccess,
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The name begins with a colon and is none of ours.
    #[error(
        "failed to load configuration: default_permissions refers to unknown built-in profile `{0}`"
    )]
    UnknownBuiltin(String),
    /// No profile is configured at all.
    #[error("failed to load configuration: default_permissions requires a `[permissions]` table")]
    NoTable,
    /// Other profiles are configured.
    #[error("failed to load configuration: default_permissions refers to undefined profile `{0}`")]
    Undefined(String),
    /// The profile builds on one that is not configured.
    #[error(
        "failed to load configuration: permissions profile `{profile}` extends undefined profile \
         `{parent}`"
    )]
    UndefinedParent {
        /// The profile that names it.
        profile: String,
        /// The missing one.
        parent: String,
    },
    /// The profile builds on itself; the names in their order.
    #[error("failed to load configuration: permissions profile inheritance cycle detected: {0}")]
    Cycle(String),
    /// The profile is configured, and this server cannot enforce it.
    #[error(
        "failed to load configuration: permissions profile `{0}` is not supported: only :read-only, \
         :workspace and :danger-full-access are"
    )]
    Unsupported(String),
}

impl BuiltinProfile {
    /// Every built-in profile.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::Workspace, Self::DangerFullAccess];

    /// The name on the wire and in configuration.
    pub fn id(self) -> &'static str {
        match self {
            Self::ReadOnly => ":read-only",
            Self::Workspace => ":workspace",
            Self::DangerFullAccess => ":danger-full-access",
        }
    }

    /// The built-in profile with this name.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.id() == id)
    }

    /// The sandbox that the profile stands for; without network where there is one.
    pub fn policy(self) -> SandboxPolicy {
        match self {
            Self::ReadOnly => SandboxPolicy::ReadOnly {
                network_access: false,
            },
            Self::Workspace => SandboxPolicy::WorkspaceWrite(WorkspaceWrite::default()),
            Self::DangerFullAccess => SandboxPolicy::DangerFullAccess,
        }
    }

    /// The profile with this name where `tables` is the configured `[permissions]`.
    pub fn resolve(id: &str, tables: Option<&Map<String, Value>>) -> Result<Self, ProfileError> {
        if let Some(profile) = Self::from_id(id) {
            return Ok(profile);
        }
        if id.starts_with(':') {
            return Err(ProfileError::UnknownBuiltin(quoted(id)));
        }
        let tables = tables.ok_or(ProfileError::NoTable)?;
        if !tables.contains_key(id) {
            return Err(if tables.is_empty() {
                ProfileError::NoTable
            } else {
                ProfileError::Undefined(quoted(id))
            });
        }
        check_chain(id, tables)?;
        Err(ProfileError::Unsupported(quoted(id)))
    }
}

/// Follows `extends` to its end.
fn check_chain(id: &str, tables: &Map<String, Value>) -> Result<(), ProfileError> {
    let mut chain = vec![id];
    let parent_of = |profile: &str| tables.get(profile)?.get("extends")?.as_str();
    while let Some(parent) = chain.last().and_then(|profile| parent_of(profile)) {
        let profile = chain.last().copied().unwrap_or(id);
        if BuiltinProfile::from_id(parent).is_some() {
            return Ok(());
        }
        if !tables.contains_key(parent) {
            return Err(ProfileError::UndefinedParent {
                profile: quoted(profile),
                parent: quoted(parent),
            });
        }
        let is_known = chain.contains(&parent);
        chain.push(parent);
        if is_known || chain.len() > CHAIN_MAX {
            let names: Vec<_> = chain.iter().map(|name| quoted(name)).collect();
            return Err(ProfileError::Cycle(names.join(" -> ")));
        }
    }
    Ok(())
}

fn quoted(name: &str) -> String {
    name.chars().take(QUOTED_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(id: &str, tables: &Value) -> String {
        let error = BuiltinProfile::resolve(id, tables.as_object()).unwrap_err();
        let text = error.to_string();
        let text = text.strip_prefix("failed to load configuration: ");
        text.unwrap().to_owned()
    }

    #[test]
    fn the_built_in_profiles_stand_for_their_sandboxes() {
        for (id, mode) in [
            (":read-only", "read-only"),
            (":workspace", "workspace-write"),
            (":danger-full-access", "danger-full-access"),
        ] {
            let profile = BuiltinProfile::resolve(id, None).unwrap();
            assert_eq!(profile.id(), id);
            assert_eq!(Some(profile.policy()), SandboxPolicy::from_mode(mode));
        }
    }

    #[test]
    fn every_other_name_is_refused_in_the_words_of_the_contract() {
        let none = json!(null);
        let tables = json!({
            "a": {"filesystem": {":root": "read"}},
            "lost": {"extends": "gone"},
            "x": {"extends": "y"}, "y": {"extends": "x"},
            "own": {"extends": ":workspace"},
        });
        for (id, tables, expected) in [
            (
                ":x",
                &none,
                "default_permissions refers to unknown built-in profile `:x`",
            ),
            (
                "x",
                &none,
                "default_permissions requires a `[permissions]` table",
            ),
            (
                "x",
                &json!({}),
                "default_permissions requires a `[permissions]` table",
            ),
            (
                "z",
                &tables,
                "default_permissions refers to undefined profile `z`",
            ),
            (
                "lost",
                &tables,
                "permissions profile `lost` extends undefined profile `gone`",
            ),
            (
                "x",
                &tables,
                "permissions profile inheritance cycle detected: x -> y -> x",
            ),
            (
                "a",
                &tables,
                "permissions profile `a` is not supported: only :read-only, :workspace and :danger-full-access are",
            ),
            (
                "own",
                &tables,
                "permissions profile `own` is not supported: only :read-only, :workspace and :danger-full-access are",
            ),
        ] {
            assert_eq!(refused(id, tables), expected, "{id}");
        }
        let long = format!(":{}", "x".repeat(10_000));
        assert!(refused(&long, &none).len() < 200);
    }
}
