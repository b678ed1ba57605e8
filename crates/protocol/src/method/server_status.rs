//! `server/status`: which process serves, since when, and whether a turn could run there; ours.
//!
//! A person's shell and the daemon have different environments. Only the daemon can say whether the
//! key of its provider is set where its turns run.

use serde::{Deserialize, Serialize};

use super::thread_start::EngineStatus;

/// Shows the server.
pub const METHOD: &str = "server/status";

/// Params of [`METHOD`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerStatusParams {
    /// The directory of the turn that is judged; without it, the server's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// The answer to [`METHOD`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerStatusAnswer {
    /// The product's own version.
    pub version: String,
    /// The operating system's number of the process.
    pub pid: u32,
    /// When the server started, in milliseconds since 1970.
    pub started_at_ms: i64,
    /// Why it takes no new work; absent while it does.
    pub trouble: Option<String>,
    /// The engine of a thread whose caller names none.
    pub engine: String,
    /// All engines that the server has.
    pub engines: Vec<String>,
    /// Whether a turn of that engine with the configured settings could run.
    pub engine_status: EngineStatus,
    /// The configured provider.
    pub provider: String,
    /// The configured model.
    pub model: String,
    /// Whether the key of the provider is set in the server's environment or key file.
    pub key: KeyStatus,
    /// The variables that the key is looked for in.
    pub key_variables: Vec<String>,
}

/// Whether the key of a provider is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum KeyStatus {
    /// One of the variables is set.
    Set,
    /// None of them is.
    Missing,
    /// The provider takes no key.
    NotNeeded,
}
