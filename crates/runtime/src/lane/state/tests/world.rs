//! What surrounds a lane, as small as it can be and still do everything a real one does.
//!
//! The invariant here: a node is finite. Requests and turns reuse their numbers, the wall clock
//! knows two times, and the other clock is shifted back after every step, so that states that differ
//! only in how long they took to reach are the same state.
//!
//! What the world does is in `step`; what must hold is in `watch`.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;
use std::time::Duration;

use super::super::{ClosingPhase, LaneOptions, LaneState, Phase, Running, Stop};
use crate::lane::event::{HeadLook, Look, Now, Op, Steering, WaitLook};

/// Where the clock that never goes back is shifted to.
pub(super) const BASE: Duration = Duration::from_secs(1_000);
/// How long a lane that nobody needs stays loaded.
pub(super) const UNLOAD_AFTER: Duration = Duration::from_mins(1);
/// The grace of a worker that stops in an orderly way.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// The two times of the wall clock; what lies in the future is due at the second.
pub(super) const BEFORE_MS: i64 = 1_000;
pub(super) const AFTER_MS: i64 = 2_000;

/// A row that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RowIs {
    Due,
    Future,
    Held,
    Others,
}

/// What the queue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Waits {
    No,
    Until,
    Person,
}

/// What the store has of the lane's one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Free,
    Claimed,
    Started,
    /// A dead worker left a turn, and this one decides about it.
    Undecided,
}

/// A slot, as the semaphore sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SlotIs {
    None,
    Asked,
    Held,
}

/// An operation under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum OpIs {
    Start(u64),
    Claim { request: Option<u64> },
    Accept,
    Unclaim(Stays),
    Steer(u64),
    Append(u64),
    Complete { pause: bool },
    Settle,
}

/// What becomes of a row that is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stays {
    Held,
    Due,
}

impl OpIs {
    /// The request that the operation answers.
    pub(super) fn request(self) -> Option<u64> {
        match self {
            Self::Start(no) | Self::Steer(no) | Self::Append(no) => Some(no),
            Self::Claim { request } => request,
            Self::Accept | Self::Unclaim(_) | Self::Complete { .. } | Self::Settle => None,
        }
    }

    /// Whether it is about the lane's one place.
    pub(super) fn takes_or_closes(self) -> bool {
        !matches!(self, Self::Steer(_) | Self::Append(_))
    }
}

/// Which turn a client names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Named {
    /// The one that began last.
    Current,
    /// The one that will begin next.
    Next,
    /// Whatever runs.
    Any,
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ask {
    OrSteer,
    OrQueue,
    OrReject,
    Row,
    Steer(Named),
    Interrupt(Named),
    InterruptAndPause(Named),
}

impl Ask {
    pub(super) fn is_start(self) -> bool {
        !self.is_interrupt() && !matches!(self, Self::Steer(_))
    }

    pub(super) fn is_interrupt(self) -> bool {
        matches!(self, Self::Interrupt(_) | Self::InterruptAndPause(_))
    }
}

/// A request that is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub no: u64,
    pub ask: Ask,
    /// The turn it named, by number.
    pub turn: Option<u8>,
}

/// An engine that runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EngineIs {
    /// Steers that were accepted and not taken.
    pub waiting: u8,
    /// Those of them that it was handed.
    pub handed: u8,
    pub open: bool,
    /// Whether it ever took steers.
    pub steerable: bool,
    /// When it is given up, once it was told to stop.
    pub cancel: Option<Duration>,
}

