//! `kill -9` of a run at any moment: nothing survives it, nothing is lost, nothing is run twice.
//!
//! The moments are random: a line of the run, or its start, and some milliseconds behind it. The
//! choices follow from a seed, which is printed; `TURNLANE_TEST_SEED` gives another one. After every
//! single kill the thread is resumed and its history read.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;
use turnlane_testkit::Random;
use turnlane_testkit::mock_model::{Item, RecordedRequest, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::{World, checked_line, is_answered};

/// How long a command may outlive its run.
const SURVIVES_MAX: Duration = Duration::from_secs(2);
/// What a machine that does other things besides may add to it. Not in the full test, which has the
/// machine for itself.
const LOADED_FACTOR: u32 = 5;
/// How long behind its line a kill comes at most, in milliseconds: one of these, since most of what
/// happens happens soon.
const BEHIND_MS: [u64; 3] = [3, 15, 80];
/// After so many kills there is another thread, so that histories stay short.
const KILLS_OF_A_THREAD: usize = 25;

pub(crate) fn is_full() -> bool {
    std::env::var_os("TURNLANE_TEST_FULL").is_some()
}

/// How often a run is killed: the contract's number when `TURNLANE_TEST_FULL` is set.
fn kills() -> usize {
    if is_full() { 200 } else { 20 }
}

pub(crate) fn seed() -> u64 {
    let given = std::env::var("TURNLANE_TEST_SEED").ok();
    given.and_then(|seed| seed.parse().ok()).unwrap_or(6)
}

/// The answer to a prompt: a command that never ends by itself and has a child in a session of its
/// own, one that ends at once, or words.
fn reply(request: &RecordedRequest) -> Reply {
    let text = request.last_user_text();
    let command = match text.split(' ').next() {
        Some("endless") => "setsid sleep 1000 & sleep 1000",
        Some("short") => "echo hi",
        _ => return Reply::text("words"),
    };
    if is_answered(request) {
        return Reply::text("done");
    }
    let arguments = json!({"cmd": command, "yield_time_ms": 30_000});
    let id = format!("call_{}", request.input().len());
    Reply::of([Item::function_call("exec_command", arguments).call_id(id)])
}

/// The processes that work in this folder: whatever a run has started.
pub(crate) fn working_in(folder: &Path) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let works = |pid: &i32| {
        // The link of a process that has ended cannot be read.
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd"));
        cwd.is_ok_and(|cwd| cwd == folder)
    };
    pids.filter(works).collect()
}

/// When a run is killed.
#[derive(Clone, Copy, Debug)]
struct Moment {
    /// The last line that is waited for; none kills around the start.
    line: Option<&'static str>,
    behind: Duration,
}

impl Moment {
    fn choose(random: &mut Random, kind: &str) -> Self {
        let lines: &[Option<&str>] = match kind {
            "endless" => &[
                None,
                Some("thread.started"),
                Some("turn.started"),
                Some("item.started"),
                Some("item.started"),
            ],
            "short" => &[
                None,
                Some("turn.started"),
                Some("item.started"),
                Some("item.completed"),
                Some("turn.completed"),
            ],
            _ => &[None, Some("thread.started"), Some("turn.started")],
        };
        let line = random.of(lines);
        let behind = Duration::from_millis(random.of(&BEHIND_MS));
        Self {
            line,
            behind: random.shorter(behind),
        }
    }
}

/// What a kill came to.
struct Killed {
    /// What the run had said.
    lines: Vec<Value>,
    /// How many processes of it were there besides.
    others: usize,
    /// How long it took until nothing was left.
    took: Duration,
}

/// Runs, kills, and waits until nothing is left.
async fn killed(world: &World, arguments: &[&str], moment: Moment) -> Killed {
    let mut running = world.begin(arguments).without_input();
    if let Some(line) = moment.line {
        running.line(line).await;
    }
    let _ = within("its end", moment.behind, running.process.wait(DEADLINE)).await;
    let folder = world.work();
    let others = working_in(&folder).len().saturating_sub(1);
    let before = Instant::now();
    let gone = within("its end", DEADLINE, running.process.kill9()).await;
    gone.unwrap().unwrap();
    let limit = if is_full() {
        SURVIVES_MAX
    } else {
        SURVIVES_MAX * LOADED_FACTOR
    };
    let nothing = async || working_in(&folder).is_empty();
    let ended = eventually("the end of its commands", limit, nothing).await;
    let took = before.elapsed();
    ended.unwrap_or_else(|error| panic!("{error}: {moment:?} {:?}", working_in(&folder)));
    let mut rest = String::new();
    let mut stdout = running.stdout.take().unwrap();
    within("its lines", DEADLINE, stdout.read_to_string(&mut rest))
        .await
        .unwrap()
        .unwrap();
    let said = running.seen + &rest;
    // A line is one write, so there is no half of one.
    assert!(said.is_empty() || said.ends_with('\n'), "{said}");
    Killed {
        lines: said.lines().map(checked_line).collect(),
        others,
        took,
    }
}

