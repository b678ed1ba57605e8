//! From a row or an item that waits to a turn that has begun.
//!
//! The invariants here: places, due items and fresh rows are read in the transaction that claims, so
//! that the job's limit holds over all workers; item, attempt, thread, lane, queued turn, turn and
//! message are there together or not at all.
//!
//! The making of thread, row and message is the caller's function.

use rusqlite::params;

use super::rows::{
    Job, StoredItem, attempts, computed_id, find_attempt, find_item, save_attempt, save_item,
    usage_of,
};
use super::settle::write_earlier;
use crate::error::StoreError;
use crate::fanout::{
    AttemptRow, BegunItem, ClaimItems, ClaimedItems, Company, FanoutItem, ItemAttempt, ItemError,
    ItemStart, ItemState, ItemToStart, ItemUsage, JobCounts, JobState, RepairItem,
};
use crate::json::Json;
use crate::queue::{NewRow, RowState};
use crate::sqlite::Db;
use crate::sqlite::fault::Fault;
use crate::sqlite::lane::Lane;
use crate::sqlite::rows::born;
use crate::sqlite::start::begin_row;
use crate::sqlite::statement::{all, execute, first, single};
use crate::sqlite::threads;
use crate::turn::{Accept, AcceptedTurn};

/// How many items and rows one claim looks at, those that it leaves or fails included.
const LOOKED_AT_MAX: u32 = 1_000;

/// How many bytes of cells one claim makes turns of: other lanes wait for its transaction.
const BYTES_MAX: usize = 8 << 20;

/// How many items and rows are read at once beyond the free places, and at most.
const READ_AHEAD: u32 = 8;
const READ_MAX: u32 = 32;

/// A statement over the pending items of one kind: names their index and its condition.
pub(super) fn pending(sql: &str, company: Company) -> String {
    let (index, losses) = match company {
        Company::Others => ("fanout_item_due", "losses < 2"),
        Company::Alone => ("fanout_item_alone", "losses >= 2"),
    };
    sql.replace("BY INDEX", &format!("BY {index}"))
        .replace("LOSSES", losses)
}

/// A claim under way.
struct Claiming<'a> {
    claim: &'a ClaimItems,
    job: Job,
    places: u32,
    looked_at: u32,
    bytes: usize,
    begun: Vec<BegunItem>,
    counts: JobCounts,
}

/// Claims items of a running job and begins their turns.
pub(super) fn claim(db: &Db<'_>, claim: &ClaimItems) -> Result<ClaimedItems, Fault> {
    let job = Job::find(db, claim.job)?;
    let runs = job.row.state == JobState::Running;
    let free = i64::from(job.row.made.current_limit) - job.stored.running;
    let mut places = u32::try_from(free.clamp(0, claim.max.into())).unwrap_or(0);
    if claim.company == Company::Alone {
        places = places.min(1);
    }
    let mut claiming = Claiming {
        claim,
        job,
        places: if runs { places } else { 0 },
        looked_at: 0,
        bytes: 0,
        begun: Vec::new(),
        counts: JobCounts::default(),
    };
    if claiming.places > 0 {
        claiming.claim_due(db)?;
        if claim.company == Company::Others && !claiming.job.fresh_cancelled {
            claiming.claim_fresh(db)?;
        }
    }
    let Claiming {
        mut job,
        begun,
        counts,
        ..
    } = claiming;
    job.count(db, &counts)?;
    Ok(ClaimedItems {
        begun,
        next_due_ms: next_due(db, &job, claim.at_ms)?,
        alone_waits: alone_waits(db, &job, claim.at_ms)?,
        job: job.row,
    })
}

