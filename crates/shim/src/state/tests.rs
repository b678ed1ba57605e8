//! The table of happenings and their events, and what holds in every history.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::wire::Reach;

fn at(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn name(id: &str) -> MessageName {
    MessageName {
        id: id.to_owned(),
        is_given: true,
    }
}

fn ready() -> Machine {
    let mut machine = Machine::new(Some(at(600)));
    machine.apply(
        at(0),
        Input::Ready {
            thread: "t".to_owned(),
            engine: "native".to_owned(),
            health: EngineHealth::Usable,
            lane: LaneView::default(),
            version: "1".to_owned(),
        },
    );
    machine
}

/// The events of v1, as their names and what matters of them.
fn v1(events: &[Event]) -> Vec<String> {
    let shown = events.iter().filter(|event| event.reach == Reach::Everyone);
    shown
        .map(|event| match event.name {
            "StateChanged" => format!("{}→{}", event.text("from"), event.text("to")),
            "MessageDelivered" | "DeliveryFailed" => {
                let attempt = event.fields.get("attempt").map(Value::to_string);
                let code = event.text("code");
                format!("{} {}{}", event.name, attempt.unwrap_or_default(), code)
            }
            name => name.to_owned(),
        })
        .collect()
}

fn accept(machine: &mut Machine, id: &str) -> Vec<String> {
    let row = format!("row-{id}");
    v1(&machine.apply(
        at(1),
        Input::Accepted {
            message: name(id),
            row,
            position: 0,
            tries: 1,
        },
    ))
}

fn start(machine: &mut Machine, id: &str, turn: &str) -> Vec<String> {
    let start = TurnStart {
        turn: turn.to_owned(),
        row: Some(format!("row-{id}")),
        message: None,
        attempt: 1,
        is_found: false,
        started_at: None,
    };
    v1(&machine.apply(at(2), Input::TurnStarted(Box::new(start))))
}

fn ended(turn: &str, outcome: Outcome) -> TurnEnd {
    TurnEnd {
        turn: turn.to_owned(),
        former_thread: None,
        row: None,
        message: None,
        attempt: 1,
        outcome,
        fate: Fate::Done,
        response: "one\ntwo".to_owned(),
        usage: Value::Null,
        lane: None,
    }
}

fn failed(kind: &str) -> Outcome {
    Outcome::Failed(Failure {
        kind: kind.to_owned(),
        message: "it failed".to_owned(),
        retry_at: None,
        is_unknown: false,
    })
}

fn end(machine: &mut Machine, end: TurnEnd) -> Vec<String> {
    v1(&machine.apply(at(3), Input::TurnEnded(Box::new(end))))
}

#[test]
fn a_message_of_an_idle_lane_is_delivered_and_completed() {
    let mut machine = ready();
    assert_eq!(accept(&mut machine, "m"), Vec::<String>::new());
    assert_eq!(
        start(&mut machine, "m", "u"),
        ["idle→working", "MessageDelivered 1"]
    );
    assert_eq!(
        end(&mut machine, ended("u", Outcome::Completed)),
        ["working→idle", "Completion"]
    );
    assert_eq!(
        end(&mut machine, ended("u", Outcome::Completed)),
        Vec::<String>::new()
    );
}

#[test]
fn a_message_that_waits_is_warned_of_and_says_so_when_it_begins() {
    let mut machine = ready();
    accept(&mut machine, "a");
    assert_eq!(
        accept(&mut machine, "b"),
        ["Warning"],
        "the first is being claimed"
    );
    start(&mut machine, "a", "u");
    end(&mut machine, ended("u", Outcome::Completed));
    let start = TurnStart {
        turn: "v".to_owned(),
        row: Some("row-b".to_owned()),
        message: None,
        attempt: 1,
        is_found: false,
        started_at: None,
    };
    let events = machine.apply(at(4), Input::TurnStarted(Box::new(start)));
    assert_eq!(
        events[0].text("summary"),
        "delivering queued message (0 remaining)"
    );
}

#[test]
fn each_kind_of_failure_has_its_events() {
    let table: [(&str, Fate, &[&str]); 9] = [
        (
            "bad_request",
            Fate::Done,
            &["working→idle", "DeliveryFailed turn_failed"],
        ),
        ("quota", Fate::PutBack, &["working→idle", "QuotaBlocked"]),
        (
            "quota",
            Fate::Done,
            &["working→idle", "QuotaBlocked", "DeliveryFailed turn_failed"],
        ),
        ("plan", Fate::PutBack, &["working→idle", "QuotaBlocked"]),
        ("auth", Fate::PutBack, &["working→idle", "AuthRequired"]),
        (
            "auth",
            Fate::Done,
            &["working→idle", "AuthRequired", "DeliveryFailed turn_failed"],
        ),
        ("overloaded", Fate::PutBack, &["working→idle"]),
        (
            "timeout",
            Fate::Done,
            &["working→idle", "DeliveryFailed timeout"],
        ),
        (
            "context_exhausted",
            Fate::Done,
            &[
                "working→context_exhausted",
                "ContextExhausted",
                "DeliveryFailed turn_failed",
            ],
        ),
    ];
    for (kind, fate, events) in table {
        let mut machine = ready();
        accept(&mut machine, "m");
        start(&mut machine, "m", "u");
        let told = TurnEnd {
            fate,
            ..ended("u", failed(kind))
        };
        assert_eq!(end(&mut machine, told), events, "{kind} {fate:?}");
    }
}

#[test]
fn a_message_without_an_id_is_not_echoed() {
    let mut machine = ready();
    let message = MessageName {
        id: "shim-1".to_owned(),
        is_given: false,
    };
    machine.apply(
        at(1),
        Input::Accepted {
            message,
            row: "row-m".to_owned(),
            position: 0,
            tries: 1,
        },
    );
    assert_eq!(start(&mut machine, "m", "u"), ["idle→working"]);
    assert_eq!(
        end(&mut machine, ended("u", failed("other"))),
        ["working→idle", "Error"]
    );
}

#[test]
fn a_turn_of_another_client_changes_the_state_and_has_no_receipt() {
    let mut machine = ready();
    assert_eq!(start(&mut machine, "unknown", "u"), ["idle→working"]);
    assert_eq!(
        end(&mut machine, ended("u", failed("other"))),
        ["working→idle"]
    );
}

#[test]
fn a_silent_turn_is_reported_once_per_stall() {
    let mut machine = ready();
    accept(&mut machine, "m");
    start(&mut machine, "m", "u");
    assert!(machine.apply(at(601), Input::Tick).is_empty());
    assert_eq!(v1(&machine.apply(at(602), Input::Tick)), ["Warning"]);
    assert!(machine.apply(at(9_000), Input::Tick).is_empty());
    machine.apply(at(9_001), Input::Activity);
    assert_eq!(v1(&machine.apply(at(9_601), Input::Tick)), ["Warning"]);
    machine.apply(at(9_602), Input::Questions(1));
    assert!(
        machine.apply(at(99_000), Input::Tick).is_empty(),
        "a question is no stall"
    );
}

#[test]
fn an_unusable_engine_is_told_before_the_shim_is_ready() {
    let mut machine = Machine::new(None);
    let events = machine.apply(
        at(0),
        Input::Ready {
            thread: "t".to_owned(),
            engine: "codex".to_owned(),
            health: EngineHealth::Unusable("not installed".to_owned()),
            lane: LaneView::default(),
            version: "1".to_owned(),
        },
    );
    assert_eq!(v1(&events), ["Error", "Ready"]);
    assert_eq!(events[1].fields["engine_ok"], false);
    assert_eq!(machine.state(at(1)).text("detail"), "blocked(engine)");
}

#[test]
fn what_holds_a_lane_is_the_detail_of_an_idle_state() {
    let mut machine = ready();
    let waiting = |kind: &str| LaneView {
        depth: 1,
        hold: Some(LaneHold::Waiting {
            kind: kind.to_owned(),
            until_ms: Some(5_000),
        }),
    };
    assert!(v1(&machine.apply(at(1), Input::Lane(waiting("server_error")))).is_empty());
    let state = machine.state(at(3));
    assert_eq!(
        (state.text("state"), state.text("detail")),
        ("idle", "blocked(overload)")
    );
    assert_eq!(state.fields["blocked_until"], 5);
    machine.apply(at(4), Input::Lane(LaneView::default()));
    assert_eq!(machine.state(at(5)).text("detail"), "idle");
}

#[test]
fn recovered_turns_are_told_once_and_by_what_became_of_them() {
    let mut machine = ready();
    let mut tell = |turn: &str, outcome: Outcome, fate: Fate| {
        let told = TurnEnd {
            message: Some(name("m")),
            fate,
            ..ended(turn, outcome)
        };
        let twice = [told.clone(), told];
        let events = twice.map(|end| v1(&machine.apply(at(1), Input::Recovered(Box::new(end)))));
        assert!(events[1].is_empty());
        events[0].clone()
    };
    assert_eq!(
        tell("a", Outcome::Completed, Fate::Done),
        ["MessageDelivered 1", "Completion"]
    );
    assert_eq!(
        tell("b", failed("other"), Fate::Done),
        ["DeliveryFailed turn_failed"]
    );
    assert_eq!(
        tell("c", failed("quota"), Fate::PutBack),
        Vec::<String>::new()
    );
    let interrupted = Outcome::Interrupted(Failure::default());
    assert_eq!(
        tell("d", interrupted.clone(), Fate::Holds),
        ["DeliveryFailed outcome_unknown"]
    );
    assert_eq!(tell("e", interrupted, Fate::PutBack), Vec::<String>::new());
}

/// One step of a random history: what a lane may do next with its messages.
#[derive(Clone, Copy, Debug)]
enum Move {
    Send,
    Begin,
    End(u8),
    Repeat,
    Hold,
    Silence,
    Drain,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        3 => Just(Move::Send),
        3 => Just(Move::Begin),
        3 => (0u8..6).prop_map(Move::End),
        1 => Just(Move::Repeat),
        1 => Just(Move::Hold),
        1 => Just(Move::Silence),
        1 => Just(Move::Drain),
    ];
    proptest::collection::vec(one, 0..60)
}

