//! What dead workers left behind: their lanes, the rows under way in them, the rows bound to them.
//!
//! The invariants here: finding, deciding and recording are one transaction, so recovery that is
//! cut off begins again and ends the same; every lane that is taken from a worker moves its fence,
//! so that late writes of that worker change nothing.
//!
//! What becomes of a row is the runtime's pure function; whether a worker is dead is known to the
//! connection.

use rusqlite::params;

use super::Db;
use super::approvals::{approvals, interrupt_open};
use super::ends::{Return, Was, end, to_head};
use super::fault::Fault;
use super::lane::{Lane, look};
use super::queue::cancel_waiting;
use super::rows::{find_row, find_turn, save_row, visible_row};
use super::statement::{all, execute};
use super::threads::find_thread;
use super::turns::end_turn;
use crate::approval::{ApprovalQuery, ApprovalRow};
use crate::error::StoreError;
use crate::ids::{Grip, RowId, ThreadId, WorkerId};
use crate::lane::LaneView;
use crate::queue::{Row, RowState};
use crate::recovery::{Decision, Found, FoundFate, Loss, Recover, Recovered, RecoveredLane, Whose};
use crate::turn::{TurnEnd, TurnRow, TurnStatus};
use crate::worker::{Unjudged, WorkerLife};

const LANES_OF: &str =
    "SELECT thread_id FROM lane WHERE owner = ?1 AND owner IS NOT NULL ORDER BY rowid LIMIT ?2";

/// How many lanes of one undecided worker are named at once.
const WARNED_AT_ONCE: u32 = 100;

/// What a search found, and the workers of whom nothing is left.
#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) recovered: Recovered,
    pub(super) gone: Vec<WorkerId>,
}

/// The workers to recover from that have left something.
fn left_behind(db: &Db<'_>, whose: &Whose) -> Result<Vec<WorkerId>, Fault> {
    let mut workers: Vec<WorkerId> =
        all(db, include_str!("sql/workers.sql"), [], |row| row.get(0))?;
    match whose {
        Whose::Dead => {
            let mut dead = Vec::new();
            for worker in workers {
                match db.life(worker) {
                    WorkerLife::Dead => dead.push(worker),
                    WorkerLife::Alive => {}
                    WorkerLife::Unknown(why) => warn_of_waiting_lanes(db, worker, &why)?,
                }
            }
            workers = dead;
        }
        Whose::Of(one) => workers.retain(|worker| worker == one),
        Whose::Lane(_) | Whose::LaneUnlessAlive(_) => workers.clear(),
    }
    Ok(workers)
}

/// Names, once, each lane that waits because it is not known whether its owner lives.
fn warn_of_waiting_lanes(db: &Db<'_>, worker: WorkerId, why: &Unjudged) -> Result<(), Fault> {
    let lanes: Vec<ThreadId> = all(db, LANES_OF, params![worker, WARNED_AT_ONCE], |row| {
        row.get(0)
    })?;
    for thread in lanes.into_iter().filter(|thread| db.tells_first(*thread)) {
        tracing::warn!(
            "thread {thread} waits: worker {worker} owns it, and whether that worker lives cannot be \
             decided, because its lock file cannot be opened and {why}; if it has ended, free the \
             thread with `turnlane thread release {thread}`"
        );
    }
    Ok(())
}

/// Takes over lanes of dead workers and decides about their rows.
pub(super) fn recover(db: &Db<'_>, recover: &Recover) -> Result<Sweep, Fault> {
    let mut sweep = Sweep {
        recovered: Recovered::default(),
        gone: Vec::new(),
    };
    if let Whose::Lane(thread) = recover.whose
        && Lane::find(db, thread)?.owner.is_some()
    {
        let lane = take_over(db, thread, recover)?;
        sweep.recovered.lanes.push(lane);
    }
    if let Whose::LaneUnlessAlive(thread) = recover.whose
        && let Some(worker) = Lane::find(db, thread)?.owner
    {
        if db.life(worker) == WorkerLife::Alive {
            return Err(StoreError::OwnedElsewhere { thread, worker }.into());
        }
        let lane = take_over(db, thread, recover)?;
        sweep.recovered.lanes.push(lane);
    }
    for worker in left_behind(db, &recover.whose)? {
        let done = sweep.recovered.lanes.len();
        let room = i64::from(recover.limit) - i64::try_from(done).unwrap_or(i64::MAX);
        // One more tells whether there are more.
        let mut lanes: Vec<ThreadId> =
            all(db, LANES_OF, params![worker, room + 1], |row| row.get(0))?;
        let rest = lanes.split_off(lanes.len().min(usize::try_from(room).unwrap_or(0)));
        for thread in lanes {
            let lane = take_over(db, thread, recover)?;
            sweep.recovered.lanes.push(lane);
        }
        if !rest.is_empty() {
            sweep.recovered.more = true;
            break;
        }
        let shrunk = cancel_bound(db, worker, |_| recover.at_ms)?;
        // Lanes are shown as they are afterwards.
        for lane in &mut sweep.recovered.lanes {
            if shrunk.contains(&lane.thread) {
                lane.lane = look(db, lane.thread)?;
            }
        }
        if worker != db.me && db.is_dead(worker) {
            execute(db, include_str!("sql/forget_worker.sql"), params![worker])?;
            sweep.gone.push(worker);
        }
    }
    Ok(sweep)
}

