//! The process service: processes that always end, output that is never lost.
//!
//! A [`ProcessService`] starts programs ([`Spec`]) in pipes or a terminal, confined by a
//! [`Sandbox`] that is enforced completely or refused, and holds every descendant of each of them in
//! a containment, so that an end reaches the grandchild that called `setsid` as well. Output is
//! numbered without gaps, held back in the child when nobody takes it, and kept head and tail.
//!
//! # Theory of operation
//!
//! - *Before the clone* everything is prepared: arguments, environment, candidates for the program,
//!   rulesets, filters, mounts. The result is plain data, a `launch::Plan`.
//! - *One spawning thread* lives as long as the service and clones children that share its memory
//!   until they exec. It starts them in a cgroup, through the keeper's holder, or in a group.
//! - *One task per process*, the driver, waits for the streams, the exit and the timers of its
//!   process. It is the only one that touches its descriptors. Handles change shared state and wake it.
//! - *The keeper*, a small program beside the service, ends everything when the service dies.
//!
//! This is the one crate with `unsafe`: the clone, the steps between it and the exec, and system
//! calls nobody wraps. Each block says why it is sound. There are no wire types here.

#![expect(
    unsafe_code,
    reason = "the clone and the steps before the exec have no safe interface"
)]

mod contain;
mod default_limits;
mod descriptors;
mod driver;
mod environment;
mod error;
mod event;
mod git;
mod inherited;
mod input;
pub(crate) mod launch;
mod mark;
mod options;
mod output;
mod own_end;
mod own_memory;
mod peer;
mod process;
mod report;
mod sandbox;
mod service;
mod snapshot;
mod spec;
mod status;

pub use contain::keeper_hook;
pub use default_limits::{DefaultLimit, DefaultLimits, DefaultLimitsReport, LimitMechanism};
pub use environment::{EnvPolicy, EnvSpec, Inherit};
pub use error::{InputError, OutputTaken, ResizeError, SpawnError, SpawnErrorKind, StartError};
pub use event::{Event, Page, StreamName, TryNext};
pub use git::{Git, GitError, LinkedTree};
pub use inherited::inherited_socket;
pub use options::{Begin, Options};
pub use own_end::{EndSignal, end_by_signal};
pub use own_memory::bound_arenas;
pub use peer::SocketPeer;
pub use process::{Communicated, Doorbell, Output, Permit, Process, ProcessId};
pub use report::{
    Confined, ContainmentKind, Enforces, FsEnforcement, Listed, MountsBy, NetworkEnforcement,
    ProcessInfo, ProcessState, Report,
};
pub use sandbox::{
    AbsentMounts, Access, LANDLOCK_ABI_MIN, LANDLOCK_ABI_SCOPES, LocalSockets, MissingPath,
    PathPolicy, PathRule, RootLinks, Sandbox,
};
pub use service::{Counters, ProcessService, spawn};
pub use snapshot::{Snapshot, StreamSnapshot};
pub use spec::{
    Containment, Delivery, End, Io, Limits, Signal, Spec, Stdin, Survivors, Target, TerminalSize,
    Until,
};
pub use status::{ExitStatus, Reason, Rusage};
