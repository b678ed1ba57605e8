//! Fan-out items that run again, and jobs that are deleted.

use turnlane_store::StoreError;
use turnlane_store::fanout::{
    AttemptOutcome, Company, CreatedJob, DeletedJob, ItemState, JobKey, JobNo, JobState, NewJob,
    RetryItems, RetryWhich, ReturnUses, SettleTo,
};

use super::fanout_states::{job_in, large, pausing};
use crate::backend::on_one_worker;
use crate::build::fanout::*;
use crate::build::*;

on_one_worker![
    failed_items_run_again,
    retried_items_leave_the_rest_of_a_cancelled_job_cancelled,
    cancelled_items_run_again_with_the_rows_that_never_ran,
    named_items_run_again,
    a_retry_may_bring_a_new_template,
    a_retry_without_items_changes_nothing,
    a_retried_item_that_lost_workers_still_runs_alone,
    a_job_is_deleted_in_parts,
    a_job_that_runs_is_not_deleted,
    a_deletion_that_was_cut_off_is_shown_to_runners,
    the_number_of_a_deleted_job_is_not_used_again,
];

async fn failed_items_run_again(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 3).await.no;
    hand.claim_some(job, 3).await;
    hand.report_as(attempt_of(job, 0, 1), "{\"kept\":1}").await;
    for seq in [1, 2] {
        let of = attempt_of(job, seq, 1);
        hand.settle_as(of, AttemptOutcome::Failed, SettleTo::Failed)
            .await;
    }
    let ended = changed(hand.end(job).await);
    let retried = hand.retry(job, RetryWhich::Failed).await;
    assert_eq!(retried.retried, 2);
    assert_eq!(retried.job.state, JobState::Running);
    assert_eq!(retried.job.version, ended.version + 1);
    assert_eq!((retried.job.ended_ms, retried.job.pending()), (None, 2));
    assert_eq!(retried.job.streak.failed, 0);
    let item = hand.item_now(job, 1).await;
    assert_eq!(
        (item.state, item.attempt, item.error),
        (ItemState::Pending, 1, None)
    );
    let claimed = hand.claim_some(job, 9).await;
    assert_eq!(seqs(&claimed), [1, 2]);
    assert_eq!(claimed.begun[0].item.attempt, 2);
    assert_eq!(hand.detail(job, 0).await.result, Some(json("{\"kept\":1}")));
    hand.assert_counts(job).await;
}

/// A cancelled job: item 0 failed, item 1 waits again, item 2 ran and was cancelled, 3 to 5 never ran.
async fn cancelled_job(hand: &Hand) -> JobNo {
    let job = hand.running("a", 6).await.no;
    hand.claim_some(job, 3).await;
    let ends = [
        SettleTo::Failed,
        put_back(ReturnUses::Retry),
        SettleTo::Cancelled,
    ];
    for (seq, to) in (0..).zip(ends) {
        if seq == 2 {
            hand.cancel(job).await;
        }
        let of = attempt_of(job, seq, 1);
        hand.settle_as(of, AttemptOutcome::Failed, to).await;
    }
    let ended = changed(hand.end(job).await);
    assert_eq!(ended.state, JobState::Cancelled);
    assert_eq!((ended.counts.failed, ended.counts.cancelled), (1, 5));
    job
}

