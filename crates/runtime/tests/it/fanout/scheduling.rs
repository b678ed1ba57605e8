//! Places, retries, limits of the provider, quota, the breaker, caps.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use turnlane_runtime::Clock as _;
use turnlane_runtime::fanout::jobs::Owner;
use turnlane_runtime::fanout::jobs::spec::MaxFailures;
use turnlane_store::fanout::{ItemState, JobState};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::support::{Floor, REPORTS, report_step, reporting};
use crate::support::Home;

#[tokio::test]
async fn claim_turn_and_message_are_stored_before_the_engine_is_asked() {
    let home = Home::new();
    let floor = Floor::start(&home, REPORTS).await;
    let job = floor.run(1_000, |spec| spec.limits.concurrency = 64).await;
    floor.rests(&job, JobState::Succeeded).await;
    // The engine looks for its own turn before it plays; see `Recorder`.
    assert_eq!(floor.unstored(), 0);
    // Every item reports at once. A report that was refused would cost a repair turn.
    assert_eq!(floor.asked().len(), 1_000);
    for item in floor.items(&job).await {
        assert_eq!((item.attempt, item.repairs), (1, 0));
    }
    floor.stop().await;
}

#[tokio::test]
async fn a_failing_provider_costs_retries_and_then_the_item() {
    let turns = "  - {match: 'Item ID: row-1', times: 2, steps: [{error: {kind: server_error}}]}
  - {match: 'Item ID: row-2', steps: [{error: {kind: server_error, message: boom}}]}";
    let home = Home::new();
    let floor = Floor::start(&home, &reporting(turns)).await;
    let job = floor.run(2, |_| ()).await;
    let ended = floor
        .rests_in_time(&home, &job, JobState::FinishedWithFailures)
        .await;
    assert_eq!(
        (ended.row.counts.succeeded, ended.row.counts.failed),
        (1, 1)
    );
    let first = floor.item(&job, "row-1").await;
    assert_eq!(first.attempts.len(), 3);
    assert_ne!(first.attempts[0].thread, first.attempts[2].thread);
    let second = floor.item(&job, "row-2").await;
    assert_eq!(second.attempts.len(), 3);
    let error = second.item.error.unwrap();
    assert_eq!(
        (error.kind.as_str(), error.message.as_str()),
        ("server_error", "boom")
    );
    floor.assert_counts(&job).await;
    floor.stop().await;
}

