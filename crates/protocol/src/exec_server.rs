//! The words of the exec-server: processes and files of another machine or another program.
//!
//! Two dialects share one port: [`v0`], and `process.v1`, which is what Codex speaks plus
//! extensions of ours. The `initialize` of a connection decides. Fields marked *ours* are absent on
//! Codex's wire and optional when we read.
//!
//! Who answers and in which order is the business of the crate `exec-server`; here are shapes only.
//! Bytes are base64 on the wire and [`Blob`]s here.

mod blob;
pub mod environment;
pub mod file_uri;
pub mod fs;
pub mod process;
pub mod sandbox;
pub mod v0;

pub use blob::Blob;

use serde::{Deserialize, Serialize};

use crate::params::present;
use environment::EnvironmentInfo;

/// The name of our dialect, in requests and answers of `initialize`.
pub const PROCESS_V1: &str = "process.v1";

/// Not found, of a file.
pub const NOT_FOUND: i64 = -32004;
/// The session is attached to another connection.
pub const ALREADY_ATTACHED: i64 = -32010;
/// Too many processes or waiting calls.
pub const OVERLOADED: i64 = -32001;

/// `initialize`
pub const INITIALIZE: &str = "initialize";
/// `initialized`, a notification of the client.
pub const INITIALIZED: &str = "initialized";
/// `session/end`, ours.
pub const SESSION_END: &str = "session/end";

/// Params of `initialize` in both dialects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// Who calls.
    pub client_name: String,
    /// The session to go on with. The outer `None` is absence: only `process.v1` has the key.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub resume_session_id: Option<Option<String>>,
    /// Ours: which dialect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// Ours: how long processes outlive a lost connection; may only lower the server's own time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detached_ttl_ms: Option<u64>,
}

/// The answer to `initialize` in `process.v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeAnswer {
    /// To resume with.
    pub session_id: String,
    /// Ours: the dialect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// The machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_info: Option<EnvironmentInfo>,
}

/// The answer to `session/end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionEndAnswer {
    /// How many processes were ended.
    pub ended: u64,
}