/// Takes one lane from its owner and decides about the row under way, if there is one.
fn take_over(db: &Db<'_>, thread: ThreadId, recover: &Recover) -> Result<RecoveredLane, Fault> {
    let mut lane = Lane::find(db, thread)?;
    let open = approvals(db, ApprovalQuery::OpenOf(thread))?;
    let active = lane.active;
    let mut asks = false;
    lane.owner = None;
    lane.fence.0 += 1;
    match active {
        None => lane.vacate(),
        Some(id) => {
            let row = find_row(db, thread, id)?;
            let row = row.ok_or(Fault::Refused(StoreError::RowNotFound(id)))?;
            let turn = find_turn(db, thread, row.turn)?;
            let decision = recover.deciding.decide(Found {
                thread,
                engine: &find_thread(db, thread)?.engine,
                row: &row,
                turn: turn.as_ref(),
            });
            asks = matches!(decision.row, FoundFate::Ask);
            if asks {
                lane.owner = Some(db.me);
            }
            apply(db, &mut lane, row, turn.as_ref(), &decision, recover.at_ms)?;
        }
    }
    lane.save(db)?;
    Ok(RecoveredLane {
        thread,
        row: active,
        grip: asks.then(|| lane.grip()),
        lane: lane.view(db)?,
        resolved: now_resolved(db, open)?,
    })
}

/// Those of some open approvals that are open no more, as they are now.
fn now_resolved(db: &Db<'_>, open: Vec<ApprovalRow>) -> Result<Vec<ApprovalRow>, Fault> {
    let mut resolved = Vec::new();
    for row in open {
        let now = approvals(db, ApprovalQuery::One(row.asked.id))?;
        resolved.extend(now.into_iter().filter(|row| row.resolved.is_some()));
    }
    Ok(resolved)
}

/// Records the decision about a row that an engine was asked about; the lane stays ours.
pub(super) fn decide(
    db: &Db<'_>,
    grip: Grip,
    row: RowId,
    decision: &Decision,
    at_ms: i64,
) -> Result<LaneView, Fault> {
    let mut lane = Lane::held(db, grip)?;
    let row = lane.active_row(db, row, RowState::Reconcile)?;
    let turn = find_turn(db, lane.thread, row.turn)?;
    apply(db, &mut lane, row, turn.as_ref(), decision, at_ms)?;
    lane.save(db)?;
    lane.view(db)
}

/// Carries a decision out, but for saving the lane.
fn apply(
    db: &Db<'_>,
    lane: &mut Lane,
    mut row: Row,
    turn: Option<&TurnRow>,
    decision: &Decision,
    at_ms: i64,
) -> Result<(), Fault> {
    let was = match turn {
        Some(_) => Was::ATurn,
        None => Was::Nothing,
    };
    row.updated_ms = at_ms;
    let left = row.turn;
    // A turn that was cut without warning may have done anything; whether its row may go on from
    // the history is not known, so that it is an ordinary one from now on.
    row.continues &= turn.is_none();
    match &decision.row {
        // Nothing is decided.
        FoundFate::Ask => {
            row.state = RowState::Reconcile;
            return save_row(db, lane, &row);
        }
        FoundFate::Done => end(&mut row, RowState::Done, at_ms),
        FoundFate::Cancel => end(&mut row, RowState::Cancelled, at_ms),
        FoundFate::Back { turn, loss } => {
            to_head(db, lane, &mut row, *turn, was, &Return::Waiting)?;
            match loss {
                Loss::Counted => row.losses += 1,
                Loss::Retry => {}
            }
        }
        FoundFate::Block { failure, turn } => {
            to_head(db, lane, &mut row, *turn, was, &Return::Failed(failure))?;
        }
    }
    let in_progress = turn.filter(|turn| turn.status == TurnStatus::InProgress);
    // Also without an error to note: no turn stays in progress that nobody runs.
    if let Some(turn) = in_progress {
        let end = TurnEnd {
            status: TurnStatus::Interrupted,
            error: decision.turn_error.clone(),
            usage: turn.usage.clone(),
            muted: turn.muted,
        };
        end_turn(db, lane.thread, turn.ord, &end, at_ms)?;
    }
    interrupt_open(db, lane.thread, left, at_ms)?;
    lane.vacate();
    save_row(db, lane, &row)
}

/// Cancels the rows that only this worker could have claimed; the lanes that lost one.
fn cancel_bound(
    db: &Db<'_>,
    worker: WorkerId,
    at_ms: impl Fn(&Row) -> i64,
) -> Result<Vec<ThreadId>, Fault> {
    let bound: Vec<(ThreadId, RowId)> = all(
        db,
        include_str!("sql/bound_rows.sql"),
        params![worker],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let mut shrunk = Vec::new();
    for (thread, row) in bound {
        let mut lane = Lane::find(db, thread)?;
        let row = visible_row(db, thread, row)?;
        let at_ms = at_ms(&row);
        cancel_waiting(db, &mut lane, row, at_ms)?;
        lane.save(db)?;
        shrunk.push(thread);
    }
    Ok(shrunk)
}

/// Gives up all idle lanes of ours, cancels the rows that only we could have claimed, and removes the
/// worker.
///
/// Nobody says what time it is when a store is closed, so those rows end when they last changed.
pub(super) fn leave(db: &Db<'_>) -> Result<(), Fault> {
    const GIVE_UP: &str = "UPDATE lane SET owner = NULL, fence = fence + 1 \
         WHERE owner = ?1 AND owner IS NOT NULL AND active IS NULL";
    const REMOVE: &str = "DELETE FROM worker WHERE id = ?1";
    execute(db, GIVE_UP, params![db.me])?;
    cancel_bound(db, db.me, |row| row.updated_ms)?;
    execute(db, REMOVE, params![db.me])?;
    Ok(())
}

#[cfg(test)]
mod tests;
