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
use super::statement::{all, execute, single};
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

const LANES_OF: &str = "SELECT rowid, thread_id FROM lane \
     WHERE owner = ?1 AND owner IS NOT NULL AND rowid > ?2 ORDER BY rowid LIMIT ?3";
/// Before all lanes, for [`LANES_OF`].
const FIRST: i64 = i64::MIN;
/// How many lanes of one worker are read at once.
const LANES_AT_ONCE: u32 = 100;

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
    let place = params![worker, FIRST, WARNED_AT_ONCE];
    let lanes: Vec<ThreadId> = all(db, LANES_OF, place, |row| row.get(1))?;
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
        sweep.recovered.lanes.extend(lane);
    }
    if let Whose::LaneUnlessAlive(thread) = recover.whose
        && let Some(worker) = Lane::find(db, thread)?.owner
    {
        if db.life(worker) == WorkerLife::Alive {
            return Err(StoreError::OwnedElsewhere { thread, worker }.into());
        }
        let lane = take_over(db, thread, recover)?;
        sweep.recovered.lanes.extend(lane);
    }
    for worker in left_behind(db, &recover.whose)? {
        let left = match take_over_all(db, worker, recover, &mut sweep.recovered.lanes)? {
            Rest::Unread => {
                sweep.recovered.more = true;
                break;
            }
            Rest::Left(left) => left,
        };
        let shrunk = cancel_bound(db, worker, |_| recover.at_ms)?;
        // Lanes are shown as they are afterwards.
        for lane in &mut sweep.recovered.lanes {
            if shrunk.contains(&lane.thread) {
                lane.lane = look(db, lane.thread)?;
            }
        }
        if left == 0 && worker != db.me && db.is_dead(worker) {
            execute(db, include_str!("sql/forget_worker.sql"), params![worker])?;
            sweep.gone.push(worker);
        }
    }
    Ok(sweep)
}

/// The lanes of a worker that were not taken over.
enum Rest {
    /// The limit was reached; others were not looked at.
    Unread,
    /// So many stay with the worker, because only a worker with their engine can decide about them.
    Left(u32),
}

/// Takes over the lanes of one worker, until there are as many as the limit says.
///
/// Lanes that stay with the worker do not count, or they would keep others from being found.
fn take_over_all(
    db: &Db<'_>,
    worker: WorkerId,
    recover: &Recover,
    found: &mut Vec<RecoveredLane>,
) -> Result<Rest, Fault> {
    let limit = usize::try_from(recover.limit).unwrap_or(usize::MAX);
    let (mut behind, mut left) = (FIRST, 0);
    loop {
        let place = params![worker, behind, LANES_AT_ONCE];
        let lanes: Vec<(i64, ThreadId)> =
            all(db, LANES_OF, place, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some((last, _)) = lanes.last() else {
            return Ok(Rest::Left(left));
        };
        behind = *last;
        for (_, thread) in lanes {
            if found.len() >= limit {
                return Ok(Rest::Unread);
            }
            match take_over(db, thread, recover)? {
                Some(lane) => found.push(lane),
                None => left += 1,
            }
        }
    }
}

/// Takes one lane from its owner and decides about the row under way, if there is one; none when the
/// decision is to leave the lane as it is.
fn take_over(
    db: &Db<'_>,
    thread: ThreadId,
    recover: &Recover,
) -> Result<Option<RecoveredLane>, Fault> {
    let mut lane = Lane::find(db, thread)?;
    let open = approvals(db, ApprovalQuery::OpenOf(thread))?;
    let active = lane.active;
    let mut asks = false;
    let mut cut = None;
    lane.owner = None;
    lane.fence.0 += 1;
    match active {
        None => lane.vacate(),
        Some(id) => {
            let row = find_row(db, thread, id)?;
            let row = row.ok_or(Fault::Refused(StoreError::RowNotFound(id)))?;
            let turn = find_turn(db, thread, row.turn)?;
            let engine = find_thread(db, thread)?.engine;
            let decision = recover.deciding.decide(Found {
                thread,
                engine: &engine,
                row: &row,
                turn: turn.as_ref(),
            });
            if decision.row == FoundFate::Leave {
                if db.tells_first(thread) {
                    tracing::warn!(
                        "thread {thread} waits: a worker died under its turn, and only the engine \
                         `{engine}`, which this process does not run, can tell what became of the \
                         turn; start `turnlane serve` with that engine, or end the wait with \
                         `turnlane thread release {thread}`"
                    );
                }
                return Ok(None);
            }
            asks = decision.row == FoundFate::Ask;
            if asks {
                lane.owner = Some(db.me);
            }
            apply(db, &mut lane, row, turn.as_ref(), &decision, recover.at_ms)?;
            if let Some(turn) = turn.filter(|turn| turn.status == TurnStatus::InProgress && !asks) {
                cut = find_turn(db, thread, turn.id)?;
            }
        }
    }
    lane.save(db)?;
    Ok(Some(RecoveredLane {
        thread,
        row: active,
        turn: cut,
        grip: asks.then(|| lane.grip()),
        lane: lane.view(db)?,
        resolved: now_resolved(db, open)?,
    }))
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
    let row = lane.active_row(db, row, &[RowState::Reconcile])?;
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
    // An engine that was asked about the turn may have run it until now.
    let was_asked = row.state == RowState::Reconcile;
    let undecided = matches!(decision.row, FoundFate::Ask | FoundFate::Leave);
    // A turn that was cut without warning may have done anything; whether its row may go on from
    // the history is not known, so that it is an ordinary one from now on. A muted turn did nothing.
    row.continues &= turn.is_none() || undecided || decision.muted;
    match &decision.row {
        FoundFate::Ask | FoundFate::Leave => {
            row.state = RowState::Reconcile;
            // Its engine cannot hear an answer any more, whatever became of the turn.
            interrupt_open(db, lane.thread, left, at_ms)?;
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
            muted: turn.muted || decision.muted,
        };
        let ended_ms = if was_asked {
            at_ms
        } else {
            last_sign_of_life(db, lane.thread, turn)?
        };
        end_turn(db, lane.thread, turn.ord, &end, ended_ms)?;
    }
    interrupt_open(db, lane.thread, left, at_ms)?;
    lane.vacate();
    save_row(db, lane, &row)
}

/// The end of the turn's last item, or else its beginning. When the worker died is not known; the time
/// until its lane was taken over is not part of the turn.
fn last_sign_of_life(db: &Db<'_>, thread: ThreadId, turn: &TurnRow) -> Result<i64, Fault> {
    const LAST_ITEM: &str =
        "SELECT max(completed_ms) FROM item WHERE thread_id = ?1 AND turn_ord = ?2";
    let last: Option<i64> = single(db, LAST_ITEM, params![thread, turn.ord], |row| row.get(0))?;
    Ok(last.map_or(turn.started_ms, |last| last.max(turn.started_ms)))
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
