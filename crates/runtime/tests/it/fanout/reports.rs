//! Results: the answers of the report tool, one model call per item, repair turns, other channels.

use serde_json::{Value, json};
use turnlane_runtime::fanout::jobs::spec::ChannelChoice;
use turnlane_runtime::fanout::prompt::ResultChannel;
use turnlane_runtime::{AddTurn, AfterInterrupt};
use turnlane_store::fanout::{AttemptOutcome, ItemState, JobState};
use turnlane_store::turn::TurnStatus;
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::support::{Floor, REPORTS, answers, call_step, report_step};
use crate::support::{Home, params};

#[tokio::test]
async fn with_end_on_report_every_item_costs_one_turn_and_nothing_else() {
    let home = Home::new();
    let floor = Floor::start(&home, REPORTS).await;
    let job = floor.run(100, |spec| spec.limits.concurrency = 64).await;
    let ended = floor.rests(&job, JobState::Succeeded).await;
    assert_eq!(ended.row.counts.succeeded, 100);
    assert_eq!(floor.asked().len(), 100);
    let items = floor.items(&job).await;
    assert!(items.iter().all(|item| item.state == ItemState::Succeeded));
    assert_eq!(ended.row.counts.usage.total_tokens, 100 * 12);
    floor.assert_counts(&job).await;
    floor.stop().await;
}

