//! Tests of fan-out jobs over SQLite alone: the plans of their statements, and what a cancellation
//! writes.
//!
//! Every step here is explained by `plans`: none reads a table from end to end.

use std::fmt::Write as _;

use super::{claim, delete, import, items, jobs, report, retry, settle};
use crate::fanout::{
    AttemptOutcome, BegunItem, ClaimItems, Company, CreatedJob, ImportBatch, ImportProgress,
    ItemAttempt, ItemError, ItemReport, ItemStart, ItemState, ItemUsage, ItemsQuery, JobChange,
    JobKey, JobNo, JobOwner, JobQuery, JobRow, JobState, JobTo, Making, NewItemRow, NewJob,
    RepairItem, RetryItems, RetryWhich, ReturnUses, SealJob, SettleTo, Settlement,
};
use crate::queue::Fate;
use crate::sqlite::fixture::{Fixture, accept, complete, id, json, new_row, new_thread};
use crate::sqlite::plans::{assert_uses, forget_plans};
use crate::sqlite::{threads, turns};
use crate::thread::{IdleQuery, IdleScope, NewThread, ThreadQuery, ThreadSort};

fn new_job() -> NewJob {
    NewJob {
        id: "job".to_owned(),
        name: None,
        owner: JobOwner::Detached,
        owner_worker: None,
        parent_thread: Some(id(1)),
        parent_turn: None,
        client_job_id: Some("client".to_owned()),
        instruction: "do {a}".to_owned(),
        schema: None,
        channel: "tool".to_owned(),
        settings: json("settings"),
        limits: json("limits"),
        options: json("options"),
        current_limit: 8,
        input_ref: None,
        export_path: None,
        at_ms: 1,
    }
}

fn item_row(seq: i64) -> NewItemRow {
    NewItemRow {
        seq,
        item_id: (seq % 2 == 1).then(|| format!("id-{seq}")),
        cells: json("cells"),
        skipped: None,
        dup_of: None,
    }
}

fn number(seq: i64, attempt: u32) -> u128 {
    1_000_000 + u128::try_from(seq).unwrap() * 1_000 + u128::from(attempt)
}

/// Makes thread, row and turn of an item.
fn making() -> Making {
    Making::new(|item| {
        let number = number(item.seq, item.attempt);
        let thread = NewThread {
            source: "subAgentOther".to_owned(),
            ..new_thread(number)
        };
        ItemStart::Begin {
            thread: item.thread.is_none().then(|| Box::new(thread)),
            row: Box::new(new_row(number)),
            accept: Box::new(accept("item")),
            branch: None,
        }
    })
}

fn claiming(job: JobNo, company: Company) -> ClaimItems {
    ClaimItems {
        job,
        max: 4,
        company,
        making: making(),
        at_ms: 20,
    }
}

/// A running job with these rows.
fn running(fixture: &Fixture, rows: i64) -> JobNo {
    let made = fixture.run(|db| jobs::create(db, &new_job())).unwrap();
    let CreatedJob::Made(job) = made else {
        unreachable!("there is none")
    };
    let batch = ImportBatch {
        job: job.no,
        from_offset: 0,
        progress: ImportProgress {
            offset: rows,
            ..ImportProgress::default()
        },
        columns: json("columns"),
        rows: (0..rows).map(item_row).collect(),
    };
    fixture.run(|db| import::import(db, &batch)).unwrap();
    let seal = SealJob {
        job: job.no,
        fingerprint: [1; 32],
        at_ms: 2,
    };
    fixture.run(|db| import::seal(db, &seal)).unwrap();
    let to = JobTo::Running {
        owner: JobOwner::Detached,
        owner_worker: None,
    };
    change(fixture, job.no, to);
    job.no
}

fn read(fixture: &Fixture, job: JobNo) -> JobRow {
    let found = fixture.run(|db| jobs::job(db, &JobKey::No(job)));
    found.unwrap().unwrap()
}

fn change(fixture: &Fixture, job: JobNo, to: JobTo) {
    let version = read(fixture, job).version;
    let change = JobChange {
        job,
        version,
        to,
        at_ms: 30,
    };
    fixture.run(|db| jobs::change(db, &change)).unwrap();
}

fn settlement(of: ItemAttempt, to: SettleTo) -> Settlement {
    Settlement {
        item: of,
        outcome: AttemptOutcome::Failed,
        error: Some(ItemError {
            kind: "other".to_owned(),
            message: "no".to_owned(),
        }),
        usage: ItemUsage::default(),
        to,
    }
}

