//! What can go wrong in the runtime, sorted by what the caller does about it.
//!
//! The invariant here: every case can be told apart without reading a text; the server makes the
//! wire's codes and words from these, in one place.

use turnlane_protocol::approval::Decision;
use turnlane_protocol::ids::TurnId;
use turnlane_protocol::notification::Decider;
use turnlane_store::StoreError;

/// An error of the runtime.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // The request does not fit the state of the lane: tell the caller.
    /// A turn is active or pending.
    #[error("the thread has an active or pending turn")]
    Busy {
        /// It, where it is known.
        turn: Option<TurnId>,
    },
    /// Nothing runs that could be steered.
    #[error("there is no active turn to steer")]
    NoTurnToSteer,
    /// Nothing runs that could be stopped, and the named turn did not end by being stopped.
    #[error("there is no active turn to interrupt")]
    NoTurnToInterrupt,
    /// Another turn runs than the caller thought.
    #[error("the active turn is {active}")]
    OtherTurn {
        /// The one that runs.
        active: TurnId,
    },
    /// The named turn waits in the queue and is removed there.
    #[error("the turn is queued")]
    TurnQueued,
    /// The running turn takes no more input.
    #[error("the active turn cannot be steered")]
    NotSteerable {
        /// Why it never does.
        why: NotSteerable,
    },
    /// The row could not be started; it was dealt with by its policy.
    #[error("{0}")]
    CannotStart(String),
    /// There is no such approval.
    #[error("there is no such approval")]
    ApprovalNotFound,
    /// The approval was decided before.
    #[error("the approval is decided already")]
    ApprovalResolved {
        /// What was decided.
        decision: Decision,
        /// By whom.
        by: Decider,
    },
    /// The question does not offer this decision; it stays open.
    #[error("the approval does not offer this decision")]
    DecisionNotOffered,
    /// It would run something without a sandbox, and the caller may not.
    #[error("it would run without a sandbox, and the caller may not do that")]
    Unconfined,
    /// An ephemeral thread has no queue and cannot be put away.
    #[error("the thread is ephemeral")]
    Ephemeral,
    /// The engine of the thread cannot do that.
    #[error("the engine {engine} cannot do that")]
    Unsupported {
        /// The engine.
        engine: String,
    },
    /// The params cannot be stored.
    #[error("the params do not fit: {0}")]
    InvalidParams(String),

    // Not here, or not now: go elsewhere, or try later.
    /// The thread is being put away, deleted or unloaded.
    #[error("the thread is being closed")]
    Closing,
    /// Another worker has the lane.
    #[error("another worker has taken the lane over")]
    Lost,
    /// Too much waits for the lane already.
    #[error("too many requests wait for the lane")]
    Overloaded,
    /// The worker stops and takes nothing new.
    #[error("the worker stops")]
    Stopping,

    // The store's own words.
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a turn never takes more input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSteerable {
    /// It makes the history shorter.
    Compact,
    /// Its engine cannot.
    Engine,
}
