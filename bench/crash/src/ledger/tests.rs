//! The comparison finds each kind of fault, and none where there is none.

use super::*;

/// A lane of which these rows were acknowledged, in this order.
fn rows(texts: &[&str]) -> Ledger {
    let mut ledger = Ledger::default();
    for text in texts {
        ledger.sent(text, Way::Row);
        ledger.answered(text);
    }
    ledger
}

fn turn(text: &str, status: &str) -> Turn {
    Turn {
        texts: vec![text.to_owned()],
        status: status.to_owned(),
    }
}

/// A lane at rest with these completed turns.
fn ran(texts: &[&str]) -> Seen {
    Seen {
        turns: texts.iter().map(|text| turn(text, "completed")).collect(),
        ..Seen::default()
    }
}

fn asked(times: &[(&str, usize)]) -> Asked {
    let times = times.iter();
    times.map(|(text, n)| ((*text).to_owned(), *n)).collect()
}

fn set(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn rows_that_ran_in_order_or_still_wait_are_right() {
    let ledger = rows(&["a", "b", "c"]);
    let mut seen = ran(&["a"]);
    seen.turns.push(turn("b", "interrupted"));
    seen.queued.push("c".to_owned());
    let faults = ledger.compare(&seen, &asked(&[("a", 1), ("b", 1)]));
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn an_acknowledged_row_that_is_nowhere_is_lost_even_if_the_model_saw_it() {
    let ledger = rows(&["a", "b"]);
    let faults = ledger.compare(&ran(&["b"]), &asked(&[("a", 1), ("b", 1)]));
    assert_eq!(faults.lost, set(&["a"]));
    assert!(faults.doubled.is_empty() && faults.disordered.is_empty());
}

#[test]
fn an_unanswered_row_may_be_there_once_or_not_at_all() {
    let mut ledger = rows(&["a"]);
    ledger.sent("b", Way::Row);
    assert!(ledger.compare(&ran(&["a"]), &Asked::new()).is_empty());
    assert_eq!(ledger.unanswered_but_there(&ran(&["a"])), 0);
    assert!(ledger.compare(&ran(&["a", "b"]), &Asked::new()).is_empty());
    assert_eq!(ledger.unanswered_but_there(&ran(&["a", "b"])), 1);
    let faults = ledger.compare(&ran(&["a", "b", "b"]), &Asked::new());
    assert_eq!(faults.doubled, set(&["b"]));
}

#[test]
fn a_turn_that_ran_twice_is_doubled_unless_it_was_asked_for_again() {
    let mut ledger = rows(&["a"]);
    let seen = ran(&["a", "a"]);
    assert_eq!(
        ledger.compare(&seen, &Asked::new()).doubled,
        set(&["a"]),
        "nobody asked for it again"
    );
    ledger.retried("a");
    assert!(ledger.compare(&seen, &asked(&[("a", 2)])).is_empty());
    let faults = ledger.compare(&ran(&["a", "a", "a"]), &Asked::new());
    assert_eq!(faults.doubled, set(&["a"]));
}

#[test]
fn a_turn_and_a_row_of_the_same_message_are_one_too_many() {
    let ledger = rows(&["a"]);
    let mut seen = ran(&["a"]);
    seen.queued.push("a".to_owned());
    assert_eq!(
        ledger.compare(&seen, &Asked::new()).doubled,
        set(&["a"]),
        "it will run again"
    );
}

#[test]
fn a_model_that_was_asked_twice_shows_what_a_history_hides() {
    let ledger = rows(&["a"]);
    let faults = ledger.compare(&ran(&["a"]), &asked(&[("a", 2)]));
    assert_eq!(faults.doubled, set(&["a"]));
}

#[test]
fn a_row_that_ran_behind_a_later_one_is_out_of_order() {
    let ledger = rows(&["a", "b", "c"]);
    let faults = ledger.compare(&ran(&["b", "a", "c"]), &Asked::new());
    assert_eq!(faults.disordered, set(&["a"]));
    let mut seen = ran(&["a", "c"]);
    seen.queued.push("b".to_owned());
    assert_eq!(
        ledger.compare(&seen, &Asked::new()).disordered,
        set(&["b"]),
        "a row that waits behind its successor's turn"
    );
}

#[test]
fn a_row_that_comes_again_does_not_spoil_the_order() {
    let mut ledger = rows(&["a", "b"]);
    ledger.retried("a");
    let faults = ledger.compare(&ran(&["a", "a", "b"]), &Asked::new());
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn an_answered_turn_that_is_not_in_the_history_is_absent() {
    let mut ledger = Ledger::default();
    ledger.sent("a", Way::Direct);
    assert!(ledger.compare(&ran(&[]), &Asked::new()).is_empty());
    ledger.answered("a");
    assert_eq!(ledger.compare(&ran(&[]), &Asked::new()).absent, set(&["a"]));
    assert_eq!((ledger.count(Way::Direct), ledger.count(Way::Row)), (1, 0));
}

#[test]
fn a_lane_without_rest_and_a_turn_without_end_are_stuck() {
    let ledger = rows(&["a", "b"]);
    let mut seen = ran(&["a"]);
    seen.turns.push(turn("b", "inProgress"));
    seen.restless = Some("b has not moved".to_owned());
    let faults = ledger.compare(&seen, &Asked::new());
    assert_eq!(
        faults.stuck,
        set(&["b has not moved", "a turn never ends: [\"b\"]"])
    );
}

#[test]
fn what_was_refused_is_not_expected_and_a_fault_counts_once() {
    let mut ledger = rows(&["a", "b"]);
    ledger.refused("b");
    assert!(ledger.compare(&ran(&["a"]), &Asked::new()).is_empty());
    let mut all = ledger.compare(&ran(&[]), &Asked::new());
    all.extend(ledger.compare(&ran(&[]), &Asked::new()));
    assert_eq!(all.lost, set(&["a"]));
    assert!(!all.is_empty());
}
