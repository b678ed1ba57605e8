//! `kill -9` of a run at any moment, then the same command.
//!
//! The moments are random: the start of the run or a number of requests, and some milliseconds behind
//! it. The choices follow from a seed, which is printed; `TURNLANE_TEST_SEED` gives another one.
//! `TURNLANE_TEST_FULL=1` makes the kills many.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use turnlane_testkit::Random;
use turnlane_testkit::mock_model::{At, Gate, Item, RecordedRequest, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::{RUN, World, ends_with, line_of, lines, report, tool_answers, worker_prompt};
use crate::exec::kills::{is_full, seed, working_in};
use crate::run;

/// Kills of one job, so that its rows can be counted after each of them.
const KILLS_OF_A_JOB: usize = 25;
/// Items that run at once.
const CONCURRENCY: usize = 8;
/// Requests of a run before it is killed, unless it is killed at its start.
const REQUESTS: std::ops::Range<usize> = 2 * CONCURRENCY..4 * CONCURRENCY;
/// The model's time for an answer, so that a kill finds requests under way.
const LATENCY: Duration = Duration::from_millis(15);
/// The longest time between the last request that is waited for and the kill.
const BEHIND: Duration = Duration::from_millis(40);
/// The longest life of a run that is killed at its start.
const START: Duration = Duration::from_millis(400);

/// Reports; for every third row a command comes before it.
fn reply(request: &RecordedRequest) -> Reply {
    let row = line_of(&worker_prompt(request).unwrap(), "Item ID: row-");
    let runs_command = row.parse::<usize>().unwrap() % 3 == 0;
    let said = if runs_command && tool_answers(request) == 0 {
        let command = json!({"cmd": "setsid sleep 0.02 & sleep 0.02"});
        Item::function_call("exec_command", command).call_id(format!("call_{row}"))
    } else {
        report(request)
    };
    Reply::of([said]).pause(At::Request, LATENCY)
}

/// When a run is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Start(Duration),
    Requests(usize, Duration),
}

impl Moment {
    /// A run that has to come behind its endangered items is not killed at its start.
    fn choose(random: &mut Random, before: Option<Self>, spared: &[String]) -> Self {
        let starts = random.one_in(3) && !matches!(before, Some(Self::Start(_)));
        if starts && spared.is_empty() {
            return Self::Start(random.shorter(START));
        }
        let requests = REQUESTS.start + random.below(REQUESTS.len());
        Self::Requests(requests, random.shorter(BEHIND))
    }
}

/// Returns true if the items have ended: they run alone, so a request of another item follows them.
fn have_ended(world: &World, before: usize, items: &[String]) -> bool {
    let requests = world.mock.requests();
    let asked = requests[before..].iter();
    let asked = asked.filter_map(|request| worker_prompt(request));
    let asked: Vec<_> = asked.map(|prompt| line_of(&prompt, "Item ID: ")).collect();
    items.iter().all(|item| {
        let last = asked.iter().rposition(|asked| asked == item);
        last.is_some_and(|last| last + 1 < asked.len())
    })
}

/// Starts a run and kills it at this moment, behind the items that are spared; no command of it is left
/// then.
async fn kill(world: &World, flags: &[&str], moment: Moment, spared: &[String]) {
    let before = world.mock.requests().len();
    let mut process = world.start(flags);
    let behind = match moment {
        Moment::Start(behind) => behind,
        Moment::Requests(count, behind) => {
            let arrived = world.mock.wait_for_requests(before + count, DEADLINE).await;
            arrived.unwrap_or_else(|error| panic!("{error} {}", process.stderr_tail()));
            let ended = async || have_ended(world, before, spared);
            let ended = eventually("the end of items with two losses", DEADLINE, ended).await;
            ended.unwrap_or_else(|error| panic!("{error}: {spared:?}"));
            behind
        }
    };
    let ended = within("its end", behind, process.wait(DEADLINE)).await;
    assert!(
        ended.is_err(),
        "{moment:?}: ended {}",
        process.stderr_tail()
    );
    process.kill9().await.unwrap();
    let folder = world.path("").canonicalize().unwrap();
    let nothing = async || working_in(&folder).is_empty();
    let ended = eventually("the end of its commands", DEADLINE, nothing).await;
    ended.unwrap_or_else(|error| panic!("{error}: {moment:?}"));
}

/// The jobs, one after the other: with [`KILLS_OF_A_JOB`] the contract's number when
/// `TURNLANE_TEST_FULL` is set.
fn jobs() -> usize {
    if is_full() { 8 } else { 1 }
}

/// The job must count what its rows show.
fn is_recounted(job: &Value, items: &[Value], context: &str) {
    let counts = &job["counts"];
    for state in [
        "pending",
        "running",
        "succeeded",
        "failed",
        "skipped",
        "cancelled",
    ] {
        let found = items.iter().filter(|item| item["state"] == state).count();
        assert_eq!(counts[state], found, "{context}: {state}: {job}");
    }
    assert_eq!(counts["total"], items.len(), "{context}: {job}");
    let attempts: u64 = items.iter().filter_map(|it| it["attempt"].as_u64()).sum();
    assert_eq!(job["usage"]["attempts"], attempts, "{context}: {job}");
    let used = items.iter().map(|item| &item["usage"]["totalTokens"]);
    let used: u64 = used.filter_map(Value::as_u64).sum();
    assert_eq!(job["usage"]["totalTokens"], used, "{context}: {job}");
}

