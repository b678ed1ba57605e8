//! Everything the world may do to a lane, and when it may.
//!
//! The invariant here: an operation ends in every way the store could end it in this state of the
//! queue, and in no other. An end that comes first in [`Node::ends`] is the one that leads on.
//!
//! What a move does is in `step`.

use super::world::{
    AFTER_MS, Ask, BEFORE_MS, GRACE, Named, Node, OpIs, Place, RowIs, SlotIs, Stays, Waits,
};
use crate::lane::event::{AfterReconcile, HookVerdict, StopHow};

/// At most so many rows wait.
pub(super) const ROWS_MAX: usize = 2;

/// A step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Ask(Ask),
    /// A limit of our own interrupts the turn.
    Limit,
    Change(Change),
    Look,
    Slot,
    Hook(HookVerdict),
    /// A dead worker left a turn that only its engine can decide about.
    Left,
    /// That engine has answered.
    Reconciled(AfterReconcile),
    End(End),
    /// The engine would end the turn.
    CloseSteer,
    TakeSteer,
    Ended,
    /// The timer fires when it was set to, by this clock.
    Tick,
    TickByWall,
    /// It fires for no reason.
    TickEarly,
    /// Time passes, and the timer is late.
    Late,
    Wall(i64),
    Subscribers(usize),
    Stop(StopHow),
}

/// A change of the queue by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Add(RowIs),
    DeleteHead,
    HoldHead,
    Pause,
    Resume,
    Waits(Waits),
    Elsewhere(bool),
}

/// How the first of the operations under way ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Began {
        steerable: bool,
    },
    Claimed,
    Settled,
    /// With this row at the head, if it stays.
    Refused(Option<RowIs>),
    NotNow,
    /// With this row at the head, if it comes back, and this wait.
    Closed(Option<RowIs>, Waits),
    Steered,
    Appended,
    Failed,
    Fenced,
}

/// What the world does in one exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Starts,
    Steers,
    Interrupts,
    Queue,
    Holds,
    Clock,
    Listeners,
    Stop,
    Faults,
    Hooks,
    DeadWorkers,
}

/// What bounds an exploration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub families: &'static [Family],
    /// So many requests wait at once, at most.
    pub asked_max: usize,
}

impl Bounds {
    fn has(&self, family: Family) -> bool {
        self.families.contains(&family)
    }
}

impl Node {
    /// Everything that may happen next.
    pub(super) fn moves(&self, bounds: &Bounds) -> Vec<Move> {
        let world = &self.world;
        let mut moves: Vec<Move> = self.ends(bounds).into_iter().map(Move::End).collect();
        if world.asked.len() < bounds.asked_max {
            moves.extend(asks(bounds).into_iter().map(Move::Ask));
        }
        if world.ended {
            return moves;
        }
        if world.changed {
            moves.push(Move::Look);
        }
        if world.slot == SlotIs::Asked {
            moves.push(Move::Slot);
        }
        if world.hooks {
            moves.extend([HookVerdict::Go, HookVerdict::Block].map(Move::Hook));
        }
        if world.asking {
            let then = [AfterReconcile::Stay, AfterReconcile::Leave];
            moves.extend(then.map(Move::Reconciled));
        }
        if bounds.has(Family::DeadWorkers) && world.place == Place::Free {
            moves.push(Move::Left);
        }
        if let Some(engine) = &world.engine {
            moves.push(Move::Ended);
            if bounds.has(Family::Steers) && engine.open {
                moves.push(Move::CloseSteer);
            }
            if engine.handed > 0 {
                moves.push(Move::TakeSteer);
            }
            if bounds.has(Family::Interrupts) {
                moves.push(Move::Limit);
            }
        }
        self.time_passes(bounds, &mut moves);
        self.others_act(bounds, &mut moves);
        moves
    }

    fn time_passes(&self, bounds: &Bounds, moves: &mut Vec<Move>) {
        let world = &self.world;
        if let Some(at) = world.wake_mono {
            moves.push(Move::Tick);
            if bounds.has(Family::Clock) && at > world.mono {
                moves.push(Move::Late);
            }
        }
        if world.wake_ms.is_some() {
            moves.push(Move::TickByWall);
        }
        if bounds.has(Family::Clock) {
            let other = if world.wall_ms == BEFORE_MS {
                AFTER_MS
            } else {
                BEFORE_MS
            };
            moves.extend([Move::TickEarly, Move::Wall(other)]);
        }
        if bounds.has(Family::Stop) {
            if !world.haste {
                moves.push(Move::Stop(StopHow::InHaste));
                moves.push(Move::Stop(StopHow::Forced));
            }
            if world.stop_at.is_none() {
                moves.push(Move::Stop(StopHow::After(GRACE)));
            }
            if world.stop_at.is_none_or(|at| at > world.mono) {
                moves.push(Move::Stop(StopHow::Now));
                moves.push(Move::Stop(StopHow::Close));
            }
        }
    }

