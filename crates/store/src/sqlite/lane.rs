//! One lane inside a transaction: read, changed in memory, written back whole.
//!
//! The invariants here: the fence grows by one at every claim and every change of the owner;
//! `depth` counts the rows that wait; `ready_ms` is NULL when there is nothing to claim and 0 when
//! somebody should look. Every write of the lane's owner goes through [`Lane::held`], which compares
//! owner and fence first.
//!
//! Who becomes the owner is decided in `owner` and `claim`.

use std::cell::RefCell;

use rusqlite::params;

use super::Db;
use super::fault::Fault;
use super::rows::{InOrder, find_row};
use super::statement::{all, execute, first, single};
use crate::census::{Census, WAIT_KINDS_MAX};
use crate::error::StoreError;
use crate::ids::{Fence, Grip, RowId, ThreadId, TurnId, WorkerId};
use crate::lane::{Active, Changed, Head, LaneView, LoginStamp, Paused, Waiting};
use crate::queue::{Row, RowState};

/// How far apart rows are placed, so that others fit between them.
pub(super) const STEP: i64 = 1024;

/// A lane as it is in the running transaction.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) thread: ThreadId,
    pub(super) fence: Fence,
    pub(super) active: Option<RowId>,
    pub(super) owner: Option<WorkerId>,
    pub(super) depth: u32,
    pub(super) max_depth: u32,
    /// Above all positions of the lane.
    pub(super) next_pos: i64,
    pub(super) paused: Option<Paused>,
    pub(super) waiting: Option<Waiting>,
    pub(super) revision: i64,
    pub(super) ready_ms: Option<i64>,
    pub(super) archived: bool,
    /// The columns that indexes look at, as they are in the database.
    stored: RefCell<Indexed>,
}

/// The columns of a lane that indexes look at. SQLite writes an index anew for every column that a
/// statement names, whether it changes or not, so what has not changed is not named.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Indexed {
    active: Option<RowId>,
    owner: Option<WorkerId>,
    paused: Option<Paused>,
    waiting: Option<Waiting>,
    ready_ms: Option<i64>,
}

impl Lane {
    /// The lane of a thread.
    pub(super) fn find(db: &Db<'_>, thread: ThreadId) -> Result<Self, Fault> {
        Self::read(db, thread)?.ok_or(Fault::Refused(StoreError::ThreadNotFound(thread)))
    }

    /// The lane of a thread that is not put away.
    pub(super) fn find_open(db: &Db<'_>, thread: ThreadId) -> Result<Self, Fault> {
        let lane = Self::find(db, thread)?;
        if lane.archived {
            return Err(StoreError::Archived(thread).into());
        }
        Ok(lane)
    }

    /// The lane that a grip is for, if the grip still holds.
    pub(super) fn held(db: &Db<'_>, grip: Grip) -> Result<Self, Fault> {
        Self::read(db, grip.thread)?
            .filter(|lane| lane.owner == Some(db.me) && lane.fence == grip.fence)
            .ok_or(Fault::Refused(StoreError::Fenced))
    }

    /// The lane of a thread, if there is one.
    pub(super) fn read(db: &Db<'_>, thread: ThreadId) -> Result<Option<Self>, Fault> {
        first(db, include_str!("sql/lane.sql"), params![thread], |row| {
            let mut from = InOrder::of(row);
            let thread = from.next()?;
            let fence = from.next()?;
            let active = from.next()?;
            let owner = from.next()?;
            let (depth, max_depth, next_pos) = (from.next()?, from.next()?, from.next()?);
            let paused: Option<Paused> = from.next()?;
            let waiting: Option<Waiting> = from.next()?;
            let revision = from.next()?;
            let ready_ms = from.next()?;
            Ok(Self {
                thread,
                fence,
                active,
                owner,
                depth,
                max_depth,
                next_pos,
                revision,
                ready_ms,
                archived: from.next()?,
                stored: RefCell::new(Indexed {
                    active,
                    owner,
                    paused: paused.clone(),
                    waiting: waiting.clone(),
                    ready_ms,
                }),
                paused,
                waiting,
            })
        })
    }

    fn indexed(&self) -> Indexed {
        Indexed {
            active: self.active,
            owner: self.owner,
            paused: self.paused.clone(),
            waiting: self.waiting.clone(),
            ready_ms: self.ready_ms,
        }
    }

