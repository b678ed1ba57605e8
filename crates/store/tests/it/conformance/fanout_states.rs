//! The states of fan-out jobs: changes, ends, cancellation.

use turnlane_store::fanout::{
    AttemptOutcome, ChangedJob, ImportedBatch, ItemState, JobChange, JobNo, JobOwner, JobRow,
    JobState, JobTo, RetryWhich, ReturnUses, SettleTo,
};

use crate::backend::{on_many_workers, on_one_worker};
use crate::build::fanout::*;
use crate::build::*;

on_one_worker![
    a_start_makes_the_job_run_for_its_owner,
    a_change_of_an_older_version_changes_nothing,
    every_state_allows_the_changes_of_the_contract,
    a_pause_says_why_and_until_when,
    a_resume_begins_a_new_count_for_the_breaker,
    a_job_ends_when_nothing_is_left,
    a_job_that_failed_keeps_its_reason,
    only_a_paused_job_stops_its_items_and_the_earlier_time_stays,
    a_limit_and_an_export_leave_the_version,
    a_failed_export_keeps_the_digest_of_the_last_file,
    a_cancelled_job_ends_behind_its_file,
    a_cancelled_job_cancels_what_waits_without_writing_rows,
    a_cancellation_costs_the_same_at_any_size,
];
on_many_workers![one_worker_writes_the_file_of_a_job];

pub(super) fn pausing(reason: &str) -> JobTo {
    JobTo::Paused {
        reason: reason.to_owned(),
        message: Some("a message".to_owned()),
        resume_ms: Some(NOW + 100),
    }
}

fn going() -> JobTo {
    JobTo::Running {
        owner: JobOwner::Detached,
        owner_worker: None,
    }
}

fn cancelling() -> JobTo {
    JobTo::Cancelling { message: None }
}

fn failing() -> JobTo {
    JobTo::Failed {
        reason: "import".to_owned(),
        message: "line 5".to_owned(),
    }
}

async fn a_start_makes_the_job_run_for_its_owner(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 1).await.no;
    let ready = hand.sealed(job).await;
    let to = JobTo::Running {
        owner: JobOwner::Connection,
        owner_worker: Some(hand.worker()),
    };
    let running = changed(hand.try_change(job, to).await);
    assert_eq!(running.state, JobState::Running);
    assert_eq!(running.version, ready.version + 1);
    assert_eq!(running.made.owner, JobOwner::Connection);
    assert_eq!(running.made.owner_worker, Some(hand.worker()));
    assert_eq!(running.started_ms, Some(NOW + 9));
    assert_eq!(running, hand.job_now(job).await);
    // Another owner takes it over.
    let detached = changed(hand.try_change(job, going()).await);
    assert_eq!(detached.made.owner, JobOwner::Detached);
    assert_eq!(detached.started_ms, running.started_ms);
}

async fn a_change_of_an_older_version_changes_nothing(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await;
    let paused = changed(hand.try_change(job.no, pausing("user")).await);
    for to in [going(), cancelling(), JobTo::Limit(3)] {
        let change = JobChange {
            job: job.no,
            version: job.version,
            to,
            at_ms: NOW,
        };
        let answer = hand.change_job(change).await.unwrap();
        assert_eq!(answer, ChangedJob::Unchanged(Box::new(paused.clone())));
    }
    assert_eq!(hand.job_now(job.no).await, paused);
}

/// A job in that state; a cancelling one has an item that runs.
pub(super) async fn job_in(hand: &Hand, id: &str, state: JobState) -> JobNo {
    let job = hand.importing(id, 1).await.no;
    if matches!(state, JobState::Importing) {
        return job;
    }
    hand.sealed(job).await;
    if matches!(state, JobState::Ready) {
        return job;
    }
    hand.go(job).await;
    let of = attempt_of(job, 0, 1);
    match state {
        JobState::Importing | JobState::Ready | JobState::Running => {}
        JobState::Paused => drop(changed(hand.try_change(job, pausing("user")).await)),
        JobState::Cancelling => {
            hand.claim_some(job, 1).await;
            hand.cancel(job).await;
        }
        JobState::Succeeded => {
            hand.claim_some(job, 1).await;
            hand.report_as(of, "{}").await;
            hand.end(job).await;
        }
        JobState::FinishedWithFailures => {
            hand.claim_some(job, 1).await;
            hand.settle_as(of, AttemptOutcome::Failed, SettleTo::Failed)
                .await;
            hand.end(job).await;
        }
        JobState::Cancelled => drop(hand.cancel(job).await),
        JobState::Failed => drop(changed(hand.try_change(job, failing()).await)),
    }
    assert_eq!(hand.job_now(job).await.state, state);
    job
}

