//! Results of fan-out items, and the settlement of their attempts.

use turnlane_store::StoreError;
use turnlane_store::fanout::{
    AttemptOutcome, ItemReport, ItemState, JobState, Reported, ReturnUses, SettleTo, Settled,
    Settlement,
};
use turnlane_store::turn::Level;

use crate::backend::on_one_worker;
use crate::build::fanout::*;
use crate::build::*;

on_one_worker![
    a_report_is_the_items_result,
    a_repeated_report_is_told_apart_from_another_one,
    a_report_of_an_older_attempt_supersedes_a_running_one,
    a_late_report_of_a_pending_item_is_accepted,
    an_item_that_has_ended_takes_no_report,
    a_report_of_an_unknown_attempt_is_refused,
    a_report_with_stop_cancels_the_rest,
    a_report_within_a_cancellation_counts,
    a_settlement_closes_the_attempt_and_moves_the_item,
    an_attempt_is_settled_once,
    a_replaced_attempt_changes_nothing_but_its_own_row,
    a_reported_attempt_is_closed_and_keeps_its_outcome,
    a_final_message_becomes_the_result,
    a_running_item_is_not_settled_as_reported,
    an_item_that_returns_to_a_cancelled_job_is_cancelled,
    returns_are_counted_by_what_they_use,
    usage_never_falls,
    a_settlement_of_a_job_that_is_gone_changes_nothing,
    items_whose_turn_has_ended_are_unsettled,
    output_of_an_unsettled_turn_is_told,
];

async fn a_report_is_the_items_result(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 2).await.no;
    hand.claim_some(job, 2).await;
    let report = ItemReport {
        usage: tokens(30),
        ..reporting(attempt_of(job, 1, 1), "{\"score\":1}")
    };
    let accepted = hand.report_item(report).await.unwrap();
    assert_eq!(accepted, Reported::Accepted { superseded: None });
    let detail = hand.detail(job, 1).await;
    assert_eq!(detail.item.state, ItemState::Succeeded);
    assert_eq!(detail.result, Some(json("{\"score\":1}")));
    assert_eq!(detail.item.reported_ms, Some(NOW + 5));
    assert_eq!(
        (detail.item.ended_ms, detail.item.usage),
        (Some(NOW + 5), tokens(30))
    );
    let attempt = &detail.attempts[0];
    assert_eq!(attempt.outcome, Some(AttemptOutcome::Reported));
    assert_eq!(attempt.ended_ms, None, "its turn still runs");
    let now = hand.job_now(job).await;
    assert_eq!((now.counts.running, now.counts.succeeded), (1, 1));
    assert_eq!((now.streak.finished, now.streak.failed), (1, 0));
    hand.assert_counts(job).await;
}

async fn a_repeated_report_is_told_apart_from_another_one(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    hand.claim_some(job, 1).await;
    let of = attempt_of(job, 0, 1);
    hand.report_as(of, "{\"a\":1}").await;
    assert_eq!(hand.report_as(of, "{\"a\":1}").await, Reported::Duplicate);
    assert_eq!(hand.report_as(of, "{\"a\":2}").await, Reported::Other);
    assert_eq!(hand.detail(job, 0).await.result, Some(json("{\"a\":1}")));
    hand.assert_counts(job).await;
}

/// Leaves item 0 running in its second attempt, while the first may still report.
async fn second_attempt(hand: &Hand) -> turnlane_store::fanout::JobNo {
    let job = hand.running("a", 1).await.no;
    let claimed = hand.claim_some(job, 1).await;
    hand.end_turn(&claimed.begun[0]).await;
    hand.settle_as(
        attempt_of(job, 0, 1),
        AttemptOutcome::Lost,
        put_back(ReturnUses::Loss),
    )
    .await;
    assert_eq!(seqs(&hand.claim_some(job, 1).await), [0]);
    job
}

