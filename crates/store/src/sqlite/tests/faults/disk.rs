//! A disk that never works again: writing ends, reading goes on.

use super::player::seen;
use super::*;
use crate::sqlite::fixture::{self, new_thread};

/// Adds until nothing can be added, in the child.
pub(super) async fn script(said: &Said) {
    said.copy_template();
    let store = said.open();
    store.create_thread(new_thread(1)).await.unwrap();
    let mut good = seen(&store).await;
    let mut answers = Vec::new();
    for row in 1..=8 {
        let added = store.append(fixture::append(row)).await;
        answers.push(match added {
            Ok(_) => "added",
            Err(StoreError::Failed { .. }) => "failed",
            Err(StoreError::WritesOff) => "off",
            Err(error) => panic!("{error:?}"),
        });
        if answers.last() == Some(&"added") {
            good = seen(&store).await;
        }
        assert_eq!(seen(&store).await, good, "what readers see");
        let off = answers.iter().filter(|answer| **answer == "failed").count() == 3;
        let health = if off { Health::WritesOff } else { Health::Good };
        assert_eq!(*store.health().borrow(), health, "{answers:?}");
    }
    let wanted = ["added", "added", "added", "failed", "failed", "failed"];
    assert_eq!(answers, [&wanted[..], &["off", "off"]].concat());
    let closed = Store::close(&store).await;
    assert!(matches!(closed, Err(StoreError::WritesOff)));
    fs::write(said.run.join("good"), good).unwrap();
}

#[tokio::test]
async fn on_a_disk_that_never_syncs_again_writing_ends_and_reading_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let Some(shim) = shim(folder.path()).await else {
        return;
    };
    make_template(folder.path(), 0..0).await;
    let fault = Fault {
        script: "disk",
        calls: "syncs",
        mode: "always",
        errno: Errno::IO,
        end: "close",
    };
    // The log's new header, the thread and three rows; then nothing more.
    let nth = 6;
    child(&shim, folder.path(), fault, 0, nth).await;
    let run = fault.run(folder.path(), nth);
    assert!(run.join("fired").exists());
    // The next start, on a disk that works, finds what was there and goes on. The first commit
    // that was refused is found whole or not: nobody could take it out of the log.
    let good = fs::read_to_string(run.join("good")).unwrap();
    let with_refused = SqliteStore::open_in_memory(worker(1)).unwrap();
    with_refused.create_thread(new_thread(1)).await.unwrap();
    for row in 1..=4 {
        with_refused.append(fixture::append(row)).await.unwrap();
    }
    let with_refused = seen(&with_refused).await;
    let store = SqliteStore::open(options(&run, 99)).unwrap();
    let found = seen(&store).await;
    assert!([good, with_refused].contains(&found), "{found}");
    store.append(fixture::append(9)).await.unwrap();
}
