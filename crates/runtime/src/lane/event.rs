//! What a lane's rules are told and what they want done: plain values, no I/O behind them.
//!
//! The invariant here: events carry everything a rule may depend on, the time included, and
//! effects name everything that has to happen, in order. Items and deltas never appear here.
//!
//! The rules are in [`super::state`], the doing in `lane::actor`.

use std::time::Duration;

use turnlane_store::TurnId;
use turnlane_store::queue::Which;

/// Names a request of a client within one lane, so that it is answered exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestNo(pub u64);

/// The time of an event, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since 1970; may jump either way.
    pub wall_ms: i64,
    /// Since the lane was loaded; never goes back.
    pub mono: Duration,
}

/// What a lane is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody wants a turn.
    Start {
        /// Who.
        request: RequestNo,
        /// Which, and what else would do.
        how: StartHow,
    },
    /// Somebody has more to say to the running turn.
    Steer {
        /// Who.
        request: RequestNo,
        /// The turn they mean.
        turn: TurnId,
    },
    /// Somebody wants a turn to stop.
    Interrupt {
        /// Who; none when it is a limit of our own.
        request: Option<RequestNo>,
        /// The turn they mean; none for whatever runs.
        turn: Option<TurnId>,
        /// What becomes of the queue.
        queue: AfterInterrupt,
        /// Why.
        why: CancelWhy,
    },
    /// A picture of the lane was taken.
    Looked(Look),
    /// A slot is ours.
    Slot,
    /// The hooks between claim and accept have spoken.
    Hooked(HookVerdict),
    /// An operation has come to its end.
    Committed(Committed),
    /// The engine would end the turn; so many steers are accepted and not taken.
    CloseSteer {
        /// How many.
        waiting: usize,
    },
    /// The engine has ended the turn, or is gone.
    Ended,
    /// A dead worker left this turn, and only its engine can tell what became of it.
    Undecided {
        /// The turn.
        turn: TurnId,
    },
    /// Another transaction has begun a turn in this lane, which is ours: it is run as any other.
    Given,
    /// The engine has told what became of that turn, or cannot tell.
    Reconciled {
        /// What the lane does when that is recorded.
        then: AfterReconcile,
    },
    /// The timer fired.
    Tick,
    /// So many clients listen.
    Subscribers(usize),
    /// The worker stops, or the thread is to be closed.
    Stop(StopHow),
}

/// What a lane does when the fate of a dead worker's turn is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterReconcile {
    /// It goes on as any lane that is loaded.
    Stay,
    /// It is unloaded, unless a client needs it: it was loaded for the question alone.
    Leave,
}

/// Which turn is wanted, and what else would do when a turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartHow {
    /// A new one; when one runs, that one is steered.
    OrSteer,
    /// A new one; when one runs or rows wait, a row is added.
    OrQueue,
    /// A new one; when one runs, none.
    OrReject,
    /// A row that waits, now.
    Row(Which),
}

/// What becomes of the queue after an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterInterrupt {
    /// It goes on.
    Continue,
    /// It stops.
    Pause,
}

/// What matters of a picture of the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The first of the rows that wait.
    pub head: HeadLook,
    /// Somebody has stopped the queue.
    pub paused: bool,
    /// It waits for a provider or a person.
    pub waiting: WaitLook,
    /// Another worker owns the lane, or the thread is put away.
    pub elsewhere: bool,
    /// The lane is this worker's own.
    pub owned: bool,
}

/// The first of the rows that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadLook {
    /// None waits.
    None,
    /// It may be claimed from then on.
    Due(i64),
    /// It failed.
    Held,
    /// Only another worker may claim it: it goes with one, or this one runs no queued turns.
    Others,
}

/// What a queue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitLook {
    /// Nothing.
    No,
    /// This time.
    Until(i64),
    /// A person.
    Person,
}

/// What the hooks between claim and accept have said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookVerdict {
    /// The turn may begin.
    Go,
    /// It may not.
    Block,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// A turn has begun: directly, by claim and accept, or by accept.
    Began {
        /// The turn.
        turn: TurnId,
        /// Whether it takes more input.
        steering: Steering,
    },
    /// A row is claimed; hooks or an engine stand between it and its turn.
    Claimed,
    /// A direct turn waits in the queue, or was known already; nothing began.
    Settled,
    /// The row could not be started and was dealt with.
    Refused(Look),
    /// The claim found the lane held.
    NotNow(Look),
    /// The claimed row was dealt with without a turn.
    Unclaimed(Look),
    /// A steer is on disk.
    Steered(RequestNo),
    /// A row was added for a start.
    Appended(RequestNo),
    /// The turn's end is on disk.
    Completed(Look),
    /// The operation failed and changed nothing.
    Failed(FailedOp),
    /// The lane was taken over.
    Fenced,
}

