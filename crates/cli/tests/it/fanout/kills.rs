//! `kill -9` of a run at any moment, then the same command.
//!
//! The moments are random: the start of the run or a number of requests, and some milliseconds behind
//! it. The choices follow from a seed, which is printed; `TURNLANE_TEST_SEED` gives another one,
//! `TURNLANE_TEST_ROUNDS` more kills.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use turnlane_testkit::mock_model::{At, Gate, Item, RecordedRequest, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually, within};
use turnlane_testkit::{Random, TestProcess};

use super::{World, ends_with, line_of, lines, report, tool_answers, worker_prompt};
use crate::exec::kills::{seed, working_in};

/// Items that run at once.
const CONCURRENCY: usize = 8;
/// Requests of a run before it is killed, unless it is killed at its start. An item fails at its
/// third loss, so most runs have to come behind the items that the run before them lost.
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
    fn choose(random: &mut Random, before: Option<Self>) -> Self {
        if random.one_in(3) && !matches!(before, Some(Self::Start(_))) {
            return Self::Start(random.shorter(START));
        }
        let requests = REQUESTS.start + random.below(REQUESTS.len());
        Self::Requests(requests, random.shorter(BEHIND))
    }
}

/// Starts a run and kills it at this moment; no command of it is left then.
async fn kill(world: &World, arguments: &[&str], moment: Moment) {
    let before = world.mock.requests().len();
    let spec = world.spec(&["fanout"]).args(arguments.iter().copied());
    let mut process = TestProcess::start(spec).unwrap();
    let behind = match moment {
        Moment::Start(behind) => behind,
        Moment::Requests(count, behind) => {
            let arrived = world.mock.wait_for_requests(before + count, DEADLINE).await;
            arrived.unwrap_or_else(|error| panic!("{error} {}", process.stderr_tail()));
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

fn rounds() -> usize {
    let given = std::env::var("TURNLANE_TEST_ROUNDS").ok();
    given.and_then(|rounds| rounds.parse().ok()).unwrap_or(4)
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a failed run is repeated by its seed")]
async fn a_job_whose_runs_are_killed_has_one_result_per_row() {
    let (seed, rounds) = (seed(), rounds());
    eprintln!("seed {seed}, {rounds} kills");
    let mut random = Random::new(seed);
    let world = World::new(reply).await;
    // More rows than all killed runs can end.
    let rows = (rounds + 1) * (REQUESTS.end + 2 * CONCURRENCY);
    world.write_rows("in.csv", rows);
    let concurrency = CONCURRENCY.to_string();
    let mut arguments = vec![
        "run",
        "in.csv",
        "--instruction",
        "do {name}",
        "-o",
        "out.csv",
    ];
    arguments.extend(["-j", &concurrency, "-s", "danger-full-access"]);
    // The requests for each item whose result is in the store, at the time it was first seen there.
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    let (mut tokens, mut moment) = (0, None);
    for round in 0..rounds {
        let now = Moment::choose(&mut random, moment);
        moment = Some(now);
        kill(&world, &arguments, now).await;
        let requests = world.requests_by_item();
        let listed = lines(&world.fanout(&["list", "--json"]).await);
        let Some(job) = listed.first() else {
            // The run was killed before it had made the job.
            continue;
        };
        let items = lines(&world.fanout(&["items", "in", "--json"]).await);
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
    let ran = world.fanout(&arguments).await;
    ends_with(&ran, 0);
    let job = world.job().await;
    assert_eq!(job["state"], "succeeded", "{job}");
    assert_eq!(job["counts"]["succeeded"], rows, "{job}");
    let attempts = job["usage"]["attempts"].as_u64().unwrap();
    let lost = attempts - u64::try_from(rows).unwrap();
    eprintln!("{lost} attempts were lost");
    assert!(
        lost <= u64::try_from(rounds * CONCURRENCY).unwrap(),
        "{job}"
    );
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
    let mut arguments = vec![
        "run",
        "in.csv",
        "--instruction",
        "do {name}",
        "-o",
        "out.csv",
    ];
    arguments.extend(["-j", "64"]);
    let mut kills = 0;
    let status = loop {
        let spec = world.spec(&["fanout"]).args(arguments.iter().copied());
        let mut process = TestProcess::start(spec).unwrap();
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
