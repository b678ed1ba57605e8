//! Tests of threads: made, copied, changed, deleted, listed.
//!
//! The lanes' promises are checked by the fixture after every step.

use super::*;
use crate::approval::ApprovalAsked;
use crate::queue::Fate;
use crate::sqlite::fixture::{
    Fixture, THREAD, Who, accepting, claim_of, complete, id, json, new_thread, turn,
};
use crate::sqlite::{claim, history, owner, turns};
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
        through: through.map(turn),
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
        through: None,
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
            expires_ms: 2,
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

/// Threads 1 to 6, made in pairs at the same time.
fn six() -> Fixture {
    let fixture = Fixture::new();
    for number in 1..=6_u128 {
        let mut new = new_thread(number);
        new.at_ms = i64::try_from(number.div_ceil(2)).unwrap();
        new.source = if number % 2 == 0 { "cli" } else { "web" }.to_owned();
        new.cwd = format!("/{}", number % 3);
        new.name = (number == 3).then(|| "100% Grün_Ärger".to_owned());
        new.parent = (number == 4).then(|| id(1));
        fixture.run(|db| create(db, &new)).unwrap();
    }
    fixture
}

fn list(fixture: &Fixture, query: &ThreadQuery) -> (Vec<u128>, Option<ThreadPlace>) {
    let page = fixture.run(|db| threads(db, query)).unwrap();
    let rows = page.rows.iter().map(|row| row.id.as_uuid().as_u128());
    (rows.collect(), page.next)
}

#[test]
fn pages_of_threads_meet_whatever_the_sort_and_the_direction() {
    let fixture = six();
    for sort in [
        ThreadSort::Created,
        ThreadSort::Updated,
        ThreadSort::Recency,
    ] {
        for (direction, expected) in [
            (Direction::Ascending, [1, 2, 3, 4, 5, 6]),
            (Direction::Descending, [6, 5, 4, 3, 2, 1]),
        ] {
            for limit in 1..=6 {
                let mut query = ThreadQuery {
                    sort,
                    direction,
                    limit,
                    ..ThreadQuery::default()
                };
                let mut seen = Vec::new();
                loop {
                    let (rows, next) = list(&fixture, &query);
                    seen.extend(rows);
                    query.after = next;
                    if next.is_none() {
                        break;
                    }
                }
                assert_eq!(seen, expected, "{sort:?} {direction:?} by {limit}");
            }
        }
    }
}

#[test]
fn a_list_goes_on_behind_a_thread_that_is_gone() {
    let fixture = six();
    let mut query = ThreadQuery {
        limit: 2,
        ..ThreadQuery::default()
    };
    let (rows, next) = list(&fixture, &query);
    assert_eq!(rows, [6, 5]);
    fixture.run(|db| delete(db, id(5))).unwrap();
    query.after = next;
    assert_eq!(list(&fixture, &query).0, [4, 3]);
}

#[test]
fn lists_are_narrowed_by_what_is_asked_for() {
    let fixture = six();
    let all = ThreadQuery {
        direction: Direction::Ascending,
        ..ThreadQuery::default()
    };
    let with = |change: &dyn Fn(&mut ThreadQuery)| {
        let mut query = all.clone();
        change(&mut query);
        list(&fixture, &query).0
    };
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        with(&|query| query.sources = words(&["web", "x\"y"])),
        [1, 3, 5]
    );
    assert_eq!(
        with(&|query| query.cwds = words(&["/1", "/2"])),
        [1, 2, 4, 5]
    );
    assert_eq!(
        with(&|query| query.providers = words(&["other"])),
        [0_u128; 0]
    );
    assert_eq!(with(&|query| query.parent = Some(id(1))), [4]);
    for found in ["gRÜN", "0%", "n_ä", ""] {
        let rows = with(&|query| query.search = Some(found.to_owned()));
        assert!(rows.contains(&3), "{found}");
    }
    for not_found in ["1_0", "1%G", "ärgert"] {
        let rows = with(&|query| query.search = Some(not_found.to_owned()));
        assert_eq!(rows, [0_u128; 0], "{not_found}");
    }
    fixture
        .connection
        .execute("UPDATE thread SET archived = 1 WHERE cwd = '/0'", [])
        .unwrap();
    assert_eq!(with(&|_| ()), [1, 2, 4, 5]);
    assert_eq!(with(&|query| query.archived = true), [3, 6]);
}

#[test]
fn a_thread_is_listed_from_its_first_message_on() {
    let fixture = Fixture::new();
    let mut new = new_thread(THREAD);
    new.listed = Listed::FromFirstTurn;
    fixture.run(|db| create(db, &new)).unwrap();
    assert_eq!(list(&fixture, &ThreadQuery::default()).0, [0_u128; 0]);
    fixture.add(5);
    fixture.begin(20);
    assert_eq!(list(&fixture, &ThreadQuery::default()).0, [THREAD]);
}

#[test]
fn a_search_goes_on_until_a_page_is_full() {
    let fixture = six();
    fixture
        .connection
        .execute("UPDATE thread SET preview = 'x' WHERE source = 'web'", [])
        .unwrap();
    let mut query = ThreadQuery {
        search: Some("X".to_owned()),
        limit: 2,
        ..ThreadQuery::default()
    };
    let (rows, next) = list(&fixture, &query);
    assert_eq!(rows, [5, 3]);
    query.after = next;
    assert_eq!(list(&fixture, &query), (vec![1], None));
}
