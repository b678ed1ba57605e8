//! Tests of adding, changing and reading rows that wait.
//!
//! The lanes' promises are checked by the fixture after every step; here is what each step answers.
//! Order, claims and turns are tested next to their code.

use super::*;
use crate::json::Json;
use crate::lane::Head;
use crate::queue::{Fate, Which};
use crate::sqlite::fixture::{
    Fixture, THREAD, WINDOW_MS, Who, append as appending, claim_of, complete, id, json, turn,
    waiting,
};
use crate::sqlite::{claim, turns};
use crate::turn::{TurnStatus, WaitingChange};

fn keyed(row: u128, key: &str) -> Append {
    let mut append = appending(row);
    append.row.key = Some(key.to_owned());
    append
}

fn repeated(appended: Appended) -> Repeated {
    match appended {
        Appended::Repeated(repeated) => *repeated,
        Appended::New(row) => unreachable!("{row:?} is new"),
    }
}

fn paused() -> Paused {
    Paused {
        reason: "user".to_owned(),
        by: Some("a client".to_owned()),
        since_ms: 20,
    }
}

#[test]
fn a_row_comes_back_as_it_was_added() {
    let fixture = Fixture::with_thread();
    let added = fixture.add(5);
    assert_eq!(added.position, Some(1_024));
    assert_eq!(fixture.row(5), added);
    let lane = fixture.look();
    assert_eq!((lane.depth, lane.revision), (1, 1));
    assert_eq!(
        lane.head,
        Head::Due {
            row: id(5),
            at_ms: 0
        }
    );
    assert_eq!(fixture.ready_ms(), Some(0));
    assert_eq!(fixture.add(6).position, Some(2_048));
}

#[test]
fn a_key_stands_for_one_content_even_on_a_full_queue() {
    let fixture = Fixture::with_thread();
    fixture
        .connection
        .execute("UPDATE lane SET max_depth = 1", [])
        .unwrap();
    fixture.append(&keyed(5, "k")).unwrap();
    let again = repeated(fixture.append(&keyed(6, "k")).unwrap());
    assert_eq!((again.row.id, again.turn), (id(5), None));
    let mut other = keyed(6, "k");
    other.row.content_hash = [8; 32];
    let refused = fixture.append(&other);
    assert!(matches!(refused, Err(StoreError::KeyTaken { key }) if key == "k"));
    let refused = fixture.append(&keyed(6, "other"));
    assert!(matches!(
        refused,
        Err(StoreError::QueueFull { max_depth: 1 })
    ));
    assert_eq!(fixture.look().revision, 1);
}

#[test]
fn a_key_is_remembered_for_a_while_after_its_row_ended() {
    let fixture = Fixture::with_thread();
    fixture.append(&keyed(5, "k")).unwrap();
    let begun = fixture.begin(20);
    fixture.end(&begun, Fate::Done, 30);
    let mut again = keyed(6, "k");
    again.at_ms = 30 + WINDOW_MS - 1;
    let found = repeated(fixture.append(&again).unwrap());
    assert_eq!(found.row.state, RowState::Done);
    assert_eq!(found.turn.unwrap().status, TurnStatus::Completed);
    again.at_ms += 1;
    assert!(matches!(fixture.append(&again).unwrap(), Appended::New(_)));
}

#[test]
fn the_last_of_several_ended_rows_answers_for_their_key() {
    let fixture = Fixture::with_thread();
    for row in [5, 6] {
        let mut add = keyed(row, "k");
        add.key_window_ms = 0;
        add.at_ms = 100;
        fixture.append(&add).unwrap();
        let begun = fixture.begin(100);
        let ended_ms = i64::try_from(row).unwrap();
        fixture.end(&begun, Fate::Done, ended_ms);
    }
    let found = repeated(fixture.append(&keyed(7, "k")).unwrap());
    assert_eq!(found.row.id, id(6));
}

#[test]
fn a_repeated_key_names_the_last_turn_of_a_row_that_came_back() {
    let fixture = Fixture::with_thread();
    fixture.append(&keyed(5, "k")).unwrap();
    let begun = fixture.begin(20);
    let fate = Fate::Block {
        failure: json("failed"),
        turn: turn(5_001),
    };
    fixture.end(&begun, fate, 30);
    let found = repeated(fixture.append(&keyed(6, "k")).unwrap());
    assert_eq!(found.turn.unwrap().id, turn(5_000));
}

