//! Every crash point, one at a time, on one lane: what is left, and what the next worker makes of it.
//!
//! The invariant here: each case names the point, what was done before it, what lies in the database
//! while nobody serves it, and what is there when the next worker has come to rest. Nothing else may
//! be there: lane, rows, turns, items and model calls are compared as a whole.
//!
//! The cases are in `table`; those of foreign engines run against a double of one.

mod table;

use std::collections::BTreeMap;

use turnlane_protocol::ids::ThreadId;
use turnlane_store::lane::Head;
use turnlane_store::queue::{Row, RowState};
use turnlane_store::turn::TurnStatus;
use turnlane_store::{RowId, Store};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::child;
use super::log::{Line, overlaps};
use super::serving::{Place, Serving};
use crate::support;

/// What the child plays that dies.
const SCRIPT: &str = "
version: 1
turns:
  - match: gated
    steps: [{say: first}, {await: {gate: go}}]
  - match: command
    steps:
      - exec: {cmd: build, output: built}
      - exec: {cmd: test, output: tested, ms: 600000}
  - match: limit
    steps: [{error: {info: rateLimitExceeded, retry_after_ms: 1}}]
fallback: {say: 'You said: {input}'}
";

/// What the child plays that comes after it.
const AFTER: &str = "{version: 1}";

/// Where the first child dies.
#[derive(Clone, Copy, Debug)]
enum At {
    /// At this named point.
    Point(&'static str),
    /// Killed by the parent behind the last step.
    Kill,
    /// Killed by the parent behind the last step; its successor dies at this named point of its
    /// recovery.
    Recovery(&'static str),
    /// The same, and the successor serves before it dies: its start does not wait for an engine.
    Reconcile(&'static str),
}

/// What stands between claim and acceptance in the first child.
#[derive(Clone, Copy, Debug)]
enum Hooks {
    /// Nothing: both are one transaction.
    None,
    /// A hook that lets everything pass.
    Go,
    /// A hook that never answers.
    Hang,
}

/// The engine of a case.
#[derive(Clone, Copy, Debug)]
enum EngineOf {
    /// It plays a script.
    Scripted,
    /// It is another program with a history of its own.
    Foreign,
}

impl EngineOf {
    /// What the child plays that dies.
    fn first(self) -> &'static str {
        match self {
            Self::Scripted => SCRIPT,
            Self::Foreign => child::FOREIGN,
        }
    }

    /// What the child plays that comes after it.
    fn after(self) -> &'static str {
        match self {
            Self::Scripted => AFTER,
            Self::Foreign => child::FOREIGN_AFTER,
        }
    }
}

/// What is known about the answer to the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Answered,
    /// The child dies before it can answer.
    Unanswered,
    /// The child dies of what the step causes, in another task than the one that answers.
    Either,
}

/// One crash.
struct Case {
    says: &'static str,
    at: At,
    hooks: Hooks,
    engine: EngineOf,
    /// What the first child is told; `until ...` waits for something instead. The last one may stay
    /// unanswered.
    steps: &'static [&'static str],
    /// Whether the last step was answered.
    last: Last,
    /// What lies in the database while nobody serves it.
    left: &'static [&'static str],
    /// What the next child is told, and the first word it answers.
    then: &'static [(&'static str, &'static str)],
    /// What is there when the next child has come to rest.
    rest: &'static [&'static str],
}

#[tokio::test]
async fn after_every_crash_point_the_next_worker_finds_what_is_promised() {
    for case in table::CASES.iter().copied().flatten() {
        crash(case).await;
    }
}

#[tokio::test]
async fn after_every_crash_point_of_a_foreign_engine_its_history_decides() {
    for case in table::FOREIGN_CASES.iter().copied().flatten() {
        crash(case).await;
    }
}

#[tokio::test]
async fn a_row_whose_worker_dies_three_times_before_it_starts_holds_the_lane() {
    let case = &table::HELD_IN_A_HOOK;
    let mut lane = Lane::new(case).await;
    assert!(lane.first_life(case).await);
    for lost in 2..=3 {
        let spec = lane.place.child(AFTER).env(child::HOOKS, "hang");
        let mut next = lane.place.start(spec);
        assert!(next.ready().await);
        let hooked = vec![
            Line::Hook {
                client: "a".to_owned()
            };
            lost
        ];
        eventually("one more hook", DEADLINE, async || {
            let mut log = lane.place.log();
            log.retain(|line| matches!(line, Line::Hook { .. }));
            log == hooked
        })
        .await
        .unwrap();
        next.kill().await;
    }
    let mut last = lane.place.start(lane.place.child(AFTER));
    assert!(last.ready().await);
    lane.rests(case).await;
    lane.compare(case, "at rest", case.rest).await;
    let row = lane.row(lane.rows["a"]).await;
    let failure = row.failure.unwrap();
    let text = "queued turn was claimed 3 times and its worker died each time";
    assert!(failure.as_str().contains(text), "{failure:?}");
    last.done(&lane.command("retry a")).await;
    lane.rests(case).await;
    assert_eq!(lane.row(row.id).await.state, RowState::Done);
    last.stop().await;
}

