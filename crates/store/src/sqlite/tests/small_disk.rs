//! A really full disk: a small one, in a namespace of its own, where the system lets us.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};

use turnlane_testkit::{ProcessSpec, TestProcess};

use super::*;

/// Set in the child: the folder that is the small disk.
const FOLDER: &str = "TURNLANE_SMALL_DISK";

/// Uses up the disk to the last byte.
fn fill(folder: &Path) {
    let filler = folder.join("filler");
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(filler)
        .unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        let bytes = vec![1; size];
        loop {
            match file.write_all(&bytes) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[tokio::test]
async fn the_child_fills_its_disk() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let mut options = options(folder, 1);
    options.free_again_bytes = 6 << 20;
    let store = with_notes(SqliteStore::open(options).unwrap()).await;
    note(&store, DURABLE, "before").await.unwrap();
    fill(folder);

    let mut refused = 0;
    for number in 0..20 {
        let added = note(&store, DURABLE, format!("add {number}")).await;
        match added {
            Ok(()) => {}
            Err(StoreError::DiskFull { .. }) => refused += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(refused > 0, "new work is refused");
    assert_eq!(*store.health().borrow(), Health::Full);
    for number in 0..50 {
        note(&store, KEPT, format!("end {number}")).await.unwrap();
    }
    // A worker that starts on the full disk finds it full, and can record ends as well.
    let late = SqliteStore::open(super::options(folder, 2)).unwrap();
    assert_eq!(*late.health().borrow(), Health::Full);
    note(&late, KEPT, "end of another").await.unwrap();
    drop(late);

    std::fs::remove_file(folder.join("filler")).unwrap();
    let mut health = store.health();
    let good = health.wait_for(|health| *health == Health::Good);
    within("good health", DEADLINE, good)
        .await
        .unwrap()
        .unwrap();
    note(&store, DURABLE, "after").await.unwrap();
    assert!(folder.join("lanes.db.ballast").exists());
    let notes = notes(&store).await;
    assert_eq!(
        notes.iter().filter(|note| note.starts_with("end")).count(),
        51
    );
    assert_eq!(
        notes.iter().filter(|note| note.starts_with("add")).count(),
        20 - refused
    );
    assert_eq!(notes.last().unwrap(), "after");
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a skip is said aloud")]
async fn on_a_disk_that_is_really_full_ends_are_recorded_and_new_work_waits_for_room() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=16m none \"$1\" || exit 77
        TURNLANE_SMALL_DISK=\"$1\" exec \"$2\" --exact \"$3\"";
    let child = ProcessSpec::new("/usr/bin/env")
        .args(["unshare", "--user", "--map-root-user", "--mount"])
        .args(["/bin/sh", "-c", script, "sh"])
        .args([folder.path().as_os_str()])
        .args([std::env::current_exe().unwrap()])
        .args(["sqlite::tests::small_disk::the_child_fills_its_disk"])
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = TestProcess::run(child, DEADLINE).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // 101 is a failed test; anything else is a system without `unshare`, or that forbids it.
    match output.status.code() {
        Some(0) => assert!(said.contains("1 passed"), "{said}"),
        Some(101) | None => panic!("{said}\n{}", output.stderr_tail),
        Some(_) => eprintln!("SKIPPED: no disk of our own: {}", output.stderr_tail),
    }
}
