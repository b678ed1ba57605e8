//! What must hold after each act of the script of operations, whatever call of it failed.

use std::collections::HashMap;

use rusqlite::OpenFlags;

use super::acts::{A, ACTS, FAN_OUT, adding, play};
use super::player::{Player, dump, seen};
use super::*;
use crate::ids::RowId;
use crate::queue::Appended;
use crate::sqlite::fixture::id;
use crate::sqlite::recovery;

/// The first play, in the child.
pub(super) async fn script(said: &Said, act: usize) {
    said.copy_template();
    let store = said.open();
    play(act, &mut Player::first(&store, said)).await;
    if said.end != "kill" {
        let closed = Store::close(&store).await.is_ok();
        said.say(if closed { "CLOSED" } else { "NOT-CLOSED" });
    }
}

/// What stores without faults hold after what was acknowledged, by that.
#[derive(Default)]
pub(super) struct Known(HashMap<String, String>);

impl Known {
    /// What a store without faults holds after the acknowledged operations of an act.
    async fn after(&mut self, act: usize, lines: &[&str]) -> String {
        let text = lines.join("\n");
        if let Some(known) = self.0.get(&text) {
            return known.clone();
        }
        let opened = lines.iter().find_map(|line| line.strip_prefix("OPENED "));
        let opened = worker(opened.unwrap().parse().unwrap());
        let store = SqliteStore::open_in_memory(opened.clone()).unwrap();
        let leave = |store: &SqliteStore| {
            store.write(KEPT, |db| {
                recovery::leave(db).map_err(|cause| cause.while_trying_to("leave"))
            })
        };
        for before in 0..act {
            play(before, &mut Player::sure(&store)).await;
            leave(&store).await.unwrap();
            come_back(&store, opened.clone()).await.unwrap();
        }
        play(act, &mut Player::again(&store, lines.iter().copied())).await;
        if lines.contains(&"CLOSED") {
            leave(&store).await.unwrap();
        }
        let held = seen(&store).await;
        self.0.insert(text, held.clone());
        held
    }
}

/// Registers a worker again that has left: the store of the next act in the child is opened anew.
fn come_back(store: &SqliteStore, worker: Worker) -> Work<()> {
    store.write(KEPT, move |db| {
        let sql = "INSERT INTO worker VALUES (?1, 1, 1, ?2, 'h', NULL, 'serve', 0)";
        let row = (worker.id, &worker.boot_id);
        db.connection.execute(sql, row).map(drop).map_err(noting)
    })
}

/// All that is in a database that nobody has open, which is sound and as the contract promises.
#[expect(clippy::disallowed_methods, reason = "it looks behind the store")]
fn found(database: &Path, context: &str) -> String {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags).unwrap();
    let text = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0));
    assert_eq!(text("PRAGMA integrity_check").unwrap(), "ok", "{context}");
    let broken = "SELECT group_concat(thread_id) FROM lane WHERE
        depth <> (SELECT count(*) FROM queued_turn q
            WHERE q.thread_id = lane.thread_id AND state IN ('queued','blocked'))
        OR 1 < (SELECT count(*) FROM queued_turn q
            WHERE q.thread_id = lane.thread_id AND state IN ('claimed','started','reconcile'))
        OR active IS NOT (SELECT id FROM queued_turn q
            WHERE q.thread_id = lane.thread_id AND state IN ('claimed','started','reconcile'))
        OR EXISTS (SELECT 1 FROM turn t
            WHERE t.thread_id = lane.thread_id AND status = 'inProgress'
            AND t.id NOT IN (SELECT turn_id FROM queued_turn q
                WHERE q.thread_id = lane.thread_id AND state IN ('started','reconcile')))
        OR EXISTS (SELECT 1 FROM queued_turn q
            WHERE q.thread_id = lane.thread_id AND state = 'started'
            AND q.turn_id NOT IN (SELECT id FROM turn t
                WHERE t.thread_id = lane.thread_id AND status = 'inProgress'))";
    assert!(
        text(broken).is_err(),
        "a lane is not as promised: {context}"
    );
    dump(&connection).unwrap()
}

/// Compares what the child said with what is there.
pub(super) async fn check(
    run: &Path,
    (fault, act): (Fault, usize),
    said: &str,
    context: &str,
    known: &mut Known,
) {
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| !line.starts_with("NOT-"))
        .collect();
    let there = found(&run.join("lanes.db"), context);
    let wanted = known.after(act, &lines).await;
    let failed: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("FAILED "))
        .collect();
    if failed.is_empty() || fault.end != "kill-when-refused" {
        assert_eq!(there, wanted, "{context}");
    } else {
        let as_if = said.replace("FAILED ", "ACK ");
        let as_if: Vec<&str> = as_if
            .lines()
            .filter(|line| !line.starts_with("STATE"))
            .collect();
        let whole = known.after(act, &as_if).await;
        assert!(there == wanted || there == whole, "{context}");
        for name in &failed {
            repeat(run, name).await;
        }
    }
    let full: Vec<&&str> = lines
        .iter()
        .filter(|line| line.starts_with("FULL "))
        .collect();
    let new_only = full.iter().all(|line| line.starts_with("FULL new-"));
    assert!(new_only, "what is kept was refused: {context}");
    if fault.errno == Errno::NOSPC && fault.calls == "writes" {
        assert!(failed.is_empty(), "a full disk is known for one: {context}");
        let last = lines.contains(&"FULL new-add-99");
        assert!(
            full.is_empty() || last,
            "a full disk took new work: {context}"
        );
    }
    let end = |word: &str| lines.contains(&format!("{word} end-last").as_str());
    let usable = end("ACK") || !full.is_empty() && end("DECLINED");
    assert!(usable || fault.end == "kill-when-refused", "{context}");
    if fault.end == "kill" {
        let after_a_loss_of_power = found(&run.join("disk/lanes.db"), context);
        assert_eq!(after_a_loss_of_power, wanted, "{context}");
    }
}