#[test]
fn deleting_frees_the_key_and_says_whether_there_was_a_row() {
    let fixture = Fixture::with_thread();
    fixture.append(&keyed(5, "k")).unwrap();
    let gone = fixture.run(|db| delete(db, id(THREAD), id(5), 20)).unwrap();
    assert!(gone.value);
    assert_eq!((gone.lane.depth, gone.lane.revision), (0, 2));
    assert_eq!(fixture.ready_ms(), None);
    assert_eq!(fixture.row(5).ended_ms, Some(20));
    let again = fixture.run(|db| delete(db, id(THREAD), id(5), 30)).unwrap();
    assert_eq!((again.value, again.lane.revision), (false, 2));
    assert!(matches!(
        fixture.append(&keyed(6, "k")).unwrap(),
        Appended::New(_)
    ));
}

#[test]
fn a_row_under_way_can_neither_be_updated_nor_deleted_nor_retried() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    fixture.begin(20);
    let change = Update {
        thread: id(THREAD),
        row: id(5),
        params: json("new").into(),
        at_ms: 30,
    };
    let refused = fixture.run(|db| update(db, &change));
    assert!(matches!(refused, Err(StoreError::RowNotFound(row)) if row == id(5)));
    let refused = fixture.run(|db| retry(db, id(THREAD), Some(id(5)), 30));
    assert!(matches!(refused, Err(StoreError::RowNotFound(_))));
    let gone = fixture.run(|db| delete(db, id(THREAD), id(5), 30)).unwrap();
    assert!(!gone.value);
}

#[test]
fn an_update_changes_the_content_and_nothing_else() {
    let fixture = Fixture::with_thread();
    fixture.add_blocked(5, 20);
    let before = fixture.row(5);
    let change = Update {
        thread: id(THREAD),
        row: id(5),
        params: Json::new("{\"zero\":\"\u{0}\"}").into(),
        at_ms: 30,
    };
    let changed = fixture.run(|db| update(db, &change)).unwrap();
    let expected = Row {
        params: change.params.rewrite(&json("new")),
        updated_ms: 30,
        ..before
    };
    assert_eq!(changed.value, expected);
    assert_eq!(fixture.row(5), expected);
}

#[test]
fn only_a_failed_row_is_retried_and_keeps_its_place() {
    let fixture = Fixture::with_thread();
    let refused = fixture.run(|db| retry(db, id(THREAD), None, 20));
    assert!(matches!(refused, Err(StoreError::QueueEmpty)));
    fixture.add_blocked(5, 20);
    fixture.add(6);
    let refused = fixture.run(|db| retry(db, id(THREAD), Some(id(6)), 30));
    assert!(matches!(refused, Err(StoreError::RowNotFailed(row)) if row == id(6)));
    let retried = fixture.run(|db| retry(db, id(THREAD), None, 30)).unwrap();
    assert_eq!(retried.value.state, RowState::Queued);
    assert_eq!(retried.value.failure, None);
    assert_eq!(fixture.order(), [5, 6]);
    let refused = fixture.run(|db| retry(db, id(THREAD), None, 30));
    assert!(matches!(refused, Err(StoreError::RowNotFailed(row)) if row == id(5)));
}

#[test]
fn the_first_pause_stays_until_it_is_ended() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    fixture.run(|db| pause(db, id(THREAD), &paused())).unwrap();
    let second = Paused {
        reason: "interrupt".to_owned(),
        ..paused()
    };
    let lane = fixture.run(|db| pause(db, id(THREAD), &second)).unwrap();
    assert_eq!((lane.paused, lane.revision), (Some(paused()), 2));
    let lane = fixture.run(|db| resume(db, id(THREAD))).unwrap();
    assert_eq!((lane.paused, lane.revision), (None, 3));
    let lane = fixture.run(|db| resume(db, id(THREAD))).unwrap();
    assert_eq!(lane.revision, 3);
}

#[test]
fn resuming_ends_a_wait_and_the_delay_it_put_on_its_row() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    let begun = fixture.begin(20);
    let fate = Fate::Back {
        turn: turn(5_001),
        not_before_ms: 900,
        why: crate::queue::Back::Limit,
    };
    let mut back = complete(&begun, fate, 30);
    back.waiting = WaitingChange::Begin(waiting(Some(900)));
    fixture.run(|db| turns::complete(db, &back)).unwrap();
    assert_eq!(fixture.ready_ms(), Some(900));
    let lane = fixture.run(|db| resume(db, id(THREAD))).unwrap();
    assert_eq!(lane.waiting, None);
    assert_eq!(
        lane.head,
        Head::Due {
            row: id(5),
            at_ms: 0
        }
    );
    assert_eq!(fixture.ready_ms(), Some(0));
}

