//! The table of error kinds, losses, repairs, the breaker, caps and the adaptive limit.

use serde_json::json;
use turnlane_store::Json;
use turnlane_store::fanout::{
    AttemptOutcome, FanoutItem, ItemAttempt, ItemState, ItemUsage, JobNo, ReturnUses, SettleTo,
    Settlement, Streak, UnsettledItem,
};
use turnlane_store::turn::{TurnRow, TurnStatus};
use uuid::Uuid;

use super::ends::backoff_ms;
use super::*;
use crate::fanout::jobs::spec::{JobLimits, JobOptions, MaxFailures, OnCrash};

const NOW_MS: i64 = 1_000_000;

fn item() -> FanoutItem {
    FanoutItem {
        seq: 0,
        item_id: "row-1".to_owned(),
        state: ItemState::Running,
        attempt: 1,
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

fn found(status: TurnStatus, error: Option<serde_json::Value>) -> UnsettledItem {
    UnsettledItem {
        item: item(),
        attempt: ItemAttempt {
            job: JobNo(1),
            seq: 0,
            attempt: 1,
        },
        turn: Some(TurnRow {
            ord: 0,
            id: Uuid::from_u128(7).into(),
            row: None,
            attempt: 1,
            source: "fanout".to_owned(),
            status,
            muted: false,
            error: error.map(|error| Json::from(error.to_string())),
            usage: None,
            started_ms: 0,
            completed_ms: Some(1),
        }),
        has_output: true,
        usage: ItemUsage::default(),
    }
}

fn failing(kind: &str) -> UnsettledItem {
    let error = json!({"message": "it broke", "kind": kind, "codexErrorInfo": "other"});
    found(TurnStatus::Failed, Some(error))
}

fn ends(found: &UnsettledItem, options: &JobOptions, harvest: Harvest) -> (Decision, Consequence) {
    let limits = JobLimits::default();
    decide(&EndedAttempt {
        found,
        limits: &limits,
        options,
        harvest,
        verdict: None,
        usage: ItemUsage::default(),
        jitter: 999,
        now_ms: NOW_MS,
    })
}

fn settled(found: &UnsettledItem) -> (Settlement, Consequence) {
    match ends(found, &JobOptions::default(), Harvest::Nothing) {
        (Decision::Settle(settlement), follows) => (settlement, follows),
        (Decision::Repair { .. }, _) => panic!("a repair"),
    }
}

fn uses(settlement: &Settlement) -> Option<ReturnUses> {
    match settlement.to {
        SettleTo::Pending { uses, .. } => Some(uses),
        _ => None,
    }
}

#[test]
fn passing_troubles_use_a_retry_and_then_fail_the_item() {
    let kinds = [
        "overloaded",
        "server_error",
        "network",
        "engine_unavailable",
        "engine_crashed",
        "busy",
        "incomplete",
        "unknown",
        "other",
        "timeout",
    ];
    for kind in kinds {
        let mut found = failing(kind);
        assert_eq!(uses(&settled(&found).0), Some(ReturnUses::Retry), "{kind}");
        found.item.retries_used = 2;
        let (settlement, _) = settled(&found);
        assert_eq!(settlement.to, SettleTo::Failed, "{kind}");
        assert_eq!(settlement.error.unwrap().kind, kind);
    }
}

#[test]
fn what_cannot_pass_fails_the_item_at_once() {
    let kinds = [
        "context_exhausted",
        "bad_request",
        "model_not_found",
        "policy",
        "sandbox",
        "engine_refused",
        "unsupported",
    ];
    for kind in kinds {
        let (settlement, follows) = settled(&failing(kind));
        assert_eq!(settlement.to, SettleTo::Failed, "{kind}");
        assert_eq!(follows, Consequence::default(), "{kind}");
    }
}

#[test]
fn a_rate_limit_uses_no_retry_halves_the_limit_and_holds_the_provider() {
    let mut found = failing("rate_limited");
    let (settlement, follows) = settled(&found);
    assert_eq!(uses(&settlement), Some(ReturnUses::Limit));
    assert!(follows.halves && follows.hold_until_ms.is_some());
    found.item.limit_returns = 20;
    assert_eq!(uses(&settled(&found).0), Some(ReturnUses::Retry));
}

#[test]
fn quota_auth_and_budget_pause_the_job_and_use_nothing() {
    let reasons = [
        ("quota", "quota"),
        ("auth", "auth"),
        ("plan", "auth"),
        ("budget", "budget"),
    ];
    for (kind, reason) in reasons {
        let (settlement, follows) = settled(&failing(kind));
        assert_eq!(uses(&settlement), Some(ReturnUses::Nothing), "{kind}");
        assert_eq!(follows.pause.unwrap().reason, reason);
        let SettleTo::Pending { same_thread, .. } = settlement.to else {
            panic!("{kind} ended the item");
        };
        assert!(same_thread, "{kind}: the model had answered");
    }
}

#[test]
fn a_quota_with_a_reset_time_names_when_the_job_goes_on() {
    let error = json!({
        "message": "no more", "kind": "quota", "codexErrorInfo": "usageLimitExceeded",
        "retryAt": 2_000,
    });
    let found = found(TurnStatus::Failed, Some(error));
    let pause = settled(&found).1.pause.unwrap();
    assert_eq!(pause.resume_ms, Some(2_000_000));
}

#[test]
fn an_interrupt_by_a_person_fails_the_item_and_one_by_the_job_does_not() {
    let person = found(TurnStatus::Interrupted, None);
    let (settlement, _) = settled(&person);
    assert_eq!(settlement.to, SettleTo::Failed);
    assert_eq!(settlement.error.unwrap().kind, "interrupted");
    let error = json!({"message": "stopped", "kind": "stopped", "codexErrorInfo": "other"});
    let job = found(TurnStatus::Interrupted, Some(error));
    let (settlement, _) = settled(&job);
    assert_eq!(uses(&settlement), Some(ReturnUses::Nothing));
    assert_eq!(settlement.outcome, AttemptOutcome::Interrupted);
}

fn lost() -> UnsettledItem {
    let error = json!({
        "message": "server stopped", "kind": "interrupted", "codexErrorInfo": "other",
    });
    found(TurnStatus::Interrupted, Some(error))
}

#[test]
fn a_lost_worker_uses_a_loss_and_the_third_one_fails_the_item() {
    let mut found = lost();
    let (settlement, _) = settled(&found);
    assert_eq!(settlement.outcome, AttemptOutcome::Lost);
    assert_eq!(uses(&settlement), Some(ReturnUses::Loss));
    found.item.losses = 2;
    let (settlement, _) = settled(&found);
    assert_eq!(settlement.to, SettleTo::Failed);
    assert_eq!(settlement.error.unwrap().kind, "worker_lost");
}

#[test]
fn after_a_crash_an_item_goes_on_as_it_is_set() {
    let same_thread = |found: &UnsettledItem, on_crash: OnCrash| {
        let options = JobOptions {
            on_crash,
            ..JobOptions::default()
        };
        match ends(found, &options, Harvest::Nothing).0 {
            Decision::Settle(settlement) => match settlement.to {
                SettleTo::Pending { same_thread, .. } => Some(same_thread),
                _ => None,
            },
            Decision::Repair { .. } => panic!("a repair"),
        }
    };
    assert_eq!(same_thread(&lost(), OnCrash::Continue), Some(true));
    assert_eq!(same_thread(&lost(), OnCrash::Restart), Some(false));
    assert_eq!(same_thread(&lost(), OnCrash::Fail), None);
    let mut silent = lost();
    silent.has_output = false;
    for on_crash in [OnCrash::Continue, OnCrash::Restart, OnCrash::Fail] {
        assert_eq!(same_thread(&silent, on_crash), Some(false), "{on_crash:?}");
    }
    let error = json!({
        "message": "server stopped", "kind": "interrupted", "codexErrorInfo": "other",
        "outcomeKnown": false,
    });
    let undecided = found(TurnStatus::Interrupted, Some(error));
    assert_eq!(same_thread(&undecided, OnCrash::Continue), None);
    assert_eq!(same_thread(&undecided, OnCrash::Restart), Some(false));
}

#[test]
fn a_turn_without_a_result_is_repaired_once_and_then_retried() {
    let mut silent = found(TurnStatus::Completed, None);
    let options = JobOptions::default();
    let (decision, _) = ends(&silent, &options, Harvest::Nothing);
    let Decision::Repair { cause, otherwise } = decision else {
        panic!("no repair");
    };
    assert_eq!(cause, RepairCause::Missing);
    assert_eq!(otherwise.error.unwrap().kind, "no_report");
    silent.item.repairs = 1;
    let (settlement, _) = settled(&silent);
    assert_eq!(uses(&settlement), Some(ReturnUses::Retry));
    let message = settlement.error.unwrap().message;
    assert_eq!(
        message,
        "worker finished without calling report_agent_job_result"
    );
}

#[test]
fn a_closed_attempt_of_an_item_with_a_result_changes_nothing() {
    let mut reported = failing("server_error");
    reported.item.state = ItemState::Succeeded;
    assert_eq!(settled(&reported).0.to, SettleTo::AsReported);
}

#[test]
fn backoff_grows_between_a_quarter_second_and_five_minutes() {
    assert_eq!(backoff_ms(1, 0), 250);
    assert_eq!(backoff_ms(1, 999), 2_000);
    assert_eq!(backoff_ms(2, 999), 4_000);
    assert_eq!(backoff_ms(50, 999), 300_000);
}

#[test]
fn the_breaker_counts_the_first_ten_and_the_failures_allowed() {
    let streak = |finished, failed| Streak { finished, failed };
    assert!(breaker(streak(9, 9), None).is_none());
    assert!(breaker(streak(10, 10), None).is_some());
    assert!(breaker(streak(11, 10), None).is_none());
    let five = Some(MaxFailures::Count(5));
    assert!(breaker(streak(7, 5), five).is_none());
    assert!(breaker(streak(7, 6), five).is_some());
    let tenth = Some(MaxFailures::Percent(10));
    assert!(breaker(streak(19, 5), tenth).is_none());
    assert!(breaker(streak(20, 2), tenth).is_none());
    assert!(breaker(streak(20, 3), tenth).is_some());
}

#[test]
fn the_limit_is_halved_once_per_five_seconds_and_regained_by_successes() {
    let limits = JobLimits {
        concurrency: 8,
        ..JobLimits::default()
    };
    let mut pace = Pace::default();
    assert_eq!(pace.refused(8, NOW_MS), Some(4));
    assert_eq!(pace.refused(4, NOW_MS + 4_999), None);
    assert_eq!(pace.refused(4, NOW_MS + 5_000), Some(2));
    assert_eq!(pace.refused(1, NOW_MS + 20_000), None);
    for _ in 0..19 {
        assert_eq!(pace.succeeded(2, &limits), None);
    }
    assert_eq!(pace.succeeded(2, &limits), Some(3));
    for _ in 0..100 {
        assert_eq!(pace.succeeded(8, &limits), None);
    }
}

#[test]
fn the_expected_usage_is_the_largest_seen_and_then_a_percentile() {
    let mut usages = UsageWindow::default();
    assert_eq!(usages.expected(), 0);
    usages.add(10);
    usages.add(50);
    assert_eq!(usages.expected(), 50);
    for tokens in 1..=20 {
        usages.add(tokens);
    }
    assert_eq!(usages.expected(), 19);
}
