//! The Rust SDK of Turnlane.
//!
//! It talks to any app-server (Turnlane's, the real Codex, one inside your own process) over one
//! connection and gives typed handles: a [`Client`] has [`Thread`]s, a thread has turns, a turn has a
//! stream of events and an outcome.
//!
//! ```no_run
//! use turnlane::{Client, Endpoint};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(Endpoint::daemon()).await?; // the daemon that `turnlane serve` started
//! let thread = client.threads().start("/srv/app").await?;
//! let outcome = thread.turn("Which tests are slow?").await?;
//! println!("{}", outcome.text.unwrap_or_default());
//! # Ok(())
//! # }
//! ```
//!
//! [`guide`] shows the rest by example: reviewers, streams, history, the queue, hooks. The features are
//! `spawn` and `ws` (default), `tls` (`wss://`) and `blocking` (the same handles without async).

#![forbid(unsafe_code)]

#[doc = include_str!("../GUIDE.md")]
pub mod guide {}

/// What the README shows is compiled too.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod approvals;
pub mod automation;
#[cfg(feature = "blocking")]
pub mod blocking;
mod call;
mod client;
mod clock;
mod core;
mod endpoint;
mod error;
mod event;
mod feed;
mod hooks;
mod ids;
mod input;
mod jobs;
mod limits;
mod link;
mod outcome;
mod params;
mod policy;
mod profile;
mod queue;
mod quick;
mod review;
mod thread;
mod turn;

pub use approvals::{ApprovalChange, ApprovalChanges, Approvals, OpenApproval};
pub use call::{CallOptions, Method, Validation, methods};
pub use client::{Client, ClientBuilder};
pub use endpoint::{Duplex, Endpoint, Env, IoSpec, Secret, SpawnSpec, Supervision, WsSpec};
pub use error::{
    Block, CallError, ConnectError, DecodeError, PolicyError, QuickRunError, RpcError,
    ShutdownError, Side, SteerError, ThreadError, TransportError, TurnError, Version,
};
pub use event::{
    ApprovalNotice, Delta, DeltaKind, Event, EventBody, Item, ItemBody, Plan, PlanStep,
    QueueNotice, RawEvent, TurnEvent,
};
pub use feed::{EventStream, Filter};
pub use hooks::{
    Hook, HookAction, HookContext, HookIssue, HookOutcome, HookPatch, HookPhase, HookReport,
    HookRun, HookSet, IssueClass, MainStatus, Matcher, OnFailure,
};
pub use ids::{ApprovalId, QueuedTurnId, ThreadId, TurnId};
pub use input::{
    Attachment, ByteRange, ImageDetail, ImageInput, ImageSource, Input, InputItem, TextElement,
};
pub use jobs::{
    ImportOptions, ItemsOfInterest, Job, JobEvent, JobEvents, JobExport, JobImportError, JobItems,
    JobList, JobSpec, Jobs, PauseMode, RetrySelection,
};
pub use limits::{Limits, Reconnect};
pub use link::{ClientMetrics, Connection, ExitReport, ServerInfo, ServerKind};
pub use outcome::{
    CodexErrorInfo, ErrorInfo, ErrorKind, TokenCounts, TurnOutcome, TurnStatus, TurnView, Usage,
};
pub use policy::EffectivePolicy;
pub use profile::{
    Approval, Effort, GranularApproval, NetworkAccess, Personality, Profile, ReasoningSummary,
    Sandbox, SandboxPolicy, WorkspaceWrite,
};
pub use queue::{QueueView, QueuedRow, QueuedTurn};
pub use quick::{quick_run, quick_run_with};
#[doc(hidden)]
pub use review::MayBlock;
pub use review::{ApprovalRequest, BoxFuture, Decision, DeclineAll, Reviewer};
pub use thread::{
    ForkBuilder, ForkParams, ItemEntry, ItemPage, SkillsEntry, SkillsList, Thread, ThreadBuilder,
    ThreadIdPage, ThreadPage, ThreadReadParams, ThreadResumeParams, ThreadRollbackParams,
    ThreadStartParams, ThreadStatus, ThreadSummary, ThreadView, Threads, TurnPage, TurnStartParams,
};
pub use turn::{Turn, TurnBuilder, TurnStream, WhenBusy};
pub use turnlane_protocol::fanout::{
    AttemptOutcome, ExportFormat, ImportFormat, ItemWorktree, Job as JobView, JobAttempt,
    JobCounts, JobItem, JobItemDetail, JobItemError, JobItemState, JobLimits, JobOptions, JobOwner,
    JobSettings, JobState, JobStatus, JobUsage, JobWorktrees, KeepThreads, MaxFailures,
    OnDuplicate, OnItemLoss, RawJson, ResultChannel, SharedFile, Worktree, WorktreeState,
};
pub use turnlane_protocol::item::{CommandAction, FileUpdate, FileUpdateKind};
pub use turnlane_protocol::method::{
    CwdFilter, FanoutCreateParams, FanoutExportParams, FanoutExportTarget, FanoutListParams,
    FanoutPreviewAnswer, SkillsListParams, SortDirection, ThreadListParams, ThreadLoadedListParams,
    ThreadSortKey, ThreadSourceKind,
};
