//! Tests of threads: made, copied, changed, deleted, listed.
//!
//! The lanes' promises are checked by the fixture after every step.

mod lists;
mod names;

use super::*;
use crate::approval::ApprovalAsked;
use crate::queue::Fate;
use crate::sqlite::fixture::{
    Fixture, THREAD, Who, accepting, claim_of, complete, id, json, new_thread, turn,
};
use crate::sqlite::forks::fork;
use crate::sqlite::{claim, history, owner, turns};
use crate::thread::{Fork, UpTo};
use crate::turn::{EntryRow, Put, TurnQuery};

/// A thread with three ended turns, an item and an entry each; the second is muted.
fn with_history() -> Fixture {
    let fixture = Fixture::with_thread();
    for row in 1..=3 {
        fixture.add(row);
        let begun = fixture.begin(20);
        let mut end = complete(&begun, Fate::Done, 30);
        end.end.muted = row == 2;
        end.put.thread_usage = Some(json("used"));
        end.put.entries.push(EntryRow {
            ord: begun.next_entry_ord,
            turn_ord: begun.turn.ord,
            turn: begun.turn.id,
            kind: "user".to_owned(),
            provider: None,
            model: None,
            item_id: begun.item.map(|item| item.id),
            call_ids: None,
            items: json("items"),
        });
        fixture.run(|db| turns::complete(db, &end)).unwrap();
    }
    fixture
}

fn fork_to(fixture: &Fixture, to: u128, through: Option<u128>) -> Result<ThreadRow, StoreError> {
    let wanted = Fork {
        from: id(THREAD),
        upto: through.map_or(UpTo::LastEnded, |through| UpTo::Turn(turn(through))),
        to: new_thread(to),
    };
    fixture.run(|db| fork(db, &wanted))
}

fn counts(fixture: &Fixture, thread: u128) -> [i64; 3] {
    let thread: ThreadId = id(thread);
    ["turn", "item", "entry"].map(|table| {
        fixture.count(&format!(
            "SELECT * FROM {table} WHERE thread_id = '{thread}'"
        ))
    })
}

fn change_of(work: impl FnOnce(&mut ThreadChange)) -> ThreadChange {
    let mut change = ThreadChange::of(id(THREAD), 90);
    work(&mut change);
    change
}

#[test]
fn a_thread_is_made_once_with_an_empty_lane() {
    let fixture = Fixture::with_thread();
    let made = fixture.run(|db| find_thread(db, id(THREAD))).unwrap();
    assert_eq!((made.preview.as_str(), made.archived), ("", false));
    assert_eq!(
        (made.created_ms, made.updated_ms, made.recency_ms),
        (1, 1, 1)
    );
    let lane = fixture.look();
    assert_eq!((lane.depth, lane.max_depth, lane.fence.0), (0, 1_000, 0));
    let again = fixture.run(|db| create(db, &new_thread(THREAD)));
    assert!(matches!(again, Err(StoreError::ThreadExists(thread)) if thread == id(THREAD)));
    assert!(fixture.run(|db| thread(db, id(9))).unwrap().is_none());
}

#[test]
fn a_fork_copies_ended_turns_with_their_ids_and_nothing_of_the_queue() {
    let fixture = with_history();
    fixture.add(4);
    fixture.begin(40);
    fixture.add(5);
    let copy = fork_to(&fixture, 50, None).unwrap();
    assert_eq!(
        (copy.usage, copy.preview.as_str()),
        (Some(json("used")), "hello")
    );
    assert_eq!(counts(&fixture, 50), [3, 3, 3]);
    let query = |thread| TurnQuery {
        thread: id(thread),
        after_ord: None,
        direction: Direction::Ascending,
        limit: 3,
    };
    let of = |thread| {
        fixture
            .run(|db| history::turns(db, &query(thread)))
            .unwrap()
            .rows
    };
    assert_eq!(of(50), of(THREAD));
    let sent = |thread| {
        fixture
            .run(|db| history::history(db, id(thread)))
            .unwrap()
            .entries
    };
    assert_eq!(sent(50), sent(THREAD));
    assert_eq!(sent(50).len(), 2);
    let lane = fixture.run(|db| Lane::find(db, id(50))).unwrap();
    assert_eq!((lane.depth, lane.active, lane.owner), (0, None, None));
}

#[test]
fn a_fork_ends_with_the_turn_it_names() {
    let fixture = with_history();
    fork_to(&fixture, 50, Some(2_000)).unwrap();
    assert_eq!(counts(&fixture, 50), [2, 2, 2]);
    let missing = fork_to(&fixture, 51, Some(9_999));
    assert!(matches!(missing, Err(StoreError::TurnNotFound)));
    let exists = fork_to(&fixture, 50, None);
    assert!(matches!(exists, Err(StoreError::ThreadExists(_))));
    let mut elsewhere = Fork {
        from: id(77),
        upto: UpTo::LastEnded,
        to: new_thread(52),
    };
    let missing = fixture.run(|db| fork(db, &elsewhere));
    assert!(matches!(missing, Err(StoreError::ThreadNotFound(thread)) if thread == id(77)));
    // A copy can be copied.
    elsewhere.from = id(50);
    fixture.run(|db| fork(db, &elsewhere)).unwrap();
    assert_eq!(counts(&fixture, 52), [2, 2, 2]);
}

