//! What the conformance suite cannot ask: the plans of the statements, and databases of earlier
//! versions.

use rusqlite::Connection;

use super::*;
use crate::sqlite::fixture::{Fixture, THREAD, Who, append, id, new_thread};
use crate::sqlite::migrate::MIGRATIONS;
use crate::sqlite::{queue, rows};
use crate::thread::ThreadChange;

fn bound(number: u128) -> NewThread {
    NewThread {
        binding: Some("shim:x".to_owned()),
        ..new_thread(number)
    }
}

#[test]
fn no_statement_about_bindings_reads_a_table_from_end_to_end() {
    let fixture = Fixture::with_thread();
    let made = fixture.by(Who::Me, |db| bind(db, &bound(51))).unwrap();
    assert!(matches!(made, BoundThread::Made(_)));
    let found = fixture.by(Who::Me, |db| bind(db, &bound(52))).unwrap();
    assert!(matches!(found, BoundThread::Existing(row) if row.id == id(51)));
    for row in 1..=3 {
        let mut append = append(row);
        append.thread = id(51);
        fixture
            .by(Who::Me, |db| queue::append(db, &append))
            .unwrap();
    }
    let take_over = Supersede {
        old: id(51),
        new: bound(53),
        params: Rewriting::new(Json::clone),
    };
    let taken = fixture.by(Who::Me, |db| supersede(db, &take_over)).unwrap();
    assert_eq!((taken.lane.depth, taken.value.lane.depth), (0, 3));
    let thread = fixture.by(Who::Me, |db| rows::thread_of_row(db, id(2)));
    assert_eq!(thread.unwrap(), Some(id(53)));
    for archived in [true, false] {
        let change = ThreadChange {
            archived: Some(archived),
            ..ThreadChange::of(id(53), 9)
        };
        fixture
            .by(Who::Me, |db| threads::change(db, &change))
            .unwrap();
    }
    fixture
        .by(Who::Me, |db| queue::end_pause(db, id(THREAD), "shim"))
        .unwrap();
}

#[test]
fn of_threads_that_shared_a_binding_before_the_newest_keeps_it() {
    let connection = Connection::open_in_memory().unwrap();
    let at = MIGRATIONS
        .iter()
        .position(|sql| sql.contains("one_binding"));
    let (before, after) = MIGRATIONS.split_at(at.unwrap());
    for sql in before {
        connection.execute_batch(sql).unwrap();
    }
    for (thread, archived, created_ms) in [("a", 0, 1), ("b", 0, 3), ("c", 0, 2), ("d", 1, 4)] {
        let sql = "INSERT INTO thread(id, engine, settings, facts, cwd, source, provider, binding, \
             archived, created_ms, updated_ms, recency_ms) \
             VALUES (?1, 'native', '', '', '', '', '', 'k', ?2, ?3, 0, 0)";
        let values = params![thread, archived, created_ms];
        connection.execute(sql, values).unwrap();
    }
    connection.execute_batch(after[0]).unwrap();
    let mut bound = connection
        .prepare("SELECT id FROM thread WHERE binding = 'k' ORDER BY id")
        .unwrap();
    let bound = bound.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let bound: Vec<String> = bound.map(Result::unwrap).collect();
    assert_eq!(bound, ["b", "d"]);
}