/// Whether a turn takes more input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steering {
    /// It does.
    Open,
    /// It never does: another kind of turn, or an engine that cannot.
    Never,
    /// It does not any more: it is about to end.
    Closed,
}

/// Which operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedOp {
    /// The start or claim under way.
    Taking,
    /// A steer.
    Steer(RequestNo),
    /// The row of a start.
    Append(RequestNo),
    /// The end of the turn, or of the claim.
    Closing,
}

/// How a lane is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopHow {
    /// The worker stops: no new turns; the running one may go on so long.
    After(Duration),
    /// The worker stops at once, and the engine has its usual time to stop.
    Now,
    /// The worker stops at once, and the engine has next to no time.
    InHaste,
    /// As in haste, after a second signal: what runs goes by the rules of a crash.
    Forced,
    /// The thread is closed, as by an interrupt; the worker goes on.
    Close,
}

/// What a lane wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Submit an operation.
    Commit(Op),
    /// Ask for a slot.
    AskSlot,
    /// Give the slot back.
    GiveSlot,
    /// Ask the hooks about the claimed row.
    RunHooks,
    /// Run the turn that has begun.
    RunEngine,
    /// Take over the turn that another transaction has begun.
    TakeGiven,
    /// Ask the engine what became of the turn that a dead worker left.
    AskEngine,
    /// Give the engine the steer of this request.
    HandSteer(RequestNo),
    /// Answer the engine's question whether steering may be closed.
    CloseSteer(Closing),
    /// Tell the engine to stop.
    Cancel(CancelWhy),
    /// Give the engine up.
    Drop,
    /// Answer a request.
    Answer(RequestNo, Answer),
    /// Tell clients.
    Tell(Tell),
    /// Set the one timer.
    WakeAt(Wake),
    /// Ends the task.
    Unload(Unload),
}

/// An operation of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The direct turn of this request.
    Start(RequestNo),
    /// A claim, with its acceptance where nothing stands between.
    Claim {
        /// Which row.
        which: Which,
        /// Who asked for it, if somebody did.
        request: Option<RequestNo>,
    },
    /// The acceptance of the claimed row.
    Accept,
    /// The claimed row goes another way.
    Unclaim(UnclaimWhy),
    /// The userMessage item of this request.
    Steer(RequestNo),
    /// The row of this request.
    Append(RequestNo),
    /// The end of the turn.
    Complete {
        /// How it comes that it ends.
        how: EndHow,
        /// What becomes of the queue.
        queue: AfterInterrupt,
    },
    /// What became of the turn that a dead worker left: its end, or the fate of its row.
    Settle,
    /// Gives the idle lane up.
    Release,
}

/// Why a claimed row is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnclaimWhy {
    /// A hook has blocked it.
    Blocked,
    /// It goes back as it came: the worker stops, or the acceptance failed.
    GoBack,
}

/// How it comes that a turn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndHow {
    /// The engine said so, asked or not.
    Ended,
    /// The engine did not stop in time and was given up.
    Dropped,
}

/// Why an engine is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelWhy {
    /// Somebody asked for it.
    Interrupt,
    /// It took too long.
    Timeout,
    /// The worker stops.
    Shutdown,
}

/// The answer to the engine's question whether steering may be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// It is closed.
    Closed,
    /// There is more to take.
    More,
}

/// The answer to a request; the task fills in what the operation brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The operation's own result: a turn that began, a row that waits, a refusal.
    Result,
    /// The running turn was steered.
    Steered(TurnId),
    /// The turn has ended.
    Interrupted,
    /// Nothing runs: whether that is well depends on what became of the named turn.
    NotRunning,
    /// There is no turn to steer.
    NoActiveTurn,
    /// Another turn runs than the caller thought.
    OtherTurn(TurnId),
    /// The running turn takes no more input of any kind.
    NotSteerable,
    /// A turn is active or pending.
    Busy,
    /// Too many requests wait for the lane.
    Overloaded,
    /// The worker stops.
    Stopping,
    /// The thread is being closed.
    Closing,
    /// The lane was taken over by another worker.
    Lost,
}

/// What clients are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// The turn runs.
    Began,
    /// The turn has ended.
    Completed,
}

/// When to wake the lane; the earlier of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    /// When the wall clock shows this.
    pub wall_ms: Option<i64>,
    /// When the lane has been loaded for so long.
    pub mono: Option<Duration>,
}

/// Why a lane's task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unload {
    /// Nobody needs it.
    Idle,
    /// The worker stops.
    Stopping,
    /// Somebody closes the thread.
    Closed,
    /// Another worker has the lane.
    Lost,
}
