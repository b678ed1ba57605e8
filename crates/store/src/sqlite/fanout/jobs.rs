//! Jobs: made, changed, listed.
//!
//! The invariant here: a change is carried out only on the version that its caller has read, and only
//! from the states that the contract names; else the job is returned as it is.

use rusqlite::params;

use super::rows::{Job, job as read_job};
use crate::fanout::{
    ChangedJob, CreatedJob, JobChange, JobKey, JobPage, JobPlace, JobQuery, JobRow, JobState,
    JobTo, NewJob,
};
use crate::sqlite::Db;
use crate::sqlite::fault::Fault;
use crate::sqlite::statement::{all, execute, first};

const JOB: &str = include_str!("../sql/fanout/job.sql");

/// Makes a job, or finds the one that has its id or its client job id.
pub(super) fn create(db: &Db<'_>, new: &NewJob) -> Result<CreatedJob, Fault> {
    const SAME: &str = concat!(include_str!("../sql/fanout/job.sql"), "WHERE id = ?1");
    const CLIENT: &str = concat!(
        include_str!("../sql/fanout/job.sql"),
        "WHERE client_job_id = ?1"
    );
    let mut found = first(db, SAME, params![new.id], read_job)?;
    if let (None, Some(key)) = (&found, &new.client_job_id) {
        found = first(db, CLIENT, params![key], read_job)?;
    }
    if let Some(found) = found {
        let row = found.counted(db)?.row;
        return Ok(CreatedJob::Existing(Box::new(row)));
    }
    execute(
        db,
        include_str!("../sql/fanout/insert_job.sql"),
        params![
            new.id,
            new.name,
            new.owner,
            new.owner_worker,
            new.parent_thread,
            new.parent_turn,
            new.client_job_id,
            new.instruction,
            new.schema,
            new.channel,
            new.settings,
            new.limits,
            new.options,
            new.current_limit,
            new.input_ref,
            new.export_path,
            new.at_ms,
        ],
    )?;
    let made = first(db, SAME, params![new.id], read_job)?;
    let made = made.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    Ok(CreatedJob::Made(Box::new(made.counted(db)?.row)))
}

/// Changes a job, if it still has the version and a state that allows the change.
pub(super) fn change(db: &Db<'_>, change: &JobChange) -> Result<ChangedJob, Fault> {
    let mut job = Job::find(db, change.job)?;
    let allowed = job.row.version == change.version && apply(db, &mut job, change)?;
    let row = Box::new(job.row);
    Ok(if allowed {
        ChangedJob::Changed(row)
    } else {
        ChangedJob::Unchanged(row)
    })
}

/// Carries out a change; false if the state does not allow it.
fn apply(db: &Db<'_>, job: &mut Job, change: &JobChange) -> Result<bool, Fault> {
    let state = job.row.state;
    match &change.to {
        JobTo::Running {
            owner,
            owner_worker,
        } => {
            if !matches!(
                state,
                JobState::Ready | JobState::Paused | JobState::Running
            ) {
                return Ok(false);
            }
            enter(job, JobState::Running, None, None);
            job.row.made.owner = *owner;
            job.row.made.owner_worker = *owner_worker;
            job.row.started_ms = job.row.started_ms.or(Some(change.at_ms));
            job.begin_streak();
        }
        JobTo::Paused {
            reason,
            message,
            resume_ms,
        } => {
            if !matches!(state, JobState::Paused | JobState::Running) {
                return Ok(false);
            }
            enter(job, JobState::Paused, Some(reason), message.as_ref());
            job.row.resume_ms = *resume_ms;
        }
        JobTo::Cancelling { message } => {
            if state.is_terminal() || state == JobState::Cancelling {
                return Ok(false);
            }
            cancel(job, "user", message.as_ref(), change.at_ms);
            // The file of a job that has run is written before its end.
            let never_ran = matches!(state, JobState::Importing | JobState::Ready);
            if job.stored.running == 0 && (never_ran || job.row.made.export_path.is_none()) {
                end(job, JobState::Cancelled, change.at_ms);
            }
        }
        JobTo::EndIfDone => match end_state(job) {
            None => return Ok(false),
            Some(state) => end(job, state, change.at_ms),
        },
        JobTo::Failed { reason, message } => {
            if state.is_terminal() {
                return Ok(false);
            }
            enter(job, JobState::Failed, Some(reason), Some(message));
            end(job, JobState::Failed, change.at_ms);
        }
        JobTo::Stop { .. }
        | JobTo::Limit(_)
        | JobTo::Exporting
        | JobTo::Renaming { .. }
        | JobTo::Notes(_)
        | JobTo::Exported { .. } => return note(db, job, &change.to),
    }
    job.save(db)?;
    Ok(true)
}

