//! `process/*` of `process.v1`: reading, writing, signals and ends; starting is in `start`.

mod start;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Blob;

pub use start::{
    EnvPolicy, Inherit, Limits, SandboxInForce, Size, StartAnswer, StartParams, Survivors,
};

/// `process/start`; answers [`StartAnswer`].
pub const START: &str = "process/start";
/// `process/read`; answers [`ReadAnswer`].
pub const READ: &str = "process/read";
/// `process/write`; answers [`StatusAnswer`].
pub const WRITE: &str = "process/write";
/// `process/signal`; answers [`SignalAnswer`].
pub const SIGNAL: &str = "process/signal";
/// `process/terminate`; answers [`TerminateAnswer`].
pub const TERMINATE: &str = "process/terminate";
/// `process/closeStdin`, ours; answers [`StatusAnswer`].
pub const CLOSE_STDIN: &str = "process/closeStdin";
/// `process/resize`, ours; answers `{}`.
pub const RESIZE: &str = "process/resize";
/// `process/wait`, ours; answers [`WaitAnswer`].
pub const WAIT: &str = "process/wait";
/// `process/snapshot`, ours; answers [`SnapshotAnswer`].
pub const SNAPSHOT: &str = "process/snapshot";
/// `process/list`, ours; answers [`ListAnswer`].
pub const LIST: &str = "process/list";
/// `process/output`, to the client.
pub const OUTPUT: &str = "process/output";
/// `process/exited`, to the client.
pub const EXITED: &str = "process/exited";
/// `process/closed`, to the client.
pub const CLOSED: &str = "process/closed";

/// Where output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StreamName {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A terminal.
    Pty,
}

impl StreamName {
    /// The word on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Pty => "pty",
        }
    }
}

/// Params of `process/read`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadParams {
    /// Which.
    pub process_id: String,
    /// Only what comes after; absent is 0.
    #[serde(default)]
    pub after_seq: Option<u64>,
    /// At least one chunk, then none that would exceed it.
    #[serde(default)]
    pub max_bytes: Option<u64>,
    /// How long to wait for something, at most a minute.
    #[serde(default)]
    pub wait_ms: Option<u64>,
}

/// The answer to `process/read`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadAnswer {
    /// Oldest first.
    pub chunks: Vec<Chunk>,
    /// Where to read on.
    pub next_seq: u64,
    /// Whether the leader ended.
    pub exited: bool,
    /// How.
    pub exit_code: Option<i32>,
    /// Whether every stream ended.
    pub closed: bool,
    /// Always null here.
    pub failure: Option<String>,
    /// Whether it looks as if the sandbox was the reason.
    #[serde(default)]
    pub sandbox_denied: bool,
    /// Ours: something after `afterSeq` is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// Ours: bytes that are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted_bytes: Option<u64>,
    /// Ours: the oldest that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seq: Option<u64>,
}

/// One piece of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chunk {
    /// Its number.
    pub seq: u64,
    /// Its stream.
    pub stream: StreamName,
    /// Its bytes.
    pub chunk: Blob,
}

/// Params of `process/write`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteParams {
    /// Which.
    pub process_id: String,
    /// For its standard input.
    pub chunk: Blob,
    /// The same id is written once.
    pub write_id: String,
}

/// The answer to `process/write` and `process/closeStdin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusAnswer {
    /// What became of it.
    pub status: WriteStatus,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteStatus {
    /// It is queued.
    Accepted,
    /// No such process.
    UnknownProcess,
    /// Standard input is closed.
    StdinClosed,
    /// The process is being started.
    Starting,
}

/// Params of calls that only name a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessParams {
    /// Which.
    pub process_id: String,
}

/// Params of `process/signal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalParams {
    /// Which.
    pub process_id: String,
    /// What.
    pub signal: Signal,
    /// Ours: to whom; the group if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

/// Signals; Codex knows only `interrupt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the words say it")]
pub enum Signal {
    Interrupt,
    Terminate,
    Kill,
    Hangup,
    Quit,
    Usr1,
    Usr2,
    Stop,
    Continue,
}

/// Who gets a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// The leader's group, or the terminal's foreground group.
    Group,
    /// The leader.
    Leader,
    /// Everybody.
    All,
}

/// The answer to `process/signal`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalAnswer {
    /// Ours: whether anybody got it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<bool>,
}

/// Params of `process/terminate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminateParams {
    /// Which.
    pub process_id: String,
    /// Ours: how; by force if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<TerminateMode>,
    /// Ours: what happens to members that outlived the leader; kept if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survivors: Option<Survivors>,
}

