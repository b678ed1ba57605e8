//! `process/*`: a process that is answered when it has started and told of until it ends.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::command_exec::TerminalSize;
use super::thread_resume::is_false;
use crate::params::present;

/// Starts a process without our sandbox; its answer is [`Done`](super::Done).
pub const SPAWN: &str = "process/spawn";
/// Writes to its standard input; its answer is [`Done`](super::Done).
pub const WRITE_STDIN: &str = "process/writeStdin";
/// Gives its terminal another size; its answer is [`Done`](super::Done).
pub const RESIZE_PTY: &str = "process/resizePty";
/// Ends it; its answer is [`Done`](super::Done).
pub const KILL: &str = "process/kill";

/// Params of [`SPAWN`].
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProcessSpawnParams {
    /// The caller's name for it, on this connection.
    pub process_handle: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Its directory, absolute.
    pub cwd: String,
    /// Variables to set, or to remove where the value is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, Option<String>>>,
    /// Give it a terminal; includes both kinds of streaming.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tty: bool,
    /// The terminal's size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<TerminalSize>,
    /// Its input is written by [`WRITE_STDIN`].
    #[serde(default, skip_serializing_if = "is_false")]
    pub stream_stdin: bool,
    /// Its output is told while it runs and not repeated at its end.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stream_stdout_stderr: bool,
    /// How many bytes of each stream are kept; the default when absent, all when null.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub output_bytes_cap: Option<Option<u64>>,
    /// How long it may run; the default when absent, for ever when null.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub timeout_ms: Option<Option<i64>>,
}

// Arguments and variables may hold secrets, so they are counted and not shown.
impl std::fmt::Debug for ProcessSpawnParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessSpawnParams")
            .field("process_handle", &self.process_handle)
            .field("program", &self.command.first())
            .field("arguments", &self.command.len().saturating_sub(1))
            .field("variables", &self.env.as_ref().map_or(0, BTreeMap::len))
            .field("tty", &self.tty)
            .finish_non_exhaustive()
    }
}

/// Params of [`WRITE_STDIN`].
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProcessWriteStdinParams {
    /// The process.
    pub process_handle: String,
    /// What to write, in base64. Text here, since bad base64 has its own answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta_base64: Option<String>,
    /// Close its input afterwards.
    #[serde(default, skip_serializing_if = "is_false")]
    pub close_stdin: bool,
}

impl std::fmt::Debug for ProcessWriteStdinParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessWriteStdinParams")
            .field("process_handle", &self.process_handle)
            .field("close_stdin", &self.close_stdin)
            .finish_non_exhaustive()
    }
}

/// Params of [`RESIZE_PTY`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProcessResizePtyParams {
    /// The process.
    pub process_handle: String,
    /// The new size.
    pub size: TerminalSize,
}

/// Params of [`KILL`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProcessKillParams {
    /// The process.
    pub process_handle: String,
}
