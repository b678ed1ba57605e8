//! A database in memory with the schema, workers that live or not, and short ways to the usual steps.
//!
//! The invariant here: after every step, refused or not, the lanes are as the contract promises (see
//! [`Fixture::check`]), and no statement of it reads a whole table (see `plans`).
//!
//! Threads, commits and files are tested where they are made.

use rusqlite::Connection;
use tempfile::TempDir;
use uuid::Uuid;

use super::fault::Fault;
use super::worker_lock::{HeldLock, WorkerLocks};
use super::{Db, claim, lane, plans, queue, threads, turns};
use crate::error::StoreError;
use crate::ids::{Grip, RowId, ThreadId, TurnId, WorkerId};
use crate::json::Json;
use crate::lane::{LaneView, Waiting};
use crate::queue::{
    Accepting, Append, Appended, CannotStart, Claim, Claimed, Fate, NewRow, Policies, Row, Verdict,
    Which,
};
use crate::thread::{Listed, NewThread};
use crate::turn::{
    Accept, Accepted, AcceptedTurn, Complete, FirstItem, Keep, PauseChange, Put, TurnEnd,
    TurnStatus, WaitingChange,
};

/// For how long keys are remembered here.
pub(super) const WINDOW_MS: i64 = 1_000;

/// The thread of most tests.
pub(super) const THREAD: u128 = 1;

/// An id that is easy to tell.
pub(super) fn id<T: From<Uuid>>(number: u128) -> T {
    Uuid::from_u128(number).into()
}

/// A payload that is easy to tell.
pub(super) fn json(text: &str) -> Json {
    Json::new(format!("{{\"t\":\"{text}\"}}"))
}

/// One of the workers that share the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Me,
    Other,
}

impl Who {
    pub(super) fn id(self) -> WorkerId {
        match self {
            Self::Me => id(0xa),
            Self::Other => id(0xb),
        }
    }
}

pub(super) struct Fixture {
    pub(super) connection: Connection,
    pub(super) locks: WorkerLocks,
    _me: HeldLock,
    _folder: TempDir,
}

impl Fixture {
    /// An empty database; I live, the other worker does not.
    pub(super) fn new() -> Self {
        let mut connection = Connection::open_in_memory().unwrap();
        plans::listen(&mut connection);
        connection
            .pragma_update(None, "foreign_keys", true)
            .unwrap();
        let schema = super::migrate::MIGRATIONS.concat();
        connection.execute_batch(&schema).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let locks = WorkerLocks::within(folder.path().to_owned());
        Self {
            connection,
            _me: locks.hold(Who::Me.id()).unwrap(),
            locks,
            _folder: folder,
        }
    }

    /// The same with one thread.
    pub(super) fn with_thread() -> Self {
        let fixture = Self::new();
        fixture.create(THREAD);
        fixture
    }

    /// The other worker lives while this is kept.
    pub(super) fn other_lives(&self) -> HeldLock {
        self.locks.hold(Who::Other.id()).unwrap()
    }

    /// Writes the row of a worker.
    pub(super) fn register(&self, who: Who) {
        let sql = "INSERT INTO worker VALUES (?1, 1, 1, 'boot', 'host', NULL, 'serve', 0)";
        self.connection.execute(sql, [who.id()]).unwrap();
    }

    /// Runs one operation of that worker as the writer does: whole or not at all.
    pub(super) fn by<T>(
        &self,
        who: Who,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let db = Db {
            connection: &self.connection,
            me: who.id(),
            locks: &self.locks,
        };
        self.connection.execute_batch("SAVEPOINT op").unwrap();
        let end = plans::watch(&self.connection, || work(&db));
        let end = end.map_err(|fault| fault.while_trying_to("try"));
        let over = match end {
            Ok(_) => "RELEASE op",
            Err(_) => "ROLLBACK TO op; RELEASE op",
        };
        self.connection.execute_batch(over).unwrap();
        self.check();
        end
    }

    /// The same for me.
    pub(super) fn run<T>(
        &self,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.by(Who::Me, work)
    }

    /// The steps in which SQLite carries a statement out.
    pub(super) fn explain(&self, sql: &str) -> Vec<String> {
        plans::plan(&self.connection, sql)
    }

    /// Counts what a query finds.
    pub(super) fn count(&self, sql: &str) -> i64 {
        let counted = format!("SELECT count(*) FROM ({sql})");
        self.connection
            .query_row(&counted, [], |row| row.get(0))
            .unwrap()
    }

