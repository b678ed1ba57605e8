//! Fan-out jobs from their making to their seal.

use turnlane_store::StoreError;
use turnlane_store::fanout::{
    CreatedJob, ImportedBatch, ItemState, JobKey, JobNo, JobState, NewItemRow, NewJob,
};

use crate::backend::on_one_worker;
use crate::build::fanout::*;
use crate::build::*;

on_one_worker![
    a_job_is_stored_as_it_was_made,
    a_client_job_id_stands_for_one_job,
    a_repeated_id_finds_the_job,
    rows_are_counted_and_the_offset_moves,
    a_repeated_batch_changes_nothing,
    a_batch_elsewhere_is_told_the_offset,
    ids_are_unique_within_a_job,
    a_computed_id_is_an_id_as_well,
    a_skipped_row_is_an_item_at_once,
    rows_keep_the_numbers_of_their_records,
    a_seal_makes_the_job_ready_once,
    a_job_that_is_sealed_takes_no_rows,
    a_job_without_rows_is_sealed_too,
    rows_are_found_by_their_ids,
    an_unfinished_job_is_found_by_its_fingerprint,
    a_job_that_is_not_there_is_not_found,
];

async fn a_job_is_stored_as_it_was_made(db: Db) {
    let hand = db.one().await;
    let new = NewJob {
        name: Some("review".to_owned()),
        parent_thread: Some(thread()),
        parent_turn: Some(turn_id("a")),
        client_job_id: Some("ci-1".to_owned()),
        schema: Some(json("{\"type\":\"object\"}")),
        input_ref: Some(json("{\"path\":\"a\\u0000b\"}")),
        export_path: Some("out.csv".to_owned()),
        owner_worker: Some(hand.worker()),
        ..new_job("j")
    };
    let CreatedJob::Made(job) = hand.create_job(new.clone()).await.unwrap() else {
        panic!("it was there");
    };
    assert_eq!(job.made, new);
    assert_eq!((job.state, job.version), (JobState::Importing, 1));
    assert_eq!((job.total, job.pending(), job.import.offset), (0, 0, 0));
    let read = hand.job(JobKey::Id("j".to_owned())).await.unwrap();
    assert_eq!(read, Some(*job));
}

async fn a_client_job_id_stands_for_one_job(db: Db) {
    let hand = db.one().await;
    let keyed = |id: &str| NewJob {
        client_job_id: Some("ci".to_owned()),
        ..new_job(id)
    };
    let CreatedJob::Made(first) = hand.create_job(keyed("a")).await.unwrap() else {
        panic!("it was there");
    };
    let again = hand.create_job(keyed("b")).await.unwrap();
    assert_eq!(again, CreatedJob::Existing(first));
    let other = hand.create_job(new_job("b")).await.unwrap();
    assert!(matches!(other, CreatedJob::Made(_)));
}

async fn a_repeated_id_finds_the_job(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 2).await;
    let again = hand.create_job(new_job("a")).await.unwrap();
    assert_eq!(again, CreatedJob::Existing(Box::new(job)));
}

async fn rows_are_counted_and_the_offset_moves(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 3).await;
    assert_eq!((job.total, job.pending(), job.import.offset), (3, 3, 3));
    assert_eq!(job.import.hash, [3; 32]);
    assert_eq!(job.columns, json("[\"a\"]"));
    let more = batch(job.no, 3, vec![new_row(3)]);
    let ImportedBatch::Added(after) = hand.import_rows(more).await.unwrap() else {
        panic!("not added");
    };
    assert_eq!((after.total, after.import.offset, after.version), (4, 4, 1));
    assert_eq!(hand.states(job.no).await, [ItemState::Pending; 4]);
    let page = hand.export_page(job.no, 1, 2).await.unwrap();
    let cells: Vec<_> = page.iter().map(|row| row.cells.as_str()).collect();
    assert_eq!(cells, ["[\"1\"]", "[\"2\"]"]);
}

async fn a_repeated_batch_changes_nothing(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 3).await;
    let again = batch(job.no, 0, (0..3).map(new_row).collect());
    let added = hand.import_rows(again).await.unwrap();
    assert_eq!(added, ImportedBatch::Added(Box::new(job)));
}

async fn a_batch_elsewhere_is_told_the_offset(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 3).await;
    for from in [2, 4] {
        let wrong = batch(job.no, from, vec![new_row(8), new_row(9)]);
        let answer = hand.import_rows(wrong).await.unwrap();
        assert_eq!(answer, ImportedBatch::OffsetIs(3));
    }
    assert_eq!(hand.job_now(job.no).await, job);
}

fn named(seq: i64, id: &str) -> NewItemRow {
    NewItemRow {
        item_id: Some(id.to_owned()),
        ..new_row(seq)
    }
}

async fn ids_are_unique_within_a_job(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 0).await.no;
    let twice = batch(job, 0, vec![named(0, "x"), named(1, "y"), named(2, "x")]);
    let answer = hand.import_rows(twice).await.unwrap();
    assert_eq!(answer, ImportedBatch::DuplicateIds(vec![(2, 0)]));
    let good = batch(job, 0, vec![named(0, "x"), named(1, "X"), named(2, " x")]);
    let answer = hand.import_rows(good).await.unwrap();
    assert!(matches!(answer, ImportedBatch::Added(_)), "{answer:?}");
    let later = batch(job, 3, vec![named(3, "z"), named(4, "X")]);
    let answer = hand.import_rows(later).await.unwrap();
    assert_eq!(answer, ImportedBatch::DuplicateIds(vec![(4, 1)]));
    assert_eq!(hand.job_now(job).await.total, 3);
    let other = hand.importing("b", 0).await.no;
    let same = batch(other, 0, vec![named(0, "x")]);
    let answer = hand.import_rows(same).await.unwrap();
    assert!(matches!(answer, ImportedBatch::Added(_)), "{answer:?}");
}