#[tokio::test]
async fn an_engine_that_cannot_start_is_tried_three_times_and_waits_in_between() {
    let home = Home::new();
    let script = "{version: 1, fallback: {error: {kind: engine_unavailable, message: gone}}}";
    let floor = Floor::start(&home, script).await;
    let job = floor.run(1, |_| ()).await;
    for attempts in 1..=2 {
        // The clock stands still, so the item waits until its time has come.
        let waits = async || {
            let item = floor.item(&job, "row-1").await.item;
            item.state == ItemState::Pending && item.attempt == attempts
        };
        eventually("the item to wait", DEADLINE, waits)
            .await
            .unwrap();
        let not_before_ms = floor.item(&job, "row-1").await.item.not_before_ms;
        assert!(not_before_ms >= home.clock.now_ms() + 250);
        assert_eq!(floor.asked().len(), usize::try_from(attempts).unwrap());
        home.clock.jump(300_000);
    }
    floor.rests(&job, JobState::FinishedWithFailures).await;
    assert_eq!(floor.asked().len(), 3);
    let error = floor.item(&job, "row-1").await.item.error.unwrap();
    let error = (error.kind.as_str(), error.message.as_str());
    assert_eq!(error, ("engine_unavailable", "gone"));
    floor.stop().await;
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_stopped_and_named_so() {
    let home = Home::new();
    let floor = Floor::start(&home, "{version: 1, fallback: {await: {gate: never}}}").await;
    let began = Instant::now();
    let job = floor
        .run(1, |spec| {
            spec.limits.timeout_ms = 200;
            spec.limits.retries = 0;
        })
        .await;
    floor.rests(&job, JobState::FinishedWithFailures).await;
    let error = floor.item(&job, "row-1").await.item.error.unwrap();
    assert_eq!(error.kind, "timeout");
    assert_eq!(error.message, "worker exceeded max runtime of 1s");
    assert!(began.elapsed() < Duration::from_secs(10));
    floor.stop().await;
}

#[tokio::test]
async fn a_rate_limit_holds_every_job_of_the_provider_and_uses_no_retry() {
    let limited = "{error: {info: rateLimitExceeded, retry_after_ms: 400, will_retry: true}}";
    let report = report_step(r#"{"ok":true}"#);
    let turns = format!("  - {{match: 'Limited', times: 1, steps: [{limited}, {report}]}}");
    let home = Home::new();
    let floor = Floor::start(&home, &reporting(&turns)).await;
    let began = Instant::now();
    let first = floor
        .run(1, |spec| {
            spec.instruction = "Limited {n}".to_owned();
            spec.limits.concurrency = 8;
        })
        .await;
    floor.asks(1).await;
    let halved = async || {
        floor
            .jobs
            .read(&first)
            .await
            .unwrap()
            .row
            .made
            .current_limit
            == 4
    };
    eventually("the limit to be halved", DEADLINE, halved)
        .await
        .unwrap();
    assert!(floor.jobs.read(&first).await.unwrap().hold_ms.is_some());
    let second = floor.run(3, |_| ()).await;
    floor.rests(&second, JobState::Succeeded).await;
    assert!(
        began.elapsed() >= Duration::from_millis(400),
        "the hold was not kept"
    );
    floor.rests(&first, JobState::Succeeded).await;
    let item = floor.item(&first, "row-1").await;
    assert_eq!((item.item.retries_used, item.attempts.len()), (0, 1));
    floor.stop().await;
}

#[tokio::test]
async fn a_halved_limit_is_regained_by_successes() {
    let turns = "  - {match: 'Item ID: row-1\n', times: 1, steps: [{error: {kind: overloaded}}]}";
    let turns = turns.replace('\n', " ").replace("row-1 '", "row-1'");
    let home = Home::new();
    let floor = Floor::start(&home, &reporting(&turns)).await;
    let job = floor.run(120, |spec| spec.limits.concurrency = 4).await;
    let ended = floor.rests_in_time(&home, &job, JobState::Succeeded).await;
    assert_eq!(
        ended.row.made.current_limit, 4,
        "2 places and two times 20 successes"
    );
    floor.stop().await;
}

#[tokio::test]
async fn a_used_up_quota_pauses_the_job_until_it_is_resumed() {
    let quota = "{error: {kind: quota, message: 'no more'}}";
    let turns = format!("  - {{match: 'Handle 19 ', times: 1, steps: [{quota}]}}");
    let home = Home::new();
    let floor = Floor::start(&home, &reporting(&turns)).await;
    let job = floor
        .run(100, |spec| {
            spec.instruction = "Handle {n} now".to_owned();
            spec.limits.concurrency = 8;
        })
        .await;
    let paused = floor.rests(&job, JobState::Paused).await;
    assert_eq!(paused.row.reason.as_deref(), Some("quota"));
    assert_eq!(paused.row.reason_message.as_deref(), Some("no more"));
    let asked = floor.asked().len();
    assert!(asked <= 20 + 8, "{asked} turns");
    floor.jobs.resume(&job, Owner::Detached).await.unwrap();
    let ended = floor.rests_in_time(&home, &job, JobState::Succeeded).await;
    assert_eq!(ended.row.counts.succeeded, 100);
    let mut asked: HashMap<String, usize> = HashMap::new();
    for prompt in floor.asked() {
        *asked.entry(prompt).or_default() += 1;
    }
    let twice = asked.values().filter(|count| **count > 1).count();
    assert!(
        twice <= 1,
        "only the item that met the limit is asked again"
    );
    floor.assert_counts(&job).await;
    floor.stop().await;
}

#[tokio::test]
async fn a_refused_login_pauses_the_job() {
    let home = Home::new();
    let script = "{version: 1, fallback: {error: {kind: auth, message: 'who are you'}}}";
    let floor = Floor::start(&home, script).await;
    let job = floor.run(50, |spec| spec.limits.concurrency = 4).await;
    let paused = floor.rests(&job, JobState::Paused).await;
    assert_eq!(paused.row.reason.as_deref(), Some("auth"));
    assert!(floor.asked().len() <= 4, "{}", floor.asked().len());
    assert_eq!(paused.row.counts.failed, 0);
    floor.stop().await;
}

/// The step of a provider that answers with status 403.
const FORBIDDEN: &str =
    "{error: {info: unauthorized, message: 'unexpected status 403 Forbidden: no'}}";

#[tokio::test]
async fn a_lone_403_fails_its_item_only() {
    let turn = |row: u32| format!("  - {{match: 'Handle {row} now', steps: [{FORBIDDEN}]}}");
    let turns = [turn(3), turn(7)].join("\n");
    let home = Home::new();
    let floor = Floor::start(&home, &reporting(&turns)).await;
    let job = floor
        .run(10, |spec| {
            spec.instruction = "Handle {n} now".to_owned();
            spec.limits.concurrency = 1;
        })
        .await;
    let ended = floor.rests(&job, JobState::FinishedWithFailures).await;
    let counts = ended.row.counts;
    assert_eq!((counts.succeeded, counts.failed), (8, 2));
    let item = floor.item(&job, "row-4").await;
    assert_eq!(item.attempts.len(), 1, "such a request is not repeated");
    assert_eq!(item.item.error.unwrap().kind, "auth");
    floor.stop().await;
}

#[tokio::test]
async fn two_403_without_an_answer_between_pause_the_job() {
    let home = Home::new();
    let script = format!("{{version: 1, fallback: {FORBIDDEN}}}");
    let floor = Floor::start(&home, &script).await;
    let job = floor.run(50, |spec| spec.limits.concurrency = 4).await;
    let paused = floor.rests(&job, JobState::Paused).await;
    assert_eq!(paused.row.reason.as_deref(), Some("auth"));
    assert_eq!(paused.row.counts.failed, 1);
    let asked = floor.asked().len();
    assert!(asked <= 8, "{asked} requests were sent");
    floor.assert_counts(&job).await;
    floor.stop().await;
}

#[tokio::test]
async fn the_first_ten_failures_pause_the_job() {
    let home = Home::new();
    let script = "{version: 1, fallback: {error: {kind: bad_request}}}";
    let floor = Floor::start(&home, script).await;
    let job = floor.run(1_000, |spec| spec.limits.concurrency = 4).await;
    let paused = floor.rests(&job, JobState::Paused).await;
    assert_eq!(paused.row.reason.as_deref(), Some("failures"));
    let tried = paused.row.counts.attempts;
    assert!((10..=14).contains(&tried), "{tried} items were tried");
    floor.jobs.resume(&job, Owner::Detached).await.unwrap();
    let more = async || floor.jobs.read(&job).await.unwrap().row.counts.attempts > tried;
    eventually("the job to go on", DEADLINE, more)
        .await
        .unwrap();
    floor.rests(&job, JobState::Paused).await;
    floor.stop().await;
}

#[tokio::test]
async fn more_failures_than_allowed_pause_the_job() {
    let turns = "  - {match: 'Bad', steps: [{error: {kind: bad_request}}]}";
    let home = Home::new();
    let floor = Floor::start(&home, &reporting(turns)).await;
    let job = floor
        .job(40, |spec| {
            spec.limits.concurrency = 2;
            spec.limits.max_failures = Some(MaxFailures::Count(5));
            spec.instruction = "Bad {n}".to_owned();
        })
        .await;
    floor.jobs.start(&job).await.unwrap();
    let paused = floor.rests(&job, JobState::Paused).await;
    let failed = paused.row.counts.failed;
    assert!((6..=8).contains(&failed), "{failed} items failed");
    floor.stop().await;
}

#[tokio::test]
async fn a_cap_of_tokens_is_exceeded_by_running_items_alone_and_survives_a_resume() {
    let home = Home::new();
    let floor = Floor::start(&home, REPORTS).await;
    let job = floor
        .run(100, |spec| {
            spec.limits.concurrency = 4;
            spec.limits.max_tokens = Some(120);
        })
        .await;
    let paused = floor.rests(&job, JobState::Paused).await;
    assert_eq!(paused.row.reason.as_deref(), Some("budget"));
    let spent = paused.row.counts.usage.total_tokens;
    assert!((100..=120 + 4 * 12).contains(&spent), "{spent} tokens");
    floor.jobs.resume(&job, Owner::Detached).await.unwrap();
    let paused = floor.rests(&job, JobState::Paused).await;
    assert_eq!(paused.row.counts.usage.total_tokens, spent);
    floor.stop().await;
}

#[tokio::test]
async fn one_slow_item_does_not_keep_the_others_waiting() {
    let turns = "  - {match: 'Slow 0 ', steps: [{await: {gate: go}}]}";
    let home = Home::new();
    let floor = Floor::start(&home, &reporting(turns)).await;
    let job = floor
        .run(100, |spec| {
            spec.instruction = "Slow {n} now".to_owned();
            spec.limits.concurrency = 2;
            spec.options.repair_turns = 0;
            spec.limits.retries = 0;
        })
        .await;
    let others = async || {
        let row = floor.jobs.read(&job).await.unwrap().row;
        row.counts.succeeded == 99 && row.counts.running == 1
    };
    eventually("99 items beside the slow one", DEADLINE, others)
        .await
        .unwrap();
    let slow = floor.item(&job, "row-1").await.item;
    assert_eq!(slow.state, ItemState::Running);
    floor.world.gates.open("go");
    floor.rests(&job, JobState::FinishedWithFailures).await;
    floor.stop().await;
}
