//! Steps: small numbers that proptest chooses and shrinks, and the operations they stand for.
//!
//! The invariant here: every step means something in every state, so removing one from a list
//! leaves a list that can be run. Which row, grip or worker a number stands for is looked up in
//! the reference; mostly one that makes sense, sometimes any.

mod choice;

use proptest::prelude::*;
use turnlane_store::lane::Paused;
use turnlane_store::queue::{Append, Claim, Move, MoveTo, Update, Which};
use turnlane_store::recovery::Whose;
use turnlane_store::turn::{ItemRow, WhenBusy};

use super::op::{KEY_WINDOW, Op, What, next_turn};
use super::world::{Given, LANES, WORKERS, World};
use crate::build::json;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Append,
    AppendKeyed,
    AppendLater,
    AppendBound,
    Update,
    Delete,
    Reorder,
    Move,
    Retry,
    Pause,
    Resume,
    Claim,
    ClaimNow,
    Begin,
    BeginNow,
    BeginRefused,
    Accept,
    AcceptRefused,
    Unclaim,
    MarkSent,
    Steer,
    Put,
    Complete,
    Start,
    StartKeyed,
    StartRefused,
    Take,
    Release,
    Recover,
    TakeOver,
    Decide,
    Kill,
    Close,
}

/// One step; the numbers choose among what is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    lane: usize,
    who: u8,
    grip: u8,
    pick: u8,
    more: u8,
    clock: u8,
}

/// What a step stands for.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A worker asks for something.
    Ask(usize, Box<Op>),
    /// A worker is killed, and another one comes.
    Kill(usize),
    /// A worker ends in order, and another one comes.
    Close(usize),
}

/// Lists of steps.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..48)
}

fn step() -> impl Strategy<Value = Step> {
    let numbers = (
        0..LANES,
        0..8_u8,
        0..6_u8,
        any::<u8>(),
        any::<u8>(),
        0..12_u8,
    );
    (kind(), numbers).prop_map(|(kind, (lane, who, grip, pick, more, clock))| Step {
        kind,
        lane,
        who,
        grip,
        pick,
        more,
        clock,
    })
}

fn kind() -> impl Strategy<Value = Kind> {
    let often = [
        (8, Kind::Append),
        (7, Kind::AppendKeyed),
        (2, Kind::AppendLater),
        (2, Kind::AppendBound),
        (5, Kind::Claim),
        (2, Kind::ClaimNow),
        (8, Kind::Begin),
        (3, Kind::BeginNow),
        (2, Kind::BeginRefused),
        (4, Kind::Accept),
        (1, Kind::AcceptRefused),
        (3, Kind::Unclaim),
        (9, Kind::Complete),
        (3, Kind::Start),
        (2, Kind::StartKeyed),
        (4, Kind::Recover),
        (3, Kind::TakeOver),
        (3, Kind::Decide),
        (4, Kind::Kill),
        (2, Kind::Put),
    ];
    let seldom = [
        Kind::Update,
        Kind::Delete,
        Kind::Reorder,
        Kind::Move,
        Kind::Retry,
        Kind::Pause,
        Kind::Resume,
        Kind::MarkSent,
        Kind::Steer,
        Kind::StartRefused,
        Kind::Take,
        Kind::Release,
        Kind::Close,
    ];
    let seldom = seldom.map(|kind| (2, kind));
    let all = often.into_iter().chain(seldom);
    prop::strategy::Union::new_weighted(all.map(|(weight, kind)| (weight, Just(kind))).collect())
}

impl Step {
    /// What it stands for in this world, whose clock moves.
    pub(crate) fn event(self, world: &mut World) -> Event {
        world.now_ms = match self.clock {
            0..9 => world.now_ms + 1,
            9 => world.now_ms + 1_000,
            10 => (world.now_ms - 1_500).max(0),
            _ => 1_000_000_000 + i64::from(self.more),
        };
        match self.kind {
            Kind::Kill => Event::Kill(self.slot(world)),
            Kind::Close => Event::Close(self.slot(world)),
            _ => Event::Ask(self.slot(world), Box::new(self.op(world))),
        }
    }

    /// Mostly the lane's owner, else any worker.
    fn slot(self, world: &World) -> usize {
        let owner = world.lanes[self.lane].owner;
        let owner = owner.and_then(|owner| world.open.iter().position(|open| *open == owner));
        match owner {
            Some(owner) if self.who < 5 && self.kind != Kind::TakeOver => owner,
            Some(_) | None => usize::from(self.who) % WORKERS,
        }
    }

