//! Claims of fan-out items: their order, their places, and the turns they begin.

use turnlane_store::StoreError;
use turnlane_store::fanout::{
    AttemptOutcome, BranchChange, ClaimItems, Company, ItemStart, ItemState, JobTo, Making,
    ReturnUses, SettleTo,
};
use turnlane_store::queue::RowState;
use turnlane_store::recovery::FoundFate;
use turnlane_store::thread::{ThreadChange, ThreadQuery};
use turnlane_store::turn::TurnStatus;

use crate::backend::{on_many_workers, on_one_worker};
use crate::build::fanout::*;
use crate::build::*;

on_one_worker![
    a_claim_begins_turns_with_thread_row_and_message,
    rows_are_claimed_in_input_order,
    the_limit_of_the_job_is_never_exceeded,
    only_a_running_job_is_claimed_from,
    due_retries_go_before_fresh_rows,
    an_item_that_is_not_due_waits,
    a_new_attempt_has_a_new_thread_and_sees_the_earlier_ones,
    an_item_goes_on_in_its_own_thread,
    an_item_whose_own_thread_is_busy_stays_pending,
    an_item_whose_own_thread_is_gone_starts_anew,
    an_item_without_a_thread_refuses_the_whole_claim,
    the_branches_of_an_item_are_changed_only_as_they_were_seen,
    an_item_that_lost_two_workers_is_claimed_alone,
    an_item_that_cannot_be_made_fails_without_an_attempt,
    many_items_that_cannot_be_made_are_failed_in_steps,
    a_repair_turn_runs_in_the_thread_of_its_attempt,
    a_repair_is_refused_once_the_attempt_is_over,
    threads_of_items_are_listed_only_when_asked_for,
];
on_many_workers![
    the_limit_holds_over_two_workers,
    an_own_thread_of_another_worker_is_left_alone,
    a_dead_workers_row_is_done_or_cancelled_by_recovery,
];

async fn a_claim_begins_turns_with_thread_row_and_message(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    let claimed = hand.claim_some(job, 5).await;
    let [begun] = &claimed.begun[..] else {
        panic!("{claimed:?}");
    };
    let (item, accepted) = (&begun.item, &begun.accepted);
    assert_eq!((item.state, item.attempt), (ItemState::Running, 1));
    assert_eq!(item.thread, Some(item_thread(job, 0, 1)));
    assert_eq!(item.turn, Some(item_turn(job, 0, 1)));
    assert_eq!(*item, hand.item_now(job, 0).await);
    assert_eq!(accepted.row.state, RowState::Started);
    assert_eq!(
        (accepted.row.source.as_str(), accepted.row.attempts),
        ("fanout", 1)
    );
    assert_eq!(accepted.turn.status, TurnStatus::InProgress);
    assert_eq!(accepted.item.as_ref().unwrap().id, "item-row-1");
    assert_eq!(accepted.thread.id, item_thread(job, 0, 1));
    let lane = hand.look(accepted.thread.id).await.unwrap();
    assert_eq!(lane, accepted.lane);
    assert_eq!(lane.owner, Some(hand.worker()));
    assert_eq!(lane.active.map(|active| active.row), Some(accepted.row.id));
    let attempts = hand.detail(job, 0).await.attempts;
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].outcome, attempts[0].ended_ms), (None, None));
    assert_eq!(claimed.job, hand.job_now(job).await);
    assert_eq!(
        (claimed.job.counts.running, claimed.job.counts.attempts),
        (1, 1)
    );
    assert_eq!((claimed.next_due_ms, claimed.alone_waits), (None, false));
    hand.end_turn(begun).await;
}

