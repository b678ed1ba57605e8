//! Where an agent's commands may write and whether they reach the network.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// The mode words, in the order error texts list them.
const MODE_WORDS: &[&str] = &["read-only", "workspace-write", "danger-full-access"];

/// Where commands may write and whether they reach the network.
///
/// Read from a mode word or from the object form, always written as the object form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum SandboxPolicy {
    /// No limits.
    DangerFullAccess,
    /// Reading everywhere, writing nowhere.
    ReadOnly {
        /// Whether commands reach the network.
        #[cfg_attr(feature = "schema", schemars(default))]
        network_access: bool,
    },
    /// Writing in the working directory and a few more places.
    WorkspaceWrite(WorkspaceWrite),
    /// Somebody else limits files; we limit only the network.
    ExternalSandbox {
        /// Whether commands reach the network.
        #[cfg_attr(feature = "schema", schemars(default))]
        network_access: NetworkAccess,
    },
}

/// The limits of [`SandboxPolicy::WorkspaceWrite`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct WorkspaceWrite {
    /// Directories beside the working directory that may be written.
    pub writable_roots: Vec<String>,
    /// Whether commands reach the network.
    pub network_access: bool,
    /// Do not add the directory that `TMPDIR` names.
    pub exclude_tmpdir_env_var: bool,
    /// Do not add `/tmp`.
    pub exclude_slash_tmp: bool,
}

/// The network of [`SandboxPolicy::ExternalSandbox`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum NetworkAccess {
    /// Commands do not reach the network.
    #[default]
    Restricted,
    /// They do.
    Enabled,
}

/// `sandbox` and `sandboxPolicy` are both given and do not mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sandbox and sandboxPolicy disagree")]
pub struct SandboxDisagreement;

impl SandboxPolicy {
    /// The policy that a mode word stands for.
    pub fn from_mode(word: &str) -> Option<Self> {
        match word {
            "read-only" => Some(Self::ReadOnly {
                network_access: false,
            }),
            "workspace-write" => Some(Self::WorkspaceWrite(WorkspaceWrite::default())),
            "danger-full-access" => Some(Self::DangerFullAccess),
            _ => None,
        }
    }

    /// The one policy meant by the two fields that may carry it.
    pub fn agreed<'a>(
        sandbox: Option<&'a Self>,
        sandbox_policy: Option<&'a Self>,
    ) -> Result<Option<&'a Self>, SandboxDisagreement> {
        match (sandbox, sandbox_policy) {
            (Some(one), Some(other)) if one != other => Err(SandboxDisagreement),
            (one, other) => Ok(one.or(other)),
        }
    }

    /// Returns true if Turnlane itself confines the commands. [`SandboxPolicy::ExternalSandbox`] does
    /// not count: another program is said to protect the files, and a client cannot prove it.
    pub fn is_confined(&self) -> bool {
        match self {
            Self::ReadOnly { .. } | Self::WorkspaceWrite(_) => true,
            Self::DangerFullAccess | Self::ExternalSandbox { .. } => false,
        }
    }

    /// Whether commands reach the network.
    pub fn allows_network(&self) -> bool {
        match self {
            Self::DangerFullAccess => true,
            Self::ReadOnly { network_access } => *network_access,
            Self::WorkspaceWrite(limits) => limits.network_access,
            Self::ExternalSandbox { network_access } => *network_access == NetworkAccess::Enabled,
        }
    }
}

/// The object form as it is read: every member but `type` may be left out.
#[derive(Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
enum ObjectForm {
    ReadOnly {
        #[serde(default)]
        network_access: bool,
    },
    WorkspaceWrite(WorkspaceWrite),
    DangerFullAccess,
    ExternalSandbox {
        #[serde(default)]
        network_access: NetworkAccess,
    },
}

impl From<ObjectForm> for SandboxPolicy {
    fn from(form: ObjectForm) -> Self {
        match form {
            ObjectForm::DangerFullAccess => Self::DangerFullAccess,
            ObjectForm::ReadOnly { network_access } => Self::ReadOnly { network_access },
            ObjectForm::WorkspaceWrite(limits) => Self::WorkspaceWrite(limits),
            ObjectForm::ExternalSandbox { network_access } => {
                Self::ExternalSandbox { network_access }
            }
        }
    }
}

impl<'de> Deserialize<'de> for SandboxPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EitherForm;

        impl<'de> Visitor<'de> for EitherForm {
            type Value = SandboxPolicy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sandbox mode or a sandbox policy object")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<SandboxPolicy, E> {
                SandboxPolicy::from_mode(word).ok_or_else(|| E::unknown_variant(word, MODE_WORDS))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SandboxPolicy, A::Error> {
                ObjectForm::deserialize(MapAccessDeserializer::new(map)).map(Into::into)
            }
        }

        deserializer.deserialize_any(EitherForm)
    }
}

/// What callers may send where a sandbox is wanted; only for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
pub enum SandboxChoice {
    /// The object form.
    Policy(SandboxPolicy),
    /// One of the mode words.
    Mode(SandboxMode),
}

/// The mode words; only for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Reading everywhere, writing nowhere.
    ReadOnly,
    /// Writing in the working directory and the places for temporary files.
    WorkspaceWrite,
    /// No limits.
    DangerFullAccess,
}