async fn a_report_of_an_older_attempt_supersedes_a_running_one(db: Db) {
    let hand = db.one().await;
    let job = second_attempt(&hand).await;
    let accepted = hand.report_as(attempt_of(job, 0, 1), "{}").await;
    let superseded = Some(item_thread(job, 0, 2));
    assert_eq!(accepted, Reported::Accepted { superseded });
    let attempts = hand.detail(job, 0).await.attempts;
    let outcomes: Vec<_> = attempts.iter().map(|row| row.outcome.unwrap()).collect();
    assert_eq!(
        outcomes,
        [AttemptOutcome::Reported, AttemptOutcome::Superseded]
    );
    let newer = attempt_of(job, 0, 2);
    assert_eq!(hand.report_as(newer, "{\"b\":1}").await, Reported::Other);
    let settled = hand
        .settle_as(newer, AttemptOutcome::Interrupted, SettleTo::Failed)
        .await;
    assert_eq!(
        (settled.state, settled.changed),
        (ItemState::Succeeded, false)
    );
    let attempts = hand.detail(job, 0).await.attempts;
    assert_eq!(attempts[1].outcome, Some(AttemptOutcome::Superseded));
    assert!(attempts[1].ended_ms.is_some());
    hand.assert_counts(job).await;
}

async fn a_late_report_of_a_pending_item_is_accepted(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    let claimed = hand.claim_some(job, 1).await;
    hand.end_turn(&claimed.begun[0]).await;
    let of = attempt_of(job, 0, 1);
    hand.settle_as(of, AttemptOutcome::Lost, put_back(ReturnUses::Loss))
        .await;
    let accepted = hand.report_as(of, "{}").await;
    assert_eq!(accepted, Reported::Accepted { superseded: None });
    let item = hand.item_now(job, 0).await;
    assert_eq!((item.state, item.error), (ItemState::Succeeded, None));
    assert_eq!(seqs(&hand.claim_some(job, 1).await), [0_i64; 0]);
    hand.assert_counts(job).await;
}

async fn an_item_that_has_ended_takes_no_report(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 4).await.no;
    hand.claim_some(job, 4).await;
    let ends = [
        (0, SettleTo::Failed, ItemState::Failed),
        (1, SettleTo::Skipped, ItemState::Skipped),
        (2, SettleTo::Cancelled, ItemState::Cancelled),
    ];
    for (seq, to, state) in ends {
        let of = attempt_of(job, seq, 1);
        hand.settle_as(of, AttemptOutcome::Failed, to).await;
        assert_eq!(hand.report_as(of, "{}").await, Reported::Ended(state));
    }
    // It waits, but its job is being cancelled.
    let waits = attempt_of(job, 3, 1);
    hand.settle_as(waits, AttemptOutcome::Lost, put_back(ReturnUses::Loss))
        .await;
    hand.cancel(job).await;
    let answer = hand.report_as(waits, "{}").await;
    assert_eq!(answer, Reported::Ended(ItemState::Cancelled));
    hand.assert_counts(job).await;
}

async fn a_report_of_an_unknown_attempt_is_refused(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 2).await.no;
    hand.claim_some(job, 1).await;
    for (seq, attempt) in [(0, 2), (1, 1), (9, 1)] {
        let report = reporting(attempt_of(job, seq, attempt), "{}");
        refused!(hand.report_item(report), StoreError::AttemptNotFound(_));
    }
}

async fn a_report_with_stop_cancels_the_rest(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 4).await.no;
    hand.claim_some(job, 2).await;
    let before = hand.job_now(job).await;
    let stop = ItemReport {
        stop: true,
        ..reporting(attempt_of(job, 0, 1), "{}")
    };
    hand.report_item(stop.clone()).await.unwrap();
    let now = hand.job_now(job).await;
    assert_eq!((now.state, now.cancel_asked), (JobState::Cancelling, true));
    assert_eq!(now.version, before.version + 1);
    assert_eq!((now.counts.cancelled, now.pending()), (2, 0));
    let item = hand.item_now(job, 3).await;
    assert_eq!(item.state, ItemState::Cancelled);
    assert_eq!(item.error.unwrap().message, "cancelled by worker request");
    assert_eq!(hand.report_item(stop).await.unwrap(), Reported::Duplicate);
    // What runs may finish.
    assert!(matches!(
        hand.report_as(attempt_of(job, 1, 1), "{}").await,
        Reported::Accepted { .. }
    ));
    let ended = changed(hand.end(job).await);
    assert_eq!(
        (ended.state, ended.counts.succeeded),
        (JobState::Cancelled, 2)
    );
    hand.assert_counts(job).await;
}