async fn retried_items_leave_the_rest_of_a_cancelled_job_cancelled(db: Db) {
    use ItemState::{Cancelled, Pending};
    let hand = db.one().await;
    let job = cancelled_job(&hand).await;
    let retried = hand.retry(job, RetryWhich::Failed).await;
    assert_eq!((retried.retried, retried.job.pending()), (1, 1));
    assert_eq!(retried.job.counts.cancelled, 5);
    assert!(!retried.job.cancel_asked);
    let states = [
        Pending, Cancelled, Cancelled, Cancelled, Cancelled, Cancelled,
    ];
    assert_eq!(hand.states(job).await, states);
    hand.assert_counts(job).await;
    let claimed = hand.claim_some(job, 9).await;
    assert_eq!((seqs(&claimed), claimed.next_due_ms), (vec![0], None));
    hand.report_as(attempt_of(job, 0, 2), "{}").await;
    let ended = changed(hand.end(job).await);
    assert_eq!(ended.state, JobState::Cancelled, "not everything has run");
    hand.assert_counts(job).await;
    // And now the rest.
    let retried = hand.retry(job, RetryWhich::Cancelled).await;
    assert_eq!((retried.retried, retried.job.pending()), (5, 5));
    assert_eq!(seqs(&hand.claim_some(job, 9).await), [1, 2, 3, 4, 5]);
    hand.assert_counts(job).await;
}

async fn cancelled_items_run_again_with_the_rows_that_never_ran(db: Db) {
    let hand = db.one().await;
    let job = cancelled_job(&hand).await;
    let retried = hand.retry(job, RetryWhich::FailedOrCancelled).await;
    assert_eq!((retried.retried, retried.job.pending()), (6, 6));
    assert_eq!(hand.states(job).await, [ItemState::Pending; 6]);
    assert_eq!(seqs(&hand.claim_some(job, 9).await), [0, 1, 2, 3, 4, 5]);
    for seq in 0..6 {
        let attempt = if seq < 3 { 2 } else { 1 };
        hand.report_as(attempt_of(job, seq, attempt), "{}").await;
    }
    assert_eq!(changed(hand.end(job).await).state, JobState::Succeeded);
    hand.assert_counts(job).await;
}

async fn named_items_run_again(db: Db) {
    let hand = db.one().await;
    let job = cancelled_job(&hand).await;
    let ids = ["row-1", "row-3", "row-5", "row-99", "no"].map(str::to_owned);
    let retried = hand.retry(job, RetryWhich::Items(ids.to_vec())).await;
    assert_eq!((retried.retried, retried.job.pending()), (3, 3));
    hand.assert_counts(job).await;
    assert_eq!(seqs(&hand.claim_some(job, 9).await), [0, 2, 4]);
    // A row that was named is not claimed again when the rest is.
    let retried = hand.retry(job, RetryWhich::Cancelled).await;
    assert_eq!(retried.retried, 3);
    assert_eq!(seqs(&hand.claim_some(job, 9).await), [1, 3, 5]);
    hand.assert_counts(job).await;
}

async fn a_retry_may_bring_a_new_template(db: Db) {
    let hand = db.one().await;
    let job = job_in(&hand, "a", JobState::FinishedWithFailures).await;
    let retry = RetryItems {
        job,
        which: RetryWhich::Failed,
        instruction: Some("Other {a}".to_owned()),
        at_ms: NOW,
    };
    let retried = hand.retry_items(retry).await.unwrap();
    assert_eq!(retried.job.made.instruction, "Other {a}");
    assert_eq!(retried.job, hand.job_now(job).await);
}

async fn a_retry_without_items_changes_nothing(db: Db) {
    let hand = db.one().await;
    for (nth, state) in [
        JobState::Importing,
        JobState::Ready,
        JobState::Running,
        JobState::Cancelling,
        JobState::Succeeded,
    ]
    .into_iter()
    .enumerate()
    {
        let job = job_in(&hand, &nth.to_string(), state).await;
        let before = hand.job_now(job).await;
        let retried = hand.retry(job, RetryWhich::FailedOrCancelled).await;
        assert_eq!((retried.retried, retried.job), (0, before));
    }
    let job = cancelled_job(&hand).await;
    let before = hand.job_now(job).await;
    let retried = hand.retry(job, RetryWhich::Items(Vec::new())).await;
    assert_eq!((retried.retried, retried.job), (0, before.clone()));
    assert_eq!(hand.job_now(job).await, before);
    hand.assert_counts(job).await;
}