impl Claiming<'_> {
    fn is_over(&self) -> bool {
        self.places == 0 || self.looked_at >= LOOKED_AT_MAX || self.bytes >= BYTES_MAX
    }

    fn read_at_once(&self) -> u32 {
        self.places
            .saturating_add(READ_AHEAD)
            .min(LOOKED_AT_MAX - self.looked_at)
            .min(READ_MAX)
    }

    /// Claims pending items that are due.
    fn claim_due(&mut self, db: &Db<'_>) -> Result<(), Fault> {
        let due = include_str!("../sql/fanout/due.sql");
        let sql = pending(due, self.claim.company);
        let mut behind = (i64::MIN, i64::MIN);
        while !self.is_over() {
            let place = params![
                self.job.row.no,
                self.claim.at_ms,
                behind.0,
                behind.1,
                self.read_at_once()
            ];
            let due: Vec<(i64, i64)> = all(db, &sql, place, |row| Ok((row.get(0)?, row.get(1)?)))?;
            let Some(last) = due.last() else {
                return Ok(());
            };
            behind = *last;
            for (_, seq) in due {
                if self.is_over() {
                    return Ok(());
                }
                self.looked_at += 1;
                self.claim_item(db, seq)?;
            }
        }
        Ok(())
    }

    fn claim_item(&mut self, db: &Db<'_>, seq: i64) -> Result<(), Fault> {
        const CELLS: &str = "SELECT cells FROM fanout_row WHERE job = ?1 AND seq = ?2";
        let no = self.job.row.no;
        let Some(StoredItem { item, .. }) = find_item(db, no, seq)? else {
            return Ok(());
        };
        let cells = single(db, CELLS, params![no, seq], |row| row.get(0))?;
        let earlier = attempts(db, no, seq)?;
        let own = match item.thread.filter(|_| item.same_thread) {
            None => None,
            // A thread that is gone or archived cannot go on; the item starts anew.
            Some(thread) => Lane::read(db, thread)?.filter(|lane| !lane.archived),
        };
        let is_busy = |lane: &Lane| lane.active.is_some() || lane.held_elsewhere(db).is_some();
        if own.as_ref().is_some_and(is_busy) {
            return Ok(());
        }
        self.start(db, item, &cells, &earlier, own)
    }

    /// Claims rows that never ran, in input order.
    fn claim_fresh(&mut self, db: &Db<'_>) -> Result<(), Fault> {
        const CURSOR: &str = "UPDATE fanout_job SET next_seq = ?2 WHERE no = ?1";
        let no = self.job.row.no;
        let began_at = self.job.row.next_seq;
        while !self.is_over() {
            let place = params![no, self.job.row.next_seq, self.read_at_once()];
            let rows = all(db, include_str!("../sql/fanout/fresh.sql"), place, |row| {
                let item_id: Option<String> = row.get(1)?;
                let state: Option<ItemState> = row.get(3)?;
                Ok((row.get(0)?, item_id, row.get::<_, Json>(2)?, state))
            })?;
            if rows.is_empty() {
                break;
            }
            for (seq, item_id, cells, state) in rows {
                if self.is_over() {
                    break;
                }
                self.looked_at += 1;
                self.job.row.next_seq = seq + 1;
                // Skipped by the import, or retried by its name.
                if state.is_none() {
                    let item_id = item_id.unwrap_or_else(|| computed_id(seq));
                    self.start(db, fresh_item(seq, item_id), &cells, &[], None)?;
                }
            }
        }
        if self.job.row.next_seq != began_at {
            execute(db, CURSOR, params![no, self.job.row.next_seq])?;
        }
        Ok(())
    }

    /// Begins the turn of an item, or fails it.
    fn start(
        &mut self,
        db: &Db<'_>,
        mut item: FanoutItem,
        cells: &Json,
        earlier: &[AttemptRow],
        own: Option<Lane>,
    ) -> Result<(), Fault> {
        let at_ms = self.claim.at_ms;
        self.bytes += cells.as_str().len();
        let start = self.claim.making.make(ItemToStart {
            job: &self.job.row,
            seq: item.seq,
            item_id: &item.item_id,
            cells,
            attempt: item.attempt + 1,
            earlier,
            thread: own.as_ref().map(|lane| lane.thread),
            branch: item.branch.as_ref(),
        });
        let (thread, row, accept, branch) = match start {
            ItemStart::Begin {
                thread,
                row,
                accept,
                branch,
            } => (thread, row, accept, branch),
            ItemStart::Fail(error) => return self.fail(db, item, error),
        };
        let no = self.job.row.no;
        let lane = match (thread, own) {
            (Some(new), _) => {
                threads::insert(db, &new, None, "")?;
                Lane::find(db, new.id)?
            }
            (None, Some(lane)) => lane,
            (None, None) => {
                let (job, seq) = (no, item.seq);
                return Err(StoreError::ItemWithoutThread { job, seq }.into());
            }
        };
        item.state = ItemState::Running;
        item.attempt += 1;
        item.repairs = 0;
        item.thread = Some(lane.thread);
        item.turn = Some(row.turn);
        item.same_thread = false;
        item.error = None;
        item.branch = branch.or(item.branch);
        item.started_ms = item.started_ms.or(Some(at_ms));
        execute(
            db,
            include_str!("../sql/fanout/insert_attempt.sql"),
            params![
                no,
                item.seq,
                item.attempt,
                lane.thread,
                row.turn,
                db.me,
                at_ms
            ],
        )?;
        save_item(db, no, &item, Some(db.me))?;
        let accepted = begin_turn(db, lane, &row, &accept, at_ms)?;
        item.usage = earlier
            .iter()
            .fold(ItemUsage::default(), |sum, attempt| sum + attempt.usage);
        self.begun.push(BegunItem { item, accepted });
        self.places -= 1;
        self.counts.running += 1;
        self.counts.attempts += 1;
        Ok(())
    }

    fn fail(&mut self, db: &Db<'_>, mut item: FanoutItem, error: ItemError) -> Result<(), Fault> {
        item.state = ItemState::Failed;
        item.same_thread = false;
        item.error = Some(error);
        item.ended_ms = Some(self.claim.at_ms);
        self.counts.failed += 1;
        save_item(db, self.job.row.no, &item, None)
    }
}

