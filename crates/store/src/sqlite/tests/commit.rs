//! Group commit: sharing, order, isolation, levels, bounds.

use std::sync::atomic::AtomicU32;

use super::*;

#[tokio::test]
async fn operations_that_wait_together_share_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let gate = Gate::hold(&store).await;
    let before = store.counts();
    let ends: Vec<_> = (0..300)
        .map(|number| note(&store, DURABLE, format!("{number:03}")))
        .collect();
    gate.open().await;
    for end in ends {
        soon("a note", end).await.unwrap();
    }
    let after = store.counts();
    assert_eq!(after.operations - before.operations, 301);
    assert_eq!(after.durable_commits - before.durable_commits, 2);
    let expected: Vec<_> = (0..300).map(|number| format!("{number:03}")).collect();
    assert_eq!(notes(&store).await, expected);
}

#[tokio::test]
async fn more_operations_than_fit_one_batch_are_all_carried_out_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let gate = Gate::hold(&store).await;
    let before = store.counts().commits;
    // Nobody waits for these: dropping a future takes nothing back.
    for number in 0..1_200 {
        drop(note(&store, VISIBLE, format!("{number:04}")));
    }
    gate.open().await;
    soon("the flush", store.flush()).await.unwrap();
    assert_eq!(store.counts().commits - before, 1 + 3);
    let expected: Vec<_> = (0..1_200).map(|number| format!("{number:04}")).collect();
    assert_eq!(notes(&store).await, expected);
}

#[tokio::test]
async fn a_refused_operation_changes_nothing_and_harms_no_neighbour() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let gate = Gate::hold(&store).await;
    let before = note(&store, DURABLE, "before");
    let fenced: Work<()> = store.write(DURABLE, |db| {
        insert(db, "written and taken back")?;
        Err(StoreError::Fenced)
    });
    let twice = note(&store, DURABLE, "before");
    let after = note(&store, DURABLE, "after");
    gate.open().await;
    soon("before", before).await.unwrap();
    let fenced = soon("the refused one", fenced).await;
    assert!(matches!(fenced, Err(StoreError::Fenced)));
    let twice = soon("the same again", twice).await;
    assert!(matches!(
        twice,
        Err(StoreError::Failed { doing: "note", .. })
    ));
    soon("after", after).await.unwrap();
    assert_eq!(notes(&store).await, ["before", "after"]);
    assert_eq!(*store.health().borrow(), Health::Good);
}

#[tokio::test]
async fn a_panic_ends_the_operation_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let gate = Gate::hold(&store).await;
    let panics: Work<()> = store.write(DURABLE, |db| {
        insert(db, "half")?;
        panic!("no such luck")
    });
    let neighbour = note(&store, DURABLE, "neighbour");
    gate.open().await;
    let Err(StoreError::Failed { doing, source }) = soon("the panic", panics).await else {
        panic!("not refused");
    };
    assert_eq!(doing, "write a note");
    assert_eq!(source.to_string(), "the operation panicked: no such luck");
    soon("the neighbour", neighbour).await.unwrap();
    let read: Work<()> = store.read("read", |_| panic!("again"));
    assert!(soon("the read", read).await.is_err());
    assert_eq!(notes(&store).await, ["neighbour"]);
}

#[tokio::test]
async fn an_operation_that_ends_the_transaction_is_refused_and_the_rest_runs_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let gate = Gate::hold(&store).await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let innocent = store.write(DURABLE, move |db| {
        insert(db, "innocent")?;
        Ok(counted.fetch_add(1, Ordering::Relaxed) + 1)
    });
    let spoiler: Work<()> = store.write(DURABLE, |db| {
        db.connection.execute_batch("ROLLBACK").map_err(noting)?;
        Err(StoreError::QueueEmpty)
    });
    let last = note(&store, DURABLE, "last");
    gate.open().await;
    let run = soon("the innocent one", innocent).await.unwrap();
    assert_eq!(run, 2, "the value of the last run is answered");
    let spoiler = soon("the spoiler", spoiler).await;
    assert!(matches!(spoiler, Err(StoreError::QueueEmpty)));
    soon("the last", last).await.unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(store.counts().failed_attempts, 1);
    assert_eq!(notes(&store).await, ["innocent", "last"]);
}

#[tokio::test]
async fn only_a_batch_with_a_durable_operation_waits_for_the_disk() {
    const FULL: i64 = 2;
    const NORMAL: i64 = 1;
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let level = |op| -> Work<i64> {
        store.write(op, |db| {
            let level = db
                .connection
                .pragma_query_value(None, "synchronous", |row| row.get(0));
            level.map_err(noting)
        })
    };
    let before = store.counts();
    assert_eq!(level(VISIBLE).await.unwrap(), NORMAL);
    assert_eq!(level(DURABLE).await.unwrap(), FULL);
    assert_eq!(level(VISIBLE).await.unwrap(), NORMAL);
    let after = store.counts();
    assert_eq!(after.commits - before.commits, 3);
    assert_eq!(after.durable_commits - before.durable_commits, 1);
    let gate = Gate::hold(&store).await;
    let together = [level(VISIBLE), level(DURABLE), level(VISIBLE)];
    gate.open().await;
    for end in together {
        assert_eq!(soon("a level", end).await.unwrap(), FULL);
    }
}

#[tokio::test]
async fn when_too_many_wait_only_new_work_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let gate = Gate::hold(&store).await;
    soon("room", store.room()).await.unwrap();
    for number in 0..WAITING_MAX {
        drop(note(&store, VISIBLE, format!("{number}")));
    }
    let refused = note(&store, VISIBLE, "refused").await;
    assert!(matches!(refused, Err(StoreError::Overloaded)));
    let kept = note(&store, KEPT, "kept");
    let room = store.room();
    gate.open().await;
    soon("room", room).await.unwrap();
    soon("the kept one", kept).await.unwrap();
    assert_eq!(notes(&store).await.len(), WAITING_MAX + 1);
}

#[tokio::test]
async fn a_read_sees_what_has_ended_and_after_a_flush_what_was_submitted() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    note(&store, VISIBLE, "ended").await.unwrap();
    assert_eq!(notes(&store).await, ["ended"]);
    let gate = Gate::hold(&store).await;
    let open = note(&store, VISIBLE, "open");
    let flush = store.flush();
    assert_eq!(notes(&store).await, ["ended"], "reads do not wait");
    gate.open().await;
    soon("the flush", flush).await.unwrap();
    assert_eq!(notes(&store).await, ["ended", "open"]);
    open.await.unwrap();
}

#[tokio::test]
async fn a_reader_cannot_write() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    let written = store.read("write on the sly", |db| insert(db, "no"));
    assert!(soon("the read", written).await.is_err());
    assert!(notes(&store).await.is_empty());
}

#[tokio::test]
async fn a_long_log_is_copied_into_the_database_beside_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1).await;
    // 24 MiB, each megabyte in a commit of its own.
    for number in 0..24 {
        let text = format!("{number:02}");
        let written = store.write(VISIBLE, move |db| {
            let sql = "INSERT INTO note(text, body) VALUES (?1, zeroblob(1048576))";
            db.connection
                .execute(sql, [&text])
                .map(drop)
                .map_err(noting)
        });
        written.await.unwrap();
    }
    let copied = async || store.counts().checkpoints > 0;
    turnlane_testkit::wait::eventually("a checkpoint", DEADLINE, copied)
        .await
        .unwrap();
    let database = std::fs::metadata(folder.path().join("lanes.db")).unwrap();
    assert!(database.len() > 1 << 20);
}
