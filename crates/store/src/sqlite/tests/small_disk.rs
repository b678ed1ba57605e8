//! A really full disk: a small one, in a namespace of its own, where the system lets us.

use turnlane_testkit::SmallDisk;
use turnlane_testkit::small_disk::Wanted;

use super::*;

/// More than the log of a new database has room for.
const ADDS: usize = 200;

#[tokio::test]
async fn on_a_disk_that_is_really_full_ends_are_recorded_and_new_work_waits_for_room() {
    let wanted = Wanted {
        module: module_path!(),
        test: "on_a_disk_that_is_really_full_ends_are_recorded_and_new_work_waits_for_room",
        mebibytes: 16,
    };
    let Some(disk) = SmallDisk::of(wanted).await.unwrap() else {
        return;
    };
    let folder = disk.path();
    let mut options = options(folder, 1);
    options.free_again_bytes = 6 << 20;
    let store = with_notes(SqliteStore::open(options).unwrap()).await;
    note(&store, DURABLE, "before").await.unwrap();
    disk.fill().unwrap();

    // The log has room for some of them, which it took before.
    let mut refused = 0;
    for number in 0..ADDS {
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

    disk.free().unwrap();
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
        ADDS - refused
    );
    assert_eq!(notes.last().unwrap(), "after");
}