async fn rows_are_claimed_in_input_order(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 5).await.no;
    let claimed = hand.claim_some(job, 2).await;
    assert_eq!(
        (seqs(&claimed), claimed.next_due_ms),
        (vec![0, 1], Some(NOW))
    );
    assert_eq!(seqs(&hand.claim_some(job, 2).await), [2, 3]);
    let last = hand.claim_some(job, 2).await;
    assert_eq!((seqs(&last), last.next_due_ms), (vec![4], None));
    assert_eq!(last.job.next_seq, 5);
    assert_eq!(seqs(&hand.claim_some(job, 2).await), [0_i64; 0]);
    hand.assert_counts(job).await;
}

async fn the_limit_of_the_job_is_never_exceeded(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 6).await.no;
    changed(hand.try_change(job, JobTo::Limit(2)).await);
    assert_eq!(seqs(&hand.claim_some(job, 9).await), [0, 1]);
    assert_eq!(seqs(&hand.claim_some(job, 9).await), [0_i64; 0]);
    hand.report_as(attempt_of(job, 0, 1), "{}").await;
    assert_eq!(seqs(&hand.claim_some(job, 9).await), [2]);
    changed(hand.try_change(job, JobTo::Limit(1)).await);
    hand.report_as(attempt_of(job, 1, 1), "{}").await;
    let none = hand.claim_some(job, 9).await;
    assert_eq!((seqs(&none), none.next_due_ms), (vec![], Some(NOW)));
}

async fn only_a_running_job_is_claimed_from(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 3).await.no;
    assert_eq!(seqs(&hand.claim_some(job, 9).await), [0_i64; 0]);
    hand.sealed(job).await;
    assert_eq!(seqs(&hand.claim_some(job, 9).await), [0_i64; 0]);
    hand.go(job).await;
    assert_eq!(seqs(&hand.claim_some(job, 1).await), [0]);
    let paused = JobTo::Paused {
        reason: "user".to_owned(),
        message: None,
        resume_ms: None,
    };
    changed(hand.try_change(job, paused).await);
    assert_eq!(seqs(&hand.claim_some(job, 9).await), [0_i64; 0]);
    hand.cancel(job).await;
    let none = hand.claim_some(job, 9).await;
    assert_eq!((seqs(&none), none.next_due_ms), (vec![], None));
}

async fn due_retries_go_before_fresh_rows(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 4).await.no;
    let claimed = hand.claim_some(job, 2).await;
    for (seq, not_before_ms) in [(0, NOW - 1), (1, NOW - 2)] {
        hand.end_turn(&claimed.begun[usize::try_from(seq).unwrap()])
            .await;
        let to = SettleTo::Pending {
            not_before_ms,
            same_thread: false,
            uses: ReturnUses::Retry,
        };
        let settled = hand
            .settle_as(attempt_of(job, seq, 1), AttemptOutcome::Failed, to)
            .await;
        assert!(settled.changed);
    }
    assert_eq!(seqs(&hand.claim_some(job, 3).await), [1, 0, 2]);
    let item = hand.item_now(job, 1).await;
    assert_eq!((item.attempt, item.retries_used), (2, 1));
    hand.assert_counts(job).await;
}

async fn an_item_that_is_not_due_waits(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    let claimed = hand.claim_some(job, 1).await;
    hand.end_turn(&claimed.begun[0]).await;
    let to = SettleTo::Pending {
        not_before_ms: NOW + 10,
        same_thread: false,
        uses: ReturnUses::Limit,
    };
    hand.settle_as(attempt_of(job, 0, 1), AttemptOutcome::Failed, to)
        .await;
    let none = hand.claim_some(job, 1).await;
    assert_eq!((seqs(&none), none.next_due_ms), (vec![], Some(NOW + 10)));
    let later = ClaimItems {
        at_ms: NOW + 10,
        ..claiming(job, 1)
    };
    let claimed = hand.claim_items(later).await.unwrap();
    assert_eq!(seqs(&claimed), [0]);
    assert_eq!(claimed.begun[0].item.limit_returns, 1);
}