/// What surrounds a lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says of one thing whether it is so"
)]
pub(super) struct World {
    pub wall_ms: i64,
    pub mono: Duration,
    pub rows: Vec<RowIs>,
    pub paused: bool,
    pub waits: Waits,
    pub elsewhere: bool,
    /// Something changed that the lane will be shown.
    pub changed: bool,
    pub place: Place,
    /// The turn that began last, by number.
    pub turn: u8,
    /// In order of submission.
    pub ops: VecDeque<OpIs>,
    pub engine: Option<EngineIs>,
    /// Somebody who stopped the turn wants the queue to stop.
    pub pause: bool,
    pub hooks: bool,
    /// An engine is asked about the turn of a dead worker.
    pub asking: bool,
    pub slot: SlotIs,
    /// What is under way was claimed by the lane itself: only that needs a slot.
    pub by_itself: bool,
    /// In order of arrival.
    pub asked: Vec<Asked>,
    pub subscribers: usize,
    pub stop_at: Option<Duration>,
    /// The worker itself stops, not only this lane.
    pub worker_stops: bool,
    /// It has next to no time.
    pub haste: bool,
    pub wake_ms: Option<i64>,
    pub wake_mono: Option<Duration>,
    /// The lane's task has ended.
    pub ended: bool,
}

impl World {
    /// Whether the store would let the head be claimed.
    pub(super) fn claimable(&self) -> bool {
        let due = match self.rows.first() {
            Some(RowIs::Due) => true,
            Some(RowIs::Future) => self.wall_ms >= AFTER_MS,
            Some(RowIs::Held | RowIs::Others) | None => false,
        };
        let waits = match self.waits {
            Waits::No => false,
            Waits::Until => self.wall_ms < AFTER_MS,
            Waits::Person => true,
        };
        due && !waits && !self.paused && !self.elsewhere && self.place == Place::Free
    }

    /// A picture of the lane.
    pub(super) fn look(&self) -> Look {
        Look {
            head: match self.rows.first() {
                None => HeadLook::None,
                Some(RowIs::Due) => HeadLook::Due(0),
                Some(RowIs::Future) => HeadLook::Due(AFTER_MS),
                Some(RowIs::Held) => HeadLook::Held,
                Some(RowIs::Others) => HeadLook::Others,
            },
            paused: self.paused,
            waiting: match self.waits {
                Waits::No => WaitLook::No,
                Waits::Until => WaitLook::Until(AFTER_MS),
                Waits::Person => WaitLook::Person,
            },
            elsewhere: self.elsewhere,
            owned: !self.elsewhere,
        }
    }

    pub(super) fn now(&self) -> Now {
        Now {
            wall_ms: self.wall_ms,
            mono: self.mono,
        }
    }

    /// The number of the turn that begins next.
    pub(super) fn next_turn(&self) -> u8 {
        3 - self.turn
    }

    /// Whether a request is being worked on by the store, not by the lane.
    pub(super) fn under_way(&self, no: u64) -> bool {
        self.ops.iter().any(|op| op.request() == Some(no))
    }
}

/// A lane and what surrounds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub lane: LaneState,
    pub world: World,
    /// The last picture that the lane was given.
    pub shown: Option<Look>,
}

impl Node {
    /// A lane that was just loaded, over this queue.
    pub(super) fn new(rows: &[RowIs]) -> Self {
        Self {
            lane: LaneState::new(LaneOptions {
                unload_after: UNLOAD_AFTER,
            }),
            world: World {
                wall_ms: BEFORE_MS,
                mono: BASE,
                rows: rows.to_vec(),
                paused: false,
                waits: Waits::No,
                elsewhere: false,
                changed: true,
                place: Place::Free,
                turn: 1,
                ops: VecDeque::new(),
                engine: None,
                pause: false,
                hooks: false,
                asking: false,
                slot: SlotIs::None,
                by_itself: false,
                asked: Vec::new(),
                subscribers: 0,
                stop_at: None,
                worker_stops: false,
                haste: false,
                wake_ms: None,
                wake_mono: None,
                ended: false,
            },
            shown: None,
        }
    }

