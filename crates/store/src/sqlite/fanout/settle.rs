//! The ends of attempts, and attempts whose end was not recorded.
//!
//! The invariants here: an attempt is closed once; only the attempt that an item runs moves the item.
//! Usage never falls.

use rusqlite::params;

use super::items::shown;
use super::report::insert_result;
use super::rows::{Job, find_attempt, find_item, save_attempt, save_item};
use crate::fanout::{
    AttemptOutcome, AttemptRow, FanoutItem, ItemAttempt, ItemState, ItemUsage, JobCounts, JobNo,
    ReturnUses, SettleTo, Settled, Settlement, UnsettledItem,
};
use crate::ids::{ThreadId, TurnId};
use crate::sqlite::Db;
use crate::sqlite::fault::Fault;
use crate::sqlite::rows::find_turn;
use crate::sqlite::statement::{all, single};
use crate::turn::TurnRow;

/// Closes attempts and moves their items on.
pub(super) fn settle(
    db: &Db<'_>,
    settlements: &[Settlement],
    at_ms: i64,
) -> Result<Vec<Settled>, Fault> {
    let mut settled = Vec::with_capacity(settlements.len());
    let mut job: Option<Job> = None;
    for settlement in settlements {
        // Mostly all are of one job.
        let known = job.take().filter(|job| job.row.no == settlement.item.job);
        let mut current = match known {
            Some(job) => Some(job),
            None => Job::read(db, settlement.item.job)?,
        };
        settled.push(match &mut current {
            Some(job) => settle_one(db, job, settlement, at_ms)?,
            None => gone(),
        });
        job = current;
    }
    Ok(settled)
}

fn gone() -> Settled {
    Settled {
        state: ItemState::Cancelled,
        changed: false,
    }
}

fn settle_one(
    db: &Db<'_>,
    job: &mut Job,
    settlement: &Settlement,
    at_ms: i64,
) -> Result<Settled, Fault> {
    let of = settlement.item;
    let (Some(found), Some(mut attempt)) = (find_item(db, of.job, of.seq)?, find_attempt(db, of)?)
    else {
        return Ok(gone());
    };
    let mut item = found.item.clone();
    let runs = item.state == ItemState::Running && item.attempt == of.attempt;
    let unfounded = runs && settlement.to == SettleTo::AsReported;
    if attempt.ended_ms.is_some() || unfounded {
        let state = job.shown(found).state;
        return Ok(Settled {
            state,
            changed: false,
        });
    }
    let usage = attempt.usage.max(settlement.usage);
    let mut counts = JobCounts {
        usage: usage - attempt.usage,
        ..JobCounts::default()
    };
    attempt.usage = usage;
    attempt.ended_ms = Some(at_ms);
    if attempt.outcome.is_none() {
        attempt.outcome = Some(settlement.outcome);
        attempt.error.clone_from(&settlement.error);
    }
    if runs {
        move_on(db, job, &mut item, settlement, at_ms)?;
        if item.state == ItemState::Succeeded {
            attempt.outcome = Some(AttemptOutcome::Reported);
            attempt.error = None;
        }
        counts.running = -1;
        match item.state {
            ItemState::Succeeded => counts.succeeded = 1,
            ItemState::Failed => counts.failed = 1,
            ItemState::Skipped => counts.skipped = 1,
            ItemState::Cancelled => counts.cancelled = 1,
            ItemState::Pending | ItemState::Running => {}
        }
        save_item(db, of.job, &item, None)?;
    }
    save_attempt(db, of, &attempt)?;
    job.count(db, &counts)?;
    let state = if runs {
        item.state
    } else {
        job.shown(found).state
    };
    Ok(Settled {
        state,
        changed: runs,
    })
}