async fn a_new_attempt_has_a_new_thread_and_sees_the_earlier_ones(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    let first = hand.claim_some(job, 1).await;
    hand.end_turn(&first.begun[0]).await;
    let mut settlement = settling(
        attempt_of(job, 0, 1),
        AttemptOutcome::Failed,
        put_back(ReturnUses::Retry),
    );
    settlement.usage = tokens(100);
    hand.settle_items(vec![settlement], NOW + 1).await.unwrap();
    let making = Making::new(|item| {
        assert_eq!(
            (item.attempt, item.thread, item.earlier.len()),
            (2, None, 1)
        );
        let earlier = &item.earlier[0];
        assert_eq!(earlier.outcome, Some(AttemptOutcome::Failed));
        assert_eq!(earlier.error, Some(item_error("failed")));
        begin_item(item)
    });
    let claim = ClaimItems {
        making,
        ..claiming(job, 1)
    };
    let claimed = hand.claim_items(claim).await.unwrap();
    let item = &claimed.begun[0].item;
    assert_eq!(item.thread, Some(item_thread(job, 0, 2)));
    assert_eq!((item.usage, item.error.clone()), (tokens(100), None));
    assert_eq!(claimed.job.counts.attempts, 2);
    assert_eq!(claimed.job.counts.usage, tokens(100));
}

/// Claims the only item, ends its turn and puts it back to go on in its thread.
async fn put_back_into_its_thread(hand: &Hand, job: turnlane_store::fanout::JobNo) {
    let claimed = hand.claim_some(job, 1).await;
    hand.end_turn(&claimed.begun[0]).await;
    let to = SettleTo::Pending {
        not_before_ms: NOW,
        same_thread: true,
        uses: ReturnUses::Nothing,
    };
    hand.settle_as(attempt_of(job, 0, 1), AttemptOutcome::Interrupted, to)
        .await;
}

async fn an_item_goes_on_in_its_own_thread(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    put_back_into_its_thread(&hand, job).await;
    assert!(hand.item_now(job, 0).await.same_thread);
    let claimed = hand.claim_some(job, 1).await;
    let begun = &claimed.begun[0];
    assert_eq!(begun.item.thread, Some(item_thread(job, 0, 1)));
    assert_eq!(begun.item.turn, Some(item_turn(job, 0, 2)));
    assert_eq!((begun.item.attempt, begun.accepted.turn.ord), (2, 2));
    assert!(!begun.item.same_thread);
}

async fn an_item_whose_own_thread_is_busy_stays_pending(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 2).await.no;
    put_back_into_its_thread(&hand, job).await;
    let mut direct = start("person");
    direct.thread = item_thread(job, 0, 1);
    hand.start_turn(direct).await.unwrap();
    let claimed = hand.claim_some(job, 5).await;
    assert_eq!((seqs(&claimed), claimed.next_due_ms), (vec![1], Some(NOW)));
    assert_eq!(hand.item_now(job, 0).await.state, ItemState::Pending);
    hand.assert_counts(job).await;
}

async fn an_item_whose_own_thread_is_gone_starts_anew(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    put_back_into_its_thread(&hand, job).await;
    hand.delete_thread(item_thread(job, 0, 1)).await.unwrap();
    let claimed = hand.claim_some(job, 1).await;
    assert_eq!(claimed.begun[0].item.thread, Some(item_thread(job, 0, 2)));
    let other = hand.running("b", 1).await.no;
    put_back_into_its_thread(&hand, other).await;
    let archive = ThreadChange {
        archived: Some(true),
        ..ThreadChange::of(item_thread(other, 0, 1), NOW)
    };
    hand.change_thread(archive).await.unwrap();
    let claimed = hand.claim_some(other, 1).await;
    assert_eq!(claimed.begun[0].item.thread, Some(item_thread(other, 0, 2)));
}

