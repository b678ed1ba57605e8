//! Errors of the provider: repeated, given up, or waited for.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use turnlane_testkit::mock_model::{ApiError, At, Cut, Gate, Item, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::{World, ends_with, line_of, lines, report, tool_answers, worker_prompt};

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
    ends_with(&world.run(&[]).await, 3);
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

/// A provider that answers 19 requests and then refuses all with this error pauses the job, with this
/// reason; once it answers again, a resume repeats no result.
async fn is_paused_and_resumed(error: ApiError, reason: &str) {
    const ROWS: usize = 200;
    const ENOUGH: usize = 20;
    const CONCURRENCY: usize = 8;
    let (asked, answers_again) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    let world = {
        let answers_again = Arc::clone(&answers_again);
        World::new(move |request| {
            let number = asked.fetch_add(1, Ordering::SeqCst) + 1;
            if number < ENOUGH || answers_again.load(Ordering::SeqCst) {
                Reply::of([report(request)])
            } else {
                Reply::http_error(error.clone())
            }
        })
        .await
    };
    world.write_rows("in.csv", ROWS);
    ends_with(&world.run(&["-j", "8"]).await, 4);
    let before = world.mock.requests().len();
    assert!(
        (ENOUGH..=ENOUGH + CONCURRENCY).contains(&before),
        "{before}"
    );
    let job = world.job().await;
    assert_eq!(job["state"], "paused", "{job}");
    assert_eq!(job["reason"], reason, "{job}");
    assert_eq!(job["counts"]["succeeded"], ENOUGH - 1, "{job}");
    assert_eq!(job["counts"]["failed"], 0, "{job}");
    let items = world.items().await;
    let done = items.iter().filter(|item| item["state"] == "succeeded");
    let done: Vec<_> = done
        .map(|item| item["itemId"].as_str().unwrap().to_owned())
        .collect();
    answers_again.store(true, Ordering::SeqCst);
    let resumed = world.fanout(&["resume", "in"]).await;
    ends_with(&resumed, 0);
    let counts = world.requests_by_item();
    assert_eq!(counts.len(), ROWS);
    for item in done {
        assert_eq!(counts[&item], 1, "{item} was computed twice");
    }
    // Every request was answered by a report, but for those that were refused.
    assert_eq!(world.mock.requests().len(), ROWS + before - (ENOUGH - 1));
    assert_eq!(world.job().await["counts"]["succeeded"], ROWS);
    assert_eq!(world.read("out.csv").matches(",completed,").count(), ROWS);
}

#[tokio::test]
async fn an_exhausted_quota_pauses_the_job_and_resume_repeats_no_result() {
    is_paused_and_resumed(ApiError::insufficient_quota(), "quota").await;
}

#[tokio::test]
async fn a_refused_login_pauses_the_job_and_resume_repeats_no_result() {
    is_paused_and_resumed(ApiError::unauthorized(), "auth").await;
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
    let flags = ["--timeout", "1s", "--retries", "1", "--grace", "0s"];
    ends_with(&world.run(&flags).await, 3);
    let text = world.read("out.csv");
    let row = |number: usize| text.lines().nth(number).unwrap();
    assert!(row(1).contains(",completed,2,"), "{text}");
    assert!(row(2).contains(",failed,2,"), "{text}");
    let why = "timeout: worker exceeded max runtime of 1s";
    assert!(row(2).contains(why), "{text}");
    assert!(row(3).contains(",completed,1,"), "{text}");
}

/// The provider refuses the second request of row 1 while rows 2 to 4 wait for their answers. From then
/// on every request that arrives is one that the hold should have kept back.
#[tokio::test]
async fn a_rate_limit_holds_every_job_and_repeats_nothing() {
    const HELD: Duration = Duration::from_secs(2);
    let (others, limit) = (Gate::new(), Gate::new());
    let arrivals: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let world = {
        let (others, limit) = (others.clone(), limit.clone());
        let arrivals = Arc::clone(&arrivals);
        let was_limited = AtomicBool::new(false);
        World::new(move |request| {
            arrivals.lock().unwrap().push(Instant::now());
            let name = line_of(&worker_prompt(request).unwrap(), "do ");
            let limited = ApiError::rate_limited().retry_after_s(HELD.as_secs());
            match name.as_str() {
                "n0" if tool_answers(request) == 0 => {
                    let command = json!({"cmd": "echo once >> ran"});
                    Reply::of([Item::function_call("exec_command", command)])
                }
                "n0" if !was_limited.swap(true, Ordering::SeqCst) => {
                    Reply::http_error(limited).gated_by(At::Request, &limit)
                }
                "n1" | "n2" | "n3" => Reply::of([report(request)]).gated_by(At::Request, &others),
                _ => Reply::of([report(request)]),
            }
        })
        .await
    };
    world.write_rows("in.csv", 30);
    std::fs::write(world.path("second.csv"), "name\nm0\nm1\n").unwrap();
    let mut serve = world.serve().await;
    let flags = [
        "--detach",
        "-j",
        "4",
        "--retries",
        "0",
        "-s",
        "danger-full-access",
    ];
    ends_with(&world.run(&flags).await, 0);
    within("the requests", DEADLINE, async {
        others.reached_by(3).await;
        limit.reached_by(1).await;
    })
    .await
    .unwrap();
    let met = Instant::now();
    let before = arrivals.lock().unwrap().len();
    limit.release();
    let halved = async || world.job().await["currentLimit"] == 2;
    eventually("the limit to be halved", DEADLINE, halved)
        .await
        .unwrap();
    let second = [
        "run",
        "second.csv",
        "--instruction",
        "do {name}",
        "--detach",
    ];
    ends_with(&world.fanout(&second).await, 0);
    others.release();
    for job in ["in", "second"] {
        ends_with(&world.fanout(&["watch", job]).await, 0);
    }
    let arrivals = arrivals.lock().unwrap().clone();
    for arrival in &arrivals[before..] {
        let after = arrival.duration_since(met);
        assert!(after >= HELD, "a request to a held provider: {after:?}");
    }
    // Row 1 made a request for its command, one that was refused, and that one again.
    assert_eq!(arrivals.len(), 29 + 3 + 2);
    assert_eq!(world.read("ran"), "once\n");
    let shown = lines(&world.fanout(&["show", "in", "--json"]).await).remove(0);
    assert_eq!(shown["usage"]["attempts"], 30, "{shown}");
    // The halved limit and one place for 20 successes in a row.
    assert_eq!(shown["currentLimit"], 3, "{shown}");
    serve.terminate().unwrap();
    serve.wait(DEADLINE).await.unwrap();
}