    /// Writes the lane back.
    pub(super) fn save(&self, db: &Db<'_>) -> Result<(), Fault> {
        const COUNTS: &str = "UPDATE lane SET fence = ?2, depth = ?3, next_pos = ?4, revision = ?5 \
             WHERE thread_id = ?1";
        let indexed = self.indexed();
        if *self.stored.borrow() == indexed {
            let counts = params![
                self.thread,
                self.fence,
                self.depth,
                self.next_pos,
                self.revision
            ];
            execute(db, COUNTS, counts)?;
            return Ok(());
        }
        execute(
            db,
            include_str!("sql/save_lane.sql"),
            params![
                self.thread,
                self.fence,
                self.active,
                self.owner,
                self.depth,
                self.next_pos,
                self.paused,
                self.waiting,
                self.revision,
                self.ready_ms,
            ],
        )?;
        self.stored.replace(indexed);
        Ok(())
    }

    /// Writes the lane back and shows it next to what was made.
    pub(super) fn save_with<T>(&self, db: &Db<'_>, value: T) -> Result<Changed<T>, Fault> {
        self.save(db)?;
        Ok(Changed {
            value,
            lane: self.view(db)?,
        })
    }

    /// The picture of the lane for the caller.
    pub(super) fn view(&self, db: &Db<'_>) -> Result<LaneView, Fault> {
        let active = match self.active {
            None => None,
            Some(row) => Some(Active {
                row,
                turn: self.turn_of(db, row)?,
            }),
        };
        Ok(LaneView {
            thread: self.thread,
            fence: self.fence,
            owner: self.owner,
            active,
            depth: self.depth,
            max_depth: self.max_depth,
            paused: self.paused.clone(),
            waiting: self.waiting.clone(),
            revision: self.revision,
            head: self.head(db)?,
            archived: self.archived,
        })
    }

    fn turn_of(&self, db: &Db<'_>, row: RowId) -> Result<TurnId, Fault> {
        const TURN_OF: &str = "SELECT turn_id FROM queued_turn WHERE thread_id = ?1 AND id = ?2";
        single(db, TURN_OF, params![self.thread, row], |row| row.get(0))
    }

    /// The first of the rows that wait.
    pub(super) fn head(&self, db: &Db<'_>) -> Result<Head, Fault> {
        let head = first(
            db,
            include_str!("sql/head.sql"),
            params![self.thread],
            |row| {
                let mut from = InOrder::of(row);
                let row = from.next()?;
                let state: RowState = from.next()?;
                let at_ms = from.next()?;
                let bound: Option<WorkerId> = from.next()?;
                Ok(match (state, bound) {
                    (RowState::Blocked, _) => Head::Failed {
                        row,
                        failure: from.next()?,
                    },
                    (_, Some(worker)) if worker != db.me => Head::BoundElsewhere { row, worker },
                    (_, _) => Head::Due { row, at_ms },
                })
            },
        )?;
        Ok(head.unwrap_or(Head::None))
    }

    /// The row under way, if it is this one in one of these states.
    pub(super) fn active_row(
        &self,
        db: &Db<'_>,
        row: RowId,
        states: &[RowState],
    ) -> Result<Row, Fault> {
        let found = match self.active {
            Some(active) if active == row => find_row(db, self.thread, row)?,
            Some(_) | None => None,
        };
        found
            .filter(|row| states.contains(&row.state))
            .ok_or(Fault::Refused(StoreError::RowNotFound(row)))
    }

    /// The other worker that a change has to wait for: a dead one counts only while its row is
    /// still to be decided.
    pub(super) fn held_elsewhere(&self, db: &Db<'_>) -> Option<WorkerId> {
        let owner = self.owner.filter(|owner| *owner != db.me)?;
        (self.active.is_some() || !db.is_dead(owner)).then_some(owner)
    }

    /// What the owner needs for its writes.
    pub(super) fn grip(&self) -> Grip {
        Grip {
            thread: self.thread,
            fence: self.fence,
        }
    }

    /// Changes the owner, which old grips do not survive.
    pub(super) fn give_to(&mut self, owner: Option<WorkerId>) {
        if self.owner != owner {
            self.owner = owner;
            self.fence.0 += 1;
        }
    }

    /// Lets a row occupy the lane: one step of the fence, whether or not the owner changes.
    pub(super) fn occupy(&mut self, owner: WorkerId, row: RowId) {
        self.active = Some(row);
        self.owner = Some(owner);
        self.fence.0 += 1;
        self.ready_ms = None;
    }

    /// Lets the lane be idle, and says when it is worth a claim.
    pub(super) fn vacate(&mut self) {
        self.active = None;
        self.look_again();
        if let (Some(_), Some(waiting)) = (self.ready_ms, &self.waiting) {
            self.ready_ms = waiting.until_ms;
        }
    }

