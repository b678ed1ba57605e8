//! What a lane's steps cost does not depend on how many rows wait, in it or beside it.
//!
//! Cost is counted in steps of SQLite's own machine, not in time, so the tests are deterministic. A
//! step more or less per statement is allowed for; a walk over rows is not. How long it takes is
//! measured by the benchmark of the store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, StatementStatus};

use crate::ids::ThreadId;
use crate::queue::{Append, CannotStart, Claim, Claimed, Fate, Move, MoveTo, Which};
use crate::sqlite::fault::Fault;
use crate::sqlite::fixture::{Fixture, Who, accepting, complete, id, new_row};
use crate::sqlite::open::{Place, Purpose, connect};
use crate::sqlite::{Db, claim, lane, migrate, order, queue, turns};
use crate::turn::Accepted;

/// The lane of the steps that are counted.
const LANE: u128 = 1;

/// A database with the store's own settings and a counter of steps.
struct Counted {
    fixture: Fixture,
    steps: Arc<AtomicU64>,
}

/// What each kind of step has cost.
type Costs = Vec<(&'static str, u64)>;

impl Counted {
    /// So many lanes with so many rows each.
    fn new(lanes: u128, rows: u32) -> Self {
        let mut fixture = Fixture::new();
        fixture.connection = connect(&Place::Memory, Purpose::Write).unwrap();
        migrate::prepare(&fixture.connection, Path::new(":memory:")).unwrap();
        for lane in LANE..=lanes {
            fixture.create(lane);
        }
        for lane in LANE..=lanes {
            fill(&fixture.connection, lane, rows);
        }
        let steps = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&steps);
        let count = move || {
            counter.fetch_add(1, Ordering::Relaxed);
            false
        };
        fixture.connection.progress_handler(1, Some(count)).unwrap();
        Self { fixture, steps }
    }

    /// The steps of an operation, and what it made.
    fn cost<T>(&self, work: impl FnOnce(&Db<'_>) -> Result<T, Fault>) -> (u64, T) {
        let db = Db {
            connection: &self.fixture.connection,
            me: Who::Me.id(),
            locks: &self.fixture.locks,
        };
        let before = self.steps.load(Ordering::Relaxed);
        let made = work(&db).map_err(|fault| fault.while_trying_to("try"));
        let cost = self.steps.load(Ordering::Relaxed) - before;
        (cost, made.unwrap())
    }

    /// Takes each step that must not depend on the depth.
    fn costs(&self) -> Costs {
        let thread: ThreadId = id(LANE);
        let head = Claim {
            thread,
            which: Which::Head,
            at_ms: 20,
        };
        let mut costs = Vec::new();

        let (cost, claimed) = self.cost(|db| claim::claim(db, &head));
        costs.push(("claim the head", cost));
        let Claimed::Ours(claimed) = claimed else {
            unreachable!("the lane is idle")
        };
        let (cost, busy) = self.cost(|db| claim::claim(db, &head));
        costs.push(("claim on a busy lane", cost));
        assert!(matches!(busy, Claimed::NotNow(_)));
        let back = CannotStart::Back {
            turn: id(u128::MAX),
            not_before_ms: 0,
            waiting: None,
        };
        let (grip, row) = (claimed.grip, claimed.row.id);
        let (cost, _) = self.cost(|db| claim::unclaim(db, grip, row, &back, 21));
        costs.push(("put it back", cost));

        let (cost, begun) = self.cost(|db| claim::claim_and_accept(db, &head, &accepting()));
        costs.push(("claim and accept", cost));
        let Claimed::Ours(Accepted::Begun(begun)) = begun else {
            unreachable!("the lane is idle")
        };
        let end = complete(&begun, Fate::Done, 30);
        let (cost, _) = self.cost(|db| turns::complete(db, &end));
        costs.push(("complete", cost));

        let append = Append {
            thread,
            row: new_row(u128::MAX / 1_001),
            key_window_ms: 0,
            at_ms: 40,
        };
        let (cost, _) = self.cost(|db| queue::append(db, &append));
        costs.push(("add", cost));
        let (cost, lane) = self.cost(|db| lane::look(db, thread));
        costs.push(("look", cost));
        let to = Move {
            thread,
            row: append.row.id,
            to: MoveTo::Before(id(2)),
            at_ms: 50,
        };
        let (cost, _) = self.cost(|db| order::move_row(db, &to));
        costs.push(("move to the head", cost));
        let (cost, _) = self.cost(|db| queue::delete(db, thread, append.row.id, 60));
        costs.push(("delete", cost));
        assert!(lane.depth > 1);
        costs
    }
}

/// Adds rows to a lane without counting: numbered from 1, each with a position of its own.
fn fill(connection: &Connection, lane: u128, rows: u32) {
    let thread: ThreadId = id(lane);
    let add = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
        INSERT INTO queued_turn(thread_id, id, turn_id, source, pos, state, on_error, on_crash,
            on_cannot_start, on_limit, content_hash, client_id, params, created_ms, updated_ms)
        SELECT ?1, printf('00000000-0000-0000-0000-%012x', i),
            printf('00000000-0000-0000-0001-%012x', i), 'queue', 1024 * i, 'queued', 'continue',
            'block', 'block', 'wait', zeroblob(32), 'c', x'7b7d', 1, 1 FROM n";
    let count = "UPDATE lane SET depth = ?2, max_depth = 2 * ?2, next_pos = 1024 * (?2 + 1),
        ready_ms = 0 WHERE thread_id = ?1";
    for sql in [add, count] {
        let values = rusqlite::params![thread, rows];
        connection.execute(sql, values).unwrap();
    }
}

fn assert_as_cheap(deep: &Costs, shallow: &Costs) {
    for ((what, deep), (_, shallow)) in deep.iter().zip(shallow) {
        assert!(*shallow > 0, "{what} is counted");
        assert!(
            *deep <= 2 * shallow,
            "{what}: {deep} steps instead of {shallow}"
        );
    }
}

#[test]
fn a_lane_with_100_000_rows_costs_what_one_with_10_does() {
    let shallow = Counted::new(1, 10).costs();
    let deep = Counted::new(1, 100_000).costs();
    assert_as_cheap(&deep, &shallow);
}

#[test]
fn a_lane_beside_100_others_with_1_000_rows_costs_what_one_alone_does() {
    let alone = Counted::new(1, 10).costs();
    let among = Counted::new(100, 1_000).costs();
    assert_as_cheap(&among, &alone);
}

#[test]
fn a_lane_with_10_000_ended_rows_costs_what_a_new_one_does() {
    let new = Counted::new(1, 10).costs();
    let old = Counted::new(1, 10_010);
    let end =
        "UPDATE queued_turn SET state = 'done', pos = NULL, ended_ms = 1 WHERE pos > 1024 * 10";
    let ended = old.fixture.connection.execute(end, []).unwrap();
    assert_eq!(ended, 10_000);
    let count = "UPDATE lane SET depth = 10";
    old.fixture.connection.execute(count, []).unwrap();
    assert_as_cheap(&old.costs(), &new);
}

#[test]
fn a_walk_over_the_rows_of_a_lane_would_be_counted() {
    let walk = |rows| {
        let counted = Counted::new(1, rows);
        let (cost, _) = counted.cost(|db| {
            let sql = "SELECT count(*) FROM queued_turn WHERE attempts = 0";
            let count: i64 = db.connection.query_row(sql, [], |row| row.get(0))?;
            Ok(count)
        });
        cost
    };
    assert!(walk(10_000) > 100 * walk(10));
}

#[test]
fn a_statement_is_not_prepared_again_for_other_values() {
    let counted = Counted::new(2, 10);
    counted.costs();
    let connection = &counted.fixture.connection;
    for sql in [
        include_str!("../sql/lane.sql"),
        include_str!("../sql/head.sql"),
    ] {
        let mut statement = connection.prepare_cached(sql).unwrap();
        for lane in 0..2 {
            let thread: ThreadId = id(LANE + lane);
            assert!(statement.exists([thread]).unwrap());
        }
        assert!(statement.get_status(StatementStatus::Run) > 5);
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{sql}");
    }
}