    fn others_act(&self, bounds: &Bounds, moves: &mut Vec<Move>) {
        let world = &self.world;
        if bounds.has(Family::Listeners) {
            moves.push(Move::Subscribers(1 - world.subscribers));
        }
        if bounds.has(Family::Queue) {
            if world.rows.len() < ROWS_MAX {
                let rows = [RowIs::Due, RowIs::Future];
                moves.extend(rows.map(|row| Move::Change(Change::Add(row))));
            }
            if let Some(head) = world.rows.first() {
                moves.push(Move::Change(Change::DeleteHead));
                if *head != RowIs::Held {
                    moves.push(Move::Change(Change::HoldHead));
                }
            }
        }
        if bounds.has(Family::Holds) {
            moves.push(Move::Change(if world.paused {
                Change::Resume
            } else {
                Change::Pause
            }));
            moves.push(Move::Change(Change::Waits(match world.waits {
                Waits::No => Waits::Until,
                Waits::Until => Waits::Person,
                Waits::Person => Waits::No,
            })));
            if world.place == Place::Free {
                moves.push(Move::Change(Change::Elsewhere(!world.elsewhere)));
            }
        }
    }

    /// How the first operation under way may end; the way that leads on comes first.
    pub(super) fn ends(&self, bounds: &Bounds) -> Vec<End> {
        let world = &self.world;
        let Some(op) = world.ops.front() else {
            return Vec::new();
        };
        let ask = |no| world.asked.iter().find(|asked| asked.no == no);
        let began = [true, false].map(|steerable| End::Began { steerable });
        let mut ends = Vec::new();
        match *op {
            // The store lets nothing begin beside a turn that is undecided.
            OpIs::Start(no) if world.place == Place::Undecided => {
                if ask(no).is_some_and(|asked| asked.ask == Ask::OrQueue) {
                    ends.push(End::Settled);
                }
                ends.push(End::NotNow);
            }
            OpIs::Claim { .. } if world.place == Place::Undecided => ends.push(End::NotNow),
            OpIs::Start(no) => {
                let queues = ask(no).is_some_and(|asked| asked.ask == Ask::OrQueue);
                if !queues || world.rows.is_empty() {
                    ends.extend(began);
                }
                ends.extend([End::Settled, End::Refused(None)]);
            }
            OpIs::Claim { request } => {
                let named = request.is_some() && !world.rows.is_empty() && !world.elsewhere;
                if named || world.claimable() {
                    ends.extend(began);
                    if bounds.has(Family::Hooks) {
                        ends.push(End::Claimed);
                    }
                    ends.extend([End::Refused(Some(RowIs::Held)), End::Refused(None)]);
                }
                ends.push(End::NotNow);
            }
            OpIs::Accept => {
                ends.extend(began);
                ends.extend([End::Refused(Some(RowIs::Held)), End::Refused(None)]);
            }
            OpIs::Unclaim(Stays::Due) => ends.push(End::Closed(Some(RowIs::Due), world.waits)),
            OpIs::Unclaim(Stays::Held) => {
                let rows = [Some(RowIs::Held), None];
                ends.extend(rows.map(|row| End::Closed(row, world.waits)));
            }
            OpIs::Complete { .. } => ends.extend([
                End::Closed(None, world.waits),
                End::Closed(Some(RowIs::Future), Waits::Until),
                End::Closed(Some(RowIs::Held), world.waits),
            ]),
            OpIs::Settle => ends.extend([
                End::Closed(None, world.waits),
                End::Closed(Some(RowIs::Due), world.waits),
                End::Closed(Some(RowIs::Held), world.waits),
            ]),
            OpIs::Steer(_) if world.ended => return vec![End::Failed],
            OpIs::Steer(_) => ends.push(End::Steered),
            OpIs::Append(_) => ends.push(End::Appended),
        }
        if bounds.has(Family::Faults) {
            ends.push(End::Failed);
            if !matches!(op, OpIs::Append(_)) {
                ends.push(End::Fenced);
            }
        }
        ends
    }
}

fn asks(bounds: &Bounds) -> Vec<Ask> {
    let mut asks = Vec::new();
    if bounds.has(Family::Starts) {
        asks.extend([Ask::OrSteer, Ask::OrQueue, Ask::OrReject, Ask::Row]);
    }
    if bounds.has(Family::Steers) {
        asks.extend([Named::Current, Named::Next].map(Ask::Steer));
    }
    if bounds.has(Family::Interrupts) {
        asks.extend([Named::Current, Named::Next, Named::Any].map(Ask::Interrupt));
        asks.push(Ask::InterruptAndPause(Named::Current));
    }
    asks
}
