//! How SQLite finds what the operations ask for.
//!
//! The invariant here: whatever statement a test of the operations runs, it is explained, and reads
//! no table from end to end: what a lane costs depends neither on its depth nor on its neighbours.
//! Partial indexes are used only by queries that repeat their conditions, which nothing but the plan
//! shows.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::{Connection, StatementStatus};

use super::fault::Fault;
use super::fixture::{Fixture, THREAD, append, id};
use super::{history, owner, queue, threads};
use crate::queue::{Back, Fate, QueueFrom, QueueQuery, Which};
use crate::thread::{Direction, ThreadQuery, ThreadSort};
use crate::turn::HistoryEnd;

/// Walks over an index that holds only a few rows of its table: lanes that have an owner or wait,
/// rows that are bound, approvals that are open, jobs that are being deleted,
/// attempts that are not closed.
const SHORT_WALKS: [&str; 7] = [
    "SCAN lane USING COVERING INDEX lane_owner",
    "SCAN lane USING INDEX lane_owner",
    "SCAN lane USING INDEX lane_waiting",
    "SCAN queued_turn USING COVERING INDEX bound_to",
    "SCAN approval USING INDEX approval_open",
    "SCAN fanout_job USING INDEX fanout_job_deleting",
    "SCAN fanout_attempt USING INDEX fanout_attempt_open",
];

thread_local! {
    /// Only operations are listened to, not what tests ask by themselves.
    static LISTENS: Cell<bool> = const { Cell::new(false) };
    static HEARD: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    static EXPLAINED: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    /// How many steps each statement has taken in all its runs.
    static STEPS: RefCell<BTreeMap<String, i64>> = const { RefCell::new(BTreeMap::new()) };
}

/// Lets [`watch`] hear the statements of a connection.
pub(super) fn listen(connection: &mut Connection) {
    let heard = |event: TraceEvent<'_>| match event {
        TraceEvent::Stmt(_, sql) if LISTENS.get() => {
            HEARD.with_borrow_mut(|heard| heard.insert(sql.to_owned()));
        }
        TraceEvent::Profile(statement, _) if LISTENS.get() => {
            let steps = statement.get_status(StatementStatus::VmStep).into();
            STEPS.with_borrow_mut(|all| all.insert(statement.sql().into_owned(), steps));
        }
        _ => {}
    };
    let both = TraceEventCodes::SQLITE_TRACE_STMT | TraceEventCodes::SQLITE_TRACE_PROFILE;
    connection.trace_v2(both, Some(heard)).unwrap();
}

/// Runs an operation and looks at the plan of every statement that is new.
pub(super) fn watch<T>(
    connection: &Connection,
    work: impl FnOnce() -> Result<T, Fault>,
) -> Result<T, Fault> {
    LISTENS.set(true);
    let end = work();
    LISTENS.set(false);
    for sql in HEARD.take() {
        // What foreign keys do by themselves is heard as a remark.
        let is_a_statement = sql.lines().any(|line| !line.starts_with("--"));
        if is_a_statement && EXPLAINED.with_borrow_mut(|known| known.insert(sql.clone())) {
            for step in plan(connection, &sql) {
                assert!(!is_long_walk(&step), "{step}: {sql}");
            }
        }
    }
    end
}

fn is_long_walk(step: &str) -> bool {
    let tables = [
        "queued_turn",
        "lane",
        "thread",
        "turn",
        "item",
        "entry",
        "approval",
        "fanout_job",
        "fanout_row",
        "fanout_item",
        "fanout_attempt",
        "fanout_result",
        "fanout_count",
        // The names that those have in statements with several of them.
        "r",
        "i",
        "a",
        "q",
        "t",
        "result",
        "other",
    ];
    let mut words = step.split_whitespace();
    let scans = words.next() == Some("SCAN") && words.next().is_some_and(|t| tables.contains(&t));
    scans && !SHORT_WALKS.iter().any(|short| step.starts_with(short))
}

/// Forgets the statements heard so far.
pub(super) fn forget_plans() {
    EXPLAINED.take();
}

pub(super) fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    let steps = statement.raw_query().mapped(|row| row.get(3));
    steps.map(Result::unwrap).collect()
}

/// The plans of those statements heard so far that hold this text.
fn plans_of(fixture: &Fixture, text: &str) -> Vec<Vec<String>> {
    let known = EXPLAINED.with_borrow(Clone::clone);
    let found = known.iter().filter(|sql| sql.contains(text));
    let plans: Vec<_> = found.map(|sql| plan(&fixture.connection, sql)).collect();
    assert!(!plans.is_empty(), "nothing was asked with {text:?}");
    plans
}

/// Fails unless each plan of such a statement has this step, and sorts nothing.
pub(super) fn assert_uses(fixture: &Fixture, text: &str, step: &str) {
    for plan in plans_of(fixture, text) {
        assert!(
            plan.iter().any(|found| found.contains(step)),
            "{text}: {plan:?}"
        );
        // The ended rows of one key are few enough to be sorted.
        let sorts = plan.iter().any(|found| found.contains("TEMP B-TREE"));
        assert!(!sorts || step.contains("ended_key"), "{text}: {plan:?}");
    }
}

