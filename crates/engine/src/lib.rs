//! The boundary between lanes and the engines that run their turns, and the engine that needs
//! nobody: `scripted`.
//!
//! A lane makes a [`channel`], spawns [`run`] with one end and listens at the other. The engine
//! says everything through its [`Sink`] and hears everything through its [`TurnControl`]; both are
//! one channel with one order. The invariant: an engine is stopped, lost or fenced at any point
//! without taking the lane along, and a lane that goes away leaves no engine waiting.
//!
//! No engine touches the store, counts queued turns or knows clients; that is the runtime's
//! business. What a failure means for a lane is in [`limits`].

#![forbid(unsafe_code)]

mod cancel;
mod control;
mod engine;
mod entry;
mod event;
mod hooks;
mod lane_end;
pub mod limits;
mod outcome;
mod request;
mod said;
mod sink;
mod steer;

pub use cancel::{CANCEL_GRACE, CancelHandle, CancelReason, CancelToken, Cancelled};
pub use control::{Ask, TurnControl};
pub use engine::{BackgroundTerminal, BoxFuture, Capabilities, Engine, Reconciled, UsageKind};
pub use entry::{Entry, EntryKind};
pub use event::Event;
pub use hooks::{
    AfterTool, BeforeCompact, BeforeEnd, BeforeTool, CompactTrigger, Gate, Hooked, Hooks, Limited,
    NoHooks, ToolResult,
};
pub use lane_end::{LaneEnd, channel, run};
pub use outcome::{Accepted, EngineError, OutcomeStatus, TurnOutcome};
pub use request::{RuntimeTool, TurnKind, TurnRequest, TurnSettings};
pub use said::{
    ApprovalRequest, ApprovalSubject, ChildRecord, Decided, Fenced, Reply, Said, Steering,
    ToolAnswer, ToolCall,
};
pub use sink::{QUEUE_MAX, Sink};
pub use steer::{
    AcceptedSteer, BYTES_MAX, MESSAGES_MAX, Steer, SteerReceiver, SteerRefused, SteerSender,
};
