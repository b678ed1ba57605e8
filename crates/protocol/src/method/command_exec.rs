//! `command/exec` and what goes with it: a command that is answered when it has ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::thread_resume::is_false;
use crate::policy::{SandboxDisagreement, SandboxPolicy};

/// Runs a command under a sandbox.
pub const EXEC: &str = "command/exec";
/// Writes to its standard input; its answer is [`Done`](super::Done).
pub const WRITE: &str = "command/exec/write";
/// Gives its terminal another size; its answer is [`Done`](super::Done).
pub const RESIZE: &str = "command/exec/resize";
/// Ends it; its answer is [`Done`](super::Done).
pub const TERMINATE: &str = "command/exec/terminate";

/// Params of [`EXEC`].
#[expect(clippy::struct_excessive_bools, reason = "the wire's own members")]
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandExecParams {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The caller's name for it, on this connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
    /// Its directory; the server's own when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables to set, or to remove where the value is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, Option<String>>>,
    /// How long it may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    /// It may run as long as it wants.
    #[serde(default, skip_serializing_if = "is_false")]
    pub disable_timeout: bool,
    /// How many bytes of each stream are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes_cap: Option<u64>,
    /// All bytes are kept.
    #[serde(default, skip_serializing_if = "is_false")]
    pub disable_output_cap: bool,
    /// Where it may write; the configured policy when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::policy::SandboxChoice>")
    )]
    pub sandbox_policy: Option<SandboxPolicy>,
    /// The same under its other name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::policy::SandboxChoice>")
    )]
    pub sandbox: Option<SandboxPolicy>,
    /// A named set of permissions in place of a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_profile: Option<String>,
    /// Give it a terminal; includes both kinds of streaming.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tty: bool,
    /// The terminal's size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<TerminalSize>,
    /// Its input is written by [`WRITE`].
    #[serde(default, skip_serializing_if = "is_false")]
    pub stream_stdin: bool,
    /// Its output is told while it runs and not repeated in the answer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stream_stdout_stderr: bool,
}

impl CommandExecParams {
    /// The one sandbox meant by the two members that may carry it.
    pub fn chosen_sandbox(&self) -> Result<Option<&SandboxPolicy>, SandboxDisagreement> {
        SandboxPolicy::agreed(self.sandbox.as_ref(), self.sandbox_policy.as_ref())
    }
}

// Arguments and variables may hold secrets, so they are counted and not shown.
impl std::fmt::Debug for CommandExecParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandExecParams")
            .field("program", &self.command.first())
            .field("arguments", &self.command.len().saturating_sub(1))
            .field("process_id", &self.process_id)
            .field("variables", &self.env.as_ref().map_or(0, BTreeMap::len))
            .field("tty", &self.tty)
            .finish_non_exhaustive()
    }
}

/// The size of a terminal in characters; both at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TerminalSize {
    /// Its height.
    pub rows: u16,
    /// Its width.
    pub cols: u16,
}

/// The answer to [`EXEC`], after the last notification about its output.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandExecAnswer {
    /// How it ended: its own code, 124 after its time, 128 and a signal's number.
    pub exit_code: i32,
    /// Its output; empty when that was streamed.
    pub stdout: String,
    /// Its error output; empty when that was streamed.
    pub stderr: String,
}

impl std::fmt::Debug for CommandExecAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandExecAnswer")
            .field("exit_code", &self.exit_code)
            .field("stdout_bytes", &self.stdout.len())
            .field("stderr_bytes", &self.stderr.len())
            .finish()
    }
}

/// Params of [`WRITE`].
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandExecWriteParams {
    /// The command.
    pub process_id: String,
    /// What to write, in base64. Text here, since bad base64 has its own answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta_base64: Option<String>,
    /// Close its input afterwards.
    #[serde(default, skip_serializing_if = "is_false")]
    pub close_stdin: bool,
}

impl std::fmt::Debug for CommandExecWriteParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandExecWriteParams")
            .field("process_id", &self.process_id)
            .field("close_stdin", &self.close_stdin)
            .finish_non_exhaustive()
    }
}

/// Params of [`RESIZE`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandExecResizeParams {
    /// The command.
    pub process_id: String,
    /// The new size.
    pub size: TerminalSize,
}

/// Params of [`TERMINATE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommandExecTerminateParams {
    /// The command.
    pub process_id: String,
}
