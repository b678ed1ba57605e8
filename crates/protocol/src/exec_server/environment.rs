//! What the machine at the other end is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `environment/info`; answers [`EnvironmentInfo`].
pub const INFO: &str = "environment/info";
/// `environment/status`; answers [`StatusAnswer`].
pub const STATUS: &str = "environment/status";
/// `capabilityRoots/discoverV1`
pub const DISCOVER_V1: &str = "capabilityRoots/discoverV1";

/// The machine. Members of other servers that we do not know are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentInfo {
    /// The user's shell.
    pub shell: Shell,
    /// Where the server runs, as a `file://` URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The home directory, as a `file://` URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_home_dir: Option<String>,
    /// `linux`, `macos`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_os: Option<String>,
    /// `$TMPDIR` if it is set.
    #[serde(default)]
    pub temporary_directories: Vec<String>,
    /// The directory for temporary files, as a `file://` URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temp_dir: Option<String>,
    /// What the server can do beyond the basics; absent means no.
    #[serde(default)]
    pub capabilities: BTreeMap<String, Value>,
    /// What only we tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turnlane: Option<TurnlaneInfo>,
    /// Whatever else a server told.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

/// A shell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shell {
    /// `bash`
    pub name: String,
    /// `/bin/bash`
    pub path: String,
}

/// What only our server tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnlaneInfo {
    /// Of the server.
    pub version: String,
    /// `cgroup`, `reaper` or `group`.
    pub containment: String,
    /// The version of Landlock; null if there is none.
    pub landlock_abi: Option<u32>,
    /// Whether a read-only path inside a writable one can be enforced.
    pub mount_sandbox: bool,
    /// Whether the network can be taken away.
    pub network_sandbox: bool,
    /// The extensions the server has; see [`EXTENSIONS`].
    pub extensions: Vec<String>,
}

/// Our extensions of Codex's methods.
pub const EXTENSIONS: [&str; 8] = [
    "closeStdin",
    "resize",
    "wait",
    "snapshot",
    "list",
    "end",
    "signals",
    "sessionEnd",
];

/// The answer to `environment/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusAnswer {
    /// `ready`
    pub status: String,
}

/// Params and answer of `capabilityRoots/discoverV1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Roots {
    /// Where to look, and what was found; we find nothing.
    pub roots: Vec<Value>,
}
