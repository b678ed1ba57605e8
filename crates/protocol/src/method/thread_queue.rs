//! `thread/queue/*`: the turns that wait in a thread's lane.
//!
//! The invariant here: params of both dialects are read by the same types. Codex names a row
//! `queuedSubmissionId` and gives `input`; ours names it `queuedTurnId` and may give everything that
//! `turn/start` takes.

use serde::{Deserialize, Serialize};

use super::TurnStartParams;
use crate::ids::TurnId;
use crate::input::UserInput;
use crate::queue::{QueueState, QueuedTurn};
use crate::turn::Turn;

/// Adds a turn behind all others.
pub const ADD: &str = "thread/queue/add";
/// Shows what waits.
pub const LIST: &str = "thread/queue/list";
/// Replaces what a waiting turn is started with.
pub const UPDATE: &str = "thread/queue/update";
/// Takes a waiting turn out.
pub const DELETE: &str = "thread/queue/delete";
/// Puts all that waits into another order.
pub const REORDER: &str = "thread/queue/reorder";
/// Runs a waiting turn now.
pub const START: &str = "thread/queue/start";
/// Makes a failed turn wait again.
pub const RETRY: &str = "thread/queue/retry";
/// Puts one waiting turn elsewhere.
pub const MOVE: &str = "thread/queue/move";
/// Lets nothing begin until somebody resumes; its answer is a [`QueueState`].
pub const PAUSE: &str = "thread/queue/pause";
/// Ends a pause and a wait; its answer is a [`QueueState`].
pub const RESUME: &str = "thread/queue/resume";

/// Params of [`ADD`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueAddParams {
    /// The thread.
    pub thread_id: String,
    /// Everything the turn is started with; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_start_params: Option<Box<TurnStartParams>>,
    /// What is said to the agent, in place of `turnStartParams`; Codex's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Vec<UserInput>>,
    /// The client's own id for the message; the same again adds nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_user_message_id: Option<String>,
    /// The same key again adds nothing; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Not run before, in milliseconds since 1970; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before_ms: Option<i64>,
    /// Who adds it; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<QueueSource>,
    /// What happens after its turn failed for good; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// What happens after the server died under its turn; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_crash: Option<OnCrash>,
    /// What happens after a graceful stop of the server cut its turn; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_stop: Option<OnStop>,
    /// What happens when it cannot be started; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_cannot_start: Option<OnCannotStart>,
    /// What happens after its turn failed because of a limit; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_limit: Option<OnLimit>,
    /// How often its turn is tried; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<QueueRetry>,
}

/// Who adds a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum QueueSource {
    /// A client of the queue.
    #[default]
    Queue,
    /// The program that stands in for an agent's own.
    Shim,
}

/// What happens after a turn failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OnError {
    /// The next one runs.
    Continue,
    /// It holds the queue.
    Block,
}

/// What happens after the server died under a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OnCrash {
    /// It holds the queue.
    Block,
    /// The next one runs.
    Continue,
    /// It runs again.
    Retry,
}

/// What happens after a graceful stop of the server cut a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OnStop {
    /// The next server goes on with it from its history.
    Continue,
    /// It holds the queue, as after a crash.
    Block,
    /// It runs again from its beginning.
    Retry,
}

/// What happens to a turn that cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OnCannotStart {
    /// It holds the queue.
    Block,
    /// It is recorded as failed, and the next one runs.
    Continue,
}

/// What happens after a turn failed because of a limit of its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OnLimit {
    /// The queue waits.
    Wait,
    /// As after any other failure.
    Fail,
}

/// How often a turn is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueueRetry {
    /// At most so often, from 1 to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The pause before the second try, doubled before each further one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_ms: Option<u64>,
    /// The longest pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_ms: Option<u64>,
}

/// The answer to [`ADD`]: the row is on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueAddAnswer {
    /// The row.
    pub queued_turn: QueuedTurn,
    /// The same under Codex's name.
    pub queued_submission: QueuedTurn,
    /// Whether its key was there before, so that nothing was added.
    pub deduplicated: bool,
    /// The turn it is, was or becomes; only of a row that was there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Where it stands; only of a row that was there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<QueuedTurnState>,
}

