//! Tests of reading turns, items and what the model is sent.
//!
//! Rows are written with plain SQL where a whole turn would only hide what is tested.

use super::*;
use crate::sqlite::fixture::{Fixture, THREAD, id};

struct Thread(Fixture);

impl Thread {
    /// Ended turns with these numbers; muted ones are negative.
    fn with_turns(ords: &[i64]) -> Self {
        let fixture = Fixture::with_thread();
        for ord in ords {
            let turn: TurnId = id(u128::from(ord.unsigned_abs()) * 1_000);
            let thread: ThreadId = id(THREAD);
            let sql = "INSERT INTO turn(thread_id, ord, id, attempt, source, status, muted,
                started_ms, completed_ms) VALUES (?1, ?2, ?3, 1, 'queue', 'completed', ?4, 1, 2)";
            let row = params![thread, ord.abs(), turn, *ord < 0];
            fixture.connection.execute(sql, row).unwrap();
        }
        Self(fixture)
    }

    fn entry(&self, ord: i64, turn_ord: i64, kind: &str, item: Option<&str>) {
        let thread: ThreadId = id(THREAD);
        let sql = "INSERT INTO entry(thread_id, ord, turn_ord, kind, item_id, items)
            VALUES (?1, ?2, ?3, ?4, ?5, x'7b7d')";
        let row = params![thread, ord, turn_ord, kind, item];
        self.0.connection.execute(sql, row).unwrap();
    }

    fn item(&self, ord: i64, turn_ord: i64, kind: &str) {
        let thread: ThreadId = id(THREAD);
        let sql = "INSERT INTO item(thread_id, ord, turn_ord, id, type, body, started_ms,
            completed_ms) VALUES (?1, ?2, ?3, ?4, ?5, x'7b7d', 1, 2)";
        let row = params![thread, ord, turn_ord, format!("i{ord}"), kind];
        self.0.connection.execute(sql, row).unwrap();
    }

    /// The numbers of the entries and the ids of the messages without one.
    fn sent(&self) -> (Vec<i64>, Vec<String>) {
        let history = self.0.run(|db| history(db, id(THREAD))).unwrap();
        (
            history.entries.iter().map(|entry| entry.ord).collect(),
            history
                .unrecorded
                .into_iter()
                .map(|message| message.item.id)
                .collect(),
        )
    }
}

#[test]
fn without_a_compaction_everything_is_sent_but_muted_turns() {
    let thread = Thread::with_turns(&[1, -2, 3]);
    assert_eq!(thread.sent(), (vec![], vec![]));
    for ord in 1..=3 {
        thread.item(ord, ord, "userMessage");
        thread.entry(ord, ord, "user", Some(&format!("i{ord}")));
    }
    thread.item(4, 3, "userMessage");
    thread.item(5, 3, "agentMessage");
    thread.item(6, 2, "userMessage");
    assert_eq!(thread.sent(), (vec![1, 3], vec!["i4".to_owned()]));
    let history = thread.0.run(|db| history(db, id(THREAD))).unwrap();
    assert_eq!(history.entries[1].turn, id(3_000));
}

#[test]
fn the_last_compaction_replaces_everything_before_it() {
    let thread = Thread::with_turns(&[1, 2, 3]);
    thread.item(1, 1, "userMessage");
    thread.entry(1, 1, "compaction", None);
    thread.item(2, 2, "userMessage");
    thread.item(3, 2, "userMessage");
    thread.entry(2, 2, "user", Some("i2"));
    thread.entry(3, 2, "compaction", None);
    thread.entry(4, 2, "output", None);
    thread.item(4, 3, "userMessage");
    // i2 has its entry in front of the compaction of its own turn; i1 is of an earlier turn.
    assert_eq!(
        thread.sent(),
        (vec![3, 4], vec!["i3".to_owned(), "i4".to_owned()])
    );
}

#[test]
fn a_compaction_of_a_muted_turn_replaces_nothing() {
    let thread = Thread::with_turns(&[1, -2]);
    thread.entry(1, 1, "user", None);
    thread.entry(2, 2, "compaction", None);
    assert_eq!(thread.sent().0, [1]);
}

#[test]
fn turns_are_paged_by_number_in_both_directions() {
    let thread = Thread::with_turns(&[1, 2, 3, 4, 5]);
    let page = |after_ord, direction, limit| {
        let query = TurnQuery {
            thread: id(THREAD),
            after_ord,
            direction,
            limit,
        };
        let page = thread.0.run(|db| turns(db, &query)).unwrap();
        let ords: Vec<i64> = page.rows.iter().map(|turn| turn.ord).collect();
        (ords, page.next)
    };
    assert_eq!(page(None, Direction::Ascending, 2), (vec![1, 2], Some(2)));
    assert_eq!(
        page(Some(2), Direction::Ascending, 3),
        (vec![3, 4, 5], None)
    );
    assert_eq!(
        page(None, Direction::Descending, 4),
        (vec![5, 4, 3, 2], Some(2))
    );
    assert_eq!(page(Some(2), Direction::Descending, 4), (vec![1], None));
    assert_eq!(page(Some(1), Direction::Descending, 4), (vec![], None));
}

#[test]
fn items_are_paged_over_the_thread_or_one_turn() {
    let thread = Thread::with_turns(&[1, 2]);
    for ord in 1..=6 {
        thread.item(ord, 1 + i64::from(ord > 3), "agentMessage");
    }
    let page = |turn_ord, after_ord, direction| {
        let query = ItemQuery {
            thread: id(THREAD),
            turn_ord,
            after_ord,
            direction,
            limit: 2,
        };
        let page = thread.0.run(|db| items(db, &query)).unwrap();
        let ords: Vec<i64> = page.rows.iter().map(|item| item.ord).collect();
        (ords, page.next)
    };
    assert_eq!(
        page(None, Some(2), Direction::Ascending),
        (vec![3, 4], Some(4))
    );
    assert_eq!(
        page(None, Some(3), Direction::Descending),
        (vec![2, 1], None)
    );
    assert_eq!(
        page(Some(2), None, Direction::Ascending),
        (vec![4, 5], Some(5))
    );
    assert_eq!(
        page(Some(2), Some(5), Direction::Ascending),
        (vec![6], None)
    );
    assert_eq!(
        page(Some(1), None, Direction::Descending),
        (vec![3, 2], Some(2))
    );
    assert_eq!(page(Some(9), None, Direction::Ascending), (vec![], None));
}

#[test]
fn items_and_summaries_are_found_without_a_walk_over_other_threads() {
    let fixture = Fixture::with_thread();
    let found = fixture.run(|db| item(db, id(THREAD), "never")).unwrap();
    assert_eq!(found, None);
    let shown = fixture.run(|db| summaries(db, id(THREAD), &[1, 2]));
    assert!(shown.unwrap().is_empty());
}