async fn a_report_within_a_cancellation_counts(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 2).await.no;
    hand.claim_some(job, 1).await;
    let cancelling = hand.cancel(job).await;
    assert_eq!(cancelling.state, JobState::Cancelling);
    let accepted = hand.report_as(attempt_of(job, 0, 1), "{}").await;
    assert_eq!(accepted, Reported::Accepted { superseded: None });
    let ended = changed(hand.end(job).await);
    assert_eq!(ended.state, JobState::Cancelled);
    assert_eq!((ended.counts.succeeded, ended.counts.cancelled), (1, 1));
}

async fn a_settlement_closes_the_attempt_and_moves_the_item(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    hand.claim_some(job, 1).await;
    let settlement = Settlement {
        usage: tokens(50),
        ..settling(
            attempt_of(job, 0, 1),
            AttemptOutcome::Failed,
            SettleTo::Failed,
        )
    };
    let settled = hand.settle_items(vec![settlement], NOW + 6).await.unwrap();
    let expected = Settled {
        state: ItemState::Failed,
        changed: true,
    };
    assert_eq!(settled, [expected]);
    let detail = hand.detail(job, 0).await;
    assert_eq!(detail.item.error, Some(item_error("failed")));
    assert_eq!(
        (detail.item.ended_ms, detail.item.usage),
        (Some(NOW + 6), tokens(50))
    );
    let attempt = &detail.attempts[0];
    assert_eq!(attempt.outcome, Some(AttemptOutcome::Failed));
    assert_eq!(
        (attempt.error.clone(), attempt.ended_ms),
        (Some(item_error("failed")), Some(NOW + 6))
    );
    let ended = changed(hand.end(job).await);
    assert_eq!(ended.state, JobState::FinishedWithFailures);
    assert_eq!((ended.streak.finished, ended.streak.failed), (1, 1));
    hand.assert_counts(job).await;
}

async fn an_attempt_is_settled_once(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    hand.claim_some(job, 1).await;
    let of = attempt_of(job, 0, 1);
    let back = put_back(ReturnUses::Retry);
    let first = hand
        .settle_as(of, AttemptOutcome::Failed, back.clone())
        .await;
    assert!(first.changed);
    let stored = hand.detail(job, 0).await;
    let again = hand
        .settle_as(of, AttemptOutcome::Lost, SettleTo::Failed)
        .await;
    assert_eq!((again.state, again.changed), (ItemState::Pending, false));
    assert_eq!(hand.detail(job, 0).await, stored);
    // Twice in one batch as well.
    hand.claim_some(job, 1).await;
    let twice = settling(attempt_of(job, 0, 2), AttemptOutcome::Failed, back);
    let settled = hand
        .settle_items(vec![twice.clone(), twice], NOW + 8)
        .await
        .unwrap();
    let changed: Vec<_> = settled.iter().map(|one| one.changed).collect();
    assert_eq!(changed, [true, false]);
    assert_eq!(hand.item_now(job, 0).await.retries_used, 2);
    hand.assert_counts(job).await;
}

async fn a_replaced_attempt_changes_nothing_but_its_own_row(db: Db) {
    let hand = db.one().await;
    let job = second_attempt(&hand).await;
    let before = hand.item_now(job, 0).await;
    let late = Settlement {
        usage: tokens(40),
        ..settling(
            attempt_of(job, 0, 1),
            AttemptOutcome::Failed,
            SettleTo::Failed,
        )
    };
    let settled = hand.settle_items(vec![late], NOW + 7).await.unwrap();
    assert_eq!(
        (settled[0].state, settled[0].changed),
        (ItemState::Running, false)
    );
    assert_eq!(hand.item_now(job, 0).await, before);
    hand.assert_counts(job).await;
}