async fn every_state_allows_the_changes_of_the_contract(db: Db) {
    use JobState::{Cancelled, Cancelling, Failed, Importing, Paused, Ready, Running};
    let hand = db.one().await;
    // For each state what becomes of it by: run, pause, cancel, fail.
    let table = [
        (Importing, [None, None, Some(Cancelled), Some(Failed)]),
        (Ready, [Some(Running), None, Some(Cancelled), Some(Failed)]),
        (
            Running,
            [Some(Running), Some(Paused), Some(Cancelled), Some(Failed)],
        ),
        (
            Paused,
            [Some(Running), Some(Paused), Some(Cancelled), Some(Failed)],
        ),
        (Cancelling, [None, None, None, Some(Failed)]),
        (JobState::Succeeded, [None; 4]),
        (JobState::FinishedWithFailures, [None; 4]),
        (Cancelled, [None; 4]),
        (Failed, [None; 4]),
    ];
    for (state, expected) in table {
        let changes = [going(), pausing("user"), cancelling(), failing()];
        for (nth, (to, expected)) in changes.into_iter().zip(expected).enumerate() {
            let job = job_in(&hand, &format!("{state:?}{nth}"), state).await;
            let before = hand.job_now(job).await;
            let answer = hand.try_change(job, to.clone()).await;
            match (expected, answer) {
                (None, ChangedJob::Unchanged(job)) => assert_eq!(*job, before),
                (Some(expected), ChangedJob::Changed(job)) => {
                    assert_eq!(job.state, expected, "{state:?} by {to:?}");
                    assert_eq!(job.version, before.version + 1);
                    assert_eq!(job.ended_ms.is_some(), expected.is_terminal());
                }
                (_, answer) => panic!("{state:?} by {to:?}: {answer:?}"),
            }
        }
    }
}

async fn a_pause_says_why_and_until_when(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    let paused = changed(hand.try_change(job, pausing("quota")).await);
    assert_eq!(paused.reason.as_deref(), Some("quota"));
    assert_eq!(paused.reason_message.as_deref(), Some("a message"));
    assert_eq!(paused.resume_ms, Some(NOW + 100));
    let running = hand.go(job).await;
    assert_eq!((running.reason, running.reason_message), (None, None));
    assert_eq!(running.resume_ms, None);
}

async fn a_resume_begins_a_new_count_for_the_breaker(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 3).await.no;
    hand.claim_some(job, 2).await;
    for seq in [0, 1] {
        let of = attempt_of(job, seq, 1);
        hand.settle_as(of, AttemptOutcome::Failed, SettleTo::Failed)
            .await;
    }
    let paused = changed(hand.try_change(job, pausing("failures")).await);
    assert_eq!((paused.streak.finished, paused.streak.failed), (2, 2));
    let running = hand.go(job).await;
    assert_eq!((running.streak.finished, running.streak.failed), (0, 0));
    assert_eq!(running.counts.failed, 2);
}

async fn a_job_ends_when_nothing_is_left(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 2).await.no;
    assert!(matches!(hand.end(job).await, ChangedJob::Unchanged(_)));
    hand.claim_some(job, 2).await;
    hand.report_as(attempt_of(job, 0, 1), "{}").await;
    assert!(matches!(hand.end(job).await, ChangedJob::Unchanged(_)));
    hand.report_as(attempt_of(job, 1, 1), "{}").await;
    let ended = changed(hand.end(job).await);
    assert_eq!(
        (ended.state, ended.ended_ms),
        (JobState::Succeeded, Some(NOW + 9))
    );
    assert!(matches!(hand.end(job).await, ChangedJob::Unchanged(_)));
    // Until its last attempts are closed.
    assert_eq!(hand.active_jobs().await.unwrap(), [ended]);
    for seq in [0, 1] {
        let of = attempt_of(job, seq, 1);
        hand.settle_as(of, AttemptOutcome::Reported, SettleTo::AsReported)
            .await;
    }
    assert!(hand.active_jobs().await.unwrap().is_empty());
}

