//! Lists of fan-out jobs and items, and the export.

use turnlane_store::fanout::{
    AttemptOutcome, ItemState, ItemsQuery, JobNo, JobQuery, JobState, JobTo, NewItemRow, NewJob,
    ReturnUses, SettleTo,
};

use crate::backend::on_one_worker;
use crate::build::fanout::*;
use crate::build::*;

on_one_worker![
    jobs_are_listed_newest_first_without_losing_any,
    jobs_are_listed_by_state_and_parent,
    active_jobs_are_those_a_runner_looks_at,
    items_are_listed_by_state,
    a_list_that_looks_for_few_among_many_goes_on,
    an_export_shows_every_row_in_input_order,
    long_rows_make_short_pages_and_claims,
    an_item_shows_its_attempts,
    the_census_counts_the_lanes_of_items,
];

fn query() -> JobQuery {
    JobQuery {
        after: None,
        states: Vec::new(),
        parent: None,
        limit: 7,
    }
}

async fn ids(hand: &Hand, mut query: JobQuery) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let page = hand.jobs(query.clone()).await.unwrap();
        assert!(page.jobs.len() <= 7);
        ids.extend(page.jobs.into_iter().map(|job| job.made.id));
        query.after = page.next;
        if query.after.is_none() {
            return ids;
        }
    }
}

async fn jobs_are_listed_newest_first_without_losing_any(db: Db) {
    let hand = db.one().await;
    let mut expected = Vec::new();
    for number in 0..30 {
        // Three of them in the same millisecond.
        let id = format!("job-{number:02}");
        let new = NewJob {
            at_ms: NOW + number / 3,
            ..new_job(&id)
        };
        hand.create_job(new).await.unwrap();
        expected.insert(0, id);
    }
    assert_eq!(ids(&hand, query()).await, expected);
}

async fn jobs_are_listed_by_state_and_parent(db: Db) {
    let hand = db.one().await;
    for (id, parent) in [("a", None), ("b", Some(thread())), ("c", Some(thread()))] {
        let new = NewJob {
            parent_thread: parent,
            ..new_job(id)
        };
        hand.create_job(new).await.unwrap();
    }
    let of_parent = JobQuery {
        parent: Some(thread()),
        ..query()
    };
    assert_eq!(ids(&hand, of_parent).await, ["c", "b"]);
    hand.running("d", 1).await;
    let with = |states: &[JobState]| JobQuery {
        states: states.to_vec(),
        ..query()
    };
    assert_eq!(ids(&hand, with(&[JobState::Running])).await, ["d"]);
    let both = with(&[JobState::Importing, JobState::Running]);
    assert_eq!(ids(&hand, both).await, ["d", "c", "b", "a"]);
    assert!(ids(&hand, with(&[JobState::Failed])).await.is_empty());
}

async fn active_jobs_are_those_a_runner_looks_at(db: Db) {
    let hand = db.one().await;
    let active = async || -> Vec<JobNo> {
        let jobs = hand.active_jobs().await.unwrap();
        jobs.into_iter().map(|job| job.no).collect()
    };
    let pause = |resume_ms| JobTo::Paused {
        reason: "quota".to_owned(),
        message: None,
        resume_ms,
    };
    hand.importing("a", 1).await;
    assert!(active().await.is_empty());
    let running = hand.running("b", 1).await.no;
    let paused = hand.running("c", 1).await.no;
    changed(hand.try_change(paused, pause(None)).await);
    let resumes = hand.running("d", 1).await.no;
    changed(hand.try_change(resumes, pause(Some(NOW))).await);
    let drains = hand.running("e", 1).await.no;
    hand.claim_some(drains, 1).await;
    changed(hand.try_change(drains, pause(None)).await);
    let cancels = hand.running("f", 1).await.no;
    hand.claim_some(cancels, 1).await;
    hand.cancel(cancels).await;
    assert_eq!(active().await, [running, resumes, drains, cancels]);
}

async fn items_are_listed_by_state(db: Db) {
    use ItemState::{Cancelled, Failed, Pending, Running, Skipped, Succeeded};
    let hand = db.one().await;
    let job = hand.running("a", 6).await.no;
    hand.claim_some(job, 4).await;
    hand.report_as(attempt_of(job, 0, 1), "{}").await;
    let ends = [(1, SettleTo::Failed), (2, SettleTo::Skipped)];
    for (seq, to) in ends {
        hand.settle_as(attempt_of(job, seq, 1), AttemptOutcome::Failed, to)
            .await;
    }
    let list = async |states: &[ItemState], from_seq, limit| {
        let query = ItemsQuery {
            job,
            from_seq,
            states: states.to_vec(),
            limit,
        };
        let page = hand.items_of_job(query).await.unwrap();
        let seqs: Vec<i64> = page.items.iter().map(|item| item.seq).collect();
        (seqs, page.next_seq)
    };
    assert_eq!(list(&[], 0, 4).await, (vec![0, 1, 2, 3], Some(4)));
    assert_eq!(list(&[], 4, 4).await, (vec![4, 5], None));
    assert_eq!(list(&[], 4, 2).await, (vec![4, 5], None));
    assert_eq!(list(&[Running], 0, 4).await, (vec![3], None));
    assert_eq!(list(&[Failed], 0, 4).await, (vec![1], None));
    assert_eq!(list(&[Succeeded], 0, 4).await, (vec![0], None));
    assert_eq!(list(&[Pending], 0, 1).await, (vec![4], Some(5)));
    assert_eq!(list(&[Skipped, Failed], 0, 4).await, (vec![1, 2], None));
    assert_eq!(list(&[Cancelled], 0, 4).await, (vec![], None));
    hand.cancel(job).await;
    assert_eq!(list(&[Cancelled], 0, 4).await, (vec![4, 5], None));
    assert_eq!(list(&[Pending], 0, 4).await, (vec![], None));
}

