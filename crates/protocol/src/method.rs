//! Params and answers of the methods we serve, one file per method.
//!
//! The invariant here: params ignore members they do not know and refuse words they do not know;
//! ids in params stay text, because what a bad id is answered with depends on the method. A member
//! that is absent and one that is null mean the same. Params are written without the members that
//! are not set, so that a client of ours says only what its caller said.
//!
//! Which params may be combined, and what is done with them, is decided by the server.

pub mod settings;
pub mod thread_fork;
pub mod thread_list;
pub mod thread_read;
pub mod thread_resume;
pub mod thread_start;
pub mod turn_interrupt;
pub mod turn_start;
pub mod turn_steer;

pub use settings::{CollaborationMode, CollaborationSettings, ModeKind, Overrides, Personality};
pub use settings::{ReasoningSummary, ThreadSettings};
pub use thread_fork::ThreadForkParams;
pub use thread_list::{
    CwdFilter, SortDirection, ThreadListAnswer, ThreadListParams, ThreadSortKey, ThreadSourceKind,
};
pub use thread_read::{ThreadReadAnswer, ThreadReadParams};
pub use thread_resume::{
    EventsPosition, InitialTurnsPageParams, ThreadResumeAnswer, ThreadResumeParams, TurnsPage,
};
pub use thread_start::{EngineStatus, StartAnswer, StartSource, ThreadStartParams};
pub use turn_interrupt::{QueueAfterInterrupt, TurnInterruptAnswer, TurnInterruptParams};
pub use turn_start::{
    AdditionalContext, AdditionalContextKind, BoundTo, TurnStartAnswer, TurnStartParams, WhenBusy,
};
pub use turn_steer::{TurnSteerAnswer, TurnSteerParams};
