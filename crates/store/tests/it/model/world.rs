//! The reference of a whole database: some lanes, some workers, and the grips they were given.
//!
//! The invariant here: whatever a step needs to choose (a row, a grip, an id) follows from what is
//! here, so the same steps are the same run.

use turnlane_store::queue::{Append, Claim, Row, RowState};
use turnlane_store::recovery::Whose;
use turnlane_store::turn::WhenBusy;
use turnlane_store::{Grip, RowId, StoreError, ThreadId, WorkerId};
use uuid::Uuid;

use super::lane::Lane;
use super::op::{Begun, End, How, KEY_WINDOW, Op, What, plain, refused};
use crate::build::said;

/// How many lanes a run has, and how many rows may wait in each.
pub(crate) const LANES: usize = 2;
pub(crate) const MAX_DEPTH: u32 = 4;
/// How many workers share the database at a time.
pub(crate) const WORKERS: usize = 3;

/// What a worker was given with a claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) grip: Grip,
    pub(crate) row: RowId,
}

/// All that the database should hold.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) lanes: Vec<Lane>,
    /// Who is alive.
    pub(crate) open: Vec<WorkerId>,
    /// What was given, oldest first, whether it still holds or not.
    pub(crate) given: Vec<Given>,
    pub(crate) now_ms: i64,
    numbers: u128,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut world = Self {
            lanes: Vec::new(),
            open: Vec::new(),
            given: Vec::new(),
            now_ms: 1_000,
            numbers: 0,
        };
        for _ in 0..LANES {
            let thread = Uuid::from_u128(1 << 120 | world.number()).into();
            world.lanes.push(Lane::new(thread, MAX_DEPTH));
        }
        for _ in 0..WORKERS {
            let worker = world.new_worker();
            world.open.push(worker);
        }
        world
    }

    pub(crate) fn number(&mut self) -> u128 {
        self.numbers += 1;
        self.numbers
    }

    pub(crate) fn new_worker(&mut self) -> WorkerId {
        Uuid::from_u128(4 << 120 | self.number()).into()
    }

    pub(crate) fn new_row(&mut self) -> RowId {
        Uuid::from_u128(2 << 120 | self.number()).into()
    }

    pub(crate) fn is_dead(&self, worker: WorkerId) -> bool {
        !self.open.contains(&worker)
    }

    pub(crate) fn lane(&mut self, thread: ThreadId) -> &mut Lane {
        let lane = self.lanes.iter_mut().find(|lane| lane.thread == thread);
        lane.unwrap()
    }

    /// A worker ends without a word, and another one comes.
    pub(crate) fn replace(&mut self, slot: usize) -> WorkerId {
        let worker = self.new_worker();
        self.open[slot] = worker;
        worker
    }

    /// A worker gives up what it can, ends, and another one comes.
    pub(crate) fn close(&mut self, slot: usize) -> WorkerId {
        let leaving = self.open[slot];
        for lane in &mut self.lanes {
            if lane.owner == Some(leaving) && lane.active.is_none() {
                lane.give_up();
            }
            lane.cancel_bound(leaving, 0);
        }
        self.replace(slot)
    }

    /// What the operation should end with; it is carried out here.
    pub(crate) fn apply(&mut self, me: WorkerId, op: &Op) -> End {
        let end = match op {
            Op::Start(thread, row, how, when_busy, at_ms) => {
                let append = Append {
                    thread: *thread,
                    row: row.clone(),
                    key_window_ms: KEY_WINDOW,
                    at_ms: *at_ms,
                };
                self.start(me, &append, *how, *when_busy)
            }
            Op::Take(thread) => Ok(self.take(me, *thread)),
            Op::Recover(whose, what, at_ms) => Ok(self.recover(me, whose, *what, *at_ms)),
            op => self.on_lane(me, op),
        };
        let end = end.unwrap_or_else(|error| refused(&error));
        let (grip, row) = match &end {
            End::Claimed(grip, row) => (*grip, row.id),
            End::Begun(begun) => (begun.grip, begun.row.id),
            End::Recovered(lanes) => {
                for (_, row, grip) in lanes {
                    if let (Some(row), Some(grip)) = (*row, *grip) {
                        self.given.push(Given { grip, row });
                    }
                }
                return end;
            }
            _ => return end,
        };
        self.given.push(Given { grip, row });
        end
    }

    fn on_lane(&mut self, me: WorkerId, op: &Op) -> Result<End, StoreError> {
        match op {
            Op::Append(append) => {
                let lane = self.lane(append.thread);
                if let Some(row) = lane.repeated(&append.row, KEY_WINDOW, append.at_ms)? {
                    return Ok(repeated(lane, row));
                }
                let row = lane.add(append)?;
                Ok(End::New(shown(lane, row)))
            }
            Op::Update(update) => {
                let lane = self.lane(update.thread);
                lane.update(update.row, |params| update.params.rewrite(params))?;
                Ok(End::Row(shown(lane, update.row)))
            }
            Op::Delete(thread, row, at_ms) => {
                Ok(End::Deleted(self.lane(*thread).delete(*row, *at_ms)))
            }
            Op::Reorder(thread, rows, _) => self.lane(*thread).reorder(rows).map(|()| End::Nothing),
            Op::Move(to) => {
                let lane = self.lane(to.thread);
                lane.move_row(to.row, to.to)?;
                Ok(End::Row(shown(lane, to.row)))
            }
            Op::Retry(thread, row, _) => {
                let lane = self.lane(*thread);
                let row = lane.retry(*row)?;
                Ok(End::Row(shown(lane, row)))
            }
            Op::Pause(thread, paused) => {
                self.lane(*thread)
                    .paused
                    .get_or_insert_with(|| paused.clone());
                Ok(End::Nothing)
            }
            Op::Resume(thread, _) => {
                self.lane(*thread).resume();
                Ok(End::Nothing)
            }
            Op::Claim(claim) => {
                let lane = self.lane(claim.thread);
                let row = lane.claim(me, claim)?;
                Ok(row.map_or(End::NotNow, |row| {
                    End::Claimed(lane.grip(), shown(lane, row))
                }))
            }
            Op::Begin(claim, how) => self.begin(me, claim, *how),
            op => self.with_grip(me, op),
        }
    }

    fn begin(&mut self, me: WorkerId, claim: &Claim, how: Option<How>) -> Result<End, StoreError> {
        let lane = self.lane(claim.thread);
        let Some(row) = lane.claim(me, claim)? else {
            return Ok(End::NotNow);
        };
        Ok(accept(lane, row, how, claim.at_ms))
    }

    fn with_grip(&mut self, me: WorkerId, op: &Op) -> Result<End, StoreError> {
        let grip = match op {
            Op::Accept(grip, ..)
            | Op::Unclaim(grip, ..)
            | Op::MarkSent(grip, ..)
            | Op::Steer(grip, _)
            | Op::Put(grip, _)
            | Op::Decide(grip, ..)
            | Op::Release(grip) => *grip,
            Op::Complete(complete) => complete.grip,
            op => unreachable!("{op:?} needs no grip"),
        };
        let lane = self.lane(grip.thread);
        lane.held(me, grip)?;
        match op {
            Op::Accept(_, row, how, at_ms) => {
                lane.under_way(*row, RowState::Claimed)?;
                Ok(accept(lane, *row, *how, *at_ms))
            }
            Op::Unclaim(_, row, how, at_ms) => {
                lane.under_way(row.id, RowState::Claimed)?;
                Ok(accept(lane, row.id, Some(*how), *at_ms))
            }
            Op::MarkSent(_, row, _) => {
                lane.mark_sent(*row)?;
                Ok(End::Nothing)
            }
            Op::Steer(_, item) | Op::Put(_, item) => {
                if matches!(op, Op::Steer(..)) && lane.active.is_none() {
                    return Err(StoreError::TurnNotFound);
                }
                lane.items.push(item.clone());
                Ok(End::Nothing)
            }
            Op::Complete(complete) => {
                lane.complete(complete)?;
                Ok(End::Row(shown(lane, complete.row)))
            }
            Op::Decide(_, row, what, at_ms) => {
                lane.under_way(row.id, RowState::Reconcile)?;
                let turn = lane.turns.iter().find(|turn| turn.id == row.turn);
                let decision = what.of(row, turn);
                lane.decided(&decision, *at_ms);
                Ok(End::Nothing)
            }
            _ => {
                if lane.active.is_some() {
                    return Err(StoreError::Busy(lane.thread));
                }
                lane.give_up();
                Ok(End::Nothing)
            }
        }
    }

    fn start(
        &mut self,
        me: WorkerId,
        append: &Append,
        how: Option<How>,
        when_busy: WhenBusy,
    ) -> Result<End, StoreError> {
        let open = self.open.clone();
        let lane = self.lane(append.thread);
        if let Some(row) = lane.repeated(&append.row, KEY_WINDOW, append.at_ms)? {
            return Ok(repeated(lane, row));
        }
        let held =
            |owner: &WorkerId| *owner != me && (lane.active.is_some() || open.contains(owner));
        let elsewhere = lane.owner.filter(held);
        let obstacle = elsewhere.is_some() || lane.active.is_some();
        match when_busy {
            WhenBusy::Queue if obstacle || !lane.visible.is_empty() => {
                let row = lane.add(append)?;
                return Ok(End::New(shown(lane, row)));
            }
            WhenBusy::Refuse if obstacle => {
                let thread = append.thread;
                let refusal = elsewhere.map(|worker| StoreError::OwnedElsewhere { thread, worker });
                return refusal.map_or(Ok(End::Busy), Err);
            }
            WhenBusy::Queue | WhenBusy::Refuse => {}
        }
        let (new, at_ms) = (&append.row, append.at_ms);
        match how {
            None => {
                lane.begin_direct(me, new, &said(&new.client_id), at_ms);
                Ok(begun(lane, new.id))
            }
            Some(how) => {
                let mut newborn = lane.clone();
                newborn.begin_direct(me, new, &said(""), at_ms);
                let how = how.of(&newborn.rows[&new.id]);
                let row = lane.refuse_direct(new, &how, at_ms);
                let turn = lane
                    .turns
                    .last()
                    .filter(|turn| turn.id == row.turn)
                    .cloned();
                Ok(End::CannotStart(row, turn))
            }
        }
    }

    fn take(&mut self, me: WorkerId, thread: ThreadId) -> End {
        let open = self.open.clone();
        let lane = self.lane(thread);
        if lane.owner == Some(me) {
            return End::Ours;
        }
        match lane.owner {
            Some(owner) if lane.active.is_some() || open.contains(&owner) => End::Elsewhere(owner),
            Some(_) | None => {
                lane.owner = Some(me);
                lane.fence += 1;
                End::Ours
            }
        }
    }

    fn recover(&mut self, me: WorkerId, whose: &Whose, what: What, at_ms: i64) -> End {
        let open = self.open.clone();
        let gone = |worker: WorkerId| match whose {
            Whose::Dead => !open.contains(&worker),
            Whose::Of(one) => *one == worker,
            Whose::Lane(_) | Whose::LaneUnlessAlive(_) => false,
        };
        let mut found = Vec::new();
        for lane in &mut self.lanes {
            // A lane that is left as it is stays its owner's.
            let leaves = what == What::Leave && lane.active.is_some();
            if lane.owner.is_some_and(gone) && !leaves {
                lane.give_up();
                let row = lane.active;
                let asked = row.is_some_and(|row| {
                    let stored = &lane.rows[&row];
                    let turn = lane.turns.iter().find(|turn| turn.id == stored.turn);
                    lane.decided(&what.of(stored, turn), at_ms)
                });
                if asked {
                    lane.owner = Some(me);
                }
                found.push((lane.thread, row, asked.then(|| lane.grip())));
            }
            let bound = |row: &Row| row.bound.filter(|worker| gone(*worker));
            let workers: Vec<_> = lane.rows.values().filter_map(bound).collect();
            for worker in workers {
                lane.cancel_bound(worker, at_ms);
            }
        }
        End::Recovered(found)
    }
}

/// A row as it is compared.
pub(crate) fn shown(lane: &Lane, row: RowId) -> Row {
    plain(lane.rows[&row].clone())
}

fn repeated(lane: &Lane, row: RowId) -> End {
    End::Repeated(shown(lane, row), lane.turn_of(row))
}

fn begun(lane: &Lane, row: RowId) -> End {
    let turn = lane.turns.last().unwrap().clone();
    let item = lane.items.iter().find(|item| item.turn_ord == turn.ord);
    End::Begun(Box::new(Begun {
        grip: lane.grip(),
        row: shown(lane, row),
        turn,
        item: item.cloned(),
        next_item: lane.next_item(),
    }))
}

fn accept(lane: &mut Lane, row: RowId, how: Option<How>, at_ms: i64) -> End {
    let stored = lane.rows[&row].clone();
    let Some(how) = how else {
        lane.begin(row, &said(&stored.client_id), at_ms);
        return begun(lane, row);
    };
    lane.refuse(row, &how.of(&stored), at_ms);
    let turn = lane.turns.last().filter(|turn| turn.id == stored.turn);
    End::CannotStart(shown(lane, row), turn.cloned())
}