async fn an_item_without_a_thread_refuses_the_whole_claim(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 2).await.no;
    let making = Making::new(|item| match begin_item(item) {
        ItemStart::Begin { row, accept, .. } if item.seq == 1 => ItemStart::Begin {
            thread: None,
            row,
            accept,
            branch: None,
        },
        other => other,
    });
    let claim = ClaimItems {
        making,
        ..claiming(job, 2)
    };
    refused!(
        hand.claim_items(claim),
        StoreError::ItemWithoutThread { seq: 1, .. }
    );
    assert_eq!(hand.states(job).await, [ItemState::Pending; 2]);
    assert_eq!(hand.job_now(job).await.next_seq, 0);
    assert_eq!(hand.thread(item_thread(job, 0, 1)).await.unwrap(), None);
    hand.assert_counts(job).await;
}

async fn the_branches_of_an_item_are_changed_only_as_they_were_seen(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 2).await.no;
    let making = Making::new(|item| match begin_item(item) {
        ItemStart::Begin {
            thread,
            row,
            accept,
            ..
        } => ItemStart::Begin {
            thread,
            row,
            accept,
            branch: (item.seq == 0).then(|| json("one")),
        },
        fails @ ItemStart::Fail(_) => fails,
    });
    let claim = ClaimItems {
        making,
        ..claiming(job, 2)
    };
    let claimed = hand.claim_items(claim).await.unwrap();
    let change = |seq, seen: Option<&str>, to: Option<&str>| BranchChange {
        job,
        seq,
        seen: seen.map(json),
        to: to.map(json),
    };
    for (seq, seen, to, changes) in [
        (0, Some("other"), Some("two"), false),
        (0, None, Some("two"), false),
        (0, Some("one"), Some("two"), true),
        (1, None, Some("three"), true),
        (1, Some("three"), None, true),
        (2, None, Some("four"), false),
    ] {
        let changed = hand.change_branch(change(seq, seen, to)).await.unwrap();
        assert_eq!(changed, changes, "{seq} {seen:?} {to:?}");
    }
    assert_eq!(hand.item_now(job, 0).await.branch, Some(json("two")));
    assert_eq!(hand.item_now(job, 1).await.branch, None);
    // The next claim sees them, and leaves them where it names none.
    hand.end_turn(&claimed.begun[0]).await;
    let (of, to) = (attempt_of(job, 0, 1), put_back(ReturnUses::Retry));
    hand.settle_as(of, AttemptOutcome::Failed, to).await;
    let seen = std::sync::Arc::new(std::sync::Mutex::new(None));
    let making = {
        let seen = std::sync::Arc::clone(&seen);
        Making::new(move |item| {
            *seen.lock().unwrap() = item.branch.cloned();
            begin_item(item)
        })
    };
    let claim = ClaimItems {
        making,
        ..claiming(job, 1)
    };
    hand.claim_items(claim).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), Some(json("two")));
    assert_eq!(hand.item_now(job, 0).await.branch, Some(json("two")));
    let noted = changed(hand.try_change(job, JobTo::Notes(json("notes"))).await);
    assert_eq!(noted.import.notes, json("notes"));
    assert_eq!(hand.job_now(job).await, noted);
}

async fn an_item_that_lost_two_workers_is_claimed_alone(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 3).await.no;
    for attempt in 1..=2 {
        let claimed = hand.claim_some(job, 1).await;
        assert_eq!(seqs(&claimed), [0]);
        hand.end_turn(&claimed.begun[0]).await;
        let of = attempt_of(job, 0, attempt);
        hand.settle_as(of, AttemptOutcome::Lost, put_back(ReturnUses::Loss))
            .await;
    }
    assert_eq!(hand.item_now(job, 0).await.losses, 2);
    let others = hand.claim_some(job, 9).await;
    assert_eq!((seqs(&others), others.alone_waits), (vec![1, 2], true));
    assert_eq!(others.next_due_ms, Some(NOW));
    let alone = ClaimItems {
        company: Company::Alone,
        ..claiming(job, 9)
    };
    let claimed = hand.claim_items(alone.clone()).await.unwrap();
    assert_eq!((seqs(&claimed), claimed.alone_waits), (vec![0], false));
    assert_eq!(seqs(&hand.claim_items(alone).await.unwrap()), [0_i64; 0]);
}

