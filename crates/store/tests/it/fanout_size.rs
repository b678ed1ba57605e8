//! The memory and the disk that the import of a large fan-out job needs.
//!
//! The import runs in a process of its own, whose peak is read. `TURNLANE_FANOUT_ROWS` sets the number
//! of rows (100,000); with `TURNLANE_TEST_FULL=1` it is 1,000,000.

use std::fs;
use std::path::Path;
use std::time::Duration;

use turnlane_store::fanout::{ImportedBatch, NewItemRow};
use turnlane_store::sqlite;
use turnlane_testkit::{ProcessSpec, TestProcess};

use crate::backend::SqliteFile;
use crate::build::fanout::*;
use crate::build::*;

/// Set in the child: the directory it works in.
const DIRECTORY: &str = "TURNLANE_FANOUT_SIZE_DIRECTORY";
/// Set in the child: `ids` if every row has an id of its own.
const IDS: &str = "TURNLANE_FANOUT_SIZE_IDS";
/// A loaded machine may take long for a million rows of an unoptimised build.
const PATIENCE: Duration = Duration::from_mins(8);
/// The most memory of the importing process.
const PEAK_MAX_KIB: u64 = 100 * 1024;

fn rows_wanted() -> i64 {
    let rows = std::env::var("TURNLANE_FANOUT_ROWS");
    let full = std::env::var_os("TURNLANE_TEST_FULL").is_some_and(|value| value == "1");
    let default = if full { 1_000_000 } else { 100_000 };
    rows.ok()
        .and_then(|rows| rows.parse().ok())
        .unwrap_or(default)
}

/// A row whose cells have 49 bytes.
fn sized_row(seq: i64, ids: bool) -> NewItemRow {
    NewItemRow {
        item_id: ids.then(|| format!("src/module-{seq:07}/lib.rs")),
        cells: json(&format!(
            "[\"src/module-{seq:07}/lib.rs\",\"some text here\"]"
        )),
        ..new_row(seq)
    }
}

/// Does nothing unless it is the child.
#[tokio::test]
async fn the_child_imports_many_rows() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let ids = std::env::var(IDS).is_ok_and(|value| value == "ids");
    let rows = rows_wanted();
    let db = Db::on(SqliteFile::within(Path::new(&directory)));
    let hand = db.open("one").await;
    let job = hand.importing("large", 0).await.no;
    let mut from = 0;
    while from < rows {
        let to = (from + 500).min(rows);
        let batch = batch(
            job,
            from,
            (from..to).map(|seq| sized_row(seq, ids)).collect(),
        );
        let added = hand.import_rows(batch).await.unwrap();
        assert!(matches!(added, ImportedBatch::Added(_)), "{added:?}");
        from = to;
    }
    hand.sealed(job).await;
    hand.go(job).await;
    // A claim and a page cost what they cost in a small job.
    assert_eq!(hand.claim_some(job, 64).await.begun.len(), 64);
    let mut from = 0;
    loop {
        let page = hand.export_page(job, from, 1_000).await.unwrap();
        let Some(last) = page.last() else {
            break;
        };
        from = last.item.seq + 1;
    }
    assert_eq!(from, rows);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
    fs::write(Path::new(&directory).join("peak"), peak.unwrap()).unwrap();
    hand.close().await.unwrap();
}

/// Imports in a child; the peak of its memory in KiB, and the bytes of its database per row.
async fn import(ids: &str) -> (u64, u64) {
    let directory = tempfile::tempdir().unwrap();
    let child = ProcessSpec::new(std::env::current_exe().unwrap())
        .args(["fanout_size::the_child_imports_many_rows", "--exact"])
        .env(DIRECTORY, directory.path())
        .env(IDS, ids)
        .env("TURNLANE_FANOUT_ROWS", rows_wanted().to_string());
    let output = TestProcess::run(child, PATIENCE).await.unwrap();
    assert!(output.status.success(), "{}", output.stderr_tail);
    let peak = fs::read_to_string(directory.path().join("peak")).unwrap();
    let peak = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    let size = sqlite::size(&directory.path().join("turnlane.db")).unwrap();
    let rows = u64::try_from(rows_wanted()).unwrap();
    (peak, size.database_bytes / rows)
}

#[tokio::test]
async fn imported_rows_need_little_memory_and_100_bytes_each_on_disk() {
    let (peak, bytes_per_row) = import("none").await;
    assert!(peak < PEAK_MAX_KIB, "{peak} KiB");
    assert!(bytes_per_row <= 100, "{bytes_per_row} bytes per row");
}

#[tokio::test]
async fn imported_rows_with_ids_need_200_bytes_each_on_disk() {
    let (peak, bytes_per_row) = import("ids").await;
    assert!(peak < PEAK_MAX_KIB, "{peak} KiB");
    assert!(bytes_per_row <= 200, "{bytes_per_row} bytes per row");
}
