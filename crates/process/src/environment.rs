//! The environment of a child: built, not inherited.
//!
//! The child gets exactly what [`EnvSpec`] says: a filtered base, what the policy sets, what the
//! caller gave; later wins. The invariant here: a variable of the service reaches a child only if
//! its name is on the allow-list or in `env_pass`, and the names of our own secrets never do, from
//! wherever. Whether a name or a value can be passed at all is checked by `launch`.

mod pattern;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use self::pattern::{is_pattern, matches, matches_any};

/// The complete environment of a child; by default empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvSpec {
    /// What is taken from the service's own environment, and how it is filtered.
    pub policy: EnvPolicy,
    /// The caller's variables; they win.
    pub vars: BTreeMap<OsString, OsString>,
}

/// What of the base environment a child gets; applied in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvPolicy {
    /// Which base.
    pub inherit: Inherit,
    /// Whether names like `*KEY*`, `*SECRET*` and `*TOKEN*` stay in.
    pub ignore_default_excludes: bool,
    /// Patterns of names to drop; `*` and `?`, in any case.
    pub exclude: Vec<String>,
    /// Variables to add.
    pub set: BTreeMap<OsString, OsString>,
    /// Patterns of the only names to keep, unless empty.
    pub include_only: Vec<String>,
}

/// Where an environment starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inherit {
    /// The allow-listed variables of the service.
    All,
    /// The few a shell needs.
    Core,
    /// Nothing.
    #[default]
    None,
}

/// What of the service's environment is no secret and useful to programs.
const ALLOWED: [&str; 30] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "TERM",
    "COLORTERM",
    "XDG_*",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "JAVA_HOME",
    "GOPATH",
    "GOROOT",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
];

/// The base of [`Inherit::Core`].
const CORE: [&str; 11] = [
    "PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME",
    "USER",
];

/// Never part of the base, unless `env_pass` has the exact name.
const NEVER_PATTERNS: [&str; 6] = [
    "*KEY*",
    "*SECRET*",
    "*TOKEN*",
    "*PASSWORD*",
    "TURNLANE_*",
    "CODEX_EXEC_SERVER_*",
];

/// Never part of any environment, whoever asks for it.
const NEVER: [&str; 4] = [
    "OPENAI_IDENTITY_TOKEN_FILE",
    "OPENAI_FEDERATION_RULE_ID",
    "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
    "NODE_REPL_AUTH_TOKEN",
];

/// Dropped from the base unless the policy says otherwise.
const DEFAULT_EXCLUDES: [&str; 3] = ["*KEY*", "*SECRET*", "*TOKEN*"];

impl EnvSpec {
    /// The variables of a child, each name once, in the order of their names.
    ///
    /// In this order, later wins: the base of [`Inherit`] out of `service_env`; without the default
    /// excludes; without `exclude`; with `set`; only `include_only`; with `vars`. `env_pass` are
    /// further names or patterns for [`Inherit::All`]. A pure function: what the service's
    /// environment is, the caller says.
    pub fn build(
        &self,
        service_env: impl IntoIterator<Item = (OsString, OsString)>,
        env_pass: &[String],
    ) -> Vec<(OsString, OsString)> {
        let policy = &self.policy;
        let mut env: BTreeMap<OsString, OsString> = match policy.inherit {
            Inherit::None => BTreeMap::new(),
            Inherit::Core => service_env
                .into_iter()
                .filter(|(name, _)| CORE.iter().any(|core| name == core))
                .collect(),
            Inherit::All => service_env
                .into_iter()
                .filter(|(name, _)| is_in_base(name, env_pass))
                .collect(),
        };
        if !policy.ignore_default_excludes {
            env.retain(|name, _| !matches_any(&DEFAULT_EXCLUDES, name));
        }
        env.retain(|name, _| !matches_any(&policy.exclude, name));
        env.extend(policy.set.clone());
        if !policy.include_only.is_empty() {
            env.retain(|name, _| matches_any(&policy.include_only, name));
        }
        env.extend(self.vars.clone());
        env.retain(|name, _| !is_never(name));
        env.into_iter().collect()
    }
}

/// Whether a variable of the service belongs to the base environment. An exact name in `env_pass`
/// is the owner's decision and overrides the patterns of secrets; a pattern there does not.
fn is_in_base(name: &OsStr, env_pass: &[String]) -> bool {
    if env_pass.iter().any(|exact| name == exact.as_str()) {
        return true;
    }
    (is_allowed(name)
        || env_pass
            .iter()
            .any(|entry| is_pattern(entry) && matches(entry, name)))
        && !matches_any(&NEVER_PATTERNS, name)
}

/// Names in the list are exact, since to programs `path` is not `PATH`.
fn is_allowed(name: &OsStr) -> bool {
    ALLOWED.iter().any(|entry| {
        if is_pattern(entry) {
            matches(entry, name)
        } else {
            name == *entry
        }
    })
}

fn is_never(name: &OsStr) -> bool {
    NEVER.iter().any(|never| name == *never)
}

#[cfg(test)]
mod tests;