/// Items that lost two runs and would fail with the third.
fn endangered(items: &[Value]) -> Vec<String> {
    let waits = |item: &&Value| item["state"] == "running" || item["state"] == "pending";
    let items = items.iter().filter(waits);
    items
        .filter(|item| item["attempt"].as_u64() >= Some(2))
        .map(|item| item["itemId"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a failed run is repeated by its seed")]
async fn a_job_whose_runs_are_killed_has_one_result_per_row() {
    let seed = seed();
    eprintln!("seed {seed}, {} kills", jobs() * KILLS_OF_A_JOB);
    let mut random = Random::new(seed);
    for _ in 0..jobs() {
        let lost = one_job(&mut random).await;
        eprintln!("{lost} attempts were lost");
    }
}

/// Kills the runs of one job, then lets it end; how many attempts were lost.
async fn one_job(random: &mut Random) -> u64 {
    let world = World::new(reply).await;
    // More rows than all killed runs can end.
    let rows = (KILLS_OF_A_JOB + 1) * (REQUESTS.end + 2 * CONCURRENCY);
    world.write_rows("in.csv", rows);
    let concurrency = CONCURRENCY.to_string();
    let flags = ["-j", &concurrency, "-s", "danger-full-access"];
    // The requests for each item whose result is in the store, at the time it was first seen there.
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    let (mut tokens, mut moment, mut spared) = (0, None, Vec::new());
    for round in 0..KILLS_OF_A_JOB {
        let now = Moment::choose(random, moment, &spared);
        moment = Some(now);
        kill(&world, &flags, now, &spared).await;
        let requests = world.requests_by_item();
        let listed = lines(&world.fanout(&["list", "--json"]).await);
        let Some(job) = listed.first() else {
            // The run was killed before it had made the job.
            continue;
        };
        let items = world.items().await;
        is_recounted(job, &items, &format!("{round}: {now:?}"));
        spared = endangered(&items);
        for item in items.iter().filter(|item| item["state"] == "succeeded") {
            let id = item["itemId"].as_str().unwrap();
            done.entry(id.to_owned()).or_insert_with(|| requests[id]);
        }
        let used = job["usage"]["totalTokens"].as_u64().unwrap();
        assert!(
            used >= tokens,
            "{round}: usage fell from {tokens} to {used}"
        );
        tokens = used;
        assert_eq!(job["counts"]["succeeded"], done.len(), "{round}: {job}");
    }
    assert!(!done.is_empty(), "no kill came behind a result");
    ends_with(&world.run(&flags).await, 0);
    let job = world.job().await;
    is_recounted(&job, &world.items().await, "at the end");
    assert_eq!(job["state"], "succeeded", "{job}");
    assert_eq!(job["counts"]["succeeded"], rows, "{job}");
    let attempts = job["usage"]["attempts"].as_u64().unwrap();
    let lost = attempts - u64::try_from(rows).unwrap();
    let lost_max = u64::try_from(KILLS_OF_A_JOB * CONCURRENCY).unwrap();
    assert!(lost <= lost_max, "{job}");
    let text = world.read("out.csv");
    assert_eq!(text.lines().count(), rows + 1);
    assert_eq!(text.matches(",completed,").count(), rows);
    let requests = world.requests_by_item();
    for (item, count) in &done {
        assert_eq!(
            requests[item], *count,
            "{item} was requested after its report"
        );
    }
    lost
}

#[tokio::test]
async fn an_item_that_kills_its_process_fails_and_the_others_succeed() {
    const ROWS: usize = 100;
    let poison = Gate::new();
    let world = {
        let poison = poison.clone();
        World::new(move |request| {
            let item = line_of(&worker_prompt(request).unwrap(), "Item ID: ");
            let reply = Reply::of([report(request)]);
            if item == "row-50" {
                reply.gated_by(At::Request, &poison)
            } else {
                reply
            }
        })
        .await
    };
    world.write_rows("in.csv", ROWS);
    let mut kills = 0;
    let status = loop {
        let mut process = world.start(&["-j", "64"]);
        tokio::select! {
            () = poison.reached_by(kills + 1) => {
                process.kill9().await.unwrap();
                kills += 1;
            }
            status = process.wait(DEADLINE) => break status.unwrap(),
        }
    };
    assert_eq!((kills, status.code()), (3, Some(3)));
    let text = world.read("out.csv");
    assert_eq!(text.matches(",completed,").count(), ROWS - 1, "{text}");
    let failed = text.lines().nth(50).unwrap();
    assert!(failed.contains(",failed,3,worker_lost: "), "{failed}");
}

#[tokio::test]
async fn a_run_that_dies_under_its_export_is_continued_by_the_same_command() {
    const ROWS: usize = 5;
    for point in [
        "fanout:export:before-write",
        "fanout:export:before-rename",
        "fanout:export:after-rename",
        "fanout:export:after-write",
    ] {
        let world = World::new(|request| Reply::of([report(request)])).await;
        world.write_rows("in.csv", ROWS);
        let arguments = [&["fanout"][..], &RUN].concat();
        let died = run(world.spec(&arguments).env("TURNLANE_CRASH_AT", point)).await;
        assert_eq!(died.status.code(), None, "{point} was not reached");
        let job = world.job().await;
        let shown = (&job["state"], &job["reason"]);
        assert_eq!(shown, (&json!("paused"), &json!("orphaned")), "{point}");
        ends_with(&world.run(&[]).await, 0);
        assert_eq!(world.job().await["state"], "succeeded", "{point}");
        assert_eq!(world.mock.requests().len(), ROWS, "{point}");
        let text = world.read("out.csv");
        assert_eq!(text.matches(",completed,").count(), ROWS, "{text}");
    }
}
