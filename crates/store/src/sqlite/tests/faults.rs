//! Every write and every sync of a fixed script fails once, in a process of its own.
//!
//! The child is this test binary with a library preloaded that lets the n-th call fail. It says
//! what was acknowledged and what was refused, and whether anything refused can be seen; the
//! parent compares that with what the database holds afterwards.

use std::path::PathBuf;

use rustix::io::Errno;
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::*;

/// Set in the child: the folder of the database.
const FOLDER: &str = "TURNLANE_FAULT_FOLDER";

/// Set in the child: how it ends, `close`, `close-when-refused` or `kill`.
const END: &str = "TURNLANE_FAULT_END";

/// How many children run at the same time.
const CHILDREN: usize = 4;

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

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn say(word: &str, name: &str) {
    println!("{word} {name}");
}

/// Opens, again if need be: only one call fails.
async fn open_in_spite(folder: &Path) -> SqliteStore {
    for number in 1..=2 {
        let mut options = options(folder, number);
        options.free_again_bytes = u64::MAX;
        let store = match SqliteStore::open(options) {
            Ok(store) => store,
            Err(error) => {
                say("NOT-OPENED", &format!("{error:?}"));
                continue;
            }
        };
        let table = |db: &Db<'_>| db.connection.execute_batch(NOTES).map_err(noting);
        if store.write(KEPT, table).await.is_err() {
            store.write(KEPT, table).await.unwrap();
        }
        return store;
    }
    panic!("not opened twice, but only one call fails");
}

async fn answered(store: &SqliteStore, name: &str, end: Work<()>) -> bool {
    let end = end.await;
    match &end {
        Ok(()) => say("ACK", name),
        Err(error) => {
            say("REFUSED", name);
            say("BECAUSE", &format!("{error:?}"));
            if halves(store, name).await > 0 {
                say("VISIBLE", name);
            }
        }
    }
    end.is_ok()
}

/// The script. Names with `add` bring in new work, names with `end` record what happened.
async fn script(folder: &Path) {
    let store = open_in_spite(folder).await;
    let how = std::env::var(END).unwrap_or_default();
    let mut well = true;
    for round in 0..4 {
        let gate = Gate::hold(&store).await;
        let names = [format!("add{round}"), format!("end{round}")];
        let add = pair(&store, DURABLE, &names[0]);
        let end = pair(&store, KEPT, &names[1]);
        // The gate may share the fate of a batch.
        let _ = gate.open.send(());
        let _ = gate.end.await;
        well &= answered(&store, &names[0], add).await;
        well &= answered(&store, &names[1], end).await;
        if !well && how == "close-when-refused" {
            break;
        }
        let name = format!("quick-end{round}");
        let quick = Op {
            level: Level::Visible,
            ..KEPT
        };
        let end = pair(&store, quick, &name);
        well &= answered(&store, &name, end).await;
        if !well && how == "close-when-refused" {
            break;
        }
    }
    if well || how != "close-when-refused" {
        finish(&store).await;
    }
    if how == "kill" {
        let me = rustix::process::getpid();
        rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
    }
    let close = store.shut_down(|_| Ok(())).await;
    say("CLOSED", &format!("{close:?}"));
}

/// The store is still of use.
async fn finish(store: &SqliteStore) {
    let usable = answered(store, "last-end", pair(store, KEPT, "last-end")).await
        || answered(store, "very-last-end", pair(store, KEPT, "very-last-end")).await;
    assert!(usable, "the store is usable after one failed call");
}

/// Does nothing unless it is the child.
#[tokio::test]
async fn the_child_follows_the_script() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    // Ends the line that the test runner has begun.
    say("", "");
    script(Path::new(&folder)).await;
    say("DONE", "");
}

/// Which calls fail, and how.
#[derive(Clone, Copy, Debug)]
struct Fault {
    calls: &'static str,
    mode: &'static str,
    errno: Errno,
    end: &'static str,
}