    /// Shifts the clock that never goes back to [`BASE`]: the rules know differences only.
    pub(super) fn shift_back(&mut self) {
        let now = self.world.mono;
        if now == BASE {
            return;
        }
        // What has passed has passed, however long ago.
        let at = |time: Duration| BASE + time.saturating_sub(now);
        let shift = |time: &mut Option<Duration>| *time = time.map(at);
        match &mut self.lane.phase {
            Phase::Running(Running {
                stop: Some(stop), ..
            }) => stop.deadline = at(stop.deadline),
            Phase::Closing(closing) => shift(&mut closing.retry_at),
            Phase::Idle
            | Phase::Taking { .. }
            | Phase::Claimed { .. }
            | Phase::Running(_)
            | Phase::Reconciling { .. }
            | Phase::Lost => {}
        }
        shift(&mut self.lane.claim_after);
        shift(&mut self.lane.stopping);
        shift(&mut self.lane.wake.mono);
        shift(&mut self.world.stop_at);
        shift(&mut self.world.wake_mono);
        if let Some(engine) = &mut self.world.engine {
            shift(&mut engine.cancel);
        }
        let since = self.lane.unneeded_since;
        let for_long = |since| now.saturating_sub(since).min(UNLOAD_AFTER);
        self.lane.unneeded_since = since.map(|since| BASE.saturating_sub(for_long(since)));
        self.world.mono = BASE;
    }

    /// A number for this state; that two of a million states share one has a chance of 1 in 10^7.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.world.hash(&mut hasher);
        hash_look(self.shown, &mut hasher);
        hash_lane(&self.lane, &mut hasher);
        hasher.finish()
    }
}

fn hash_look(look: Option<Look>, to: &mut DefaultHasher) {
    let Some(look) = look else {
        return 3_i64.hash(to);
    };
    match look.head {
        HeadLook::None => 0,
        HeadLook::Due(at_ms) => at_ms + 2,
        HeadLook::Held => 1,
        HeadLook::Others => -1,
    }
    .hash(to);
    let waiting = match look.waiting {
        WaitLook::No => -2,
        WaitLook::Until(until_ms) => until_ms,
        WaitLook::Person => -1,
    };
    (look.paused, look.elsewhere, look.owned, waiting).hash(to);
}

/// Every field, so that a new one is not forgotten here.
fn hash_lane(lane: &LaneState, to: &mut DefaultHasher) {
    let LaneState {
        given,
        phase,
        look,
        left,
        slot,
        kept,
        subscribers,
        unneeded_since,
        unload_after: _,
        claim_after,
        stopping,
        stop,
        undecided,
        leaves,
        wake,
    } = lane;
    hash_phase(phase, to);
    hash_look(*look, to);
    for kept in kept {
        // What was asked under this number is in the world.
        kept.request.hash(to);
    }
    (left, discriminant(slot), subscribers, unneeded_since).hash(to);
    (claim_after, stopping, stop, wake.wall_ms, wake.mono).hash(to);
    (undecided, leaves, given).hash(to);
}

fn hash_phase(phase: &Phase, to: &mut DefaultHasher) {
    discriminant(phase).hash(to);
    match phase {
        Phase::Idle | Phase::Lost => {}
        Phase::Taking { request, take } => (request, discriminant(take)).hash(to),
        Phase::Claimed { request } => request.hash(to),
        Phase::Reconciling { turn } => turn.hash(to),
        Phase::Running(Running {
            turn,
            steering,
            stop,
        }) => {
            (turn, discriminant(steering)).hash(to);
            if let Some(Stop {
                requests,
                queue,
                deadline,
            }) = stop
            {
                (requests, discriminant(queue), deadline).hash(to);
            }
        }
        Phase::Closing(ClosingPhase {
            op,
            turn,
            interrupts,
            request,
            retry_at,
        }) => {
            (turn, interrupts, request, retry_at).hash(to);
            match op {
                Op::Complete { how, queue } => (discriminant(how), discriminant(queue)).hash(to),
                Op::Unclaim(why) => discriminant(why).hash(to),
                Op::Start(_)
                | Op::Claim { .. }
                | Op::Accept
                | Op::Steer(_)
                | Op::Append(_)
                | Op::Settle
                | Op::Release => {}
            }
        }
    }
}

/// How a turn takes steers, for the engine of the world.
pub(super) fn steering(steerable: bool) -> Steering {
    if steerable {
        Steering::Open
    } else {
        Steering::Never
    }
}
