//! Who owns a lane, and which lanes are worth owning.
//!
//! The invariant here: a lane passes from one live worker to another only through nobody, and from
//! a dead one only when it left no row under way.
//!
//! Lanes that were left with a row under way are the business of `recovery`.

use rusqlite::params;

use super::Db;
use super::fault::Fault;
use super::lane::Lane;
use super::rows::InOrder;
use super::statement::{all, first, single};
use crate::error::StoreError;
use crate::ids::{Grip, ThreadId, WorkerId};
use crate::lane::{OwnedLane, Ready, Taken, Waiting};
use crate::worker::Worker;

/// What is known of a worker.
pub(super) fn worker(db: &Db<'_>, worker: WorkerId) -> Result<Option<Worker>, Fault> {
    const WORKER: &str = "SELECT id, pid, pid_start, boot_id, host, endpoint, kind, started_ms \
         FROM worker WHERE id = ?1";
    first(db, WORKER, params![worker], |row| {
        let mut from = InOrder::of(row);
        let (id, pid) = (from.next()?, from.next()?);
        let pid_start: i64 = from.next()?;
        Ok(Worker {
            id,
            pid,
            pid_start: pid_start.cast_unsigned(),
            boot_id: from.next()?,
            host: from.next()?,
            endpoint: from.next()?,
            kind: from.next()?,
            started_ms: from.next()?,
        })
    })
}

/// Makes a lane ours, if it may be.
pub(super) fn take(db: &Db<'_>, thread: ThreadId) -> Result<Taken, Fault> {
    let mut lane = Lane::find(db, thread)?;
    if let Some(worker) = lane.held_elsewhere(db) {
        return Ok(Taken::Elsewhere(worker));
    }
    if lane.owner != Some(db.me) {
        lane.give_to(Some(db.me));
        lane.save(db)?;
    }
    Ok(Taken::Ours(lane.view(db)?))
}

/// Makes a lane nobody's that is ours and idle.
pub(super) fn release(db: &Db<'_>, grip: Grip) -> Result<(), Fault> {
    let mut lane = Lane::held(db, grip)?;
    if lane.active.is_some() {
        return Err(StoreError::Busy(lane.thread).into());
    }
    lane.give_to(None);
    lane.save(db)
}

/// Lanes worth a claim.
pub(super) fn ready(db: &Db<'_>, now_ms: i64, limit: u32) -> Result<Ready, Fault> {
    Ok(Ready {
        lanes: all(
            db,
            include_str!("sql/ready.sql"),
            params![now_ms, db.me, limit],
            |row| row.get(0),
        )?,
        owners: all(
            db,
            include_str!("sql/other_owners.sql"),
            params![db.me, now_ms],
            |row| row.get(0),
        )?,
        next_ms: single(
            db,
            include_str!("sql/next_ready.sql"),
            params![now_ms],
            |row| row.get(0),
        )?,
    })
}

/// The lanes that are ours.
pub(super) fn owned(db: &Db<'_>) -> Result<Vec<OwnedLane>, Fault> {
    const OWNED: &str =
        "SELECT thread_id, revision FROM lane WHERE owner = ?1 AND owner IS NOT NULL";
    all(db, OWNED, params![db.me], |row| {
        Ok(OwnedLane {
            thread: row.get(0)?,
            revision: row.get(1)?,
        })
    })
}

/// The lanes that wait for nothing but a person or a restart and have no live owner.
pub(super) fn endless_waits(db: &Db<'_>) -> Result<Vec<ThreadId>, Fault> {
    const WAITING: &str = "SELECT thread_id, owner, waiting FROM lane WHERE waiting IS NOT NULL";
    let lanes: Vec<(ThreadId, Option<WorkerId>, Waiting)> = all(db, WAITING, [], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    Ok(lanes
        .into_iter()
        .filter(|(_, _, waiting)| waiting.until_ms.is_none())
        .filter(|(_, owner, _)| owner.is_none_or(|owner| db.is_dead(owner)))
        .map(|(thread, _, _)| thread)
        .collect())
}

/// Ends those waits; how many there were.
pub(super) fn end_endless_waits(db: &Db<'_>) -> Result<u32, Fault> {
    let mut ended = 0;
    for thread in endless_waits(db)? {
        let mut lane = Lane::find(db, thread)?;
        lane.waiting = None;
        lane.touch();
        lane.save(db)?;
        ended += 1;
    }
    Ok(ended)
}

#[cfg(test)]
mod tests;