    fn op(self, world: &mut World) -> Op {
        let at_ms = world.now_ms;
        let thread = world.lanes[self.lane].thread;
        let claim = |which| Claim {
            thread,
            which,
            at_ms,
        };
        match self.kind {
            Kind::Append | Kind::AppendKeyed | Kind::AppendLater | Kind::AppendBound => {
                Op::Append(Append {
                    thread,
                    row: self.new_row(world),
                    key_window_ms: KEY_WINDOW,
                    at_ms,
                })
            }
            Kind::Start | Kind::StartKeyed | Kind::StartRefused => {
                let how = (self.kind == Kind::StartRefused).then(|| self.how(at_ms));
                let when_busy = [WhenBusy::Refuse, WhenBusy::Queue][usize::from(self.more & 1)];
                Op::Start(thread, self.new_row(world), how, when_busy, at_ms)
            }
            Kind::Claim => Op::Claim(claim(Which::Head)),
            Kind::Begin => Op::Begin(claim(Which::Head), None),
            Kind::BeginRefused => Op::Begin(claim(Which::Head), Some(self.how(at_ms))),
            Kind::ClaimNow => Op::Claim(claim(self.now(world))),
            Kind::BeginNow => Op::Begin(claim(self.now(world)), None),
            Kind::Take => Op::Take(thread),
            Kind::Recover => Op::Recover(Whose::Dead, self.what(), at_ms),
            Kind::TakeOver => Op::Recover(Whose::Of(self.other(world)), self.what(), at_ms),
            kind @ (Kind::Update
            | Kind::Delete
            | Kind::Reorder
            | Kind::Move
            | Kind::Retry
            | Kind::Pause
            | Kind::Resume) => self.queue_op(kind, world),
            _ => self.grip_op(world),
        }
    }

    fn queue_op(self, kind: Kind, world: &mut World) -> Op {
        let (thread, at_ms) = (world.lanes[self.lane].thread, world.now_ms);
        let row = self.row(world, self.pick);
        match kind {
            Kind::Update => Op::Update(Update {
                thread,
                row,
                params: json(&format!("{}", self.more)).into(),
                at_ms,
            }),
            Kind::Delete => Op::Delete(thread, row, at_ms),
            Kind::Reorder => {
                let mut rows = world.lanes[self.lane].visible.clone();
                let len = rows.len().max(1);
                rows.rotate_left(usize::from(self.pick) % len);
                // Now and then not the rows that there are.
                match self.more {
                    0..20 => drop(rows.pop()),
                    20..40 => rows.push(row),
                    40..150 => rows.reverse(),
                    _ => {}
                }
                Op::Reorder(thread, rows, at_ms)
            }
            Kind::Move => {
                let other = self.row(world, self.more);
                let to = match self.more % 3 {
                    0 => MoveTo::Index(u32::from(self.more) % 6),
                    1 => MoveTo::Before(other),
                    _ => MoveTo::After(other),
                };
                Op::Move(Move {
                    thread,
                    row,
                    to,
                    at_ms,
                })
            }
            Kind::Retry => Op::Retry(thread, (self.more > 100).then_some(row), at_ms),
            Kind::Pause => {
                let paused = Paused {
                    reason: format!("{}", self.more),
                    by: None,
                    since_ms: at_ms,
                };
                Op::Pause(thread, paused)
            }
            _ => Op::Resume(thread, at_ms),
        }
    }

    fn grip_op(self, world: &mut World) -> Op {
        let at_ms = world.now_ms;
        let Given { grip, row } = self.given(world);
        let lane = world.lane(grip.thread);
        let Some(stored) = lane.rows.get(&row).cloned() else {
            return Op::Release(grip);
        };
        let turn = lane.turns.iter().rfind(|turn| turn.row == Some(row));
        let turn_ord = turn.map_or(1, |turn| turn.ord);
        let item = |kind: &str, turn_ord: i64, ord: i64| ItemRow {
            ord,
            turn_ord,
            id: format!("item-{ord}"),
            kind: kind.to_owned(),
            body: json("{}"),
            started_ms: at_ms,
            completed_ms: at_ms,
        };
        // Nothing is produced before a message was accepted.
        let ord = lane.next_item();
        match self.kind {
            Kind::Accept => Op::Accept(grip, row, None, at_ms),
            Kind::AcceptRefused => Op::Accept(grip, row, Some(self.how(at_ms)), at_ms),
            Kind::Unclaim => Op::Unclaim(grip, stored, self.how(at_ms), at_ms),
            Kind::Steer if turn.is_some() => Op::Steer(grip, item("userMessage", turn_ord, ord)),
            Kind::Put if turn.is_some() => Op::Put(grip, item("command", turn_ord, ord)),
            Kind::MarkSent | Kind::Steer | Kind::Put => Op::MarkSent(grip, row, at_ms),
            Kind::Decide => {
                let what = match self.what() {
                    What::Ask | What::Leave => What::Done,
                    what => what,
                };
                Op::Decide(grip, stored, what, at_ms)
            }
            Kind::Complete => {
                let items = match self.pick % 4 {
                    0 => vec![item("agentMessage", turn_ord, ord)],
                    _ => Vec::new(),
                };
                let mut complete = self.complete(Given { grip, row }, next_turn(&stored), at_ms);
                complete.turn_ord = turn_ord;
                complete.put.items = items;
                Op::Complete(Box::new(complete))
            }
            _ => Op::Release(grip),
        }
    }
}
