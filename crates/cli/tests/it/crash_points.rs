//! Every crash point of the documented table, in the real binary, over real transports.
//!
//! The invariant here: a case names the point, what a client did before it, whether it was answered,
//! and all there is afterwards: queue, history, and what the model was asked. Nothing else may be
//! there. A point ends the process by `SIGKILL`, and only builds for tests have points.
//!
//! Each case goes three ways: a daemon that is started again and drains with nobody connected, a
//! server on standard input and output that is resumed, and one of these beside a daemon, which takes
//! over at once. The cases are in `table`; what happens in the store at each point is the subject of
//! the same table in `turnlane-runtime`. Points of hooks and of foreign engines come with them.

mod build;
mod model;
mod table;
mod world;

use std::panic::AssertUnwindSafe;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use turnlane_testkit::TestClient;
use turnlane_testkit::wait::DEADLINE;

use crate::app_server::{ends, ok};
use world::{Life, World};

/// How many cases run at the same time: they wait for processes most of the time.
const AT_ONCE: usize = 4;

/// Who dies, and who comes after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A daemon, and the next one.
    Serve,
    /// A server on standard input and output, and the next one, which is asked to resume.
    Stdio,
    /// A server on standard input and output, and the daemon that was beside it all the time.
    Beside,
}

/// Where the first process dies.
#[derive(Clone, Copy, Debug)]
enum At {
    /// At this named point.
    Point(&'static str),
    /// Killed behind the last step.
    Kill,
    /// Killed behind the last step, and the next one dies at this named point.
    Next(&'static str),
}

/// What a client does.
#[derive(Clone, Copy, Debug)]
enum Do {
    /// Queues a turn: its text, and what becomes of it in a crash.
    Add(&'static str, &'static str),
    /// Starts a turn with this text, past the queue.
    Direct(&'static str),
    Pause,
    Resume,
    /// All texts in the new order.
    Reorder(&'static [&'static str]),
    /// Moves it to the head.
    First(&'static str),
    Delete(&'static str),
    /// Another text for it.
    Update(&'static str, &'static str),
    Retry(&'static str),
    /// Interrupts its turn; what becomes of the queue.
    Interrupt(&'static str, &'static str),
    /// Waits until an item of this kind is in the history.
    Stored(&'static str),
    /// Waits until the model stands at its gate.
    Reached,
    /// Waits until a command has said who it is.
    Running,
    /// Waits until the head of the queue has failed.
    Held,
    /// Lets the model go on.
    Release,
}

/// What is known about the answer to the last call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Answered,
    /// The process dies before it can answer.
    Unanswered,
    /// The process dies of what the call causes, while the answer is on its way.
    Either,
}

/// One crash.
struct Case {
    says: &'static str,
    at: At,
    steps: &'static [Do],
    last: Last,
    /// What there is when the lane has been recovered and nobody drains it.
    found: &'static [&'static str],
    /// What is done then.
    then: &'static [Do],
    /// What there is when nothing more happens by itself.
    rest: &'static [&'static str],
}

#[tokio::test]
async fn a_daemon_that_dies_at_any_point_is_followed_by_one_that_needs_no_client() {
    every_case(Way::Serve).await;
}

#[tokio::test]
async fn a_server_on_stdio_that_dies_at_any_point_is_followed_by_one_that_resumes() {
    every_case(Way::Stdio).await;
}

#[tokio::test]
async fn a_server_that_dies_at_any_point_beside_a_daemon_is_followed_by_it_at_once() {
    every_case(Way::Beside).await;
}

async fn every_case(way: Way) {
    let cases = table::CASES.iter().copied().flatten();
    // Whoever is beside a dead process has recovered long before: there is no next one.
    let cases = cases.filter(|case| way != Way::Beside || !matches!(case.at, At::Next(_)));
    // One that fails says so by itself, and the others are tried all the same.
    let crashes = stream::iter(cases).map(async |case| {
        let ended = AssertUnwindSafe(crash(way, case)).catch_unwind().await;
        ended.is_err().then_some(case.says)
    });
    let ends: Vec<Option<&str>> = crashes.buffer_unordered(AT_ONCE).collect().await;
    let failed: Vec<&str> = ends.iter().copied().flatten().collect();
    assert_eq!(failed, [""; 0], "of {} cases", ends.len());
}

async fn crash(way: Way, case: &Case) {
    let says = format!("{way:?}: {}", case.says);
    let mut world = World::new(says).await;
    let mut beside = None;
    if way == Way::Beside {
        beside = Some(world.daemon(None).await);
    }
    let answered = world.first_life(way, case).await;
    match case.last {
        Last::Answered => assert!(answered, "{}: no answer", world.says),
        Last::Unanswered => assert!(!answered, "{}: an answer", world.says),
        Last::Either => {}
    }
    world.gate.release();
    if let At::Next(point) = case.at {
        world.dies_next(way, point).await;
    }
    let mut next = match beside {
        Some(mut daemon) => {
            world.rests(&mut daemon.client).await;
            daemon
        }
        None => world.next_life(way, case).await,
    };
    for step in case.then {
        let answered = world.does(&mut next.client, *step).await;
        assert!(answered, "{}: {step:?}", world.says);
    }
    world.rests(&mut next.client).await;
    world.compare(&mut next.client, "at rest", case.rest).await;
    if let Some(command) = world.command() {
        assert!(!ends::is_alive(command), "{}: a command lives", world.says);
    }
    world.adds_again(&mut next.client, case).await;
    // Whoever ends in order changes nothing, and what nobody asked for does not come later.
    next.process.terminate().unwrap();
    next.process.wait(DEADLINE).await.unwrap();
    let mut last = world.stdio(None).await;
    world
        .compare(&mut last.client, "after a stop", case.rest)
        .await;
}

impl World {
    /// The life of the process that dies; whether its last call was answered.
    async fn first_life(&mut self, way: Way, case: &Case) -> bool {
        let point = match case.at {
            At::Point(point) => Some(point),
            At::Kill | At::Next(_) => None,
        };
        let mut life = match way {
            Way::Serve => self.daemon(point).await,
            Way::Stdio | Way::Beside => self.stdio(point).await,
        };
        self.make_thread(&mut life.client).await;
        let mut answered = true;
        for (at, step) in case.steps.iter().enumerate() {
            answered = self.does(&mut life.client, *step).await;
            let last = at + 1 == case.steps.len();
            assert!(answered || last, "{}: {step:?}", self.says);
        }
        if point.is_none() {
            kill(&life);
        }
        self.ends_by_kill(life.process).await;
        answered
    }

    /// One that dies while it recovers, or of what it takes up then.
    async fn dies_next(&mut self, way: Way, point: &str) {
        let mut process = match way {
            Way::Serve => self.daemon_process(Some(point)),
            Way::Stdio | Way::Beside => self.stdio_process(Some(point)),
        };
        // Whether it lives long enough to be asked is up to the point.
        let duplex = match way {
            Way::Serve => self.connects_if_it_can(&process).await,
            Way::Stdio | Way::Beside => Some(world::stdio_of(&mut process)),
        };
        if let Some(duplex) = duplex {
            self.resumes_if_it_can(duplex).await;
        }
        self.ends_by_kill(process).await;
    }

    /// The one that stays.
    async fn next_life(&mut self, way: Way, case: &Case) -> Life {
        if way == Way::Serve {
            return self.daemon_that_needs_no_client(case).await;
        }
        let mut life = self.stdio(None).await;
        self.compare(&mut life.client, "found", case.found).await;
        let lane = json!({"threadId": self.thread});
        ok(&mut life.client, "thread/resume", lane).await;
        life
    }

    /// Repeats every add whose row is to be there: the answer names the same row, and nothing is
    /// added.
    async fn adds_again(&mut self, client: &mut TestClient, case: &Case) {
        for step in case.steps.iter().chain(case.then) {
            let Do::Add(text, on_crash) = *step else {
                continue;
            };
            // The key of a row that was deleted is free.
            let gone = !case.rest.iter().any(|line| line.contains(&text[..2]));
            if gone || self.deleted.contains(text) {
                continue;
            }
            let params = self.add(text, on_crash);
            let again = ok(client, "thread/queue/add", params).await;
            let says = format!("{}: {text}: {again}", self.says);
            assert_eq!(again["deduplicated"], Value::Bool(true), "{says}");
            if let Some(known) = self.known.get(text) {
                assert_eq!(
                    again["queuedTurn"]["id"].as_str(),
                    known.row.as_deref(),
                    "{says}"
                );
            }
        }
    }
}

fn kill(life: &Life) {
    let pid = Pid::from_raw(life.process.pid()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}