async fn a_computed_id_is_an_id_as_well(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 2).await.no;
    let cell = batch(job, 2, vec![named(2, "row-2")]);
    let answer = hand.import_rows(cell).await.unwrap();
    assert_eq!(answer, ImportedBatch::DuplicateIds(vec![(2, 1)]));
    let cells = vec![named(2, "row-4"), named(3, "row-02"), named(4, "row-0")];
    let answer = hand.import_rows(batch(job, 2, cells)).await.unwrap();
    assert!(matches!(answer, ImportedBatch::Added(_)), "{answer:?}");
    // The computed id of row 5 is row-6.
    let blank = batch(job, 5, vec![new_row(5), named(6, "row-6")]);
    let answer = hand.import_rows(blank).await.unwrap();
    assert_eq!(answer, ImportedBatch::DuplicateIds(vec![(6, 5)]));
    let item = hand.item_of_job(job, "row-4".to_owned()).await.unwrap();
    assert_eq!(item.unwrap().item.seq, 2);
}

async fn a_skipped_row_is_an_item_at_once(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 1).await.no;
    let skipped = NewItemRow {
        skipped: Some(item_error("duplicate")),
        dup_of: Some(0),
        ..new_row(1)
    };
    hand.import_rows(batch(job, 1, vec![skipped, new_row(2)]))
        .await
        .unwrap();
    let now = hand.job_now(job).await;
    assert_eq!((now.counts.skipped, now.pending(), now.total), (1, 2, 3));
    let item = hand.item_now(job, 1).await;
    assert_eq!((item.state, item.dup_of), (ItemState::Skipped, Some(0)));
    assert_eq!(item.error, Some(item_error("duplicate")));
    hand.assert_counts(job).await;
    hand.sealed(job).await;
    hand.go(job).await;
    assert_eq!(seqs(&hand.claim_some(job, 9).await), [0, 2]);
    hand.report_as(attempt_of(job, 0, 1), "{\"r\":1}").await;
    let result = hand.detail(job, 1).await.result;
    assert_eq!(
        result,
        Some(json("{\"r\":1}")),
        "that of the row it repeats"
    );
}

async fn rows_keep_the_numbers_of_their_records(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 0).await.no;
    let rows = vec![new_row(2), new_row(7)];
    hand.import_rows(batch(job, 0, rows)).await.unwrap();
    let page = hand.export_page(job, 0, 10).await.unwrap();
    let ids: Vec<_> = page.iter().map(|row| row.item.item_id.as_str()).collect();
    assert_eq!(ids, ["row-3", "row-8"]);
    hand.sealed(job).await;
    hand.go(job).await;
    assert_eq!(seqs(&hand.claim_some(job, 9).await), [2, 7]);
}

async fn a_seal_makes_the_job_ready_once(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 1).await;
    let sealed = hand.sealed(job.no).await;
    assert_eq!((sealed.state, sealed.version), (JobState::Ready, 2));
    assert_eq!(sealed.fingerprint, Some([7; 32]));
    assert_eq!(hand.sealed(job.no).await, sealed);
    assert_eq!(hand.job_now(job.no).await, sealed);
}

async fn a_job_that_is_sealed_takes_no_rows(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 1).await.no;
    hand.sealed(job).await;
    let late = batch(job, 1, vec![new_row(1)]);
    let answer = hand.import_rows(late).await.unwrap();
    assert_eq!(answer, ImportedBatch::WrongState(JobState::Ready));
}

async fn a_job_without_rows_is_sealed_too(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 0).await.no;
    assert_eq!(seqs(&hand.claim_some(job, 9).await), [0_i64; 0]);
    let ended = changed(hand.end(job).await);
    assert_eq!(ended.state, JobState::Succeeded);
}

async fn rows_are_found_by_their_ids(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 2).await.no;
    hand.import_rows(batch(job, 2, vec![named(2, "x")]))
        .await
        .unwrap();
    let ids = ["x", "row-1", "row-3", "row-01", "y", "row-9"].map(str::to_owned);
    let found = hand.rows_with_ids(job, ids.to_vec()).await.unwrap();
    assert_eq!(found, [Some(2), Some(0), None, None, None, None]);
}

async fn an_unfinished_job_is_found_by_its_fingerprint(db: Db) {
    let hand = db.one().await;
    let by_fingerprint = || hand.job(JobKey::Unfinished([7; 32]));
    assert_eq!(by_fingerprint().await.unwrap(), None);
    let first = hand.running("a", 1).await.no;
    let second = hand.running("b", 1).await.no;
    assert_eq!(by_fingerprint().await.unwrap().unwrap().no, second);
    hand.cancel(second).await;
    assert_eq!(by_fingerprint().await.unwrap().unwrap().no, first);
    hand.cancel(first).await;
    assert_eq!(by_fingerprint().await.unwrap(), None);
}

async fn a_job_that_is_not_there_is_not_found(db: Db) {
    let hand = db.one().await;
    let none = JobNo(99);
    assert_eq!(hand.job(JobKey::No(none)).await.unwrap(), None);
    let missing = |error: &StoreError| matches!(error, StoreError::JobNotFound(JobNo(99)));
    refused!(hand.import_rows(batch(none, 0, Vec::new())), error if missing(error));
    refused!(hand.claim_items(claiming(none, 1)), error if missing(error));
    refused!(hand.report_item(reporting(attempt_of(none, 0, 1), "{}")), error if missing(error));
    refused!(hand.export_page(none, 0, 1), error if missing(error));
}