async fn crash(case: &Case) {
    let mut lane = Lane::new(case).await;
    let answered = lane.first_life(case).await;
    match case.last {
        Last::Answered => assert!(answered, "{}: no answer", case.says),
        Last::Unanswered => assert!(!answered, "{}: an answer", case.says),
        Last::Either => {}
    }
    lane.compare(case, "left", case.left).await;
    if let At::Recovery(point) = case.at {
        let spec = lane.place.child(case.engine.after());
        let spec = spec.env("TURNLANE_CRASH_AT", point);
        let mut second = lane.place.start(spec);
        assert!(!second.ready().await, "{}: it serves", case.says);
        second.dies().await;
    }
    if let At::Reconcile(point) = case.at {
        let spec = lane.place.child(case.engine.after());
        let mut second = lane.place.start(spec.env("TURNLANE_CRASH_AT", point));
        // Either way: the engine may answer before the child says that it serves.
        second.ready().await;
        second.dies().await;
    }
    let spec = match case.hooks {
        Hooks::None => lane.place.child(case.engine.after()),
        Hooks::Go | Hooks::Hang => lane.place.child(AFTER).env(child::HOOKS, "go"),
    };
    let mut next = lane.place.start(spec);
    assert!(next.ready().await, "{}: no successor", case.says);
    for (command, word) in case.then {
        let answer = next.done(&lane.command(command)).await;
        let first = answer.split(' ').next().unwrap_or_default();
        assert_eq!(first, *word, "{}: {command}", case.says);
        lane.learn(command, &answer);
    }
    lane.rests(case).await;
    lane.compare(case, "at rest", case.rest).await;
    let overlaps = overlaps(&lane.place.log());
    assert!(overlaps.is_empty(), "{}: {overlaps:?}", case.says);
    next.stop().await;
    lane.compare(case, "after a stop", case.rest).await;
}

/// The one lane of a case.
struct Lane {
    place: Place,
    thread: ThreadId,
    /// Rows that were answered for, by their client's word.
    rows: BTreeMap<String, RowId>,
}

impl Lane {
    /// A lane made by a child that stopped in order.
    async fn new(case: &Case) -> Self {
        let place = Place::new();
        let mut maker = place.start(place.child(case.engine.after()));
        assert!(maker.ready().await, "{}", case.says);
        let thread = maker.done("thread").await.parse().unwrap();
        maker.stop().await;
        Self {
            place,
            thread,
            rows: BTreeMap::new(),
        }
    }

    /// The life of the child that dies; whether its last step was answered.
    async fn first_life(&mut self, case: &Case) -> bool {
        let mut spec = self.place.child(case.engine.first());
        spec = match case.hooks {
            Hooks::None => spec,
            Hooks::Go => spec.env(child::HOOKS, "go"),
            Hooks::Hang => spec.env(child::HOOKS, "hang"),
        };
        if let At::Point(point) = case.at {
            spec = spec.env("TURNLANE_CRASH_AT", point);
        }
        let mut child = self.place.start(spec);
        assert!(child.ready().await, "{}: died at its start", case.says);
        let mut answered = true;
        for (at, step) in case.steps.iter().enumerate() {
            if let Some(what) = step.strip_prefix("until ") {
                self.until(case, what).await;
                continue;
            }
            let answer = child.ask(&self.command(step)).await;
            answered = matches!(answer, Some(Ok(_)));
            assert!(
                answered || at + 1 == case.steps.len(),
                "{}: {step}: {answer:?}",
                case.says
            );
            if let Some(Ok(answer)) = answer {
                self.learn(step, &answer);
            }
        }
        self.end(case, child).await;
        answered
    }

    async fn end(&self, case: &Case, mut child: Serving) {
        match case.at {
            At::Point(_) => child.dies().await,
            At::Kill | At::Recovery(_) | At::Reconcile(_) => child.kill().await,
        };
    }

    /// The command for a child: with the thread, and with the ids of known rows.
    fn command(&self, step: &str) -> String {
        let mut words = step.split(' ');
        let verb = words.next().unwrap_or_default();
        let rest = words.map(|word| match self.rows.get(word) {
            Some(row) if !["add", "start"].contains(&verb) => row.to_string(),
            Some(_) | None => word.to_owned(),
        });
        let rest: Vec<String> = rest.collect();
        match verb {
            "gate" => format!("{verb} {}", rest.join(" ")),
            _ => format!("{verb} {} {}", self.thread, rest.join(" ")),
        }
    }

    /// Remembers the row that an add was answered with.
    fn learn(&mut self, step: &str, answer: &str) {
        let words: Vec<&str> = step.split(' ').collect();
        let answered: Vec<&str> = answer.split(' ').collect();
        if let (["add", client, ..], [_, row]) = (words.as_slice(), answered.as_slice()) {
            let row: uuid::Uuid = row.parse().unwrap();
            let known = self.rows.insert((*client).to_owned(), row.into());
            assert!(
                known.is_none_or(|known| known == row.into()),
                "two rows: {step}"
            );
        }
    }