/// How to end a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum TerminateMode {
    /// SIGKILL to all at once.
    Force,
    /// SIGINT, SIGTERM, SIGKILL.
    Graceful {
        /// Between SIGINT and SIGTERM; none is sent if 0.
        #[serde(default)]
        interrupt_ms: u64,
        /// Between SIGTERM and SIGKILL.
        #[serde(default = "grace_ms")]
        timeout_ms: u64,
    },
}

const fn grace_ms() -> u64 {
    2000
}

/// The answer to `process/terminate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminateAnswer {
    /// Whether the leader had not exited.
    pub running: bool,
}

/// Params of `process/resize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResizeParams {
    /// Which.
    pub process_id: String,
    /// Lines.
    pub rows: u32,
    /// Characters in a line.
    pub cols: u32,
}

/// Params of `process/wait`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitParams {
    /// Which.
    pub process_id: String,
    /// For what; the exit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// For how long; without end if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Until {
    /// The leader's end.
    Exited,
    /// The end of every stream as well.
    Closed,
}

/// Why a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// By itself.
    Exited,
    /// By a signal.
    Signaled,
    /// Because it was ended.
    Terminated,
    /// It ran too long.
    Timeout,
    /// The keeper died with its status.
    Lost,
}

/// The answer to `process/wait`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitAnswer {
    /// False when the time ran out.
    pub done: bool,
    /// Of the leader.
    pub exit_code: Option<i32>,
    /// That ended the leader.
    pub signal: Option<i32>,
    /// Why.
    pub reason: Option<Reason>,
    /// Whether every stream ended.
    pub closed: bool,
    /// Members that outlived the leader.
    pub survivors: u64,
}

/// The answer to `process/snapshot`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotAnswer {
    /// Head directly followed by tail.
    pub stdout: Blob,
    /// Head directly followed by tail.
    pub stderr: Blob,
    /// Head directly followed by tail.
    pub terminal: Blob,
    /// Whether a middle is missing.
    pub truncated: bool,
    /// Of the leader.
    pub exit_code: Option<i32>,
    /// Whether the leader lives.
    pub running: bool,
    /// Of the terminal.
    pub size: Option<Size>,
    /// What is missing where.
    pub streams: BTreeMap<StreamName, StreamCounts>,
}

/// What was kept of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamCounts {
    /// How many of the bytes are its head.
    pub head_bytes: u64,
    /// Written in all.
    pub total_bytes: u64,
    /// Missing between head and tail.
    pub omitted_bytes: u64,
}

/// The answer to `process/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListAnswer {
    /// Of this session, oldest first.
    pub processes: Vec<ListedProcess>,
}

/// One process of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedProcess {
    /// The client's name for it.
    pub process_id: String,
    /// The leader.
    pub pid: i32,
    /// The program.
    pub argv0: String,
    /// Where, as a `file://` URI.
    pub cwd: String,
    /// Terminal or pipes.
    pub tty: bool,
    /// Since 1970.
    pub started_at_ms: i64,
    /// Where it stands.
    pub state: ProcessState,
    /// Of the leader.
    pub exit_code: Option<i32>,
    /// Members that outlived the leader.
    pub survivors: u64,
    /// Output so far.
    pub total_bytes: u64,
    /// Output not yet sent.
    pub undelivered_bytes: u64,
    /// `cgroup`, `reaper` or `group`.
    pub containment: String,
    /// `none` or `linuxSeccomp`.
    pub sandbox_type: String,
    /// As given at the start.
    pub metadata: Option<Value>,
}

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProcessState {
    /// Being started.
    Starting,
    /// The leader lives.
    Running,
    /// The leader ended; a stream is open.
    Exited,
    /// All is told.
    Closed,
}

/// Params of `process/output`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Which.
    pub process_id: String,
    /// Dense, shared by output, exit and close.
    pub seq: u64,
    /// Where it was written.
    pub stream: StreamName,
    /// What.
    pub chunk: Blob,
}

/// Params of `process/exited`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exited {
    /// Which.
    pub process_id: String,
    /// After all output of the leader.
    pub seq: u64,
    /// As a shell would show it.
    pub exit_code: i32,
    /// Whether it looks as if the sandbox was the reason.
    #[serde(default)]
    pub sandbox_denied: bool,
    /// Ours: that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Ours: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// Params of `process/closed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Closed {
    /// Which.
    pub process_id: String,
    /// The last.
    pub seq: u64,
    /// Ours: somebody outside still held a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_timed_out: Option<bool>,
}
