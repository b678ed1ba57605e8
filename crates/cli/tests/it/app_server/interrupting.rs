//! An interrupt at any point of a turn: answered, nothing left open, nothing left running.
//!
//! The points are random and the same in every run: how many messages of the turn the client has
//! seen when it interrupts, in turns that would never end by themselves.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane_testkit::TestClient;
use turnlane_testkit::mock_model::{At, Gate, Item, RecordedRequest, Reply};
use turnlane_testkit::wait::{eventually, within};

use super::{Served, begin, completed_in, ended, ok, stored_in, thread};

/// The contract's limit for the answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(6);

/// How long something that was forked last may be seen behind the answer.
const AFTER_THE_ANSWER: Duration = Duration::from_secs(1);

/// How many messages of a turn are read before the interrupt, at most; every turn sends more.
const MESSAGES_MAX: u64 = 24;

/// The full number takes minutes.
fn rounds() -> u64 {
    match std::env::var_os("TURNLANE_TEST_FULL") {
        Some(_) => 200,
        None => 25,
    }
}

/// The next number of a sequence that is the same in every run (`SplitMix64`).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What a turn does until it is interrupted.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// The model talks.
    Talk,
    /// A command that makes a daemon and goes on talking.
    Daemon,
    /// The same, deaf to every signal but the last.
    Deaf,
    /// Three commands at once.
    Three,
    /// A command that ends and leaves a daemon, then the model talks.
    LeftBehind,
}

const SHAPES: [Shape; 5] = [
    Shape::Talk,
    Shape::Daemon,
    Shape::Deaf,
    Shape::Three,
    Shape::LeftBehind,
];

impl Shape {
    /// The commands, every process of which has `mark` among its arguments.
    fn commands(self, mark: &str) -> Vec<String> {
        let daemon = format!("setsid sh -c 'setsid sleep {mark} & sleep {mark}' >/dev/null 2>&1 &");
        let talk = format!("i=0; while :; do echo tick; : {mark}; sleep 0.0{mark}; done");
        match self {
            Self::Talk => Vec::new(),
            Self::Daemon => vec![format!("{daemon} {talk}")],
            Self::Deaf => vec![format!("trap '' INT TERM HUP; {daemon} {talk}")],
            Self::Three => vec![format!("{daemon} {talk}"), talk.clone(), talk],
            Self::LeftBehind => vec![format!("{daemon} echo left")],
        }
    }
}

/// The user's text names the shape and the mark.
fn act(request: &RecordedRequest, never: &Gate) -> Reply {
    let words = || {
        let ticks = (0..60).map(|n| format!("word {n} "));
        Reply::streamed(ticks).gated_by(At::LastEvent, never)
    };
    let answered = request.input().last().unwrap()["type"] == "function_call_output";
    let commands: Vec<String> = serde_json::from_str(&request.last_user_text()).unwrap_or_default();
    if answered || commands.is_empty() {
        return words();
    }
    let calls = commands.into_iter().enumerate().map(|(n, cmd)| {
        let arguments = json!({"cmd": cmd, "yield_time_ms": 30_000});
        let id = format!("call_{}_{n}", request.input().len());
        Item::function_call("exec_command", arguments).call_id(id)
    });
    Reply::of(
        [Item::reasoning("Look first."), Item::text("Running.")]
            .into_iter()
            .chain(calls),
    )
}

/// The processes with a word among their arguments; a dead one has none.
fn with_mark(mark: &str) -> Vec<String> {
    let found = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = found.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(mark))
        .collect()
}

/// What was forked in the moment of the end may outlive the answer by that moment, not by more.
async fn until_none(mark: &str, what: &str) {
    let none = async || with_mark(mark).is_empty();
    let gone = eventually("no process", AFTER_THE_ANSWER, none).await;
    assert!(gone.is_ok(), "{what}: {:?}", with_mark(mark));
}