#[test]
fn reverting_deletes_from_a_turn_on_and_numbers_begin_there_again() {
    let fixture = with_history();
    fixture.run(|db| revert(db, id(THREAD), 2, 60)).unwrap();
    assert_eq!(counts(&fixture, THREAD), [1, 1, 1]);
    fixture.add(9);
    let begun = fixture.begin(70);
    assert_eq!(
        (
            begun.turn.ord,
            begun.item.unwrap().ord,
            begun.next_entry_ord
        ),
        (2, 2, 2)
    );
    let busy = fixture.run(|db| revert(db, id(THREAD), 1, 80));
    assert!(matches!(busy, Err(StoreError::Busy(_))));
    assert_eq!(counts(&fixture, THREAD), [2, 2, 1]);
}

#[test]
fn a_change_touches_only_what_it_names() {
    let fixture = Fixture::with_thread();
    let change_name = change_of(|change| change.name = Some(Some("n".to_owned())));
    let named = fixture.run(|db| change(db, &change_name)).unwrap().value;
    assert_eq!(
        (named.name.as_deref(), named.updated_ms, named.recency_ms),
        (Some("n"), 90, 1)
    );
    let rest = change_of(|change| {
        change.settings = Some(json("s"));
        change.facts = Some(json("f"));
        change.cwd = Some("/c".to_owned());
    });
    let rest = fixture.run(|db| change(db, &rest)).unwrap().value;
    assert_eq!(
        (rest.settings, rest.facts, rest.cwd.as_str()),
        (json("s"), json("f"), "/c")
    );
    assert_eq!(rest.name.as_deref(), Some("n"));
    let unnamed = change_of(|change| change.name = Some(None));
    let unnamed = fixture.run(|db| change(db, &unnamed)).unwrap().value;
    assert_eq!((unnamed.name, unnamed.settings), (None, json("s")));
}

#[test]
fn an_archived_thread_is_not_looked_at_until_it_is_back() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    let away = change_of(|change| change.archived = Some(true));
    let lane = fixture.run(|db| change(db, &away)).unwrap().lane;
    assert!(lane.archived);
    assert_eq!((fixture.ready_ms(), lane.depth), (None, 1));
    let back = change_of(|change| change.archived = Some(false));
    assert!(!fixture.run(|db| change(db, &back)).unwrap().lane.archived);
    assert_eq!(fixture.ready_ms(), Some(0));
}

#[test]
fn a_running_thread_is_neither_archived_nor_deleted() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    let begun = fixture.begin(20);
    let away = change_of(|change| change.archived = Some(true));
    let busy = fixture.run(|db| change(db, &away)).map(|_| ());
    assert!(matches!(busy, Err(StoreError::Busy(_))));
    let busy = fixture.run(|db| delete(db, id(THREAD)));
    assert!(matches!(busy, Err(StoreError::Busy(_))));
    fixture
        .run(|db| change(db, &change_of(|change| change.cwd = Some("/c".to_owned()))))
        .unwrap();
    fixture.end(&begun, Fate::Done, 30);
    fixture.run(|db| delete(db, id(THREAD))).unwrap();
}

#[test]
fn deleting_a_thread_leaves_nothing_of_it() {
    let fixture = with_history();
    fixture.create(2);
    fixture.add(7);
    let begun = fixture.begin(40);
    let asked = Put {
        asked: vec![ApprovalAsked {
            id: id(1),
            turn: begun.turn.id,
            body: json("may I"),
            requested_ms: 1,
            expires_ms: Some(2),
        }],
        ..Put::default()
    };
    fixture
        .run(|db| turns::put(db, begun.grip, &asked))
        .unwrap();
    fixture.end(&begun, Fate::Done, 50);
    fixture.run(|db| delete(db, id(THREAD))).unwrap();
    for table in ["queued_turn", "turn", "item", "entry", "approval"] {
        assert_eq!(
            fixture.count(&format!("SELECT * FROM {table}")),
            0,
            "{table}"
        );
    }
    assert_eq!(fixture.count("SELECT * FROM lane"), 1);
    let missing = fixture.run(|db| delete(db, id(THREAD)));
    assert!(matches!(missing, Err(StoreError::ThreadNotFound(_))));
    let late = fixture.run(|db| turns::put(db, begun.grip, &Put::default()));
    assert!(matches!(late, Err(StoreError::Fenced)));
}

#[test]
fn a_thread_is_changed_by_its_owner_while_that_lives() {
    let fixture = Fixture::with_thread();
    fixture
        .by(Who::Other, |db| owner::take(db, id(THREAD)))
        .unwrap();
    let rename = change_of(|change| change.name = Some(Some("n".to_owned())));
    let tries = || {
        [
            fixture.run(|db| change(db, &rename)).map(|_| ()),
            fixture.run(|db| revert(db, id(THREAD), 1, 90)),
        ]
    };
    let lives = fixture.other_lives();
    for end in tries() {
        assert!(
            matches!(end, Err(StoreError::OwnedElsewhere { .. })),
            "{end:?}"
        );
    }
    drop(lives);
    for end in tries() {
        end.unwrap();
    }
    fixture.add(5);
    let wanted = claim_of(crate::queue::Which::Head, 20);
    let begin = |db: &Db<'_>| claim::claim_and_accept(db, &wanted, &accepting());
    fixture.by(Who::Other, begin).unwrap();
    for end in tries() {
        assert!(
            matches!(end, Err(StoreError::OwnedElsewhere { .. })),
            "{end:?}"
        );
    }
}
