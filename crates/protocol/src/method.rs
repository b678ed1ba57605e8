//! Params and answers of the methods we serve, one file per method or family of methods.
//!
//! The invariant here: params ignore members they do not know and refuse words they do not know;
//! ids in params stay text, because what a bad id is answered with depends on the method. A member
//! that is absent and one that is null mean the same. Params are written without the members that
//! are not set, so that a client of ours says only what its caller said.
//!
//! Which params may be combined, and what is done with them, is decided by the server.

pub mod account;
pub mod background_terminals;
pub mod catalog;
pub mod command_exec;
pub mod config_read;
pub mod fanout;
pub mod model_list;
pub mod process;
pub mod read_state;
pub mod server_status;
pub mod settings;
pub mod thread_archive;
pub mod thread_fork;
pub mod thread_goal;
pub mod thread_list;
pub mod thread_loaded;
pub mod thread_name;
pub mod thread_pages;
pub mod thread_queue;
pub mod thread_read;
pub mod thread_resume;
pub mod thread_revert;
pub mod thread_settings;
pub mod thread_start;
pub mod turn_interrupt;
pub mod turn_start;
pub mod turn_steer;

use serde::{Deserialize, Serialize};

pub use account::{
    Account, AccountReadAnswer, AccountReadParams, GovCloudAnswer, RateLimitsReadAnswer,
};
pub use background_terminals::{
    BackgroundTerminal, BackgroundTerminalsCleanParams, BackgroundTerminalsListAnswer,
    BackgroundTerminalsListParams, BackgroundTerminalsTerminateAnswer,
    BackgroundTerminalsTerminateParams,
};
pub use catalog::{
    CatalogListParams, CollaborationModeListAnswer, CollaborationModeMask,
    ExperimentalFeatureListAnswer, FileError, HooksEntry, HooksListAnswer, HooksListParams,
    McpServerStatusListAnswer, PermissionProfile, PermissionProfileListAnswer, PluginListAnswer,
    PluginListParams, SkillsEntry, SkillsListAnswer, SkillsListParams,
};
pub use command_exec::{
    CommandExecAnswer, CommandExecParams, CommandExecResizeParams, CommandExecTerminateParams,
    CommandExecWriteParams, TerminalSize,
};
pub use config_read::{ConfigReadAnswer, ConfigReadParams, ConfigRequirementsReadAnswer};
pub use fanout::{
    FanoutCreateParams, FanoutDeleteParams, FanoutExportAnswer, FanoutExportParams,
    FanoutExportTarget, FanoutImportAnswer, FanoutImportParams, FanoutImportWriteAnswer,
    FanoutImportWriteParams, FanoutItemsAddAnswer, FanoutItemsAddParams, FanoutItemsListAnswer,
    FanoutItemsListParams, FanoutItemsReadAnswer, FanoutItemsReadParams, FanoutJobAnswer,
    FanoutJobParams, FanoutListAnswer, FanoutListParams, FanoutPauseParams, FanoutPreviewAnswer,
    FanoutPreviewParams, FanoutPrompt, FanoutRetryAnswer, FanoutRetryParams, FanoutSubscribeParams,
    ImportSource,
};
pub use model_list::{
    InputModality, Model, ModelListAnswer, ModelListParams, ReasoningEffortOption,
};
pub use process::{
    ProcessKillParams, ProcessResizePtyParams, ProcessSpawnParams, ProcessWriteStdinParams,
};
pub use read_state::{
    ReadState, ReadStateOperation, ReadStateUpdateAnswer, ReadStateUpdateParams, UnreadPosition,
};
pub use server_status::{KeyStatus, ServerStatusAnswer, ServerStatusParams};
pub use settings::{CollaborationMode, CollaborationSettings, ModeKind, Overrides, Personality};
pub use settings::{ReasoningSummary, ThreadSettings};
pub use thread_archive::{
    ThreadArchiveParams, ThreadDeleteParams, ThreadUnarchiveAnswer, ThreadUnarchiveParams,
};
pub use thread_fork::ThreadForkParams;
pub use thread_goal::{
    GoalOrigin, ThreadGoal, ThreadGoalClearAnswer, ThreadGoalClearParams, ThreadGoalGetAnswer,
    ThreadGoalGetParams, ThreadGoalSetAnswer, ThreadGoalSetParams, ThreadGoalStatus,
};
pub use thread_list::{
    CwdFilter, SortDirection, ThreadListAnswer, ThreadListParams, ThreadSortKey, ThreadSourceKind,
};
pub use thread_loaded::{
    ThreadLoadedListAnswer, ThreadLoadedListParams, ThreadUnsubscribeAnswer,
    ThreadUnsubscribeParams, UnsubscribeStatus,
};
pub use thread_name::ThreadNameSetParams;
pub use thread_pages::{
    ItemEntry, ItemsAnchor, ItemsCursor, ThreadItemsListAnswer, ThreadItemsListParams,
    ThreadItemsReadAnswer, ThreadItemsReadParams, ThreadTurnsListParams,
};
pub use thread_queue::{
    NamedRow, OnCannotStart, OnCrash, OnError, OnLimit, OnStop, QueueRetry, QueueSource,
    QueuedTurnAnswer, QueuedTurnState, ThreadQueueAddAnswer, ThreadQueueAddParams,
    ThreadQueueDeleteAnswer, ThreadQueueDeleteParams, ThreadQueueListAnswer, ThreadQueueListParams,
    ThreadQueueMoveParams, ThreadQueuePauseParams, ThreadQueueReorderAnswer,
    ThreadQueueReorderParams, ThreadQueueResumeParams, ThreadQueueRetryParams,
    ThreadQueueStartAnswer, ThreadQueueStartParams, ThreadQueueUpdateAnswer,
    ThreadQueueUpdateParams,
};
pub use thread_read::{ThreadReadAnswer, ThreadReadParams};
pub use thread_resume::{
    EventsPosition, InitialTurnsPageParams, ThreadResumeAnswer, ThreadResumeParams, TurnsPage,
};
pub use thread_revert::{
    ThreadCompactStartParams, ThreadRevertAnswer, ThreadRevertParams, ThreadRollbackAnswer,
    ThreadRollbackParams,
};
pub use thread_settings::ThreadSettingsUpdateParams;
pub use thread_start::{EngineStatus, StartAnswer, StartSource, ThreadStartParams};
pub use turn_interrupt::{QueueAfterInterrupt, TurnInterruptAnswer, TurnInterruptParams};
pub use turn_start::{
    AdditionalContext, AdditionalContextKind, BoundTo, TurnStartAnswer, TurnStartParams, WhenBusy,
};
pub use turn_steer::{TurnSteerAnswer, TurnSteerParams};

/// The answer `{}`: it is done, and there is nothing to say about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Done {}

/// Params of a method that has none; members that are sent are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoParams {}
