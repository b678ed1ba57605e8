//! The environment of a child: built, not inherited.
//!
//! The child gets exactly what [`EnvSpec`] says: a filtered base, what the policy sets, what the
//! caller gave. Secrets of the service never pass, whatever a pattern says.

use std::collections::BTreeMap;
use std::ffi::OsString;

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