/// Carries out a change that leaves state and version; false if it is refused.
fn note(db: &Db<'_>, job: &mut Job, to: &JobTo) -> Result<bool, Fault> {
    match to {
        JobTo::Stop { at_ms } => {
            const STOP: &str = "UPDATE fanout_job SET stop_ms = ?2 WHERE no = ?1";
            if job.row.state != JobState::Paused {
                return Ok(false);
            }
            let at_ms = job.row.stop_ms.map_or(*at_ms, |set| set.min(*at_ms));
            execute(db, STOP, params![job.row.no, at_ms])?;
            job.row.stop_ms = Some(at_ms);
        }
        JobTo::Limit(limit) => {
            const LIMIT: &str = "UPDATE fanout_job SET current_limit = ?2 WHERE no = ?1";
            execute(db, LIMIT, params![job.row.no, limit])?;
            job.row.made.current_limit = *limit;
        }
        JobTo::Exporting => {
            const TAKE: &str = "UPDATE fanout_job SET export_worker = ?2 WHERE no = ?1";
            let other = job.export_worker.filter(|worker| *worker != db.me);
            if other.is_some_and(|worker| !db.is_dead(worker)) {
                return Ok(false);
            }
            execute(db, TAKE, params![job.row.no, db.me])?;
        }
        JobTo::Renaming { path, digest } => {
            const NEXT: &str =
                "UPDATE fanout_job SET export_path = ?2, export_next = ?3 WHERE no = ?1";
            execute(db, NEXT, params![job.row.no, path, digest])?;
            job.row.made.export_path = Some(path.clone());
            job.row.export_next = Some(*digest);
        }
        JobTo::Notes(notes) => {
            const NOTES: &str = "UPDATE fanout_job SET notes = ?2 WHERE no = ?1";
            execute(db, NOTES, params![job.row.no, notes])?;
            job.row.import.notes = notes.clone();
        }
        JobTo::Exported { path, outcome } => {
            export(db, job, path, outcome)?;
        }
        JobTo::Running { .. }
        | JobTo::Paused { .. }
        | JobTo::Cancelling { .. }
        | JobTo::EndIfDone
        | JobTo::Failed { .. } => return Ok(false),
    }
    Ok(true)
}

fn enter(job: &mut Job, state: JobState, reason: Option<&String>, message: Option<&String>) {
    job.row.state = state;
    job.row.reason = reason.cloned();
    job.row.reason_message = message.cloned();
    job.row.resume_ms = None;
    job.row.stop_ms = None;
}

/// Requests the end of a job, in memory: everything that waits counts as cancelled.
pub(super) fn cancel(job: &mut Job, reason: &str, message: Option<&String>, at_ms: i64) {
    enter(job, JobState::Cancelling, Some(&reason.to_owned()), message);
    job.row.cancel_asked = true;
    job.cancelled_ms = Some(at_ms);
}

fn end(job: &mut Job, state: JobState, at_ms: i64) {
    job.row.state = state;
    job.row.ended_ms = Some(at_ms);
    job.row.resume_ms = None;
}

/// The state in which a job ends, if nothing is left to be done.
fn end_state(job: &Job) -> Option<JobState> {
    let counts = &job.row.counts;
    if counts.running != 0 {
        return None;
    }
    match job.row.state {
        JobState::Cancelling => Some(JobState::Cancelled),
        JobState::Running if job.row.pending() != 0 => None,
        // Cancelled before, and only some of its items were retried.
        JobState::Running if counts.cancelled > 0 => Some(JobState::Cancelled),
        JobState::Running if counts.failed > 0 => Some(JobState::FinishedWithFailures),
        JobState::Running => Some(JobState::Succeeded),
        _ => None,
    }
}