/// A lane that obeys its rules, and the machine beside it.
struct Lane {
    machine: Machine,
    waiting: Vec<(String, u32)>,
    running: Option<(String, u32, String)>,
    count: u32,
    now: u64,
}

impl Lane {
    fn play(&mut self, step: Move) -> Vec<Event> {
        self.now += 1;
        let now = at(self.now);
        let input = match step {
            Move::Send => {
                self.count += 1;
                let id = format!("m{}", self.count);
                let position = u32::try_from(self.waiting.len()).unwrap();
                self.waiting.push((id.clone(), 1));
                Input::Accepted {
                    message: name(&id),
                    row: format!("row-{id}"),
                    position,
                    tries: 1,
                }
            }
            Move::Begin => {
                if self.running.is_some() || self.waiting.is_empty() {
                    return Vec::new();
                }
                let (id, attempt) = self.waiting.remove(0);
                let turn = format!("u{}", self.now);
                self.running = Some((id.clone(), attempt, turn.clone()));
                Input::TurnStarted(Box::new(TurnStart {
                    turn,
                    row: Some(format!("row-{id}")),
                    message: Some(name(&id)),
                    attempt,
                    is_found: false,
                    started_at: None,
                }))
            }
            Move::End(how) => {
                let Some((id, attempt, turn)) = self.running.take() else {
                    return Vec::new();
                };
                let (outcome, fate) = match how {
                    0 => (Outcome::Completed, Fate::Done),
                    1 => (failed("other"), Fate::Done),
                    2 => (failed("quota"), Fate::PutBack),
                    3 => (failed("auth"), Fate::Done),
                    4 => (failed("context_exhausted"), Fate::Done),
                    _ => (Outcome::Interrupted(Failure::default()), Fate::Done),
                };
                if fate == Fate::PutBack {
                    self.waiting.insert(0, (id, attempt + 1));
                }
                Input::TurnEnded(Box::new(TurnEnd {
                    fate,
                    ..ended(&turn, outcome)
                }))
            }
            Move::Repeat => match &self.running {
                Some((id, _, turn)) => Input::Repeated {
                    message: name(id),
                    repeat: Box::new(Repeat::Running { turn: turn.clone() }),
                },
                None => return Vec::new(),
            },
            Move::Hold => Input::Lane(LaneView {
                depth: 1,
                hold: Some(LaneHold::Paused),
            }),
            Move::Silence => {
                self.now += 700;
                Input::Tick
            }
            Move::Drain => Input::Drain,
        };
        self.machine.apply(now, input)
    }
}

