//! Errors of the provider: repeated, given up, or waited for.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use turnlane_testkit::mock_model::{ApiError, At, Cut, Gate, Reply};

use super::{World, ends_with, line_of, lines, report, worker_prompt};

#[tokio::test]
async fn a_server_error_is_repeated_and_fails_the_item_at_the_third_attempt() {
    // The number of errors that each row meets.
    let errors = HashMap::from([
        ("row-1", 0),
        ("row-2", 1),
        ("row-3", 2),
        ("row-4", usize::MAX),
    ]);
    let seen: Mutex<HashMap<String, usize>> = Mutex::default();
    let world = World::new(move |request| {
        let item = line_of(&worker_prompt(request).unwrap(), "Item ID: ");
        let mut seen = seen.lock().unwrap();
        let count = seen.entry(item.clone()).or_default();
        *count += 1;
        if *count <= errors[item.as_str()] {
            Reply::http_error(ApiError::server_error())
        } else {
            Reply::of([report(request)])
        }
    })
    .await;
    world.write_rows("in.csv", 4);
    let ran = world
        .fanout(&[
            "run",
            "in.csv",
            "--instruction",
            "do {name}",
            "-o",
            "out.csv",
        ])
        .await;
    ends_with(&ran, 3);
    let counts: Vec<_> = world.requests_by_item().into_values().collect();
    assert_eq!(counts, [1, 2, 3, 3]);
    let text = world.read("out.csv");
    let row = |number: usize| text.lines().nth(number).unwrap();
    for number in 1..=3 {
        assert!(row(number).contains(",completed,"), "{text}");
    }
    assert!(row(4).contains(",failed,3,"), "{text}");
    assert!(row(4).contains("The server had an error"), "{text}");
}

#[tokio::test]
async fn an_exhausted_quota_pauses_the_job_and_resume_repeats_no_result() {
    const ROWS: usize = 200;
    const ENOUGH: usize = 20;
    const CONCURRENCY: usize = 8;
    let (asked, is_refilled) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    let world = {
        let is_refilled = Arc::clone(&is_refilled);
        World::new(move |request| {
            let number = asked.fetch_add(1, Ordering::SeqCst) + 1;
            if number < ENOUGH || is_refilled.load(Ordering::SeqCst) {
                Reply::of([report(request)])
            } else {
                Reply::http_error(ApiError::insufficient_quota())
            }
        })
        .await
    };
    world.write_rows("in.csv", ROWS);
    let ran = world
        .fanout(&[
            "run",
            "in.csv",
            "--instruction",
            "do {name}",
            "-j",
            "8",
            "-o",
            "out.csv",
        ])
        .await;
    ends_with(&ran, 4);
    let before = world.mock.requests().len();
    assert!(
        (ENOUGH..=ENOUGH + CONCURRENCY).contains(&before),
        "{before}"
    );
    let job = world.job().await;
    assert_eq!(job["state"], "paused", "{job}");
    assert_eq!(job["reason"], "quota", "{job}");
    assert_eq!(job["counts"]["succeeded"], ENOUGH - 1, "{job}");
    assert_eq!(job["counts"]["failed"], 0, "{job}");
    let items = lines(&world.fanout(&["items", "in", "--json"]).await);
    let done = items.iter().filter(|item| item["state"] == "succeeded");
    let done: Vec<_> = done
        .map(|item| item["itemId"].as_str().unwrap().to_owned())
        .collect();
    is_refilled.store(true, Ordering::SeqCst);
    let resumed = world.fanout(&["resume", "in"]).await;
    ends_with(&resumed, 0);
    let counts = world.requests_by_item();
    assert_eq!(counts.len(), ROWS);
    for item in done {
        assert_eq!(counts[&item], 1, "{item} was computed twice");
    }
    // Every request was answered by a report, but for those that met the quota.
    assert_eq!(world.mock.requests().len(), ROWS + before - (ENOUGH - 1));
    assert_eq!(world.job().await["counts"]["succeeded"], ROWS);
    assert_eq!(world.read("out.csv").matches(",completed,").count(), ROWS);
}

#[tokio::test]
async fn a_cut_stream_is_repeated_and_a_silent_model_costs_the_time_limit() {
    let silent = Gate::new();
    let was_cut = AtomicBool::new(false);
    let world = World::new(move |request| {
        let item = line_of(&worker_prompt(request).unwrap(), "Item ID: ");
        let reply = Reply::of([report(request)]);
        match item.as_str() {
            "row-1" if !was_cut.swap(true, Ordering::SeqCst) => reply.cut(Cut::AfterEvents(1)),
            "row-2" => reply.gated_by(At::AfterEvents(1), &silent),
            _ => reply,
        }
    })
    .await;
    world.write_rows("in.csv", 3);
    let mut arguments = vec![
        "run",
        "in.csv",
        "--instruction",
        "do {name}",
        "-o",
        "out.csv",
    ];
    arguments.extend(["--timeout", "1s", "--retries", "1", "--grace", "0s"]);
    let ran = world.fanout(&arguments).await;
    ends_with(&ran, 3);
    let text = world.read("out.csv");
    let row = |number: usize| text.lines().nth(number).unwrap();
    assert!(row(1).contains(",completed,2,"), "{text}");
    assert!(row(2).contains(",failed,2,"), "{text}");
    let why = "timeout: worker exceeded max runtime of 1s";
    assert!(row(2).contains(why), "{text}");
    assert!(row(3).contains(",completed,1,"), "{text}");
}

#[tokio::test]
async fn a_rate_limit_holds_the_provider_and_uses_no_retry() {
    const HELD: Duration = Duration::from_secs(2);
    // Requests that were on their way when the limit was met arrive within this time.
    const ON_THEIR_WAY: Duration = Duration::from_millis(500);
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let world = {
        let times = Arc::clone(&times);
        World::new(move |request| {
            let mut times = times.lock().unwrap();
            times.push(Instant::now());
            if times.len() == 6 {
                Reply::http_error(ApiError::rate_limited().retry_after_s(HELD.as_secs()))
            } else {
                Reply::of([report(request)])
            }
        })
        .await
    };
    world.write_rows("in.csv", 40);
    let mut arguments = vec![
        "run",
        "in.csv",
        "--instruction",
        "do {name}",
        "-o",
        "out.csv",
    ];
    arguments.extend(["-j", "4", "--retries", "0"]);
    ends_with(&world.fanout(&arguments).await, 0);
    let times = times.lock().unwrap().clone();
    assert_eq!(
        times.len(),
        41,
        "one request per item, and the one that met the limit"
    );
    let met = times[5];
    let held = times[6..]
        .iter()
        .map(|time| time.duration_since(met))
        .filter(|after| (ON_THEIR_WAY..HELD).contains(after));
    assert_eq!(held.collect::<Vec<_>>(), [], "requests to a held provider");
    assert!(times[40].duration_since(met) >= HELD);
}
