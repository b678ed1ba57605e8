//! Notifications: what a server tells its clients without being asked.
//!
//! The invariant here: [`ServerNotification`] is the one table of methods and the shape of their
//! params; a method that is not in it is kept whole as [`ServerNotification::Unlisted`]. The texts
//! of deltas stand last in their params, so that [`encode_delta`] can write them for merging and
//! everything else can still read them as one object.
//!
//! Who gets what, in which order and with which numbers is decided by the server.

mod delta;
mod fanout;
mod item;
mod process;
mod server;
mod thread;
mod turn;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::envelope::{Stamp, encode_notification};
use crate::params;

pub use delta::{
    DeltaKind, ItemDelta, ItemPlace, ReasoningSummaryDelta, ReasoningTextDelta, encode_delta,
};
pub use fanout::{FanoutEnded, FanoutItemUpdated, FanoutUpdated};
pub use item::{
    ItemCompleted, ItemStarted, McpToolCallProgress, ReasoningSummaryPartAdded, TerminalInteraction,
};
pub use process::{CommandExecOutputDelta, OutputStream, ProcessExited, ProcessOutputDelta};
pub use server::{
    ApprovalChange, ApprovalChanged, ConnectionLagged, Decider, HookRunChanged, RateLimitsUpdated,
    ServerRequestResolved, Warning,
};
pub use thread::{
    ThreadGoalUpdated, ThreadMoved, ThreadNameUpdated, ThreadQueueChanged, ThreadReadStateChanged,
    ThreadSettingsUpdated, ThreadStarted, ThreadStatusChanged, ThreadTokenUsageUpdated,
};
pub use turn::{
    PlanStep, PlanStepStatus, TurnCompleted, TurnDiffUpdated, TurnFailing, TurnPlanUpdated,
    TurnStarted,
};