async fn a_job_that_failed_keeps_its_reason(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 2).await.no;
    let failed = changed(hand.try_change(job, failing()).await);
    assert_eq!(failed.reason.as_deref(), Some("import"));
    assert_eq!(failed.reason_message.as_deref(), Some("line 5"));
    let late = hand.import_rows(batch(job, 2, vec![new_row(2)])).await;
    assert_eq!(late.unwrap(), ImportedBatch::WrongState(JobState::Failed));
    let retried = hand.retry(job, RetryWhich::FailedOrCancelled).await;
    assert_eq!((retried.retried, retried.job), (0, failed));
}

async fn only_a_paused_job_stops_its_items_and_the_earlier_time_stays(db: Db) {
    let hand = db.one().await;
    for state in [
        JobState::Importing,
        JobState::Ready,
        JobState::Running,
        JobState::Cancelling,
        JobState::Succeeded,
    ] {
        let job = job_in(&hand, &format!("{state:?}"), state).await;
        let before = hand.job_now(job).await;
        match hand.try_change(job, JobTo::Stop { at_ms: NOW }).await {
            ChangedJob::Unchanged(job) => assert_eq!(*job, before),
            ChangedJob::Changed(job) => panic!("{state:?}: {job:?}"),
        }
    }
    let job = job_in(&hand, "a", JobState::Paused).await;
    let version = hand.job_now(job).await.version;
    for (at_ms, stays) in [(NOW + 9, NOW + 9), (NOW + 5, NOW + 5), (NOW + 7, NOW + 5)] {
        let stopped = changed(hand.try_change(job, JobTo::Stop { at_ms }).await);
        assert_eq!(stopped.stop_ms, Some(stays));
        assert_eq!(stopped.version, version);
        assert_eq!(stopped, hand.job_now(job).await);
    }
    assert_eq!(hand.go(job).await.stop_ms, None);
    let paused = changed(hand.try_change(job, pausing("user")).await);
    assert_eq!(paused.stop_ms, None, "a pause lets items finish");
}

async fn a_limit_and_an_export_leave_the_version(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await;
    let limited = changed(hand.try_change(job.no, JobTo::Limit(3)).await);
    assert_eq!(limited.made.current_limit, 3);
    let to = JobTo::Exported {
        path: "out.csv".to_owned(),
        outcome: Ok([4; 32]),
    };
    let exported = changed(hand.try_change(job.no, to).await);
    assert_eq!(exported.made.export_path.as_deref(), Some("out.csv"));
    assert_eq!(exported.export_digest, Some([4; 32]));
    assert_eq!(exported.version, job.version);
    assert_eq!(exported, hand.job_now(job.no).await);
}

async fn a_failed_export_keeps_the_digest_of_the_last_file(db: Db) {
    let hand = db.one().await;
    let job = job_in(&hand, "a", JobState::Succeeded).await;
    for outcome in [Ok([4; 32]), Err("no room".to_owned())] {
        let path = "out.csv".to_owned();
        changed(
            hand.try_change(job, JobTo::Exported { path, outcome })
                .await,
        );
    }
    let now = hand.job_now(job).await;
    assert_eq!(now.export_error.as_deref(), Some("no room"));
    assert_eq!(now.export_digest, Some([4; 32]));
    assert_eq!(now.state, JobState::Succeeded);
}

async fn one_worker_writes_the_file_of_a_job(db: Db) {
    let (first, second) = db.two().await;
    let job = first.running("a", 1).await;
    let taken = changed(first.try_change(job.no, JobTo::Exporting).await);
    assert_eq!(taken, job, "the version stays");
    let refused = second.try_change(job.no, JobTo::Exporting).await;
    assert_eq!(refused, ChangedJob::Unchanged(Box::new(job.clone())));
    changed(first.try_change(job.no, JobTo::Exporting).await);
    let exported = |outcome| JobTo::Exported {
        path: "out.csv".to_owned(),
        outcome,
    };
    // Written or not, another worker may write it next.
    for outcome in [Ok([4; 32]), Err("no room".to_owned())] {
        changed(first.try_change(job.no, exported(outcome)).await);
        changed(second.try_change(job.no, JobTo::Exporting).await);
        changed(second.try_change(job.no, exported(Ok([5; 32]))).await);
        changed(first.try_change(job.no, JobTo::Exporting).await);
    }
    db.kill(first).await;
    changed(second.try_change(job.no, JobTo::Exporting).await);
}