/// Where a row stands, the hidden ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum QueuedTurnState {
    /// It waits.
    Pending,
    /// It could not be run and holds the queue at its head.
    Failed,
    /// It is about to run.
    Dispatching,
    /// Its turn runs.
    Running,
    /// Its turn has ended well.
    Completed,
    /// Its turn has failed.
    FailedTurn,
    /// Its turn was interrupted.
    Interrupted,
}

/// Params of [`LIST`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueListParams {
    /// The thread.
    pub thread_id: String,
    /// Where the page begins; a plain number is an offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The answer to [`LIST`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueListAnswer {
    /// The rows, the next one to run first.
    pub data: Vec<QueuedTurn>,
    /// Where to go on.
    pub next_cursor: Option<String>,
    /// What holds the queue.
    #[serde(flatten)]
    pub state: QueueState,
}

/// Params of [`UPDATE`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueUpdateParams {
    /// The thread.
    pub thread_id: String,
    /// The row.
    #[serde(flatten)]
    pub row: NamedRow,
    /// What is said to the agent; everything else stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Vec<UserInput>>,
    /// Everything the turn is started with, in place of what it was; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_start_params: Option<Box<TurnStartParams>>,
}

/// A row by either of its names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NamedRow {
    /// Our name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_turn_id: Option<String>,
    /// Codex's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_submission_id: Option<String>,
}

impl NamedRow {
    /// The row, by whichever name it was given.
    pub fn id(&self) -> Option<&str> {
        let id = self.queued_turn_id.as_ref();
        id.or(self.queued_submission_id.as_ref())
            .map(String::as_str)
    }
}

/// The answer to [`UPDATE`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueUpdateAnswer {
    /// The row under Codex's name.
    pub queued_submission: QueuedTurn,
    /// The same.
    pub queued_turn: QueuedTurn,
}

/// Params of [`DELETE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueDeleteParams {
    /// The thread.
    pub thread_id: String,
    /// The row.
    #[serde(flatten)]
    pub row: NamedRow,
}

/// The answer to [`DELETE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadQueueDeleteAnswer {
    /// Whether the row waited and is gone.
    pub deleted: bool,
}

/// Params of [`REORDER`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueReorderParams {
    /// The thread.
    pub thread_id: String,
    /// Every waiting row once; our name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_turn_ids: Option<Vec<String>>,
    /// The same; Codex's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_submission_ids: Option<Vec<String>>,
}

/// The answer to [`REORDER`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueReorderAnswer {
    /// The rows in their new order.
    pub queued_turns: Vec<QueuedTurn>,
}

/// Params of [`START`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueStartParams {
    /// The thread.
    pub thread_id: String,
    /// The row; the head when none is named.
    #[serde(flatten)]
    pub row: NamedRow,
}

/// The answer to [`START`]: turn and message are on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadQueueStartAnswer {
    /// The turn.
    pub turn: Turn,
}

/// Params of [`RETRY`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueRetryParams {
    /// The thread.
    pub thread_id: String,
    /// The row; the failed head when none is named.
    #[serde(flatten)]
    pub row: NamedRow,
}

/// The answer to [`RETRY`] and [`MOVE`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueuedTurnAnswer {
    /// The row.
    pub queued_turn: QueuedTurn,
}

/// Params of [`MOVE`]: exactly one of its targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueMoveParams {
    /// The thread.
    pub thread_id: String,
    /// The row.
    #[serde(flatten)]
    pub row: NamedRow,
    /// In front of this row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_id: Option<String>,
    /// Behind this row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_id: Option<String>,
    /// With so many rows in front of it; 0 is the head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
}

/// Params of [`PAUSE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueuePauseParams {
    /// The thread.
    pub thread_id: String,
    /// Why, for whoever looks at it; `user` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Params of [`RESUME`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueResumeParams {
    /// The thread.
    pub thread_id: String,
    /// End a pause that has this reason and nothing else: another pause and a wait stay. Without it
    /// every pause and wait ends; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