async fn a_reported_attempt_is_closed_and_keeps_its_outcome(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    let claimed = hand.claim_some(job, 1).await;
    let of = attempt_of(job, 0, 1);
    let report = ItemReport {
        usage: tokens(10),
        ..reporting(of, "{}")
    };
    hand.report_item(report).await.unwrap();
    assert!(hand.unsettled_items(job, 9).await.unwrap().is_empty());
    hand.end_turn(&claimed.begun[0]).await;
    // Found until its attempt is closed, so that its usage is not lost with its worker.
    let unsettled = hand.unsettled_items(job, 9).await.unwrap();
    assert_eq!(unsettled[0].item.state, ItemState::Succeeded);
    let close = Settlement {
        usage: tokens(14),
        ..settling(of, AttemptOutcome::Interrupted, SettleTo::AsReported)
    };
    let settled = hand.settle_items(vec![close], NOW + 7).await.unwrap();
    assert_eq!(
        (settled[0].state, settled[0].changed),
        (ItemState::Succeeded, false)
    );
    let detail = hand.detail(job, 0).await;
    assert_eq!(detail.attempts[0].outcome, Some(AttemptOutcome::Reported));
    assert_eq!(detail.attempts[0].error, None);
    assert_eq!(
        (detail.attempts[0].ended_ms, detail.item.usage),
        (Some(NOW + 7), tokens(14))
    );
    assert!(hand.unsettled_items(job, 9).await.unwrap().is_empty());
    hand.assert_counts(job).await;
}

async fn a_final_message_becomes_the_result(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    hand.claim_some(job, 1).await;
    let of = attempt_of(job, 0, 1);
    let report = reporting(of, "{\"text\":\"x\"}");
    let to = SettleTo::Succeeded {
        result: report.result.clone(),
        digest: report.digest,
    };
    let settled = hand.settle_as(of, AttemptOutcome::Reported, to).await;
    assert_eq!(
        (settled.state, settled.changed),
        (ItemState::Succeeded, true)
    );
    let detail = hand.detail(job, 0).await;
    assert_eq!(detail.result, Some(report.result.clone()));
    assert_eq!(detail.attempts[0].outcome, Some(AttemptOutcome::Reported));
    assert_eq!(hand.report_item(report).await.unwrap(), Reported::Duplicate);
    let ended = changed(hand.end(job).await);
    assert_eq!(ended.state, JobState::Succeeded);
    hand.assert_counts(job).await;
}

async fn a_running_item_is_not_settled_as_reported(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    let claimed = hand.claim_some(job, 1).await;
    let of = attempt_of(job, 0, 1);
    let settled = hand
        .settle_as(of, AttemptOutcome::Reported, SettleTo::AsReported)
        .await;
    assert_eq!(
        (settled.state, settled.changed),
        (ItemState::Running, false)
    );
    hand.end_turn(&claimed.begun[0]).await;
    assert_eq!(hand.unsettled_items(job, 9).await.unwrap().len(), 1);
    hand.assert_counts(job).await;
}

async fn an_item_that_returns_to_a_cancelled_job_is_cancelled(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    hand.claim_some(job, 1).await;
    hand.cancel(job).await;
    let mut settlement = settling(
        attempt_of(job, 0, 1),
        AttemptOutcome::Interrupted,
        put_back(ReturnUses::Nothing),
    );
    settlement.error = None;
    let settled = hand.settle_items(vec![settlement], NOW + 6).await.unwrap();
    assert_eq!(
        (settled[0].state, settled[0].changed),
        (ItemState::Cancelled, true)
    );
    let item = hand.item_now(job, 0).await;
    assert_eq!(item.error.unwrap().message, "enough");
    let ended = changed(hand.end(job).await);
    assert_eq!(
        (ended.state, ended.counts.cancelled),
        (JobState::Cancelled, 1)
    );
    hand.assert_counts(job).await;
}