    /// Waits until an item of a kind is stored, or a hook or an engine was asked.
    async fn until(&self, case: &Case, what: &str) {
        let waits = format!("{}: {what}", case.says);
        eventually(&waits, DEADLINE, async || match what.split_once(' ') {
            Some(("item", kind)) => {
                let items = support::items(self.place.store.as_ref(), self.thread).await;
                items.iter().any(|item| item.kind == kind)
            }
            Some(("call", client)) => {
                let called =
                    |line: &Line| matches!(line, Line::Begin { client: c, .. } if c == client);
                self.place.log().iter().any(called)
            }
            Some(("hook", client)) => self.place.log().contains(&Line::Hook {
                client: client.to_owned(),
            }),
            _ => panic!("nothing to wait for: {what}"),
        })
        .await
        .unwrap();
    }

    /// Waits until nothing is under way and nothing will come by itself.
    async fn rests(&self, case: &Case) {
        let what = format!("{}: a lane at rest", case.says);
        let at_rest = eventually(&what, DEADLINE, async || {
            let lane = self.place.store.look(self.thread.as_uuid().into()).await;
            let lane = lane.unwrap();
            let held = matches!(lane.head, Head::None | Head::Failed { .. });
            lane.active.is_none() && (held || lane.paused.is_some())
        });
        if let Err(error) = at_rest.await {
            panic!("{error}: {:#?}", self.picture().await);
        }
    }

    async fn compare(&self, case: &Case, when: &str, expected: &[&str]) {
        let picture = self.picture().await;
        assert_eq!(picture, expected, "{} ({:?}): {when}", case.says, case.at);
    }

    /// Everything there is, one line each: the lane, its turns, its rows, the model calls.
    async fn picture(&self) -> Vec<String> {
        let store = self.place.store.as_ref();
        let queue = store
            .queue(support::queue_query(self.thread))
            .await
            .unwrap();
        let mut lines = Vec::new();
        if queue.lane.paused.is_some() {
            lines.push("paused".to_owned());
        }
        if queue.lane.waiting.is_some() {
            lines.push("waiting".to_owned());
        }
        let mut rows: Vec<Row> = Vec::new();
        let items = support::items(store, self.thread).await;
        for turn in support::turns(store, self.thread).await {
            let row = self.row(turn.row.unwrap()).await;
            let kinds: Vec<_> = items
                .iter()
                .filter(|item| item.turn_ord == turn.ord)
                .map(|item| item.kind.as_str())
                .collect();
            lines.push(format!(
                "turn {} {}{}: {}",
                row.client_id,
                status(turn.status),
                if turn.muted { " muted" } else { "" },
                kinds.join(" ")
            ));
            rows.push(row);
        }
        if let Some(active) = queue.lane.active {
            rows.push(self.row(active.row).await);
        }
        for row in self.rows.values() {
            rows.push(self.row(*row).await);
        }
        // What waits is shown in its order, the rest by its name.
        rows.retain(|row| !row.state.is_visible());
        rows.sort_by(|one, other| one.client_id.cmp(&other.client_id));
        rows.dedup_by(|one, other| one.id == other.id);
        assert_eq!(queue.lane.depth as usize, queue.rows.len());
        lines.extend(rows.iter().chain(&queue.rows).map(row_line));
        for line in self.place.log() {
            match line {
                Line::Begin { client, .. } => lines.push(format!("called {client}")),
                Line::Hook { client } => lines.push(format!("hooked {client}")),
                Line::End { .. } | Line::GivenUp { .. } => {}
            }
        }
        lines
    }

    async fn row(&self, row: RowId) -> Row {
        let thread = self.thread.as_uuid().into();
        self.place.store.row(thread, row).await.unwrap().unwrap()
    }
}

fn status(status: TurnStatus) -> &'static str {
    match status {
        TurnStatus::InProgress => "runs",
        TurnStatus::Completed => "completed",
        TurnStatus::Failed => "failed",
        TurnStatus::Interrupted => "interrupted",
    }
}

/// A row with where it stands, and what it says if it is not the usual.
fn row_line(row: &Row) -> String {
    let state = match row.state {
        RowState::Queued => "queued",
        RowState::Claimed => "claimed",
        RowState::Started => "started",
        RowState::Reconcile => "reconcile",
        RowState::Blocked => "blocked",
        RowState::Done => "done",
        RowState::Dead => "dead",
        RowState::Cancelled => "cancelled",
    };
    let mut line = format!("{} {state}", row.client_id);
    if row.losses > 0 {
        line = format!("{line}, lost {}", row.losses);
    }
    if row.params.as_str().contains("changed") {
        line.push_str(", changed");
    }
    line
}
