//! The reference: one lane as plain values, and every operation on it in a few obvious lines.
//!
//! The invariant here: an operation that is refused has changed nothing. The order of the rows
//! that wait is a list, so there are no positions; what the store numbers, this counts.

mod turns;

use std::collections::BTreeMap;

use turnlane_store::lane::{Active, Head, LaneView, Paused, Waiting};
use turnlane_store::queue::{Append, CannotStart, Claim, MoveTo, NewRow, Row, RowState, Which};
use turnlane_store::turn::{ItemRow, TurnRow};
use turnlane_store::{Fence, Grip, Json, RowId, StoreError, ThreadId, TurnId, WorkerId};

/// A lane with all it has.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) thread: ThreadId,
    pub(crate) fence: i64,
    pub(crate) owner: Option<WorkerId>,
    pub(crate) active: Option<RowId>,
    pub(crate) max_depth: u32,
    pub(crate) paused: Option<Paused>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) rows: BTreeMap<RowId, Row>,
    pub(crate) hashes: BTreeMap<RowId, [u8; 32]>,
    /// The rows that wait, head first.
    pub(crate) visible: Vec<RowId>,
    pub(crate) turns: Vec<TurnRow>,
    pub(crate) items: Vec<ItemRow>,
}

/// What an operation of the reference ends with.
pub(crate) type End<T> = Result<T, StoreError>;

impl Lane {
    pub(crate) fn new(thread: ThreadId, max_depth: u32) -> Self {
        Self {
            thread,
            fence: 0,
            owner: None,
            active: None,
            max_depth,
            paused: None,
            waiting: None,
            rows: BTreeMap::new(),
            hashes: BTreeMap::new(),
            visible: Vec::new(),
            turns: Vec::new(),
            items: Vec::new(),
        }
    }

    /// What that worker sees of it.
    pub(crate) fn view(&self, me: WorkerId) -> LaneView {
        let active = self.active.map(|row| Active {
            row,
            turn: self.rows[&row].turn,
        });
        LaneView {
            thread: self.thread,
            fence: Fence(self.fence),
            owner: self.owner,
            active,
            depth: u32::try_from(self.visible.len()).unwrap(),
            max_depth: self.max_depth,
            paused: self.paused.clone(),
            waiting: self.waiting.clone(),
            revision: 0,
            head: self.head(me),
            archived: false,
        }
    }

    fn head(&self, me: WorkerId) -> Head {
        let Some(head) = self.visible.first() else {
            return Head::None;
        };
        let stored = &self.rows[head];
        let row = *head;
        match (stored.state, stored.bound) {
            (RowState::Blocked, _) => Head::Failed {
                row,
                failure: stored.failure.clone().unwrap(),
            },
            (_, Some(worker)) if worker != me => Head::BoundElsewhere { row, worker },
            (_, _) => Head::Due {
                row,
                at_ms: stored.not_before_ms,
            },
        }
    }

    pub(crate) fn grip(&self) -> Grip {
        Grip {
            thread: self.thread,
            fence: Fence(self.fence),
        }
    }

    fn stored(&mut self, row: RowId) -> &mut Row {
        self.rows.get_mut(&row).unwrap()
    }

    fn is_visible(&self, row: RowId) -> End<()> {
        let found = self.visible.contains(&row);
        found.then_some(()).ok_or(StoreError::RowNotFound(row))
    }

    // The queue.

    /// The row that a key stands for.
    pub(crate) fn repeated(&self, new: &NewRow, window_ms: i64, at_ms: i64) -> End<Option<RowId>> {
        let Some(key) = &new.key else {
            return Ok(None);
        };
        let same = |row: &&Row| row.key.as_ref() == Some(key);
        let live = self
            .rows
            .values()
            .filter(same)
            .find(|row| !row.state.is_ended());
        let kept = |row: &&Row| {
            let keeps = matches!(row.state, RowState::Done | RowState::Dead);
            keeps && row.ended_ms.unwrap() > at_ms - window_ms
        };
        let ended = self.rows.values().filter(same).filter(kept);
        let Some(found) = live.or(ended.max_by_key(|row| row.ended_ms)) else {
            return Ok(None);
        };
        if self.hashes[&found.id] == new.content_hash {
            Ok(Some(found.id))
        } else {
            Err(StoreError::KeyTaken { key: key.clone() })
        }
    }