async fn a_list_that_looks_for_few_among_many_goes_on(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 0).await.no;
    let rows = (0..10_500).map(new_row).collect();
    hand.import_rows(batch(job, 0, rows)).await.unwrap();
    let query = |from_seq| ItemsQuery {
        job,
        from_seq,
        states: vec![ItemState::Succeeded],
        limit: 5,
    };
    let first = hand.items_of_job(query(0)).await.unwrap();
    assert_eq!((first.items.len(), first.next_seq), (0, Some(10_000)));
    let last = hand.items_of_job(query(10_000)).await.unwrap();
    assert_eq!((last.items.len(), last.next_seq), (0, None));
}

async fn an_export_shows_every_row_in_input_order(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 5).await.no;
    hand.claim_some(job, 3).await;
    hand.report_as(attempt_of(job, 2, 1), "{\"n\":2}").await;
    hand.report_as(attempt_of(job, 0, 1), "{\"n\":0}").await;
    let mut rows = hand.export_page(job, 0, 3).await.unwrap();
    rows.extend(hand.export_page(job, 3, 3).await.unwrap());
    let seqs: Vec<_> = rows.iter().map(|row| row.item.seq).collect();
    assert_eq!(seqs, [0, 1, 2, 3, 4]);
    let results: Vec<_> = rows
        .iter()
        .map(|row| row.result.as_ref().map(|result| result.as_str().to_owned()))
        .collect();
    let expected = [Some("{\"n\":0}"), None, Some("{\"n\":2}"), None, None];
    assert_eq!(results, expected.map(|text| text.map(str::to_owned)));
    assert!(hand.export_page(job, 5, 3).await.unwrap().is_empty());
}

async fn long_rows_make_short_pages_and_claims(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 0).await.no;
    let long = |seq| NewItemRow {
        cells: json(&format!("[\"{}\"]", "x".repeat(1 << 20))),
        ..new_row(seq)
    };
    for seq in 0..12 {
        let rows = vec![long(seq)];
        hand.import_rows(batch(job, seq, rows)).await.unwrap();
    }
    let mut seqs_found = Vec::new();
    loop {
        let from = i64::try_from(seqs_found.len()).unwrap();
        let page = hand.export_page(job, from, 1_000).await.unwrap();
        assert!(page.len() <= 4);
        if page.is_empty() {
            break;
        }
        seqs_found.extend(page.iter().map(|row| row.item.seq));
    }
    assert_eq!(seqs_found, (0..12).collect::<Vec<_>>());
    hand.sealed(job).await;
    hand.go(job).await;
    let first = hand.claim_some(job, 64).await;
    assert_eq!((first.begun.len(), first.next_due_ms), (8, Some(NOW)));
    let rest = hand.claim_some(job, 64).await;
    assert_eq!((seqs(&rest), rest.next_due_ms), (vec![8, 9, 10, 11], None));
}

async fn an_item_shows_its_attempts(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    for attempt in 1..=2 {
        let claimed = hand.claim_some(job, 1).await;
        hand.end_turn(&claimed.begun[0]).await;
        let mut settlement = settling(
            attempt_of(job, 0, attempt),
            AttemptOutcome::Failed,
            put_back(ReturnUses::Retry),
        );
        settlement.usage = tokens(10);
        hand.settle_items(vec![settlement], NOW + 1).await.unwrap();
    }
    let found = hand.item_of_job(job, "row-1".to_owned()).await.unwrap();
    let detail = found.unwrap();
    let attempts: Vec<_> = detail.attempts.iter().map(|row| row.attempt).collect();
    assert_eq!(attempts, [1, 2]);
    assert_eq!(detail.item.usage, tokens(20));
    assert_eq!(detail.item.started_ms, Some(NOW));
    assert_eq!(
        hand.item_of_job(job, "row-2".to_owned()).await.unwrap(),
        None
    );
}

async fn the_census_counts_the_lanes_of_items(db: Db) {
    let hand = db.one().await;
    hand.create_thread(new_thread("u")).await.unwrap();
    hand.add(&["waits"]).await;
    let job = hand.running("a", 3).await.no;
    let claimed = hand.claim_some(job, 3).await;
    hand.end_turn(&claimed.begun[0]).await;
    let census = hand.census().await.unwrap();
    assert_eq!((census.running, census.queued, census.idle), (2, 1, 2));
    assert_eq!((census.rows, census.paused, census.held), (1, 0, 0));
}