async fn returns_are_counted_by_what_they_use(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 4).await.no;
    hand.claim_some(job, 4).await;
    let uses = [
        (ReturnUses::Nothing, [0, 0, 0]),
        (ReturnUses::Retry, [1, 0, 0]),
        (ReturnUses::Loss, [0, 1, 0]),
        (ReturnUses::Limit, [0, 0, 1]),
    ];
    for (seq, (uses, expected)) in (0_i64..).zip(uses) {
        let of = attempt_of(job, seq, 1);
        hand.settle_as(of, AttemptOutcome::Failed, put_back(uses))
            .await;
        let item = hand.item_now(job, seq).await;
        let used = [item.retries_used, item.losses, item.limit_returns];
        assert_eq!((used, item.state), (expected, ItemState::Pending));
        assert_eq!(item.error, Some(item_error("failed")), "why it waits");
    }
    hand.assert_counts(job).await;
}

async fn usage_never_falls(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    hand.claim_some(job, 1).await;
    let of = attempt_of(job, 0, 1);
    let report = ItemReport {
        usage: tokens(100),
        ..reporting(of, "{}")
    };
    hand.report_item(report).await.unwrap();
    let less = Settlement {
        usage: tokens(60),
        ..settling(of, AttemptOutcome::Reported, SettleTo::AsReported)
    };
    hand.settle_items(vec![less], NOW + 7).await.unwrap();
    assert_eq!(hand.job_now(job).await.counts.usage, tokens(100));
    hand.assert_counts(job).await;
}

async fn a_settlement_of_a_job_that_is_gone_changes_nothing(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 1).await.no;
    hand.claim_some(job, 1).await;
    let gone = turnlane_store::fanout::JobNo(job.0 + 1);
    let fail = |job| {
        settling(
            attempt_of(job, 0, 1),
            AttemptOutcome::Failed,
            SettleTo::Failed,
        )
    };
    let settled = hand
        .settle_items(vec![fail(gone), fail(job)], NOW + 7)
        .await
        .unwrap();
    let changed: Vec<_> = settled.iter().map(|one| one.changed).collect();
    assert_eq!(changed, [false, true]);
    assert!(hand.unsettled_items(gone, 9).await.unwrap().is_empty());
}

async fn items_whose_turn_has_ended_are_unsettled(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 3).await.no;
    let claimed = hand.claim_some(job, 3).await;
    assert!(hand.unsettled_items(job, 9).await.unwrap().is_empty());
    // The lane is given up; the lane runs another turn; the thread is gone.
    for begun in &claimed.begun {
        hand.end_turn(begun).await;
    }
    let mut direct = start("person");
    direct.thread = item_thread(job, 1, 1);
    hand.start_turn(direct).await.unwrap();
    hand.delete_thread(item_thread(job, 2, 1)).await.unwrap();
    let unsettled = hand.unsettled_items(job, 9).await.unwrap();
    let found: Vec<_> = unsettled.iter().map(|one| one.attempt.seq).collect();
    assert_eq!(found, [0, 1, 2]);
    let turns: Vec<_> = unsettled.iter().map(|one| one.turn.is_some()).collect();
    assert_eq!(turns, [true, true, false]);
    assert_eq!(unsettled[0].item, hand.item_now(job, 0).await);
}

async fn output_of_an_unsettled_turn_is_told(db: Db) {
    let hand = db.one().await;
    let job = hand.running("a", 3).await.no;
    let claimed = hand.claim_some(job, 3).await;
    let accepted = |at: usize| &claimed.begun[at].accepted;
    let message = items(vec![item(accepted(1), 0, "agentMessage")]);
    hand.put(accepted(1).grip, message, Level::Visible)
        .await
        .unwrap();
    let call = turnlane_store::turn::Put {
        entries: vec![
            entry(accepted(2), 0, "user"),
            entry(accepted(2), 1, "output"),
        ],
        ..Default::default()
    };
    hand.put(accepted(2).grip, call, Level::Durable)
        .await
        .unwrap();
    for begun in &claimed.begun {
        hand.end_turn(begun).await;
    }
    let unsettled = hand.unsettled_items(job, 9).await.unwrap();
    let output: Vec<_> = unsettled.iter().map(|one| one.has_output).collect();
    assert_eq!(output, [false, true, true]);
}