fn end_turn(fixture: &Fixture, begun: &BegunItem) {
    let complete = complete(&begun.accepted, Fate::Done, 21);
    fixture.run(|db| turns::complete(db, &complete)).unwrap();
}

fn of(job: JobNo, seq: i64) -> ItemAttempt {
    let attempt = 1;
    ItemAttempt { job, seq, attempt }
}

/// Walks every operation once; a statement that scans a table fails it.
fn every_operation(fixture: &Fixture) {
    let job = running(fixture, 12);
    fixture.run(|db| jobs::create(db, &new_job())).unwrap();
    let claimed = fixture
        .run(|db| claim::claim(db, &claiming(job, Company::Others)))
        .unwrap();
    assert_eq!(claimed.begun.len(), 4);
    for begun in &claimed.begun {
        end_turn(fixture, begun);
    }
    let unsettled = fixture.run(|db| settle::unsettled(db, job, 9)).unwrap();
    assert_eq!(unsettled.len(), 4);
    let repair = RepairItem {
        item: of(job, 0),
        row: new_row(77),
        accept: accept("repair"),
        usage: ItemUsage::default(),
        at_ms: 22,
    };
    let repaired = fixture.run(|db| claim::repair(db, &repair)).unwrap();
    end_turn(fixture, &repaired.unwrap());
    let report_of = |seq| ItemReport {
        item: of(job, seq),
        result: json("result"),
        digest: [3; 32],
        usage: ItemUsage::default(),
        stop: false,
        at_ms: 23,
    };
    for _ in 0..2 {
        fixture.run(|db| report::report(db, &report_of(0))).unwrap();
    }
    let back = |uses| SettleTo::Pending {
        not_before_ms: 5,
        same_thread: true,
        uses,
    };
    let settlements = [
        settlement(of(job, 1), SettleTo::Failed),
        settlement(of(job, 2), back(ReturnUses::Retry)),
        settlement(of(job, 3), back(ReturnUses::Loss)),
    ];
    fixture
        .run(|db| settle::settle(db, &settlements, 24))
        .unwrap();
    for company in [Company::Alone, Company::Others] {
        fixture
            .run(|db| claim::claim(db, &claiming(job, company)))
            .unwrap();
    }
    read_everything(fixture, job);
    change(fixture, job, JobTo::Cancelling { message: None });
    let running = fixture.connection.execute_batch(
        "UPDATE fanout_item SET state = 'failed', ended_ms = 1 WHERE state = 'running'",
    );
    running.unwrap();
    fixture
        .connection
        .execute_batch("UPDATE fanout_count SET failed = failed + running, running = 0")
        .unwrap();
    change(fixture, job, JobTo::EndIfDone);
    assert_eq!(read(fixture, job).state, JobState::Cancelled);
    for which in [
        RetryWhich::Items(vec!["id-1".to_owned(), "row-1".to_owned()]),
        RetryWhich::FailedOrCancelled,
    ] {
        let retry = RetryItems {
            job,
            which,
            instruction: None,
            at_ms: 40,
        };
        fixture.run(|db| retry::retry(db, &retry)).unwrap();
    }
    change(fixture, job, JobTo::Cancelling { message: None });
    fixture.run(|db| delete::delete(db, job)).unwrap();
}

fn read_everything(fixture: &Fixture, job: JobNo) {
    for states in [
        vec![],
        vec![ItemState::Running],
        vec![ItemState::Failed],
        vec![ItemState::Pending],
    ] {
        let query = ItemsQuery {
            job,
            from_seq: 0,
            states,
            limit: 5,
        };
        fixture.run(|db| items::items(db, &query)).unwrap();
    }
    fixture.run(|db| items::export_page(db, job, 0, 5)).unwrap();
    fixture.run(|db| items::item(db, job, "id-1")).unwrap();
    for parent in [None, Some(id(1))] {
        let query = JobQuery {
            after: None,
            states: vec![JobState::Running],
            parent,
            limit: 5,
        };
        fixture.run(|db| jobs::jobs(db, &query)).unwrap();
    }
    fixture.run(jobs::active).unwrap();
    for key in [JobKey::Id("job".to_owned()), JobKey::Unfinished([1; 32])] {
        assert!(fixture.run(|db| jobs::job(db, &key)).unwrap().is_some());
    }
}

