//! `process/start`: what to run, where, with which environment, limits and policy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::sandbox::SandboxIntent;

/// Params of `process/start`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartParams {
    /// The client's name for it, unique in the session.
    pub process_id: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Where, as a `file://` URI.
    pub cwd: String,
    /// The caller's variables.
    pub env: BTreeMap<String, String>,
    /// Terminal or pipes.
    pub tty: bool,
    /// What the program sees as its name.
    #[serde(default)]
    pub arg0: Option<String>,
    /// What of the server's environment it gets; nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_policy: Option<EnvPolicy>,
    /// Whether a process with pipes has an open standard input.
    #[serde(default)]
    pub pipe_stdin: bool,
    /// What it may touch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxIntent>,
    /// Not supported when true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce_managed_network: Option<bool>,
    /// Ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_network: Option<Value>,
    /// Not supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_proxy: Option<Value>,
    /// Not supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell_snapshot: Option<Value>,
    /// Kept and shown in `process/list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Ours: the terminal's first size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Ours: how long it may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Ours: what it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Ours: what happens to descendants when the leader exits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survivors: Option<Survivors>,
}

/// Rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    /// Lines.
    pub rows: u32,
    /// Characters in a line.
    pub cols: u32,
}

/// What a process gets of the server's environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvPolicy {
    /// From where it starts.
    pub inherit: Inherit,
    /// Keep names that look like secrets.
    pub ignore_default_excludes: bool,
    /// Patterns to drop.
    pub exclude: Vec<String>,
    /// To add.
    pub set: BTreeMap<String, String>,
    /// Patterns to keep.
    pub include_only: Vec<String>,
}

/// Where an environment starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Inherit {
    /// The allow-listed variables of the server.
    #[default]
    All,
    /// The few a shell needs.
    Core,
    /// Nothing.
    None,
}

/// What a process may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Processor time.
    pub cpu_time_ms: Option<u64>,
    /// Bytes of address space.
    pub address_space: Option<u64>,
    /// Bytes of a file.
    pub file_size: Option<u64>,
    /// Descriptors.
    pub open_files: Option<u64>,
    /// Bytes of a core dump.
    pub core: Option<u64>,
    /// Processes of the user.
    pub processes: Option<u64>,
    /// Bytes of memory of all.
    pub memory_max: Option<u64>,
    /// Processes of all.
    pub pids_max: Option<u64>,
}

/// What happens to descendants when the leader exits by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Survivors {
    /// They live until the session ends.
    Keep,
    /// They are ended.
    End,
}

/// The answer to `process/start`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartAnswer {
    /// As asked for.
    pub process_id: String,
    /// `none`, or `linuxSeccomp` when a policy was applied.
    pub sandbox_type: String,
    /// Ours: the leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Ours: `cgroup`, `reaper` or `group`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containment: Option<String>,
    /// Ours: what is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxInForce>,
}

/// What is in force for a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxInForce {
    /// The policy's name.
    pub policy: String,
    /// `landlock`, `landlock+mount` or `none`.
    pub fs: String,
    /// The version of Landlock.
    pub landlock_abi: Option<u32>,
    /// `seccomp` or `open`.
    pub network: String,
    /// Whether signals and abstract sockets stay inside.
    pub scopes: bool,
}