macro_rules! notifications {
    ($($(#[$doc:meta])* $variant:ident($params:ty) = $constant:ident $method:literal,)*) => {
        /// The names of the methods, one constant each.
        pub mod method {
            $(#[doc = concat!("`", $method, "`")] pub const $constant: &str = $method;)*

            /// All of them, in the order of the documentation.
            pub const ALL: &[&str] = &[$($constant,)*];
        }

        /// A notification of a server; serialises as `{"method":…,"params":…}`.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(tag = "method", content = "params")]
        #[non_exhaustive]
        pub enum ServerNotification {
            $($(#[$doc])* #[serde(rename = $method)] $variant($params),)*
            /// A method we have no type for, kept as it came.
            #[serde(untagged)]
            #[cfg_attr(feature = "schema", schemars(skip))]
            Unlisted(UnlistedNotification),
        }

        impl ServerNotification {
            /// The method.
            pub fn method(&self) -> &str {
                match self {
                    $(Self::$variant(_) => method::$constant,)*
                    Self::Unlisted(notification) => &notification.method,
                }
            }

            /// Reads the params of `method`; an error means a listed method with params that do
            /// not fit it.
            pub fn read(name: &str, raw: Option<&RawValue>) -> Result<Self, serde_json::Error> {
                match name {
                    $(method::$constant => params::read(raw).map(Self::$variant),)*
                    _ => UnlistedNotification::read(name, raw).map(Self::Unlisted),
                }
            }

            /// The frame; `stamp` is what servers add.
            pub fn encode(&self, stamp: Option<Stamp>) -> Result<Vec<u8>, serde_json::Error> {
                match self {
                    $(Self::$variant(params) => {
                        encode_notification(method::$constant, params, stamp)
                    })*
                    Self::Unlisted(UnlistedNotification { method, params }) => {
                        encode_notification(method, params, stamp)
                    }
                }
            }
        }
    };
}

notifications! {
    /// There is a new thread.
    ThreadStarted(ThreadStarted) = THREAD_STARTED "thread/started",
    /// A thread does something else than before.
    ThreadStatusChanged(ThreadStatusChanged) = THREAD_STATUS_CHANGED "thread/status/changed",
    /// A thread has another name.
    ThreadNameUpdated(ThreadNameUpdated) = THREAD_NAME_UPDATED "thread/name/updated",
    /// The next turn of a thread will be run with other settings.
    ThreadSettingsUpdated(ThreadSettingsUpdated) = THREAD_SETTINGS_UPDATED "thread/settings/updated",
    /// Another turn waits in a thread's queue, or something else holds it.
    ThreadQueueChanged(ThreadQueueChanged) = THREAD_QUEUE_CHANGED "thread/queue/changed",
    /// A thread has used more tokens.
    ThreadTokenUsageUpdated(ThreadTokenUsageUpdated)
        = THREAD_TOKEN_USAGE_UPDATED "thread/tokenUsage/updated",
    /// A thread was put away.
    ThreadArchived(ThreadMoved) = THREAD_ARCHIVED "thread/archived",
    /// A thread was taken back.
    ThreadUnarchived(ThreadMoved) = THREAD_UNARCHIVED "thread/unarchived",
    /// A thread and its history are gone.
    ThreadDeleted(ThreadMoved) = THREAD_DELETED "thread/deleted",
    /// A thread was unloaded.
    ThreadClosed(ThreadMoved) = THREAD_CLOSED "thread/closed",
    /// The last turns of a thread left its history.
    ThreadReverted(ThreadMoved) = THREAD_REVERTED "thread/reverted",
    /// A thread is read to another place.
    ThreadReadStateChanged(ThreadReadStateChanged)
        = THREAD_READ_STATE_CHANGED "thread/readState/changed",
    /// A thread has another goal.
    ThreadGoalUpdated(ThreadGoalUpdated) = THREAD_GOAL_UPDATED "thread/goal/updated",
    /// A thread has no goal any more.
    ThreadGoalCleared(ThreadMoved) = THREAD_GOAL_CLEARED "thread/goal/cleared",
    /// A turn runs.
    TurnStarted(TurnStarted) = TURN_STARTED "turn/started",
    /// A turn has ended; nothing is sent for it afterwards.
    TurnCompleted(TurnCompleted) = TURN_COMPLETED "turn/completed",
    /// The agent's plan is another one.
    TurnPlanUpdated(TurnPlanUpdated) = TURN_PLAN_UPDATED "turn/plan/updated",
    /// The files differ otherwise from the beginning of the turn than before.
    TurnDiffUpdated(TurnDiffUpdated) = TURN_DIFF_UPDATED "turn/diff/updated",
    /// A model call failed; the turn fails or tries again.
    Error(TurnFailing) = ERROR "error",
    /// An item has begun.
    ItemStarted(ItemStarted) = ITEM_STARTED "item/started",
    /// An item has ended.
    ItemCompleted(ItemCompleted) = ITEM_COMPLETED "item/completed",
    /// More text of a message.
    AgentMessageDelta(ItemDelta) = AGENT_MESSAGE_DELTA "item/agentMessage/delta",
    /// More text of a plan.
    PlanDelta(ItemDelta) = PLAN_DELTA "item/plan/delta",
    /// A further part of a summary begins.
    ReasoningSummaryPartAdded(ReasoningSummaryPartAdded)
        = REASONING_SUMMARY_PART_ADDED "item/reasoning/summaryPartAdded",
    /// More text of a summary.
    ReasoningSummaryDelta(ReasoningSummaryDelta)
        = REASONING_SUMMARY_TEXT_DELTA "item/reasoning/summaryTextDelta",
    /// More text of the thoughts themselves.
    ReasoningTextDelta(ReasoningTextDelta) = REASONING_TEXT_DELTA "item/reasoning/textDelta",
    /// More output of a command.
    CommandOutputDelta(ItemDelta) = COMMAND_OUTPUT_DELTA "item/commandExecution/outputDelta",
    /// The agent wrote to a command that runs.
    TerminalInteraction(TerminalInteraction)
        = TERMINAL_INTERACTION "item/commandExecution/terminalInteraction",
    /// A tool of an MCP server says how far it is.
    McpToolCallProgress(McpToolCallProgress) = MCP_TOOL_CALL_PROGRESS "item/mcpToolCall/progress",
    /// A hook runs.
    HookStarted(HookRunChanged) = HOOK_STARTED "hook/started",
    /// A hook has ended.
    HookCompleted(HookRunChanged) = HOOK_COMPLETED "hook/completed",
    /// A request of the server needs no answer any more.
    ServerRequestResolved(ServerRequestResolved)
        = SERVER_REQUEST_RESOLVED "serverRequest/resolved",
    /// Something a person should know.
    Warning(Warning) = WARNING "warning",
    /// The model provider said how much may still be used.
    RateLimitsUpdated(RateLimitsUpdated) = RATE_LIMITS_UPDATED "account/rateLimits/updated",
    /// More output of a command that the client runs.
    CommandExecOutputDelta(CommandExecOutputDelta)
        = COMMAND_EXEC_OUTPUT_DELTA "command/exec/outputDelta",
    /// More output of a process that the client runs.
    ProcessOutputDelta(ProcessOutputDelta) = PROCESS_OUTPUT_DELTA "process/outputDelta",
    /// A process that the client runs has ended.
    ProcessExited(ProcessExited) = PROCESS_EXITED "process/exited",
    /// An approval was asked for or decided; only for clients that know Turnlane.
    ApprovalChanged(ApprovalChanged) = APPROVAL_CHANGED "approval/changed",
    /// Deltas were left out because the client read too slowly; only for clients that know
    /// Turnlane.
    ConnectionLagged(ConnectionLagged) = CONNECTION_LAGGED "connection/lagged",
    /// A fan-out job has changed; only for subscribed clients that know Turnlane.
    FanoutUpdated(FanoutUpdated) = FANOUT_UPDATED "fanout/updated",
    /// An item of a fan-out job has changed; only for clients that subscribed to items.
    FanoutItemUpdated(FanoutItemUpdated) = FANOUT_ITEM_UPDATED "fanout/item/updated",
    /// A fan-out job has ended or is paused; only for subscribed clients that know Turnlane.
    FanoutEnded(FanoutEnded) = FANOUT_ENDED "fanout/ended",
}

/// A notification we have no type for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnlistedNotification {
    /// The method.
    pub method: String,
    /// Its params; an empty object when there were none.
    pub params: Value,
}

impl UnlistedNotification {
    /// Keeps the params of any method.
    pub fn read(method: &str, raw: Option<&RawValue>) -> Result<Self, serde_json::Error> {
        Ok(Self {
            method: method.to_owned(),
            params: params::read(raw)?,
        })
    }
}
