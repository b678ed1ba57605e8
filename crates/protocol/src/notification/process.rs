//! What happened to commands and processes that a client runs itself.

use serde::{Deserialize, Serialize};

use crate::exec_server::Blob;

/// More output of a `command/exec`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandExecOutputDelta {
    /// The caller's name for the command.
    pub process_id: String,
    /// Where it was written.
    pub stream: OutputStream,
    /// The bytes.
    #[serde(rename = "deltaBase64")]
    pub delta: Blob,
    /// Whether more was written than may be told; then this is the stream's last.
    pub cap_reached: bool,
}

/// More output of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProcessOutputDelta {
    /// The caller's name for the process.
    pub process_handle: String,
    /// Where it was written.
    pub stream: OutputStream,
    /// The bytes.
    #[serde(rename = "deltaBase64")]
    pub delta: Blob,
    /// Whether more was written than may be told; then this is the stream's last.
    pub cap_reached: bool,
}

/// Where output was written; terminals have only the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OutputStream {
    /// The output, or the terminal.
    Stdout,
    /// The error output.
    Stderr,
}

/// A process has ended; nothing is told of it afterwards and its name is free.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProcessExited {
    /// The caller's name for the process.
    pub process_handle: String,
    /// How it ended: its own code, 124 after its time, 128 and a signal's number.
    pub exit_code: i32,
    /// Whether something kept its output open, so that the last of it may be missing.
    pub output_drain_timed_out: Option<bool>,
    /// Its output; empty when that was streamed.
    pub stdout: String,
    /// Whether more was written than was kept or told.
    pub stdout_cap_reached: bool,
    /// Its error output; empty when that was streamed.
    pub stderr: String,
    /// Whether more was written than was kept or told.
    pub stderr_cap_reached: bool,
}

// Output may hold secrets, so it is counted and not shown.
impl std::fmt::Debug for ProcessExited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessExited")
            .field("process_handle", &self.process_handle)
            .field("exit_code", &self.exit_code)
            .field("stdout_bytes", &self.stdout.len())
            .field("stderr_bytes", &self.stderr.len())
            .finish_non_exhaustive()
    }
}
