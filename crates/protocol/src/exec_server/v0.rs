//! The dialect `exec-server.v0`: start, write, terminate; output and exit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Blob;

/// The dialect's name.
pub const VERSION: &str = "exec-server.v0";
/// `command/exec`; answers [`ExecAnswer`].
pub const EXEC: &str = "command/exec";
/// `command/exec/write`; answers [`WriteAnswer`].
pub const WRITE: &str = "command/exec/write";
/// `command/exec/terminate`; answers [`super::process::TerminateAnswer`].
pub const TERMINATE: &str = "command/exec/terminate";
/// `command/exec/outputDelta`, to the client.
pub const OUTPUT_DELTA: &str = "command/exec/outputDelta";
/// `command/exec/exited`, to the client.
pub const EXITED: &str = "command/exec/exited";

/// The answer to `initialize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeAnswer {
    /// [`VERSION`]
    pub protocol_version: String,
}

/// Params of `command/exec`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecParams {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Where; relative to the server's own directory.
    pub cwd: String,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// A terminal of 24 rows and 80 columns, or pipes with a closed standard input.
    pub tty: bool,
    /// What the program sees as its name.
    #[serde(default)]
    pub arg0: Option<String>,
}

/// The answer to `command/exec`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecAnswer {
    /// `session-1`, `session-2`, …
    pub session_id: String,
}

/// Params of `command/exec/write`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteParams {
    /// Which process.
    pub session_id: String,
    /// For its terminal.
    pub chunk: Blob,
}

/// The answer to `command/exec/write`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteAnswer {
    /// Always true.
    pub accepted: bool,
}

/// Params of `command/exec/terminate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminateParams {
    /// Which process.
    pub session_id: String,
}

/// Params of `command/exec/outputDelta`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputDelta {
    /// Which process.
    pub session_id: String,
    /// `stdout` or `stderr`; a terminal's output is `stdout`.
    pub stream: super::process::StreamName,
    /// What it wrote.
    pub chunk: Blob,
}

/// Params of `command/exec/exited`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exited {
    /// Which process.
    pub session_id: String,
    /// As a shell would show it.
    pub exit_code: i32,
}