    /// What holds for every lane at all times.
    fn check(&self) {
        let broken = "SELECT thread_id FROM lane WHERE depth <> (SELECT count(*) FROM queued_turn q
                WHERE q.thread_id = lane.thread_id AND q.state IN ('queued','blocked'))
            OR active IS NOT (SELECT id FROM queued_turn q WHERE q.thread_id = lane.thread_id
                AND q.state IN ('claimed','started','reconcile'))
            OR next_pos <= (SELECT max(pos) FROM queued_turn q WHERE q.thread_id = lane.thread_id)
            OR (active IS NOT NULL AND owner IS NULL)
            OR (depth = 0 AND ready_ms IS NOT NULL)
            OR EXISTS (SELECT 1 FROM turn t WHERE t.thread_id = lane.thread_id
                AND t.status = 'inProgress' AND NOT EXISTS (SELECT 1 FROM queued_turn q
                WHERE q.thread_id = t.thread_id AND q.turn_id = t.id
                AND q.state IN ('started','reconcile')))";
        assert_eq!(self.count(broken), 0, "a lane is not as promised");
    }

    pub(super) fn create(&self, thread: u128) {
        self.run(|db| threads::create(db, &new_thread(thread)))
            .unwrap();
    }

    /// Adds a row; its turn id is the row's number times 1,000.
    pub(super) fn add(&self, row: u128) -> Row {
        match self.append(&append(row)).unwrap() {
            Appended::New(row) => row,
            Appended::Repeated(_) => unreachable!("the row has no key"),
        }
    }

    pub(super) fn append(&self, append: &Append) -> Result<Appended, StoreError> {
        let appended = self.run(|db| queue::append(db, append));
        appended.map(|changed| changed.value)
    }

    /// Adds many rows at once.
    pub(super) fn fill(&self, rows: u32) {
        let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
            INSERT INTO queued_turn(thread_id, id, turn_id, source, pos, state, on_error, on_crash,
                on_cannot_start, on_limit, content_hash, client_id, params, created_ms, updated_ms)
            SELECT ?1, printf('00000000-0000-0000-0000-%012x', i),
                printf('00000000-0000-0000-0001-%012x', i), 'queue', 1024 * i, 'queued', 'continue',
                'block', 'block', 'wait', zeroblob(32), 'c', x'7b7d', 1, 1 FROM n";
        let count = "UPDATE lane SET depth = ?2, max_depth = 2 * ?2, next_pos = 1024 * (?2 + 1),
            ready_ms = 0 WHERE thread_id = ?1";
        let thread: ThreadId = id(THREAD);
        for sql in [fill, count] {
            let filled = rusqlite::params![thread, rows];
            self.connection.execute(sql, filled).unwrap();
        }
    }

    pub(super) fn look(&self) -> LaneView {
        self.run(|db| lane::look(db, id(THREAD))).unwrap()
    }

    pub(super) fn ready_ms(&self) -> Option<i64> {
        let sql = "SELECT ready_ms FROM lane WHERE thread_id = ?1";
        let thread: ThreadId = id(THREAD);
        self.connection
            .query_row(sql, [thread], |row| row.get(0))
            .unwrap()
    }

    /// The visible rows by number, from the head on.
    pub(super) fn order(&self) -> Vec<u128> {
        let sql = "SELECT id FROM queued_turn WHERE state IN ('queued','blocked') ORDER BY pos";
        let mut statement = self.connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(|row: Result<RowId, _>| row.unwrap().as_uuid().as_u128())
            .collect()
    }

    pub(super) fn row(&self, row: u128) -> Row {
        let found = self.run(|db| match super::rows::find_row(db, id(THREAD), id(row))? {
            Some(row) => queue::placed(db, id(THREAD), row).map(Some),
            None => Ok(None),
        });
        found.unwrap().unwrap()
    }

    /// Claims and accepts at that time; none when something holds the lane.
    pub(super) fn try_begin(&self, which: Which, at_ms: i64) -> Option<AcceptedTurn> {
        let wanted = claim_of(which, at_ms);
        let claimed = self.run(|db| claim::claim_and_accept(db, &wanted, &accepting()));
        match claimed.unwrap() {
            Claimed::Ours(Accepted::Begun(begun)) => Some(*begun),
            Claimed::Ours(Accepted::CannotStart(_) | Accepted::Claimed(_)) => {
                unreachable!("everything is accepted")
            }
            Claimed::NotNow(_) => None,
        }
    }

    /// Claims and accepts the head.
    pub(super) fn begin(&self, at_ms: i64) -> AcceptedTurn {
        self.try_begin(Which::Head, at_ms).unwrap()
    }

    /// Ends a turn as completed with that fate.
    pub(super) fn end(&self, begun: &AcceptedTurn, fate: Fate, at_ms: i64) -> LaneView {
        let complete = complete(begun, fate, at_ms);
        self.run(|db| turns::complete(db, &complete)).unwrap().lane
    }

    /// Adds a row and lets it fail, so that it is shown as failed at the head.
    pub(super) fn add_blocked(&self, row: u128, at_ms: i64) {
        self.add(row);
        let which = Which::Row(id(row));
        let claimed = self.run(|db| claim::claim(db, &claim_of(which, at_ms)));
        let Claimed::Ours(claimed) = claimed.unwrap() else {
            unreachable!("the lane is idle")
        };
        let how = CannotStart::Block {
            failure: json("no"),
            turn: id(row * 1_000 + 1),
        };
        self.run(|db| claim::unclaim(db, claimed.grip, id(row), &how, at_ms))
            .unwrap();
    }
}