/// An add that was refused and is repeated with its key is there once, found or not.
async fn repeat(run: &Path, name: &str) {
    let Some(row) = name.strip_prefix("new-add-") else {
        return;
    };
    let row = row.parse().unwrap();
    let store = SqliteStore::open(options(run, 97)).unwrap();
    let repeated = store.append(adding(A, row)).await.unwrap().value;
    let at = match repeated {
        Appended::New(row) => row.id,
        Appended::Repeated(repeated) => repeated.row.id,
    };
    assert_eq!(at, id::<RowId>(row));
    let rows = store.read("count", move |db| {
        let sql = "SELECT count(*) FROM queued_turn WHERE dedupe = ?1";
        let key = format!("key-{row}");
        let count = db
            .connection
            .query_row(sql, [key], |row| row.get::<_, i64>(0));
        count.map_err(noting)
    });
    assert_eq!(rows.await.unwrap(), 1, "{name}");
}

const OPERATIONS: Fault = Fault {
    script: "operations",
    calls: "writes",
    mode: "once",
    errno: Errno::IO,
    end: "close",
};

/// Without a fault every step does what it is there for.
#[tokio::test]
async fn the_script_comes_to_its_end_where_nothing_fails() {
    let folder = tempfile::tempdir().unwrap();
    let mut steps = 0;
    for act in 0..ACTS {
        let folder = folder.path().join(act.to_string());
        make_template(&folder, 0..act).await;
        let run = OPERATIONS.run(&folder, 0);
        let said = Said::begin(run.clone(), "close");
        script(&said, act).await;
        let said = fs::read_to_string(run.join("said")).unwrap();
        let acknowledged = said.lines().filter(|line| line.starts_with("ACK")).count();
        assert_eq!(said.lines().count(), acknowledged + 2, "{said}");
        let mut known = Known::default();
        check(&run, (OPERATIONS, act), &said, &said, &mut known).await;
        steps += acknowledged;
    }
    assert_eq!(steps, 68 + 2 * ACTS);
}

/// The acts in two halves, so that no test takes long.
#[tokio::test]
async fn a_write_that_fails_leaves_exactly_what_was_acknowledged() {
    every_call(OPERATIONS, 0..3).await;
}

#[tokio::test]
async fn a_write_that_fails_later_leaves_exactly_what_was_acknowledged() {
    every_call(OPERATIONS, 3..FAN_OUT).await;
}

const FULL: Fault = Fault {
    mode: "sticky",
    errno: Errno::NOSPC,
    ..OPERATIONS
};

#[tokio::test]
async fn a_full_disk_leaves_exactly_what_was_acknowledged_and_records_ends() {
    every_call(FULL, 0..3).await;
}

#[tokio::test]
async fn a_disk_full_later_leaves_exactly_what_was_acknowledged_and_records_ends() {
    every_call(FULL, 3..FAN_OUT).await;
}

#[tokio::test]
async fn a_write_that_fails_in_a_fanout_job_leaves_exactly_what_was_acknowledged() {
    every_call(OPERATIONS, FAN_OUT..ACTS).await;
}

#[tokio::test]
async fn a_disk_full_in_a_fanout_job_refuses_claims_and_records_reports() {
    every_call(FULL, FAN_OUT..ACTS).await;
}

#[tokio::test]
async fn a_sync_that_fails_leaves_exactly_what_was_acknowledged() {
    every_call(
        Fault {
            calls: "syncs",
            ..OPERATIONS
        },
        0..ACTS,
    )
    .await;
}

#[tokio::test]
async fn a_sync_that_finds_no_room_leaves_exactly_what_was_acknowledged() {
    every_call(
        Fault {
            calls: "syncs",
            errno: Errno::NOSPC,
            ..OPERATIONS
        },
        0..ACTS,
    )
    .await;
}

#[tokio::test]
async fn what_a_failed_sync_refused_is_found_whole_or_not_after_a_kill() {
    every_call(
        Fault {
            calls: "syncs",
            end: "kill-when-refused",
            ..OPERATIONS
        },
        0..ACTS,
    )
    .await;
}

/// A sync that failed takes with it what was visible before; what is durable later must not build
/// on that.
#[tokio::test]
async fn what_is_acknowledged_after_a_failed_sync_outlives_a_loss_of_power() {
    every_call(
        Fault {
            calls: "syncs",
            end: "kill",
            ..OPERATIONS
        },
        0..ACTS,
    )
    .await;
}