fn fresh_item(seq: i64, item_id: String) -> FanoutItem {
    FanoutItem {
        seq,
        item_id,
        state: ItemState::Pending,
        attempt: 0,
        retries_used: 0,
        losses: 0,
        limit_returns: 0,
        repairs: 0,
        not_before_ms: 0,
        thread: None,
        turn: None,
        same_thread: false,
        error: None,
        dup_of: None,
        branch: None,
        usage: ItemUsage::default(),
        started_ms: None,
        reported_ms: None,
        ended_ms: None,
    }
}

/// A row of an item is never queued: it is born started.
fn begin_turn(
    db: &Db<'_>,
    lane: Lane,
    new: &NewRow,
    accept: &Accept,
    at_ms: i64,
) -> Result<AcceptedTurn, Fault> {
    let mut row = born(new, RowState::Started, at_ms);
    row.attempts = 1;
    begin_row(db, lane, row, new, accept, at_ms)
}

/// When the next pending item becomes due; now for rows that never ran.
fn next_due(db: &Db<'_>, job: &Job, at_ms: i64) -> Result<Option<i64>, Fault> {
    const DUE: &str = "SELECT min(not_before_ms) FROM fanout_item INDEXED BY INDEX \
         WHERE job = ?1 AND state = 'pending' AND LOSSES";
    const FRESH: &str = "SELECT 1 FROM fanout_row WHERE job = ?1 AND seq >= ?2 LIMIT 1";
    if job.row.cancel_asked {
        return Ok(None);
    }
    let no = job.row.no;
    let mut next: Option<i64> = None;
    for company in [Company::Others, Company::Alone] {
        let sql = pending(DUE, company);
        let due: Option<i64> = single(db, &sql, params![no], |row| row.get(0))?;
        next = [next, due].into_iter().flatten().min();
    }
    let place = params![no, job.row.next_seq];
    if !job.fresh_cancelled && first(db, FRESH, place, |_| Ok(()))?.is_some() {
        next = Some(next.map_or(at_ms, |next| next.min(at_ms)));
    }
    Ok(next)
}

/// Whether an item is due that runs alone.
fn alone_waits(db: &Db<'_>, job: &Job, at_ms: i64) -> Result<bool, Fault> {
    const ALONE: &str = "SELECT 1 FROM fanout_item INDEXED BY fanout_item_alone \
         WHERE job = ?1 AND state = 'pending' AND losses >= 2 AND not_before_ms <= ?2 LIMIT 1";
    let due = first(db, ALONE, params![job.row.no, at_ms], |_| Ok(()))?;
    Ok(due.is_some() && !job.row.cancel_asked)
}

/// Begins another turn of a running item in its thread, if the attempt still runs and its lane is free.
pub(super) fn repair(db: &Db<'_>, repair: &RepairItem) -> Result<Option<Box<BegunItem>>, Fault> {
    const EARLIER: &str = "UPDATE fanout_attempt SET earlier = ?4 \
         WHERE job = ?1 AND seq = ?2 AND attempt = ?3";
    let of: ItemAttempt = repair.item;
    let mut job = Job::find(db, of.job)?;
    let (Some(found), Some(mut attempt)) = (find_item(db, of.job, of.seq)?, find_attempt(db, of)?)
    else {
        return Err(StoreError::AttemptNotFound(of).into());
    };
    let mut item = found.item;
    let runs = item.state == ItemState::Running && item.attempt == of.attempt;
    if !runs || attempt.ended_ms.is_some() {
        return Ok(None);
    }
    let free = Lane::read(db, attempt.thread)?.filter(|lane| {
        !lane.archived && lane.active.is_none() && lane.held_elsewhere(db).is_none()
    });
    let Some(lane) = free else {
        return Ok(None);
    };
    let usage = attempt.usage.max(repair.usage);
    let counts = JobCounts {
        usage: usage - attempt.usage,
        ..JobCounts::default()
    };
    attempt.usage = usage;
    attempt.turn = repair.row.turn;
    item.turn = Some(repair.row.turn);
    item.repairs += 1;
    save_attempt(db, of, &attempt)?;
    let earlier = write_earlier(&attempt);
    execute(db, EARLIER, params![of.job, of.seq, of.attempt, earlier])?;
    save_item(db, of.job, &item, None)?;
    job.count(db, &counts)?;
    let accepted = begin_turn(db, lane, &repair.row, &repair.accept, repair.at_ms)?;
    item.usage = usage_of(db, of.job, of.seq)?;
    Ok(Some(Box::new(BegunItem { item, accepted })))
}