async fn a_cancelled_job_ends_behind_its_file(db: Db) {
    let hand = db.one().await;
    let exported = || JobTo::Exported {
        path: "out.csv".to_owned(),
        outcome: Ok([4; 32]),
    };
    let job = hand.running("a", 2).await.no;
    changed(hand.try_change(job, exported()).await);
    assert_eq!(hand.cancel(job).await.state, JobState::Cancelling);
    let item = hand.item_now(job, 1).await;
    assert_eq!(item.state, ItemState::Cancelled);
    assert!(
        item.ended_ms.is_some(),
        "it ended when the job was cancelled"
    );
    let ended = changed(hand.end(job).await);
    assert_eq!(ended.state, JobState::Cancelled);
    assert_eq!(hand.item_now(job, 1).await, item);
    // A job that never ran has nothing to write.
    let job = hand.importing("b", 1).await.no;
    changed(hand.try_change(job, exported()).await);
    assert_eq!(hand.cancel(job).await.state, JobState::Cancelled);
}

async fn a_cancelled_job_cancels_what_waits_without_writing_rows(db: Db) {
    use ItemState::{Cancelled, Running};
    let hand = db.one().await;
    let job = hand.running("a", 4).await.no;
    hand.claim_some(job, 2).await;
    // One waits for its second attempt, one runs, two never ran.
    let of = attempt_of(job, 0, 1);
    hand.settle_as(of, AttemptOutcome::Failed, put_back(ReturnUses::Retry))
        .await;
    let cancelling = hand.cancel(job).await;
    assert_eq!(cancelling.state, JobState::Cancelling);
    assert_eq!((cancelling.counts.cancelled, cancelling.pending()), (3, 0));
    assert_eq!(
        hand.states(job).await,
        [Cancelled, Running, Cancelled, Cancelled]
    );
    assert!(matches!(hand.end(job).await, ChangedJob::Unchanged(_)));
    hand.settle_as(
        attempt_of(job, 1, 1),
        AttemptOutcome::Interrupted,
        SettleTo::Cancelled,
    )
    .await;
    let ended = changed(hand.end(job).await);
    assert_eq!(
        (ended.state, ended.counts.cancelled),
        (JobState::Cancelled, 4)
    );
    let item = hand.item_now(job, 3).await;
    assert_eq!(item.error.unwrap().message, "enough");
    assert_eq!(item.ended_ms, ended.ended_ms);
    hand.assert_counts(job).await;
}

/// Imports so many rows in batches.
pub(super) async fn large(hand: &Hand, id: &str, rows: i64) -> JobRow {
    let job = hand.importing(id, 0).await.no;
    let mut from = 0;
    while from < rows {
        let to = (from + 500).min(rows);
        let rows = (from..to).map(new_row).collect();
        hand.import_rows(batch(job, from, rows)).await.unwrap();
        from = to;
    }
    hand.sealed(job).await;
    hand.go(job).await
}

/// 100,000 rows wait; that only the job's row is written is tested beside the statements.
async fn a_cancellation_costs_the_same_at_any_size(db: Db) {
    let hand = db.one().await;
    let job = large(&hand, "a", 100_000).await.no;
    let ended = hand.cancel(job).await;
    assert_eq!(ended.state, JobState::Cancelled);
    assert_eq!((ended.counts.cancelled, ended.pending()), (100_000, 0));
    let page = hand.export_page(job, 99_999, 1).await.unwrap();
    assert_eq!(page[0].item.state, ItemState::Cancelled);
    let retried = hand.retry(job, RetryWhich::Cancelled).await;
    assert_eq!((retried.retried, retried.job.pending()), (100_000, 100_000));
    assert_eq!(seqs(&hand.claim_some(job, 2).await), [0, 1]);
}