async fn read_messages(client: &mut TestClient, turn: &str, count: u64) {
    let from = client.received().len();
    let of_turn = |message: &Value| {
        let params = &message["params"];
        params["turnId"] == turn || params["turn"]["id"] == turn
    };
    loop {
        let seen = client.received()[from..].iter().filter(|it| of_turn(it));
        if seen.count() as u64 >= count {
            return;
        }
        client.next().await.unwrap();
    }
}

fn check_items(client: &TestClient, turn: &str, completed: &[Value]) {
    let started = client.received().iter().filter(|message| {
        message["method"] == "item/started" && message["params"]["turnId"] == turn
    });
    let ids: Vec<&Value> = started
        .map(|message| &message["params"]["item"]["id"])
        .collect();
    for id in &ids {
        let ends = completed.iter().filter(|item| item["id"] == **id);
        assert_eq!(ends.count(), 1, "{id}");
    }
    assert_eq!(ids.len(), completed.len());
    for item in completed {
        assert_ne!(item["status"], "inProgress", "{item}");
    }
}

#[tokio::test]
async fn an_interrupt_at_random_points_leaves_nothing_open_and_nothing_running() {
    let never = Gate::new();
    let served = Served::new({
        let never = never.clone();
        move |request| act(request, &never)
    })
    .await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let mut state = 5;
    let mut lane = String::new();
    for round in 0..rounds() {
        if round % 5 == 0 {
            let more = json!({"sandbox": "danger-full-access"});
            lane = thread(client, &served.work(), more).await;
        }
        let shape = SHAPES[usize::try_from(next(&mut state) % 5).unwrap()];
        let count = next(&mut state) % (MESSAGES_MAX + 1);
        // Digits, so that `sleep` takes it: no other process has this argument.
        let mark = format!("1{:07}{round:04}", std::process::id());
        let what = format!("round {round}: {shape:?} after {count} messages");
        let said = serde_json::to_string(&shape.commands(&mark)).unwrap();
        let turn = begin(client, &lane, &said).await;
        read_messages(client, &turn, count).await;
        let params = json!({"threadId": lane, "turnId": turn});
        let interrupt = ok(client, "turn/interrupt", params);
        let answer = within(&what, ANSWERED_WITHIN, interrupt).await.unwrap();
        assert_eq!(answer, json!({}), "{what}");
        until_none(&mark, &what).await;
        let end = ended(client, &turn).await;
        assert_eq!(end["status"], "interrupted", "{what}");
        let completed = completed_in(client, &turn);
        check_items(client, &turn, &completed);
        let stored = stored_in(client, &lane, &turn).await;
        assert_eq!(stored, completed, "{what}");
    }
    assert!(served.mock.unscripted_requests().is_empty());
}

#[tokio::test]
async fn an_interrupt_while_somebody_is_asked_resolves_the_question() {
    let never = Gate::new();
    let served = Served::new(move |request| act(request, &never)).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let more = json!({"approvalPolicy": "untrusted", "sandbox": "danger-full-access"});
    let lane = thread(client, &served.work(), more).await;
    let mark = format!("1{:07}9999", std::process::id());
    let said = serde_json::to_string(&Shape::Daemon.commands(&mark)).unwrap();
    let turn = begin(client, &lane, &said).await;
    let asked = super::question(client, &turn).await;
    let params = json!({"threadId": lane, "turnId": turn});
    ok(client, "turn/interrupt", params).await;
    assert_eq!(ended(client, &turn).await["status"], "interrupted");
    let place = |method: &str| {
        let is_it = |message: &Value| message["method"] == method;
        client.received().iter().position(is_it).unwrap()
    };
    let resolved = &client.received()[place("serverRequest/resolved")];
    assert_eq!(resolved["params"]["requestId"], asked["id"]);
    assert!(place("serverRequest/resolved") < place("turn/completed"));
    assert!(with_mark(&mark).is_empty());
    let completed = completed_in(client, &turn);
    check_items(client, &turn, &completed);
    assert_eq!(stored_in(client, &lane, &turn).await, completed);
    // An answer that comes too late starts nothing.
    super::decide(client, &asked, "accept").await;
    ok(client, "thread/read", json!({"threadId": lane})).await;
    assert!(with_mark(&mark).is_empty());
}