/// The preloaded library, or nothing when there is no C compiler.
#[expect(clippy::print_stderr, reason = "a skip is said aloud")]
async fn shim(folder: &Path) -> Option<PathBuf> {
    let library = folder.join("shim.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.c");
    let compiler = ProcessSpec::new("/usr/bin/env")
        .args(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .args([library.as_os_str(), source.as_os_str(), "-ldl".as_ref()])
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let compiled = TestProcess::run(compiler, DEADLINE).await.unwrap();
    match compiled.status.code() {
        Some(0) => Some(library),
        Some(127) => {
            eprintln!("SKIPPED: faults need gcc");
            None
        }
        _ => panic!("the shim does not compile:\n{}", compiled.stderr_tail),
    }
}

/// Runs the child, with its n-th call failing unless n is 0; what it said, and how many calls
/// were counted if it was not killed.
async fn run_child(shim: &Path, folder: &Path, fault: Fault, nth: u64) -> (String, Option<u64>) {
    let count = folder.join("count");
    let child = ProcessSpec::new(std::env::current_exe().unwrap())
        .args(["sqlite::tests::faults::the_child_follows_the_script"])
        .args(["--exact", "--nocapture"])
        .env(FOLDER, folder)
        .env(END, fault.end)
        .env("LD_PRELOAD", shim)
        .env("FAULT_PREFIX", folder.join("lanes.db"))
        .env("FAULT_CALLS", fault.calls)
        .env("FAULT_MODE", fault.mode)
        .env("FAULT_ERRNO", fault.errno.raw_os_error().to_string())
        .env("FAULT_NTH", nth.to_string())
        .env("FAULT_COUNT", &count);
    let output = TestProcess::run(child, DEADLINE).await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let killed = fault.end == "kill" && output.status.code().is_none();
    assert!(
        killed || said.contains("DONE"),
        "{fault:?} {nth}: {said}\n{}",
        output.stderr_tail
    );
    let count = std::fs::read_to_string(count).ok();
    (said, count.map(|count| count.trim().parse().unwrap()))
}

/// Compares what the child said with what is there.
async fn check(folder: &Path, fault: Fault, nth: u64, said: &str) {
    let store = SqliteStore::open(options(folder, 99)).unwrap();
    for line in said.lines() {
        let context = || format!("{fault:?}, call {nth}, {line}:\n{said}");
        let (word, name) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "ACK" => {
                assert_eq!(halves(&store, name).await, 2, "lost: {}", context());
            }
            "REFUSED" => {
                let found = halves(&store, name).await;
                // After a kill a refused operation may be found, but whole.
                let allowed = found == 0 || found == 2 && fault.end == "kill";
                assert!(allowed, "found {found} halves: {}", context());
                let kept = fault.errno == Errno::NOSPC && name.contains("end");
                assert!(!kept, "an end was not recorded: {}", context());
            }
            "VISIBLE" => panic!("a refused operation could be seen: {}", context()),
            _ => {}
        }
    }
    let answered = said.contains("\nACK") || said.contains("\nREFUSED");
    assert!(answered, "{fault:?}, call {nth}:\n{said}");
    let sound: Work<String> = store.read("check the database", |db| {
        let check = db
            .connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0));
        check.map_err(noting)
    });
    assert_eq!(sound.await.unwrap(), "ok");
}

/// Runs the script with each call failing in turn.
async fn every_call(fault: Fault) {
    let folder = tempfile::tempdir().unwrap();
    let Some(shim) = shim(folder.path()).await else {
        return;
    };
    let whole = tempfile::tempdir().unwrap();
    let unharmed = Fault {
        end: "close",
        ..fault
    };
    let (said, count) = run_child(&shim, whole.path(), unharmed, 0).await;
    assert!(!said.contains("REFUSED"), "{said}");
    let count = count.unwrap();
    assert!(count > 5, "the calls are seen: {count}");
    let mut running = tokio::task::JoinSet::new();
    for nth in 1..=count {
        if running.len() == CHILDREN {
            running.join_next().await.unwrap().unwrap();
        }
        let shim = shim.clone();
        running.spawn(async move {
            let folder = tempfile::tempdir().unwrap();
            let (said, _) = run_child(&shim, folder.path(), fault, nth).await;
            check(folder.path(), fault, nth, &said).await;
        });
    }
    while let Some(end) = running.join_next().await {
        end.unwrap();
    }
}

#[tokio::test]
async fn a_sync_that_fails_refuses_its_operations_for_good() {
    every_call(Fault {
        calls: "syncs",
        mode: "once",
        errno: Errno::IO,
        end: "close",
    })
    .await;
}

/// Nothing is written behind the refused operations that could hide them in the log.
#[tokio::test]
async fn a_sync_that_fails_before_a_close_leaves_nothing_behind() {
    every_call(Fault {
        calls: "syncs",
        mode: "once",
        errno: Errno::IO,
        end: "close-when-refused",
    })
    .await;
}

#[tokio::test]
async fn a_sync_that_fails_before_a_kill_leaves_operations_whole() {
    every_call(Fault {
        calls: "syncs",
        mode: "once",
        errno: Errno::IO,
        end: "kill",
    })
    .await;
}

#[tokio::test]
async fn a_write_that_fails_refuses_its_operations_for_good() {
    every_call(Fault {
        calls: "writes",
        mode: "once",
        errno: Errno::IO,
        end: "close",
    })
    .await;
}

#[tokio::test]
async fn a_write_that_finds_no_room_once_refuses_only_new_work() {
    every_call(Fault {
        calls: "writes",
        mode: "once",
        errno: Errno::NOSPC,
        end: "close",
    })
    .await;
}

#[tokio::test]
async fn a_disk_that_is_full_until_the_ballast_is_gone_refuses_only_new_work() {
    every_call(Fault {
        calls: "writes",
        mode: "sticky",
        errno: Errno::NOSPC,
        end: "kill",
    })
    .await;
}
