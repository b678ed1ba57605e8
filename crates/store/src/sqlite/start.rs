//! A turn asked for directly: begun at once, or queued behind others.
//!
//! The invariants here: a direct turn is a row like any other, born started and never visible, so
//! the same guard keeps it from running beside another; a pause, a wait or a failed head do not
//! stop it; one that cannot start leaves nothing behind but, at most, its failed turn.
//!
//! How its turn goes on is the same as for every row: see `turns`.

use super::Db;
use super::ends::end;
use super::fault::Fault;
use super::lane::Lane;
use super::queue::{add_last, find_key};
use super::rows::{born, insert_row};
use super::threads::find_thread;
use super::turns::{begin, record_ended};
use crate::error::StoreError;
use crate::ids::WorkerId;
use crate::queue::{Acceptance, CannotStart, NewRow, Row, RowState, Verdict};
use crate::turn::{Accept, AcceptedTurn, Refused, StartTurn, Started, WhenBusy};

/// What stands between a direct turn and its beginning.
enum Obstacle {
    OwnedElsewhere(WorkerId),
    Busy,
    Others,
}

/// Begins a turn at once, or adds it to the queue.
pub(super) fn start_turn(db: &Db<'_>, start: &StartTurn) -> Result<Started, Fault> {
    let remembered_ms = start.at_ms.saturating_sub(start.key_window_ms);
    if let Some(repeated) = find_key(db, start.thread, &start.row, remembered_ms)? {
        return Ok(Started::Repeated(Box::new(repeated)));
    }
    let mut lane = Lane::find_open(db, start.thread)?;
    match (obstacle(db, &lane), start.when_busy) {
        (None, _) | (Some(Obstacle::Others), WhenBusy::Refuse) => begin_direct(db, lane, start),
        (Some(Obstacle::OwnedElsewhere(worker)), WhenBusy::Refuse) => {
            Err(StoreError::OwnedElsewhere {
                thread: start.thread,
                worker,
            }
            .into())
        }
        (Some(Obstacle::Busy), WhenBusy::Refuse) => Ok(Started::Busy(Box::new(lane.view(db)?))),
        (Some(_), WhenBusy::Queue) => {
            let row = add_last(db, &mut lane, &start.row, start.at_ms)?;
            Ok(Started::Queued(Box::new(lane.save_with(db, row)?)))
        }
    }
}

fn obstacle(db: &Db<'_>, lane: &Lane) -> Option<Obstacle> {
    if let Some(worker) = lane.held_elsewhere(db) {
        Some(Obstacle::OwnedElsewhere(worker))
    } else if lane.active.is_some() {
        Some(Obstacle::Busy)
    } else if lane.depth > 0 {
        Some(Obstacle::Others)
    } else {
        None
    }
}

fn begin_direct(db: &Db<'_>, lane: Lane, start: &StartTurn) -> Result<Started, Fault> {
    let mut row = born(&start.row, RowState::Started, start.at_ms);
    row.attempts = 1;
    let thread = find_thread(db, lane.thread)?;
    let verdict = start.accepting.decide(Acceptance {
        row: &row,
        thread: &thread,
    });
    match verdict {
        Verdict::Accept(accept) => occupy(db, lane, row, start, &accept),
        Verdict::CannotStart(how) => refuse(db, &lane, row, start, &how),
    }
}

fn occupy(
    db: &Db<'_>,
    lane: Lane,
    row: Row,
    start: &StartTurn,
    accept: &Accept,
) -> Result<Started, Fault> {
    let begun = begin_row(db, lane, row, &start.row, accept, start.at_ms)?;
    Ok(Started::Begun(Box::new(begun)))
}

/// Lets a row that is born started occupy its lane and begins its turn.
pub(super) fn begin_row(
    db: &Db<'_>,
    mut lane: Lane,
    row: Row,
    new: &NewRow,
    accept: &Accept,
    at_ms: i64,
) -> Result<AcceptedTurn, Fault> {
    lane.occupy(db.me, row.id);
    insert_row(db, &lane, &row, &new.content_hash)?;
    lane.save(db)?;
    begin(db, &lane, row, accept, at_ms)
}

/// Answers for a turn that cannot start; only a failed turn is stored, with its row.
fn refuse(
    db: &Db<'_>,
    lane: &Lane,
    mut row: Row,
    start: &StartTurn,
    how: &CannotStart,
) -> Result<Started, Fault> {
    let turn = match how {
        CannotStart::Fail(ended) => {
            let turn = record_ended(db, lane.thread, &row, ended, start.at_ms)?;
            end(&mut row, RowState::Done, start.at_ms);
            insert_row(db, lane, &row, &start.row.content_hash)?;
            Some(turn)
        }
        CannotStart::Block { failure, .. } | CannotStart::Dead { failure } => {
            end(&mut row, RowState::Dead, start.at_ms);
            row.failure = Some(failure.clone());
            None
        }
        CannotStart::Back { .. } | CannotStart::Cancel => {
            end(&mut row, RowState::Dead, start.at_ms);
            None
        }
    };
    Ok(Started::CannotStart(Box::new(Refused {
        row,
        turn,
        lane: lane.view(db)?,
    })))
}

#[cfg(test)]
mod tests;