#[test]
fn resuming_keeps_a_delay_that_the_client_has_set() {
    let fixture = Fixture::with_thread();
    let mut later = appending(5);
    later.row.not_before_ms = 900;
    fixture.append(&later).unwrap();
    let sql = "UPDATE lane SET waiting = ?1";
    fixture
        .connection
        .execute(sql, [waiting(Some(900))])
        .unwrap();
    let lane = fixture.run(|db| resume(db, id(THREAD))).unwrap();
    assert_eq!(
        lane.head,
        Head::Due {
            row: id(5),
            at_ms: 900
        }
    );
}

#[test]
fn a_page_goes_on_behind_a_position_whatever_left_in_between() {
    let fixture = Fixture::with_thread();
    for row in 1..=5 {
        fixture.add(row);
    }
    let page = |from, limit| {
        let query = QueueQuery {
            thread: id(THREAD),
            from,
            limit,
        };
        let page = fixture.run(|db| queue(db, &query)).unwrap();
        let rows: Vec<RowId> = page.rows.iter().map(|row| row.id).collect();
        (rows, page.next)
    };
    let (rows, next) = page(QueueFrom::Head, 2);
    assert_eq!(rows, [id(1), id(2)]);
    fixture.run(|db| delete(db, id(THREAD), id(1), 20)).unwrap();
    fixture.run(|db| delete(db, id(THREAD), id(2), 20)).unwrap();
    let (rows, next) = page(QueueFrom::After(next.unwrap()), 2);
    assert_eq!(rows, [id(3), id(4)]);
    let (rows, next) = page(QueueFrom::After(next.unwrap()), 2);
    assert_eq!((rows, next), (vec![id(5)], None));
    assert_eq!(page(QueueFrom::Offset(1), 2), (vec![id(4), id(5)], None));
    assert_eq!(page(QueueFrom::Offset(9), 2), (vec![], None));
}

#[test]
fn nothing_is_done_to_the_queue_of_an_archived_or_missing_thread() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    fixture
        .connection
        .execute("UPDATE thread SET archived = 1", [])
        .unwrap();
    let thread = id(THREAD);
    let change = Update {
        thread,
        row: id(5),
        params: json("new").into(),
        at_ms: 30,
    };
    let refused = [
        fixture.append(&appending(6)).map(|_| ()),
        fixture.run(|db| update(db, &change)).map(|_| ()),
        fixture.run(|db| delete(db, thread, id(5), 30)).map(|_| ()),
        fixture.run(|db| retry(db, thread, None, 30)).map(|_| ()),
        fixture.run(|db| pause(db, thread, &paused())).map(|_| ()),
        fixture.run(|db| resume(db, thread)).map(|_| ()),
    ];
    for end in refused {
        assert!(matches!(end, Err(StoreError::Archived(_))), "{end:?}");
    }
    let mut elsewhere = appending(6);
    elsewhere.thread = id(99);
    let refused = fixture.append(&elsewhere);
    assert!(matches!(refused, Err(StoreError::ThreadNotFound(_))));
}

#[test]
fn any_worker_may_add_to_a_lane_that_another_runs() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    let begun = fixture.begin(20);
    let added = fixture
        .by(Who::Other, |db| append(db, &appending(6)))
        .unwrap();
    assert_eq!(added.lane.fence, begun.grip.fence);
    fixture.end(&begun, Fate::Done, 30);
    assert_eq!(fixture.ready_ms(), Some(0));
}

#[test]
fn pruning_takes_ended_rows_of_that_time_a_thousand_at_once() {
    let fixture = Fixture::with_thread();
    for row in 1..=1_003 {
        fixture.add(row);
        fixture
            .run(|db| delete(db, id(THREAD), id(row), 20))
            .unwrap();
    }
    fixture.add(2_000);
    assert_eq!(fixture.run(|db| prune(db, 20)).unwrap(), 0);
    assert_eq!(fixture.run(|db| prune(db, 21)).unwrap(), 1_000);
    assert_eq!(fixture.run(|db| prune(db, 21)).unwrap(), 3);
    assert_eq!(fixture.order(), [2_000]);
}

#[test]
fn a_word_that_we_never_write_is_an_error_that_names_it() {
    let fixture = Fixture::with_thread();
    fixture.add(5);
    fixture
        .connection
        .execute("UPDATE queued_turn SET on_crash = 'shrug'", [])
        .unwrap();
    let claimed = fixture.run(|db| claim::claim(db, &claim_of(Which::Head, 20)));
    let Err(StoreError::Failed { source, .. }) = claimed else {
        unreachable!("{claimed:?}")
    };
    assert!(source.downcast_ref::<rusqlite::Error>().is_some());
    assert!(
        source.to_string().contains("\"shrug\" is no OnCrash"),
        "{source}"
    );
}