#[tokio::test]
async fn the_report_tool_answers_as_its_table_says() {
    let wrong_ids = r#"{"job_id":"other","item_id":"row-1","result":{"score":1}}"#;
    let no_object = r#"{"job_id":"{line:Job ID: }","item_id":"{line:Item ID: }","result":[1]}"#;
    let large = format!(r#"{{"score":1,"text":"{}"}}"#, "x".repeat(1_048_576));
    let steps = [
        call_step(wrong_ids),
        call_step(no_object),
        report_step(&large),
        report_step(r#"{"score":"high"}"#),
        report_step(r#"{"score":1,"b":2}"#),
        report_step(r#"{"b":2,"score":1}"#),
        report_step(r#"{"score":2}"#),
    ];
    let script = format!("version: 1\nfallback: [{}]", steps.join(", "));
    let home = Home::new();
    let floor = Floor::start(&home, &script).await;
    let job = floor
        .run(1, |spec| {
            spec.options.end_on_report = false;
            spec.limits.grace_ms = 60_000;
            spec.output_schema = Some(json!({
                "type": "object", "properties": {"score": {"type": "number"}},
            }));
        })
        .await;
    floor.rests(&job, JobState::Succeeded).await;
    let item = floor.item(&job, "row-1").await;
    let answers = answers(&floor, &item.item).await;
    let works = format!("this thread works on item row-1 of job {job}");
    assert_eq!(answers[0], json!({"accepted": false, "error": works}));
    assert_eq!(answers[1], json!("result must be a JSON object"));
    let too_long = answers[2]["error"].as_str().unwrap();
    assert!(
        too_long.ends_with(" bytes; the limit is 1048576"),
        "{too_long}"
    );
    assert_eq!(answers[3]["accepted"], json!(false));
    assert_eq!(answers[3]["errors"][0]["path"], json!("/score"));
    assert_eq!(answers[4], json!({"accepted": true}));
    assert_eq!(answers[5], json!({"accepted": true, "duplicate": true}));
    let recorded = json!({"accepted": false, "error": "a result is already recorded"});
    assert_eq!(answers[6], recorded);
    let result: Value = serde_json::from_str(item.result.unwrap().as_str()).unwrap();
    assert_eq!(result, json!({"score": 1, "b": 2}));
    floor.stop().await;
}

#[tokio::test]
async fn a_caller_that_is_no_worker_has_no_report_tool() {
    let home = Home::new();
    let floor = Floor::start(&home, REPORTS).await;
    let thread = floor.world.thread().await;
    floor.world.add(thread, "hello").await;
    floor.world.ended(thread, 1).await;
    let items = floor.world.items(thread).await;
    let call = items.iter().find(|item| item.kind == "dynamicToolCall");
    let body = call.unwrap().body.as_str().to_owned();
    assert!(
        body.contains("there is no tool report_agent_job_result"),
        "{body}"
    );
    floor.stop().await;
}

#[tokio::test]
async fn a_report_for_an_item_that_a_person_interrupted_is_refused() {
    let script = format!(
        "version: 1\nturns: [{{match: late, steps: [{}]}}]\nfallback: {{await: {{gate: never}}}}",
        report_step(r#"{"ok":true}"#),
    );
    let home = Home::new();
    let floor = Floor::start(&home, &script).await;
    let job = floor.run(1, |_| ()).await;
    let thread = floor.thread_of(&job, "row-1").await;
    floor
        .handle()
        .interrupt(thread, None, AfterInterrupt::Continue, None)
        .await
        .unwrap();
    floor.rests(&job, JobState::FinishedWithFailures).await;
    let item = floor.item(&job, "row-1").await.item;
    assert_eq!(item.error.clone().unwrap().kind, "interrupted");
    assert_eq!(item.attempt, 1, "an interrupt by a person is not retried");
    floor
        .world
        .add_with(thread, AddTurn::new(params("late")))
        .await;
    floor.world.ended(thread, 2).await;
    let refused = json!({"accepted": false, "error": "item row-1 is failed"});
    assert_eq!(answers(&floor, &item).await, [refused]);
    floor.stop().await;
}

#[tokio::test]
async fn a_report_of_an_older_attempt_counts_while_the_item_waits() {
    let script = format!(
        "version: 1\nturns: [{{match: late, steps: [{}]}}]\n\
         fallback: {{error: {{kind: server_error}}}}",
        report_step(r#"{"ok":true}"#),
    );
    let home = Home::new();
    let floor = Floor::start(&home, &script).await;
    let job = floor.run(1, |_| ()).await;
    let waits = async || {
        let item = floor.item(&job, "row-1").await.item;
        item.state == ItemState::Pending && item.attempt == 1
    };
    eventually("the item to wait", DEADLINE, waits)
        .await
        .unwrap();
    let thread = floor.thread_of(&job, "row-1").await;
    floor
        .world
        .add_with(thread, AddTurn::new(params("late")))
        .await;
    floor.rests(&job, JobState::Succeeded).await;
    let detail = floor.item(&job, "row-1").await;
    assert_eq!(detail.item.state, ItemState::Succeeded);
    assert_eq!(detail.attempts.len(), 1);
    assert_eq!(detail.attempts[0].outcome, Some(AttemptOutcome::Reported));
    floor.stop().await;
}

#[tokio::test]
async fn a_report_of_an_older_attempt_interrupts_the_one_that_runs() {
    let script = format!(
        "version: 1\nturns:\n  - {{match: late, steps: [{}]}}\n  \
         - {{match: 'Attempt 1 ended', steps: [{{say: second}}, {{await: {{gate: never}}}}]}}\n\
         fallback: {{error: {{kind: server_error}}}}",
        report_step(r#"{"ok":true}"#),
    );
    let home = Home::new();
    let floor = Floor::start(&home, &script).await;
    let job = floor.run(1, |_| ()).await;
    let older = floor.thread_of(&job, "row-1").await;
    let second_runs = async || {
        home.clock.jump(1_000);
        let item = floor.item(&job, "row-1").await.item;
        item.state == ItemState::Running && item.attempt == 2
    };
    eventually("the second attempt", DEADLINE, second_runs)
        .await
        .unwrap();
    let newer = floor.thread_of(&job, "row-1").await;
    floor
        .world
        .add_with(older, AddTurn::new(params("late")))
        .await;
    // The newer attempt would never end by itself.
    floor.rests(&job, JobState::Succeeded).await;
    let detail = floor.item(&job, "row-1").await;
    let outcomes: Vec<_> = detail.attempts.iter().map(|it| it.outcome).collect();
    let expected = [AttemptOutcome::Reported, AttemptOutcome::Superseded];
    assert_eq!(outcomes, expected.map(Some));
    assert!(detail.attempts.iter().all(|it| it.ended_ms.is_some()));
    assert_ne!(older, newer);
    let turns = floor.world.turns(newer).await;
    assert_eq!(turns.last().unwrap().status, TurnStatus::Interrupted);
    floor.assert_counts(&job).await;
    floor.stop().await;
}

#[tokio::test]
async fn the_sixth_result_that_does_not_fit_ends_the_attempt() {
    let wrong = vec![report_step(r#"{"score":"high"}"#); 9];
    let script = format!("version: 1\nfallback: [{}]", wrong.join(", "));
    let home = Home::new();
    let floor = Floor::start(&home, &script).await;
    let job = floor
        .run(1, |spec| {
            spec.limits.retries = 0;
            spec.output_schema = Some(json!({
                "type": "object", "properties": {"score": {"type": "number"}},
            }));
        })
        .await;
    floor.rests(&job, JobState::FinishedWithFailures).await;
    let item = floor.item(&job, "row-1").await.item;
    assert_eq!(item.error.clone().unwrap().kind, "schema");
    assert_eq!(answers(&floor, &item).await.len(), 6);
    assert_eq!(floor.asked().len(), 1, "no repair turn follows");
    floor.stop().await;
}

#[tokio::test]
async fn a_silent_worker_is_asked_once_more_in_every_attempt_and_then_fails() {
    let home = Home::new();
    let floor = Floor::start(&home, "{version: 1, fallback: {say: done}}").await;
    let job = floor.run(1, |spec| spec.limits.retries = 1).await;
    floor
        .rests_in_time(&home, &job, JobState::FinishedWithFailures)
        .await;
    let detail = floor.item(&job, "row-1").await;
    let error = detail.item.error.unwrap();
    assert_eq!(error.kind, "no_report");
    assert_eq!(
        error.message,
        "worker finished without calling report_agent_job_result"
    );
    assert_eq!(detail.attempts.len(), 2);
    let asked = floor.asked();
    assert_eq!(asked.len(), 4);
    assert!(
        asked[1].contains("was not called for item row-1"),
        "{}",
        asked[1]
    );
    assert!(
        asked[2].contains("Attempt 1 ended: no_report: "),
        "{}",
        asked[2]
    );
    floor.stop().await;
}

#[tokio::test]
async fn a_final_message_is_the_result_and_is_repaired_once() {
    let script = "
version: 1
turns:
  - match: 'Item ID: row-1'
    steps: [{say: \"```json\\n{\\\"score\\\": 1}\\n```\"}]
  - match: 'Item ID: row-2'
    steps: [{say: 'no json'}]
  - match: 'row-2'
    steps: [{say: '{\"score\": 2}'}]
fallback: {say: '{\"score\": \"high\"}'}
";
    let home = Home::new();
    let floor = Floor::start(&home, script).await;
    let job = floor
        .run(3, |spec| {
            spec.limits.retries = 0;
            spec.channel = ChannelChoice::Only(ResultChannel::Message);
            spec.output_schema = Some(json!({
                "type": "object", "properties": {"score": {"type": "number"}},
            }));
        })
        .await;
    floor.rests(&job, JobState::FinishedWithFailures).await;
    let result = async |item: &str| {
        let result = floor.item(&job, item).await.result;
        result.map(|result| result.as_str().to_owned())
    };
    assert_eq!(result("row-1").await.unwrap(), r#"{"score":1}"#);
    assert_eq!(result("row-2").await.unwrap(), r#"{"score":2}"#);
    assert_eq!(result("row-3").await, None);
    let error = floor.item(&job, "row-3").await.item.error.unwrap();
    assert_eq!(error.kind, "schema");
    assert_eq!(
        floor.asked().len(),
        5,
        "rows 2 and 3 got one repair turn each"
    );
    floor.stop().await;
}

#[tokio::test]
async fn a_final_message_is_kept_as_text_where_no_schema_is_asked_for() {
    let home = Home::new();
    let floor = Floor::start(&home, "{version: 1, fallback: {say: all fine}}").await;
    let channel = ChannelChoice::Only(ResultChannel::Text);
    let job = floor.run(1, |spec| spec.channel = channel).await;
    floor.rests(&job, JobState::Succeeded).await;
    let result = floor.item(&job, "row-1").await.result.unwrap();
    assert_eq!(result.as_str(), r#"{"text":"all fine"}"#);
    floor.stop().await;
}

#[tokio::test]
async fn items_are_not_told_to_those_who_watch_all_threads() {
    let home = Home::new();
    let floor = Floor::start(&home, REPORTS).await;
    let ear = std::sync::Arc::new(crate::support::Ear::default());
    floor.handle().watch(ear.clone());
    let job = floor.run(5, |_| ()).await;
    floor.rests(&job, JobState::Succeeded).await;
    assert_eq!(ear.words(), Vec::<String>::new());
    assert!(floor.jobs.item_notices() > 0);
    let thread = floor.item(&job, "row-1").await.item.thread.unwrap();
    assert_eq!(
        floor.handle().loaded(),
        0,
        "lanes of items are unloaded at once"
    );
    let row = floor.store().thread(thread).await.unwrap().unwrap();
    assert_eq!(row.source, "subAgentOther");
    assert!(row.facts.as_str().contains(&format!("agent_job:{job}")));
    floor.stop().await;
}