#[test]
fn no_operation_of_fanout_jobs_reads_a_whole_table() {
    let fixture = Fixture::with_thread();
    forget_plans();
    every_operation(&fixture);
    let uses = |text, step| assert_uses(&fixture, text, step);
    uses(
        "AND losses < 2 AND not_before_ms <= ?2",
        "INDEX fanout_item_due (job=?",
    );
    uses(
        "AND losses >= 2 AND not_before_ms <= ?2",
        "INDEX fanout_item_alone (job=?",
    );
    uses("AND a.ended_ms IS NULL", "INDEX fanout_attempt_open (job=?");
    uses(
        "i.state = 'running' ORDER BY",
        "INDEX fanout_item_running (job=?",
    );
    uses(
        "i.state = 'failed' ORDER BY",
        "INDEX fanout_item_failed (job=?",
    );
    uses(
        "r.seq >= ?2 ORDER BY r.seq",
        "SEARCH r USING PRIMARY KEY (job=? AND seq>?)",
    );
    uses("min(not_before_ms)", "(job=?)");
    uses("SET state = 'cancelled'", "INDEX fanout_item_");
    uses("SET state = 'pending'", "INDEX fanout_item_");
    uses("FROM fanout_count", "PRIMARY KEY (job=?)");
    uses("fingerprint = ?1", "INDEX fanout_job_same (fingerprint=?)");
    uses(
        "parent_thread = ?5",
        "INDEX fanout_job_parent (parent_thread=?",
    );
    uses(
        "?5 IS NULL AND deleting",
        "INDEX fanout_job_list ((created_ms,id)<",
    );
}

#[test]
fn lists_of_threads_and_the_census_pass_over_the_threads_of_items() {
    let fixture = Fixture::with_thread();
    let job = running(&fixture, 8);
    fixture
        .run(|db| claim::claim(db, &claiming(job, Company::Others)))
        .unwrap();
    forget_plans();
    let only = ThreadQuery {
        sources: vec!["subAgentOther".to_owned()],
        ..ThreadQuery::default()
    };
    let page = fixture.run(|db| threads::threads(db, &only)).unwrap();
    assert_eq!(page.rows.len(), 4);
    let index = "thread_of_item (archived=? AND (created_ms,id)<";
    assert_uses(&fixture, "source = 'subAgentOther'", index);
    forget_plans();
    for sort in [
        ThreadSort::Created,
        ThreadSort::Updated,
        ThreadSort::Recency,
    ] {
        let all = ThreadQuery {
            sort,
            ..ThreadQuery::default()
        };
        let page = fixture.run(|db| threads::threads(db, &all)).unwrap();
        assert_eq!(page.rows.len(), 5);
    }
    let idle = IdleQuery {
        before_ms: 1_000,
        scope: IdleScope::All,
        limit: 5,
    };
    fixture.run(|db| threads::idle_since(db, idle)).unwrap();
    fixture
        .run(|db| threads::delete_if_idle(db, id(99), 5))
        .unwrap();
    // Not by `run`: counting the idle ones walks an index, as it is meant to.
    let plan = fixture.explain(include_str!("../sql/census.sql"));
    let reads: Vec<_> = plan.iter().filter(|step| step.contains("lane")).collect();
    let walks = |step: &&&String| step.starts_with("SCAN lane USING INDEX lane_doing");
    assert_eq!(reads.iter().filter(walks).count(), 1, "{plan:?}");
    let counts = |step: &&&String| step.starts_with("SCAN lane USING COVERING INDEX");
    assert_eq!(reads.iter().filter(counts).count(), 1, "{plan:?}");
}

#[test]
fn a_cancellation_writes_the_job_and_nothing_else() {
    let fixture = Fixture::with_thread();
    let job = running(&fixture, 50);
    let rows = |fixture: &Fixture| {
        let mut text = String::new();
        for table in [
            "fanout_row",
            "fanout_item",
            "fanout_attempt",
            "fanout_count",
        ] {
            let count = fixture.count(&format!("SELECT 1 FROM {table}"));
            let _ = writeln!(text, "{table} {count}");
        }
        text
    };
    fixture
        .run(|db| claim::claim(db, &claiming(job, Company::Others)))
        .unwrap();
    let before = rows(&fixture);
    let changes = fixture.connection.total_changes();
    change(&fixture, job, JobTo::Cancelling { message: None });
    assert_eq!(fixture.connection.total_changes() - changes, 1);
    assert_eq!(rows(&fixture), before);
    let now = read(&fixture, job);
    assert_eq!((now.counts.cancelled, now.counts.running), (46, 4));
}