fn has(lines: &[Value], word: &str) -> bool {
    lines.iter().any(|line| line["type"] == word)
}

/// What has to hold of a thread: every prompt that was begun is there once, none twice, and what was
/// said to be completed is.
async fn is_whole(world: &World, thread: &str, said: &BTreeMap<String, Vec<Value>>) {
    let turns = world.turns(thread).await;
    let mut stored: HashMap<&str, Vec<&str>> = HashMap::new();
    for turn in &turns {
        let text = turn["items"][0]["content"][0]["text"].as_str().unwrap();
        let status = turn["status"].as_str().unwrap();
        assert_ne!(status, "inProgress", "{turn}");
        for item in turn["items"].as_array().unwrap() {
            assert_ne!(item["status"], "inProgress", "{item}");
        }
        stored.entry(text).or_default().push(status);
    }
    for (text, statuses) in &stored {
        assert_eq!(statuses.len(), 1, "{text} is there {statuses:?}");
        assert!(said.contains_key(*text), "{text} was never asked here");
    }
    for (prompt, lines) in said {
        let status = stored.get(prompt.as_str()).map(|statuses| statuses[0]);
        if has(lines, "turn.started") {
            assert!(status.is_some(), "{prompt} was begun and is lost");
        }
        if has(lines, "turn.completed") {
            assert_eq!(status, Some("completed"), "{prompt}");
        }
    }
    for prompt in said.keys() {
        let begun = world.mock.requests();
        let begun = begun
            .iter()
            .filter(|request| request.last_user_text() == *prompt && !is_answered(request));
        assert!(begun.count() <= 1, "{prompt} was run twice");
    }
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a failed run is repeated by its seed")]
async fn a_run_that_is_killed_at_any_moment_can_be_resumed_and_leaves_no_process() {
    let seed = seed();
    eprintln!("seed {seed}, {} kills", kills());
    let mut random = Random::new(seed);
    let world = World::new(reply).await;
    let mut thread: Option<String> = None;
    let mut said = BTreeMap::new();
    let (mut slowest, mut begun, mut busy) = (Duration::ZERO, 0, 0);
    for round in 0..kills() {
        let kind = random.of(&["endless", "endless", "short", "words"]);
        let moment = Moment::choose(&mut random, kind);
        let prompt = format!("{kind} {round}");
        let mut arguments = vec!["--json", "-s", "danger-full-access"];
        if let Some(thread) = &thread {
            arguments.extend(["resume", thread]);
        }
        arguments.push(&prompt);
        let Killed {
            lines,
            others,
            took,
        } = killed(&world, &arguments, moment).await;
        slowest = slowest.max(took);
        busy += usize::from(others > 0);
        begun += usize::from(has(&lines, "turn.started"));
        let started = lines.first().map(|line| line["thread_id"].clone());
        let Some(id) = thread
            .clone()
            .or_else(|| started?.as_str().map(str::to_owned))
        else {
            // Nobody was told of a thread, so nobody can miss it.
            continue;
        };
        said.insert(prompt, lines);
        let after = format!("after {round}");
        let ran = world.run(&["--json", "resume", &id, &after]).await;
        assert_eq!(
            (ran.code, ran.thread()),
            (0, id.clone()),
            "{moment:?} {ran:?}"
        );
        said.insert(after, ran.lines());
        is_whole(&world, &id, &said).await;
        thread = Some(id);
        if round % KILLS_OF_A_THREAD == KILLS_OF_A_THREAD - 1 {
            thread = None;
            said.clear();
        }
    }
    eprintln!("{begun} turns had begun, {busy} had processes; the slowest end took {slowest:?}");
    assert!(begun > 0 && busy > 0, "no kill hit a turn with a command");
    assert!(begun < kills(), "no kill hit a start");
}