async fn a_retried_item_that_lost_workers_still_runs_alone(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    for attempt in 1..=3 {
        let mut claim = claiming(job, 1);
        if attempt == 3 {
            claim.company = Company::Alone;
        }
        let claimed = hand.claim_items(claim).await.unwrap();
        hand.end_turn(&claimed.begun[0]).await;
        let to = match attempt {
            3 => SettleTo::Failed,
            _ => put_back(ReturnUses::Loss),
        };
        let of = attempt_of(job, 0, attempt);
        hand.settle_as(of, AttemptOutcome::Lost, to).await;
    }
    hand.retry(job, RetryWhich::Failed).await;
    let others = hand.claim_some(job, 1).await;
    assert_eq!((seqs(&others), others.alone_waits), (vec![], true));
}

async fn a_job_is_deleted_in_parts(db: Db) {
    let hand = db.one().await;
    let job = large(&hand, "a", 1_200).await.no;
    let claimed = hand.claim_some(job, 2).await;
    for begun in &claimed.begun {
        hand.end_turn(begun).await;
        hand.report_as(attempt_of(job, begun.item.seq, 1), "{}")
            .await;
    }
    hand.cancel(job).await;
    let threads = vec![item_thread(job, 0, 1), item_thread(job, 1, 1)];
    let first = hand.delete_job(job).await.unwrap();
    assert_eq!(first, DeletedJob::More(threads));
    assert_eq!(hand.job(JobKey::No(job)).await.unwrap(), None);
    let second = hand.delete_job(job).await.unwrap();
    assert_eq!(second, DeletedJob::More(Vec::new()));
    for _ in 0..2 {
        let done = hand.delete_job(job).await.unwrap();
        assert_eq!(done, DeletedJob::Done(Vec::new()));
    }
    assert!(hand.active_jobs().await.unwrap().is_empty());
    refused!(hand.export_page(job, 0, 9), StoreError::JobNotFound(_));
}

async fn a_job_that_runs_is_not_deleted(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 2).await.no;
    hand.claim_some(job, 1).await;
    let refused = |state| DeletedJob::WrongState(state);
    let answer = hand.delete_job(job).await.unwrap();
    assert_eq!(answer, refused(JobState::Running));
    changed(hand.try_change(job, pausing("user")).await);
    let answer = hand.delete_job(job).await.unwrap();
    assert_eq!(answer, refused(JobState::Paused), "an item still runs");
    hand.report_as(attempt_of(job, 0, 1), "{}").await;
    let answer = hand.delete_job(job).await.unwrap();
    assert!(matches!(answer, DeletedJob::Done(_)), "{answer:?}");
}

async fn a_deletion_that_was_cut_off_is_shown_to_runners(db: Db) {
    let hand = db.one().await;
    let job = large(&hand, "a", 600).await;
    let keyed = NewJob {
        client_job_id: Some("ci".to_owned()),
        ..new_job("b")
    };
    let CreatedJob::Made(other) = hand.create_job(keyed.clone()).await.unwrap() else {
        panic!("it was there");
    };
    hand.cancel(job.no).await;
    hand.delete_job(job.no).await.unwrap();
    let active = hand.active_jobs().await.unwrap();
    assert_eq!(active.len(), 1);
    assert!(active[0].deleting);
    refused!(
        hand.import_rows(batch(job.no, 600, Vec::new())),
        StoreError::JobNotFound(_)
    );
    hand.delete_job(other.no).await.unwrap();
    let again = NewJob {
        id: "c".to_owned(),
        ..keyed
    };
    let again = hand.create_job(again).await.unwrap();
    assert!(matches!(again, CreatedJob::Made(_)), "its key is free");
}

async fn the_number_of_a_deleted_job_is_not_used_again(db: Db) {
    let hand = db.one().await;
    let first = hand.importing("a", 1).await.no;
    hand.delete_job(first).await.unwrap();
    let second = hand.importing("a", 1).await.no;
    assert!(second > first);
}