fn failing(job: turnlane_store::fanout::JobNo, max: u32) -> ClaimItems {
    ClaimItems {
        making: Making::new(|item| {
            if item.seq % 2 == 0 {
                ItemStart::Fail(item_error("input"))
            } else {
                begin_item(item)
            }
        }),
        ..claiming(job, max)
    }
}

async fn an_item_that_cannot_be_made_fails_without_an_attempt(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 4).await.no;
    let claimed = hand.claim_items(failing(job, 2)).await.unwrap();
    assert_eq!(seqs(&claimed), [1, 3]);
    let detail = hand.detail(job, 0).await;
    assert_eq!(
        (detail.item.state, detail.item.attempt),
        (ItemState::Failed, 0)
    );
    assert_eq!(detail.item.error, Some(item_error("input")));
    assert_eq!((detail.attempts.len(), detail.item.thread), (0, None));
    assert_eq!(
        (claimed.job.counts.failed, claimed.job.streak.failed),
        (2, 2)
    );
    hand.assert_counts(job).await;
}

async fn many_items_that_cannot_be_made_are_failed_in_steps(db: Db) {
    let hand = db.one().await;
    let job = hand.importing("a", 0).await.no;
    let rows = (0..1_500).map(|nth| new_row(2 * nth)).collect();
    hand.import_rows(batch(job, 0, rows)).await.unwrap();
    hand.sealed(job).await;
    hand.go(job).await;
    let first = hand.claim_items(failing(job, 5)).await.unwrap();
    assert_eq!((seqs(&first), first.next_due_ms), (vec![], Some(NOW)));
    assert_eq!(first.job.counts.failed, 1_000);
    let second = hand.claim_items(failing(job, 5)).await.unwrap();
    assert_eq!((seqs(&second), second.next_due_ms), (vec![], None));
    assert_eq!(second.job.counts.failed, 1_500);
}

async fn a_repair_turn_runs_in_the_thread_of_its_attempt(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    let of = attempt_of(job, 0, 1);
    let claimed = hand.claim_some(job, 1).await;
    let busy = hand.repair_item(repairing(of, 1)).await.unwrap();
    assert_eq!(busy, None, "its turn still runs");
    hand.end_turn(&claimed.begun[0]).await;
    let begun = hand.repair_item(repairing(of, 1)).await.unwrap().unwrap();
    assert_eq!(begun.accepted.thread.id, item_thread(job, 0, 1));
    assert_eq!((begun.item.attempt, begun.item.repairs), (1, 1));
    assert_eq!(begun.item.turn, Some(begun.accepted.turn.id));
    assert_eq!(begun.item.usage, tokens(10));
    assert_eq!(hand.job_now(job).await.counts.usage, tokens(10));
    assert!(hand.unsettled_items(job, 9).await.unwrap().is_empty());
    hand.end_turn(&begun).await;
    let unsettled = hand.unsettled_items(job, 9).await.unwrap();
    assert_eq!(
        unsettled[0].turn.as_ref().unwrap().id,
        begun.accepted.turn.id
    );
    assert_eq!(unsettled[0].usage, tokens(10));
    hand.assert_counts(job).await;
}

async fn a_repair_is_refused_once_the_attempt_is_over(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 2).await.no;
    let claimed = hand.claim_some(job, 2).await;
    for begun in &claimed.begun {
        hand.end_turn(begun).await;
    }
    hand.report_as(attempt_of(job, 0, 1), "{}").await;
    hand.settle_as(
        attempt_of(job, 1, 1),
        AttemptOutcome::Failed,
        put_back(ReturnUses::Retry),
    )
    .await;
    for seq in [0, 1] {
        let repair = repairing(attempt_of(job, seq, 1), 1);
        assert_eq!(hand.repair_item(repair).await.unwrap(), None);
    }
    refused!(
        hand.repair_item(repairing(attempt_of(job, 0, 7), 1)),
        StoreError::AttemptNotFound(_)
    );
}