    /// The turn that a row is or last was.
    pub(crate) fn turn_of(&self, row: RowId) -> Option<TurnRow> {
        let row = &self.rows[&row];
        let turn = |id: TurnId| self.turns.iter().find(|turn| turn.id == id).cloned();
        turn(row.turn).or_else(|| turn(row.last_turn?))
    }

    fn born(&mut self, new: &NewRow, state: RowState, at_ms: i64) -> Row {
        let row = Row {
            id: new.id,
            turn: new.turn,
            last_turn: None,
            source: new.source.clone(),
            position: None,
            ahead: None,
            state,
            not_before_ms: new.not_before_ms,
            attempts: 0,
            losses: 0,
            put_backs: 0,
            stops: 0,
            continues: false,
            policies: new.policies,
            bound: new.bound,
            key: new.key.clone(),
            client_id: new.client_id.clone(),
            sent: false,
            sent_boot: None,
            params: new.params.clone(),
            failure: None,
            created_ms: at_ms,
            updated_ms: 0,
            ended_ms: None,
        };
        self.hashes.insert(new.id, new.content_hash);
        row
    }

    /// Adds a row at the end, whatever its key.
    pub(crate) fn add(&mut self, append: &Append) -> End<RowId> {
        if self.visible.len() >= self.max_depth as usize {
            let max_depth = self.max_depth;
            return Err(StoreError::QueueFull { max_depth });
        }
        let row = self.born(&append.row, RowState::Queued, append.at_ms);
        self.visible.push(row.id);
        self.rows.insert(row.id, row);
        Ok(append.row.id)
    }

    pub(crate) fn update(&mut self, row: RowId, change: impl Fn(&Json) -> Json) -> End<()> {
        self.is_visible(row)?;
        let row = self.stored(row);
        row.params = change(&row.params);
        row.continues = false;
        Ok(())
    }

    pub(crate) fn delete(&mut self, row: RowId, at_ms: i64) -> bool {
        let there = self.visible.contains(&row);
        if there {
            self.visible.retain(|id| *id != row);
            self.ended(row, RowState::Cancelled, at_ms);
        }
        there
    }

    pub(crate) fn reorder(&mut self, order: &[RowId]) -> End<()> {
        let sorted = |rows: &[RowId]| {
            let mut rows = rows.to_vec();
            rows.sort();
            rows
        };
        if sorted(order) != sorted(&self.visible) {
            return Err(StoreError::NotAPermutation);
        }
        self.visible = order.to_vec();
        Ok(())
    }

    pub(crate) fn move_row(&mut self, row: RowId, to: MoveTo) -> End<()> {
        self.is_visible(row)?;
        if let MoveTo::Before(other) | MoveTo::After(other) = to {
            self.is_visible(other)?;
            if other == row {
                return Ok(());
            }
        }
        self.visible.retain(|id| *id != row);
        let place = |other| self.visible.iter().position(|id| *id == other).unwrap();
        let index = match to {
            MoveTo::Before(other) => place(other),
            MoveTo::After(other) => place(other) + 1,
            MoveTo::Index(index) => self.visible.len().min(index as usize),
        };
        self.visible.insert(index, row);
        Ok(())
    }

    pub(crate) fn retry(&mut self, row: Option<RowId>) -> End<RowId> {
        let head = self.visible.first().copied();
        let row = row.or(head).ok_or(StoreError::QueueEmpty)?;
        self.is_visible(row)?;
        let stored = self.stored(row);
        if stored.state != RowState::Blocked {
            return Err(StoreError::RowNotFailed(row));
        }
        stored.state = RowState::Queued;
        stored.failure = None;
        Ok(row)
    }

    /// Ends a pause and a wait, and the delay that the wait had put on the head.
    pub(crate) fn resume(&mut self) {
        self.paused = None;
        let Some(until_ms) = self.waiting.take().and_then(|waiting| waiting.until_ms) else {
            return;
        };
        if let Some(head) = self.visible.first().copied() {
            let head = self.stored(head);
            let by_wait = head.state == RowState::Queued && head.attempts > 0;
            if by_wait && head.not_before_ms == until_ms {
                head.not_before_ms = 0;
            }
        }
    }