fn export(
    db: &Db<'_>,
    job: &mut Job,
    path: &str,
    outcome: &Result<[u8; 32], String>,
) -> Result<(), Fault> {
    // A failed export leaves the file that the last one wrote, and so its digest. It may have renamed
    // its own file all the same.
    const EXPORTED: &str = "UPDATE fanout_job SET export_path = ?2, export_error = ?3, \
         export_digest = coalesce(?4, export_digest), export_worker = NULL, \
         export_next = iif(?4 IS NULL, export_next, NULL) WHERE no = ?1";
    let (digest, error) = match outcome {
        Ok(digest) => (Some(*digest), None),
        Err(error) => (None, Some(error.clone())),
    };
    execute(db, EXPORTED, params![job.row.no, path, error, digest])?;
    job.row.made.export_path = Some(path.to_owned());
    job.row.export_error = error;
    job.row.export_digest = digest.or(job.row.export_digest);
    job.row.export_next = job.row.export_next.filter(|_| digest.is_none());
    Ok(())
}

/// One job.
pub(super) fn job(db: &Db<'_>, key: &JobKey) -> Result<Option<JobRow>, Fault> {
    const NO: &str = concat!(
        include_str!("../sql/fanout/job.sql"),
        "WHERE no = ?1 AND deleting = 0"
    );
    const ID: &str = concat!(
        include_str!("../sql/fanout/job.sql"),
        "WHERE id = ?1 AND deleting = 0"
    );
    const UNFINISHED: &str = concat!(
        include_str!("../sql/fanout/job.sql"),
        "WHERE fingerprint = ?1 AND fingerprint IS NOT NULL AND ended_ms IS NULL \
         AND deleting = 0 ORDER BY no DESC LIMIT 1"
    );
    let found = match key {
        JobKey::No(no) => first(db, NO, params![no], read_job)?,
        JobKey::Id(id) => first(db, ID, params![id], read_job)?,
        JobKey::Unfinished(fingerprint) => first(db, UNFINISHED, params![fingerprint], read_job)?,
    };
    found
        .map(|job| job.counted(db).map(|job| job.row))
        .transpose()
}

/// Some jobs, the newest first.
pub(super) fn jobs(db: &Db<'_>, query: &JobQuery) -> Result<JobPage, Fault> {
    const PAGE: &str = concat!(
        include_str!("../sql/fanout/job.sql"),
        include_str!("../sql/fanout/jobs.sql")
    );
    let of_parent = "parent_thread = ?5 AND parent_thread IS NOT NULL AND";
    // Names the parameter in both texts, so that both take the same values.
    let of_all = "?5 IS NULL AND";
    let condition = query.parent.map_or(of_all, |_| of_parent);
    let (created_ms, id) = match &query.after {
        // Behind every id.
        None => (i64::MAX, "~"),
        Some(place) => (place.created_ms, place.id.as_str()),
    };
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let found = all(
        db,
        &PAGE.replace("PARENT", condition),
        params![
            created_ms,
            id,
            words(&query.states)?,
            i64::from(query.limit) + 1,
            query.parent
        ],
        read_job,
    )?;
    let more = found.len() > limit;
    let mut jobs = Vec::with_capacity(found.len());
    for job in found.into_iter().take(limit) {
        jobs.push(job.counted(db)?.row);
    }
    let next = jobs.last().filter(|_| more).map(|job| JobPlace {
        created_ms: job.made.at_ms,
        id: job.made.id.clone(),
    });
    Ok(JobPage { jobs, next })
}

/// A list of states for `json_each`; none when every state goes.
fn words(states: &[JobState]) -> Result<Option<String>, Fault> {
    use rusqlite::types::{ToSql as _, ToSqlOutput, Value, ValueRef};
    if states.is_empty() {
        return Ok(None);
    }
    let mut words = Vec::with_capacity(states.len());
    for state in states {
        let word = match state.to_sql()? {
            ToSqlOutput::Borrowed(ValueRef::Text(text)) => String::from_utf8_lossy(text).into(),
            ToSqlOutput::Owned(Value::Text(text)) => text,
            _ => continue,
        };
        words.push(word);
    }
    Ok(Some(serde_json::Value::from(words).to_string()))
}

/// The jobs that a runner looks at.
pub(super) fn active(db: &Db<'_>) -> Result<Vec<JobRow>, Fault> {
    const ACTIVE: &str = include_str!("../sql/fanout/active_jobs.sql");
    const OPEN: &str = include_str!("../sql/fanout/open_jobs.sql");
    const DELETING: &str = "WHERE deleting = 1";
    let mut jobs = Vec::new();
    for which in [ACTIVE, OPEN, DELETING] {
        for job in all(db, &[JOB, which].concat(), [], read_job)? {
            jobs.push(job.counted(db)?.row);
        }
    }
    jobs.sort_by_key(|job: &JobRow| job.no);
    jobs.dedup_by_key(|job| job.no);
    Ok(jobs)
}