proptest! {
    #[test]
    fn receipts_are_in_order_and_every_turn_of_a_message_has_one_end(moves in moves()) {
        let mut lane = Lane {
            machine: ready(),
            waiting: Vec::new(),
            running: None,
            count: 0,
            now: 0,
        };
        let mut state = "idle".to_owned();
        // Per message and attempt: delivered, ended.
        let mut told: HashMap<(String, u64), (u32, u32)> = HashMap::new();
        let mut current: Option<(String, u64)> = None;
        for step in moves {
            let events = lane.play(step);
            let leaves_work = events.iter().any(|event| {
                event.name == "StateChanged" && event.text("from") == "working"
                    && event.text("to") != "working"
            });
            let has_end = events.iter().any(|event| {
                ["Completion", "DeliveryFailed", "QuotaBlocked", "AuthRequired"].contains(&event.name)
            });
            prop_assert!(!leaves_work || has_end, "{:?}", v1(&events));
            for event in events.iter().filter(|event| event.reach == Reach::Everyone) {
                match event.name {
                    "StateChanged" => {
                        prop_assert_eq!(event.text("from"), state.as_str());
                        prop_assert_ne!(event.text("to"), state.as_str());
                        state = event.text("to").to_owned();
                    }
                    "MessageDelivered" if !event.fields.contains_key("duplicate") => {
                        let key = (event.text("id").to_owned(), event.fields["attempt"].as_u64().unwrap());
                        let seen = told.entry(key.clone()).or_default();
                        seen.0 += 1;
                        prop_assert_eq!(*seen, (1, 0));
                        current = Some(key);
                    }
                    "Completion" | "DeliveryFailed" => {
                        let key = current.clone().unwrap();
                        let seen = told.entry(key).or_default();
                        seen.1 += 1;
                        prop_assert_eq!(*seen, (1, 1));
                    }
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn an_outcome_that_is_not_known_is_told_as_such() {
    let unknown = |kind: &str| {
        Outcome::Failed(Failure {
            kind: kind.to_owned(),
            message: "it died".to_owned(),
            retry_at: None,
            is_unknown: true,
        })
    };
    let mut machine = ready();
    let recovered = TurnEnd {
        message: Some(name("old")),
        ..ended("t", unknown("engine_crashed"))
    };
    let events = machine.apply(at(1), Input::Recovered(Box::new(recovered)));
    assert_eq!(events[0].text("code"), "outcome_unknown");
    let live = TurnEnd {
        message: Some(name("m")),
        ..ended("u", unknown("engine_crashed"))
    };
    let events = machine.apply(at(2), Input::TurnEnded(Box::new(live)));
    let event = |name: &str| events.iter().find(|event| event.name == name).unwrap();
    assert_eq!(event("DeliveryFailed").text("code"), "outcome_unknown");
    assert_eq!(event("DeliveryFailed").text("kind"), "engine_crashed");
    assert_eq!(event("TurnFinished").text("outcome"), "unknown");
}
