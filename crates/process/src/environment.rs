//! The environment of a child: built, not inherited.
//!
//! The child gets exactly what [`EnvSpec`] says: a filtered base, what the policy sets, what the
//! caller gave; later wins. The invariant here: no variable of the service that holds a secret of ours
//! reaches a child, whichever base is chosen, unless the owner of the service named it exactly. Values
//! count as well as names: another variable with the value of a provider's key is that key. Passwords
//! in the addresses of proxies are cut out (`proxy`). Whether a name or a value can be passed at all
//! is checked by `launch`.

mod pattern;
mod proxy;

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

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
    /// Lets names like `*KEY*`, `*SECRET*`, `*TOKEN*` and `*PASSWORD*` pass. Has an effect only in
    /// the operator's own policy.
    pub ignore_default_excludes: bool,
    /// Patterns of names to drop; `*` and `?`, in any case.
    pub exclude: Vec<String>,
    /// Variables to add.
    pub set: BTreeMap<OsString, OsString>,
    /// Patterns of the only names to keep, unless empty.
    pub include_only: Vec<String>,
    /// The policy is the operator's own, from a config file or a flag, and not part of a request.
    pub by_operator: bool,
}

/// Where an environment starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inherit {
    /// Every variable of the service that is no secret.
    All,
    /// Those of them that are on the allow-list, and the names in `env_pass`.
    Listed,
    /// The few a shell needs.
    Core,
    /// Nothing.
    #[default]
    None,
}

/// The service's own environment and what its owner decided about it.
#[derive(Debug, Default)]
pub(crate) struct ServiceEnv {
    pub(crate) vars: Vec<(OsString, OsString)>,
    /// Names or patterns of further variables to pass; an exact name overrides the patterns of secrets.
    pub(crate) pass: Vec<String>,
    /// Names of the variables that providers' keys come from.
    pub(crate) keys: Vec<String>,
}

/// Treatment of variables that name sockets of the user's own services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketNames {
    Pass,
    /// A policy is enforced on the child.
    Drop,
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

/// Names of secrets. They are part of no base, unless `env_pass` has the exact name or the operator's
/// own policy says so.
const SECRET_PATTERNS: [&str; 4] = ["*KEY*", "*SECRET*", "*TOKEN*", "*PASSWORD*"];

/// Settings of our own programs. They are part of no base, unless `env_pass` has the exact name.
const OWN_PATTERNS: [&str; 2] = ["TURNLANE_*", "CODEX_EXEC_SERVER_*"];

/// Never part of any environment, whoever asks for it.
const NEVER: [&str; 4] = [
    "OPENAI_IDENTITY_TOKEN_FILE",
    "OPENAI_FEDERATION_RULE_ID",
    "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
    "NODE_REPL_AUTH_TOKEN",
];

/// Names of sockets of the user's own services. A sandbox closes the sockets, so the names would only
/// make programs try and fail.
const SOCKETS: [&str; 4] = [
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "XAUTHORITY",
    "GPG_AGENT_INFO",
];

impl EnvSpec {
    /// Builds the variables of a child, each name once, in the order of their names.
    ///
    /// In this order, later wins: the base of [`Inherit`] out of `service`; without `exclude`; with
    /// `set`; only `include_only`; with `vars`. A pure function: the caller says what the service's
    /// environment is.
    pub(crate) fn build(
        &self,
        service: &ServiceEnv,
        sockets: SocketNames,
    ) -> Vec<(OsString, OsString)> {
        let policy = &self.policy;
        let mut env = self.base(service, sockets);
        env.retain(|name, _| !matches_any(&policy.exclude, name));
        env.extend(policy.set.clone());
        if !policy.include_only.is_empty() {
            env.retain(|name, _| matches_any(&policy.include_only, name));
        }
        env.extend(self.vars.clone());
        env.retain(|name, _| !is_never(name));
        env.into_iter().collect()
    }

    fn base(&self, service: &ServiceEnv, sockets: SocketNames) -> BTreeMap<OsString, OsString> {
        let keys = service.key_values();
        let mut base = BTreeMap::new();
        for (name, value) in &service.vars {
            // An exact name in `env_pass` is the owner's decision; a pattern there is not.
            let named = service.pass.iter().any(|exact| name == exact.as_str());
            let chosen = match self.policy.inherit {
                Inherit::All => true,
                Inherit::Listed => named || is_listed(name, &service.pass),
                Inherit::Core => CORE.iter().any(|core| name == core),
                Inherit::None => false,
            };
            if !chosen {
                continue;
            }
            if named {
                base.insert(name.clone(), value.clone());
                continue;
            }
            let is_key = keys.contains(value.as_os_str()) || service.is_key(name);
            let is_closed = sockets == SocketNames::Drop && is_socket(name, value);
            if !is_key && !is_closed && !self.policy.is_secret(name) {
                base.insert(name.clone(), proxy::without_password(name, value));
            }
        }
        base
    }
}

impl EnvPolicy {
    fn is_secret(&self, name: &OsStr) -> bool {
        let lifted = self.by_operator && self.ignore_default_excludes;
        (!lifted && matches_any(&SECRET_PATTERNS, name)) || matches_any(&OWN_PATTERNS, name)
    }
}

impl ServiceEnv {
    fn is_key(&self, name: &OsStr) -> bool {
        self.keys.iter().any(|key| name == key.as_str())
    }

    /// Values of the variables that providers' keys come from. An empty one is no key.
    fn key_values(&self) -> HashSet<&OsStr> {
        let keys = self.vars.iter().filter(|(name, _)| self.is_key(name));
        let values = keys.map(|(_, value)| value.as_os_str());
        values.filter(|value| !value.is_empty()).collect()
    }
}

/// Returns whether a name is on the allow-list or matches a pattern of `env_pass`. Names in the
/// allow-list are exact, since to programs `path` is not `PATH`.
fn is_listed(name: &OsStr, pass: &[String]) -> bool {
    let fits = |entry: &str| is_pattern(entry) && matches(entry, name);
    ALLOWED.iter().any(|entry| name == *entry || fits(entry))
        || pass.iter().any(|entry| fits(entry))
}

fn is_socket(name: &OsStr, value: &OsStr) -> bool {
    SOCKETS.iter().any(|socket| name == *socket)
        || (name == "DOCKER_HOST" && value.as_bytes().starts_with(b"unix:"))
}

fn is_never(name: &OsStr) -> bool {
    NEVER.iter().any(|never| name == *never)
}

#[cfg(test)]
mod tests;