#[test]
fn a_history_is_one_range_of_entries_and_a_few_messages() {
    let fixture = Fixture::with_thread();
    fixture.run(|db| history::history(db, id(THREAD))).unwrap();
    assert_uses(
        &fixture,
        "entry.kind = 'compaction'",
        "INDEX entry_compaction (thread_id=?)",
    );
    for plan in plans_of(&fixture, "entry.ord >= ?2") {
        assert!(plan[0].starts_with("SEARCH entry USING"), "{plan:?}");
        assert!(plan[0].ends_with("(thread_id=? AND ord>?)"), "{plan:?}");
        assert!(plan[1].ends_with("(thread_id=? AND ord=?)"), "{plan:?}");
        assert_eq!(plan.len(), 2, "{plan:?}");
    }
    let messages = "item USING INDEX item_user (thread_id=? AND turn_ord>?)";
    assert_uses(&fixture, "item.type = 'userMessage'", messages);
}

#[test]
fn whether_a_known_history_holds_is_one_entry_and_its_turn() {
    let fixture = Fixture::with_thread();
    let known = HistoryEnd {
        ord: 1,
        turn: id(1),
        next_turn_ord: 2,
    };
    fixture
        .run(|db| history::behind(db, id(THREAD), known))
        .unwrap();
    for plan in plans_of(&fixture, "entry.ord = ?2") {
        for step in &plan {
            assert!(step.ends_with("(thread_id=? AND ord=?)"), "{plan:?}");
        }
        assert_eq!(plan.len(), 2, "{plan:?}");
    }
}

#[test]
fn a_page_of_threads_walks_the_index_of_its_sort() {
    let fixture = Fixture::with_thread();
    for (sort, index) in [
        (
            ThreadSort::Created,
            "thread_created (archived=? AND (created_ms,id)>",
        ),
        (
            ThreadSort::Updated,
            "thread_updated (archived=? AND (updated_ms,id)>",
        ),
        (
            ThreadSort::Recency,
            "thread_recency (archived=? AND (recency_ms,id)>",
        ),
    ] {
        for direction in [Direction::Ascending, Direction::Descending] {
            let query = ThreadQuery {
                sort,
                direction,
                not_sources: vec!["subAgentOther".to_owned()],
                ..ThreadQuery::default()
            };
            EXPLAINED.take();
            fixture.run(|db| threads::threads(db, &query)).unwrap();
            let index = match direction {
                Direction::Ascending => index.to_owned(),
                Direction::Descending => index.replace('>', "<"),
            };
            assert_uses(&fixture, "json_each", &index);
        }
    }
}

#[test]
fn the_partial_indexes_find_what_they_were_made_for() {
    let fixture = Fixture::with_thread();
    let mut keyed = append(5);
    keyed.row.key = Some("k".to_owned());
    fixture.append(&keyed).unwrap();
    let begun = fixture.begin(20);
    let back = Fate::Back {
        turn: id(5_001),
        not_before_ms: 0,
        why: Back::Retry,
    };
    fixture.end(&begun, back, 30);
    fixture.run(|db| owner::ready(db, 40, 10)).unwrap();
    fixture.run(owner::owned).unwrap();
    assert_uses(
        &fixture,
        "ORDER BY pos LIMIT 1",
        "USING INDEX one_pos (thread_id=? AND pos>?)",
    );
    assert_uses(
        &fixture,
        "SELECT min(pos)",
        "USING INDEX one_pos (thread_id=? AND pos>?)",
    );
    assert_uses(
        &fixture,
        "(index one_key)",
        "INDEX one_key (thread_id=? AND dedupe=?)",
    );
    assert_uses(
        &fixture,
        "state IN ('done','dead') AND ended_ms",
        "INDEX ended_key",
    );
    assert_uses(&fixture, "index lane_ready", "INDEX lane_ready (ready_ms");
    assert_uses(
        &fixture,
        "SELECT min(ready_ms)",
        "INDEX lane_ready (ready_ms",
    );
    assert_uses(
        &fixture,
        "SELECT thread_id, revision",
        "INDEX lane_owner (owner=?)",
    );
}

/// How many steps SQLite's machine takes for a claim, a claim in vain, an end and an add.
fn steps_at_depth(depth: u32) -> i64 {
    let fixture = Fixture::with_thread();
    fixture.fill(depth);
    STEPS.take();
    let begun = fixture.begin(20);
    assert!(fixture.try_begin(Which::Head, 20).is_none());
    let back = Fate::Back {
        turn: id(1 << 100),
        not_before_ms: 0,
        why: Back::Retry,
    };
    fixture.end(&begun, back, 30);
    fixture.add(1 << 100);
    fixture.run(|db| owner::ready(db, 40, 10)).unwrap();
    STEPS.take().values().sum()
}

#[test]
fn the_rows_in_front_of_one_are_counted_without_reading_them() {
    let fixture = Fixture::with_thread();
    fixture.append(&append(5)).unwrap();
    let query = QueueQuery {
        thread: id(THREAD),
        from: QueueFrom::After(0),
        limit: 1,
    };
    fixture.run(|db| queue::queue(db, &query)).unwrap();
    let counted = "COVERING INDEX one_pos (thread_id=? AND pos<?)";
    assert_uses(&fixture, "SELECT COUNT(*)", counted);
}

#[test]
fn the_work_of_a_claim_does_not_grow_with_the_depth() {
    assert_eq!(steps_at_depth(10), steps_at_depth(50_000));
}