pub(super) fn new_thread(thread: u128) -> NewThread {
    NewThread {
        id: id(thread),
        engine: "native".to_owned(),
        settings: json("settings"),
        facts: json("facts"),
        name: None,
        cwd: "/w".to_owned(),
        source: "cli".to_owned(),
        provider: "p".to_owned(),
        parent: None,
        binding: None,
        listed: Listed::Yes,
        max_depth: 1_000,
        at_ms: i64::try_from(thread).unwrap(),
    }
}

pub(super) fn new_row(row: u128) -> NewRow {
    NewRow {
        id: id(row),
        turn: id(row * 1_000),
        source: "queue".to_owned(),
        params: json("params"),
        client_id: format!("client-{row}"),
        key: None,
        content_hash: [7; 32],
        not_before_ms: 0,
        policies: Policies::default(),
        bound: None,
    }
}

pub(super) fn append(row: u128) -> Append {
    Append {
        thread: id(THREAD),
        row: new_row(row),
        key_window_ms: WINDOW_MS,
        at_ms: 10,
    }
}

pub(super) fn claim_of(which: Which, at_ms: i64) -> Claim {
    Claim {
        thread: id(THREAD),
        which,
        at_ms,
    }
}

/// Accepts every row with a message named after its turn.
pub(super) fn accepting() -> Accepting {
    Accepting::new(|acceptance| {
        Verdict::Accept(Box::new(accept(&format!("said-{}", acceptance.row.turn))))
    })
}

pub(super) fn refusing(how: CannotStart) -> Accepting {
    Accepting::new(move |_| Verdict::CannotStart(Box::new(how.clone())))
}

pub(super) fn accept(item: &str) -> Accept {
    Accept {
        item: Some(FirstItem {
            id: item.to_owned(),
            kind: "userMessage".to_owned(),
            body: json("hello"),
        }),
        settings: None,
        cwd: None,
        preview: Some("hello".to_owned()),
    }
}

pub(super) fn ended(status: TurnStatus) -> TurnEnd {
    TurnEnd {
        status,
        error: None,
        usage: Some(json("usage")),
        muted: false,
    }
}

pub(super) fn complete(begun: &AcceptedTurn, fate: Fate, at_ms: i64) -> Complete {
    Complete {
        grip: begun.grip,
        row: begun.row.id,
        turn_ord: begun.turn.ord,
        end: ended(TurnStatus::Completed),
        put: Put::default(),
        fate,
        waiting: WaitingChange::Keep,
        pause: PauseChange::Keep,
        keep: Keep::Ours,
        at_ms,
    }
}

pub(super) fn waiting(until_ms: Option<i64>) -> Waiting {
    Waiting {
        kind: "rateLimit".to_owned(),
        message: "slow down".to_owned(),
        since_ms: 0,
        until_ms,
        nth: 1,
        login: None,
    }
}

/// A grip that was never given.
pub(super) fn no_grip() -> Grip {
    Grip {
        thread: id(THREAD),
        fence: crate::ids::Fence(99),
    }
}

pub(super) fn turn(number: u128) -> TurnId {
    id(number)
}