    // Claims.

    /// The row that a claim takes; none when something holds the lane.
    pub(crate) fn claim(&mut self, me: WorkerId, claim: &Claim) -> End<Option<RowId>> {
        if self.active.is_some() || self.owner.is_some_and(|owner| owner != me) {
            return Ok(None);
        }
        let head = self.visible.first().copied();
        let row = match claim.which {
            Which::Head => {
                let waits = self
                    .waiting
                    .as_ref()
                    .is_some_and(|wait| wait.holds(claim.at_ms));
                let Some(row) = head.filter(|_| self.paused.is_none() && !waits) else {
                    return Ok(None);
                };
                let stored = &self.rows[&row];
                if stored.state == RowState::Blocked || stored.not_before_ms > claim.at_ms {
                    return Ok(None);
                }
                row
            }
            Which::HeadNow => {
                let row = head.ok_or(StoreError::QueueEmpty)?;
                if let Some(failure) = self.rows[&row].failure.clone() {
                    return Err(StoreError::HeadFailed { row, failure });
                }
                row
            }
            Which::Row(row) => row,
        };
        self.is_visible(row)?;
        if self.rows[&row].bound.is_some_and(|worker| worker != me) {
            return Ok(None);
        }
        if claim.which != Which::Head {
            self.resume();
        }
        self.waiting = None;
        self.visible.retain(|id| *id != row);
        self.occupy(me, row);
        let stored = self.stored(row);
        stored.state = RowState::Claimed;
        stored.failure = None;
        stored.sent = false;
        stored.sent_boot = None;
        stored.attempts += 1;
        Ok(Some(row))
    }

    fn occupy(&mut self, me: WorkerId, row: RowId) {
        self.active = Some(row);
        self.owner = Some(me);
        self.fence += 1;
    }

    /// Whether that worker may write with that grip.
    pub(crate) fn held(&self, me: WorkerId, grip: Grip) -> End<()> {
        let held = self.owner == Some(me) && self.grip() == grip;
        held.then_some(()).ok_or(StoreError::Fenced)
    }

    pub(crate) fn under_way(&self, row: RowId, state: RowState) -> End<()> {
        let fits = self.active == Some(row) && self.rows[&row].state == state;
        fits.then_some(()).ok_or(StoreError::RowNotFound(row))
    }

    /// Deals with a claimed row that is not accepted.
    pub(crate) fn refuse(&mut self, row: RowId, how: &CannotStart, at_ms: i64) {
        self.active = None;
        match how {
            CannotStart::Block { failure, turn } => {
                self.comes_back(row, *turn);
                self.blocked(row, failure);
            }
            CannotStart::Fail(ended) => {
                let stored = self.rows[&row].clone();
                self.record(&stored, &ended.accept, Some(&ended.end), at_ms);
                self.ended(row, RowState::Done, at_ms);
            }
            CannotStart::Back {
                turn,
                not_before_ms,
                waiting,
            } => {
                self.comes_back(row, *turn);
                self.stored(row).not_before_ms = *not_before_ms;
                self.waiting = waiting.clone().or(self.waiting.take());
            }
            CannotStart::Dead { failure } => {
                self.stored(row).failure = Some(failure.clone());
                self.ended(row, RowState::Dead, at_ms);
            }
            CannotStart::Cancel => self.ended(row, RowState::Cancelled, at_ms),
        }
    }

    fn ended(&mut self, row: RowId, state: RowState, at_ms: i64) {
        let row = self.stored(row);
        row.state = state;
        row.ended_ms = Some(at_ms);
    }

    fn comes_back(&mut self, row: RowId, turn: TurnId) {
        let was = self.rows[&row].turn;
        let accepted = self.turns.iter().any(|turn| turn.id == was);
        let stored = self.stored(row);
        if accepted {
            stored.last_turn = Some(was);
        }
        stored.turn = turn;
        stored.state = RowState::Queued;
        stored.failure = None;
        stored.sent = false;
        stored.sent_boot = None;
        self.visible.insert(0, row);
    }

    fn blocked(&mut self, row: RowId, failure: &Json) {
        let row = self.stored(row);
        row.state = RowState::Blocked;
        row.failure = Some(failure.clone());
    }
}
