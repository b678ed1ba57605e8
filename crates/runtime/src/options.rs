//! What a runtime is made with: plain data, with the defaults of the documentation.
//!
//! The invariant here: every bound of the runtime that a person may want to change has a name here.

use std::sync::Arc;
use std::time::Duration;

use turnlane_engine::BoxFuture;
use turnlane_protocol::ids::ThreadId;
use turnlane_store::queue::Row;

use crate::fanout::worktree::WorktreeOptions;
use crate::lane::event::AfterInterrupt;
use crate::lane::rights::CallerRights;

/// Options of a runtime.
#[derive(Clone)]
pub struct Options {
    /// Which lanes this worker drains.
    pub drain: Drain,
    /// How many queued turns run at once; with 0 they wait for another worker, which gets a lane
    /// that this one runs no direct turn on, whoever listens to it here.
    pub max_running: usize,
    /// How long a lane that nobody needs stays loaded.
    pub unload_after: Duration,
    /// For how long the keys of ended rows are remembered.
    pub dedupe_window: Duration,
    /// Archived threads that nothing happened on for this long are deleted; none are without it.
    pub retention: Option<Duration>,
    /// How often a row may lose its worker between claim and hand-over.
    pub losses_max: u32,
    /// How long a turn may take that says nothing about it; none when there is no limit.
    pub turn_timeout: Option<Duration>,
    /// How long an approval waits for an answer; none: without limit.
    pub approval_timeout: Option<Duration>,
    /// How long it waits while no subscriber can answer; none: without limit.
    pub unattended_timeout: Option<Duration>,
    /// What becomes of the queue when a client cancels the turn with its answer to an approval.
    pub on_interrupt: AfterInterrupt,
    /// The most that a turn of any caller may do here: with [`CallerRights::Confined`] a turn
    /// without a sandbox cannot start, not even one that was queued under another configuration.
    pub turns: CallerRights,
    /// Fan-out jobs.
    pub fanout: FanoutOptions,
    /// What is asked between the claim of a queued turn and its acceptance.
    pub before_turn: Option<Arc<dyn BeforeTurn>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            drain: Drain::All,
            max_running: 32,
            unload_after: Duration::from_mins(30),
            dedupe_window: Duration::from_hours(24),
            retention: None,
            losses_max: 3,
            turn_timeout: None,
            approval_timeout: None,
            unattended_timeout: None,
            on_interrupt: AfterInterrupt::Pause,
            turns: CallerRights::Unconfined,
            fanout: FanoutOptions::default(),
            before_turn: None,
        }
    }
}

/// Options of fan-out jobs.
#[derive(Clone, Debug)]
pub struct FanoutOptions {
    /// How many items of all jobs run in this worker at once.
    pub max_running: usize,
    /// Offers the tool `spawn_agents_on_csv` to every thread of the native engine.
    pub agent_tools: bool,
    /// The most items of a job that an agent called for, at once.
    pub max_threads: Option<u32>,
    /// The longest attempt of an item of such a job that says nothing about it.
    pub job_max_runtime: Option<Duration>,
    /// What worktrees of items are made with; none: jobs that want them are refused.
    pub worktrees: Option<WorktreeOptions>,
}

impl Default for FanoutOptions {
    fn default() -> Self {
        Self {
            max_running: 256,
            agent_tools: false,
            max_threads: None,
            job_max_runtime: None,
            worktrees: None,
        }
    }
}

/// Which lanes a worker drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// All of its store, by itself.
    All,
    /// Those that somebody loaded, or added a row to, through it.
    Loaded,
}

/// Decides about a queued turn that is claimed and not yet accepted.
pub trait BeforeTurn: Send + Sync {
    /// Asked once per claim; may be asked again for the same row after a crash.
    fn before_turn(&self, thread: ThreadId, row: &Row) -> BoxFuture<'static, BeforeTurnVerdict>;
}

/// What was decided about a claimed row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeforeTurnVerdict {
    /// Its turn begins.
    Go,
    /// It cannot start, for this reason.
    Block(String),
}