/// Moves a running item on, in memory but for its result.
fn move_on(
    db: &Db<'_>,
    job: &Job,
    item: &mut FanoutItem,
    settlement: &Settlement,
    at_ms: i64,
) -> Result<(), Fault> {
    item.error.clone_from(&settlement.error);
    item.state = match &settlement.to {
        SettleTo::Succeeded { result, digest } => {
            insert_result(db, settlement.item, result, digest, at_ms)?;
            item.error = None;
            ItemState::Succeeded
        }
        SettleTo::AsReported => item.state,
        SettleTo::Failed => ItemState::Failed,
        SettleTo::Skipped => ItemState::Skipped,
        SettleTo::Cancelled => ItemState::Cancelled,
        SettleTo::Pending { .. } if job.row.cancel_asked => ItemState::Cancelled,
        SettleTo::Pending {
            not_before_ms,
            same_thread,
            uses,
        } => {
            item.not_before_ms = *not_before_ms;
            item.same_thread = *same_thread;
            match uses {
                ReturnUses::Nothing => {}
                ReturnUses::Retry => item.retries_used += 1,
                ReturnUses::Loss => item.losses += 1,
                ReturnUses::Limit => item.limit_returns += 1,
            }
            ItemState::Pending
        }
    };
    if item.state == ItemState::Cancelled && item.error.is_none() {
        item.error = Some(job.cancellation());
    }
    if item.state != ItemState::Pending {
        item.ended_ms = Some(at_ms);
    }
    Ok(())
}

/// An open attempt whose turn is over: its item, thread and turn, and the usage of its earlier turns.
struct OpenAttempt {
    of: ItemAttempt,
    thread: ThreadId,
    turn: TurnId,
    earlier: Option<String>,
}

/// Attempts that are not closed although their turn is no longer active.
pub(super) fn unsettled(db: &Db<'_>, job: JobNo, limit: u32) -> Result<Vec<UnsettledItem>, Fault> {
    let Some(job) = Job::read(db, job)? else {
        return Ok(Vec::new());
    };
    let no = job.row.no;
    let open = all(
        db,
        include_str!("../sql/fanout/unsettled.sql"),
        params![no, limit],
        |row| {
            Ok(OpenAttempt {
                of: ItemAttempt {
                    job: no,
                    seq: row.get(0)?,
                    attempt: row.get(1)?,
                },
                thread: row.get(2)?,
                turn: row.get(3)?,
                earlier: row.get(4)?,
            })
        },
    )?;
    let mut unsettled = Vec::with_capacity(open.len());
    for open in open {
        let Some(item) = find_item(db, no, open.of.seq)? else {
            continue;
        };
        let turn = find_turn(db, open.thread, open.turn)?;
        unsettled.push(UnsettledItem {
            item: shown(db, &job, item)?,
            attempt: open.of,
            has_output: has_output(db, open.thread, turn.as_ref())?,
            turn,
            usage: earlier_usage(open.earlier.as_deref()),
        });
    }
    Ok(unsettled)
}

fn has_output(db: &Db<'_>, thread: ThreadId, turn: Option<&TurnRow>) -> Result<bool, Fault> {
    let Some(turn) = turn else {
        return Ok(false);
    };
    let key = params![thread, turn.ord];
    single(
        db,
        include_str!("../sql/fanout/has_output.sql"),
        key,
        |row| row.get(0),
    )
}

/// Writes the usage of the turns before a repair turn.
pub(super) fn write_earlier(attempt: &AttemptRow) -> String {
    let usage = &attempt.usage;
    serde_json::json!([
        usage.input_tokens,
        usage.cached_input_tokens,
        usage.output_tokens,
        usage.reasoning_output_tokens,
        usage.total_tokens,
    ])
    .to_string()
}

fn earlier_usage(text: Option<&str>) -> ItemUsage {
    let numbers = text.and_then(|text| serde_json::from_str::<[i64; 5]>(text).ok());
    let [input, cached, output, reasoning, total] = numbers.unwrap_or_default();
    ItemUsage {
        input_tokens: input,
        cached_input_tokens: cached,
        output_tokens: output,
        reasoning_output_tokens: reasoning,
        total_tokens: total,
    }
}
