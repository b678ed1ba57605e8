//! A script over a table of its own: the making of the database, then batches of an add and an end,
//! each of two rows that are there together or not at all.

use super::*;

/// An operation of two rows that are there together or not at all.
fn pair(store: &SqliteStore, op: Op, name: &str) -> Work<()> {
    let name = name.to_owned();
    store.write(op, move |db| {
        for half in 1..=2 {
            let sql = "INSERT INTO note(text, body) VALUES (?1 || ':' || ?2, zeroblob(3000))";
            let values = rusqlite::params![name, half];
            db.connection.execute(sql, values).map_err(noting)?;
        }
        Ok(())
    })
}

/// How many rows of an operation are there.
async fn halves(store: &SqliteStore, name: &str) -> usize {
    let start = format!("{name}:");
    let notes = notes(store).await;
    notes.iter().filter(|note| note.starts_with(&start)).count()
}

async fn answered(said: &Said, store: &SqliteStore, name: &str, end: Work<()>) -> bool {
    let end = end.await;
    match &end {
        Ok(()) => said.say(&format!("ACK {name}")),
        Err(error) => {
            said.say(&format!("REFUSED {name}"));
            said.say(&format!("BECAUSE {error:?}"));
            if halves(store, name).await > 0 {
                said.say(&format!("VISIBLE {name}"));
            }
            said.refused();
        }
    }
    end.is_ok()
}

/// The script. Names with `add` bring in new work, names with `end` record what happened.
pub(super) async fn script(said: &Said, act: usize) {
    if act > 0 {
        said.copy_template();
    }
    let store = said.open();
    let table = |db: &Db<'_>| db.connection.execute_batch(NOTES).map_err(noting);
    if store.write(KEPT, table).await.is_err() {
        store.write(KEPT, table).await.unwrap();
    }
    let rounds = act * 4;
    let well = play(said, &store, rounds).await;
    if well || said.end != "close-when-refused" {
        // The store is still of use.
        let end = |name| answered(said, &store, name, pair(&store, KEPT, name));
        let usable = end("last-end").await || end("very-last-end").await;
        assert!(usable, "the store is usable after one failed call");
    }
    if said.end != "kill" {
        let close = store.shut_down(|_| Ok(())).await;
        said.say(&format!("CLOSED {close:?}"));
    }
}

async fn play(said: &Said, store: &SqliteStore, rounds: usize) -> bool {
    let mut well = true;
    for round in 0..rounds {
        let gate = Gate::hold(store).await;
        let names = [format!("add{round}"), format!("end{round}")];
        let add = pair(store, DURABLE, &names[0]);
        let end = pair(store, KEPT, &names[1]);
        // The gate may share the fate of a batch.
        let _ = gate.open.send(());
        let _ = gate.end.await;
        well &= answered(said, store, &names[0], add).await;
        well &= answered(said, store, &names[1], end).await;
        if !well && said.end == "close-when-refused" {
            break;
        }
        let name = format!("quick-end{round}");
        let quick = Op {
            level: Level::Visible,
            ..KEPT
        };
        let end = pair(store, quick, &name);
        well &= answered(said, store, &name, end).await;
        if !well && said.end == "close-when-refused" {
            break;
        }
    }
    well
}

/// Compares what the child said with what is there.
pub(super) async fn check(run: &Path, fault: Fault, said: &str, context: &str) {
    let store = SqliteStore::open(options(run, 99)).unwrap();
    for line in said.lines() {
        let (word, name) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "ACK" => {
                assert_eq!(halves(&store, name).await, 2, "lost: {line}: {context}");
            }
            "REFUSED" => {
                let found = halves(&store, name).await;
                // After a kill a refused operation may be found, but whole.
                let allowed = found == 0 || found == 2 && fault.end.starts_with("kill");
                assert!(allowed, "found {found} halves: {line}: {context}");
                let kept = fault.errno == Errno::NOSPC && name.contains("end");
                assert!(!kept, "an end was not recorded: {line}: {context}");
            }
            "VISIBLE" => panic!("a refused operation could be seen: {line}: {context}"),
            _ => {}
        }
    }
    let answered = said.contains("\nACK") || said.contains("\nREFUSED");
    assert!(answered, "{context}");
    let sound: Work<String> = store.read("check the database", |db| {
        let check = db
            .connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0));
        check.map_err(noting)
    });
    assert_eq!(sound.await.unwrap(), "ok");
}

const NOTES_FAULT: Fault = Fault {
    script: "notes",
    calls: "syncs",
    mode: "once",
    errno: Errno::IO,
    end: "close",
};

#[tokio::test]
async fn a_sync_that_fails_refuses_its_operations_for_good() {
    every_call(NOTES_FAULT, 0..2).await;
}

/// Also when the log cannot be emptied right after.
#[tokio::test]
async fn two_syncs_that_fail_refuse_their_operations_for_good() {
    every_call(
        Fault {
            mode: "twice",
            ..NOTES_FAULT
        },
        0..2,
    )
    .await;
}

/// Nothing is written behind the refused operations that could hide them in the log.
#[tokio::test]
async fn a_sync_that_fails_before_a_close_leaves_nothing_behind() {
    every_call(
        Fault {
            end: "close-when-refused",
            ..NOTES_FAULT
        },
        0..2,
    )
    .await;
}

#[tokio::test]
async fn a_sync_that_fails_before_a_kill_leaves_operations_whole() {
    every_call(
        Fault {
            end: "kill",
            ..NOTES_FAULT
        },
        0..2,
    )
    .await;
}

#[tokio::test]
async fn a_write_that_fails_while_a_database_is_made_leaves_one_that_can_be_used() {
    every_call(
        Fault {
            calls: "writes",
            ..NOTES_FAULT
        },
        0..1,
    )
    .await;
}

#[tokio::test]
async fn a_write_that_finds_no_room_while_a_database_is_made_leaves_one_that_can_be_used() {
    every_call(
        Fault {
            calls: "writes",
            errno: Errno::NOSPC,
            ..NOTES_FAULT
        },
        0..1,
    )
    .await;
}