    /// Asks for a look while rows wait; the next claim finds out what it is worth.
    pub(super) fn look_again(&mut self) {
        self.ready_ms = (self.depth > 0 && !self.archived).then_some(0);
    }

    /// Notes that what is visible of the queue has changed.
    pub(super) fn touch(&mut self) {
        self.revision += 1;
        self.look_again();
    }

    /// A row joins those that wait.
    pub(super) fn gain(&mut self) {
        self.depth += 1;
        self.touch();
    }

    /// A row leaves those that wait.
    pub(super) fn lose(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.touch();
    }

    /// Ends a pause and a wait, with the delay that the wait has put on its row; whether there was
    /// one.
    ///
    /// Such a row is at the head, was claimed before, and is due exactly when the wait ends.
    pub(super) fn end_holds(&mut self, db: &Db<'_>) -> Result<bool, Fault> {
        const FREE_HEAD: &str = "UPDATE queued_turn SET not_before_ms = 0 \
             WHERE thread_id = ?1 AND id = ?2 AND not_before_ms = ?3 AND attempts > 0";
        let waiting = self.waiting.take();
        let until_ms = waiting.as_ref().and_then(|waiting| waiting.until_ms);
        if let (Some(until_ms), Head::Due { row, .. } | Head::BoundElsewhere { row, .. }) =
            (until_ms, self.head(db)?)
        {
            execute(db, FREE_HEAD, params![self.thread, row, until_ms])?;
        }
        let paused = self.paused.take();
        let had_one = waiting.is_some() || paused.is_some();
        if had_one {
            self.touch();
        }
        Ok(had_one)
    }
}

/// The row at the head, whatever it waits for.
pub(super) fn row_of(head: &Head) -> Option<RowId> {
    match head {
        Head::None => None,
        Head::Due { row, .. } | Head::Failed { row, .. } | Head::BoundElsewhere { row, .. } => {
            Some(*row)
        }
    }
}

/// Pictures of the lanes of some threads; those that are not there are left out.
pub(super) fn look_at(db: &Db<'_>, threads: &[ThreadId]) -> Result<Vec<LaneView>, Fault> {
    let mut views = Vec::with_capacity(threads.len());
    for thread in threads {
        if let Some(lane) = Lane::read(db, *thread)? {
            views.push(lane.view(db)?);
        }
    }
    Ok(views)
}

/// A picture of one lane.
pub(super) fn look(db: &Db<'_>, thread: ThreadId) -> Result<LaneView, Fault> {
    Lane::find(db, thread)?.view(db)
}

/// Ends the waits for a login that began under another stamp of the same file.
pub(super) fn end_login_waits(
    db: &Db<'_>,
    login: &LoginStamp,
    limit: u32,
) -> Result<Vec<ThreadId>, Fault> {
    // Walks the partial index of lanes that wait, which are few.
    const BEHIND: &str = "SELECT thread_id FROM lane \
         WHERE waiting IS NOT NULL AND json_extract(waiting, '$.login.file') = ?1 \
           AND json_extract(waiting, '$.login.stamp') <> ?2 \
           AND (owner IS NULL OR owner = ?3) LIMIT ?4";
    let behind = params![login.file, login.stamp, db.me, limit];
    let threads: Vec<ThreadId> = all(db, BEHIND, behind, |row| row.get(0))?;
    for thread in &threads {
        let mut lane = Lane::find(db, *thread)?;
        // The row that was put back has no time of its own: a wait for a login names none.
        lane.waiting = None;
        lane.touch();
        lane.save(db)?;
    }
    Ok(threads)
}

/// All lanes by what they do; those that do nothing are only counted.
pub(super) fn census(db: &Db<'_>) -> Result<Census, Fault> {
    // Reads the partial index of lanes that wait, which are few.
    const WAITS: &str = "SELECT coalesce(json_extract(waiting, '$.kind'), ''), count(*) FROM lane \
         WHERE waiting IS NOT NULL AND active IS NULL AND paused IS NULL GROUP BY 1 LIMIT ?1";
    let waiting_by_kind = all(db, WAITS, [WAIT_KINDS_MAX], |row| {
        Ok((row.get(0)?, row.get(1).map(i64::unsigned_abs)?))
    })?;
    single(db, include_str!("sql/census.sql"), [], |row| {
        let count = |at| row.get(at).map(i64::unsigned_abs);
        Ok(Census {
            waiting_by_kind,
            running: count(0)?,
            paused: count(1)?,
            waiting: count(2)?,
            queued: count(3)?,
            held: count(4)?,
            idle: count(5)?,
            rows: count(6)?,
        })
    })
}