async fn threads_of_items_are_listed_only_when_asked_for(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 2).await.no;
    hand.claim_some(job, 2).await;
    let ids = async |query: ThreadQuery| -> Vec<_> {
        let page = hand.threads(query).await.unwrap();
        page.rows.into_iter().map(|row| row.id).collect()
    };
    let items = [item_thread(job, 1, 1), item_thread(job, 0, 1)];
    let others = ThreadQuery {
        not_sources: vec![ITEM_SOURCE.to_owned()],
        ..ThreadQuery::default()
    };
    assert_eq!(ids(others).await, [thread()]);
    let only = ThreadQuery {
        sources: vec![ITEM_SOURCE.to_owned()],
        ..ThreadQuery::default()
    };
    assert_eq!(ids(only).await, items);
    let all = ids(ThreadQuery::default()).await;
    assert_eq!(all.len(), 3);
    // Both kinds in one list, page by page.
    let mut query = ThreadQuery {
        limit: 1,
        ..ThreadQuery::default()
    };
    let mut paged = Vec::new();
    loop {
        let page = hand.threads(query.clone()).await.unwrap();
        paged.extend(page.rows.into_iter().map(|row| row.id));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(paged, all);
}

async fn the_limit_holds_over_two_workers(db: Db) {
    let (one, two) = db.two().await;
    let job = one.running("a", 9).await.no;
    changed(one.try_change(job, JobTo::Limit(5)).await);
    assert_eq!(seqs(&one.claim_some(job, 3).await), [0, 1, 2]);
    assert_eq!(seqs(&two.claim_some(job, 9).await), [3, 4]);
    assert_eq!(seqs(&one.claim_some(job, 9).await), [0_i64; 0]);
    // A worker may settle what another one has claimed: only sums count.
    two.report_as(attempt_of(job, 0, 1), "{}").await;
    assert_eq!(seqs(&two.claim_some(job, 9).await), [5]);
    one.assert_counts(job).await;
    two.assert_counts(job).await;
}

async fn an_own_thread_of_another_worker_is_left_alone(db: Db) {
    let (one, two) = db.two().await;
    let job = one.running("a", 1).await.no;
    put_back_into_its_thread(&one, job).await;
    one.take(item_thread(job, 0, 1)).await.unwrap();
    assert_eq!(seqs(&two.claim_some(job, 1).await), [0_i64; 0]);
    assert_eq!(seqs(&one.claim_some(job, 1).await), [0]);
}

async fn a_dead_workers_row_is_done_or_cancelled_by_recovery(db: Db) {
    let (one, two) = db.two().await;
    let job = one.running("a", 2).await.no;
    one.claim_some(job, 1).await;
    assert!(two.unsettled_items(job, 9).await.unwrap().is_empty());
    db.kill(one).await;
    assert!(two.unsettled_items(job, 9).await.unwrap().is_empty());
    two.recover_with(FoundFate::Done).await;
    let unsettled = two.unsettled_items(job, 9).await.unwrap();
    assert_eq!(unsettled.len(), 1);
    let turn = unsettled[0].turn.as_ref().unwrap();
    assert_eq!(turn.status, TurnStatus::Interrupted);
    assert!(!unsettled[0].has_output);
    two.settle_as(
        unsettled[0].attempt,
        AttemptOutcome::Lost,
        put_back(ReturnUses::Loss),
    )
    .await;
    assert_eq!(seqs(&two.claim_some(job, 9).await), [0, 1]);
    db.kill(two).await;
    let three = db.open("three").await;
    three.recover_with(FoundFate::Cancel).await;
    assert_eq!(three.unsettled_items(job, 9).await.unwrap().len(), 2);
    assert_eq!(three.unsettled_items(job, 1).await.unwrap().len(), 1);
    three.assert_counts(job).await;
}
