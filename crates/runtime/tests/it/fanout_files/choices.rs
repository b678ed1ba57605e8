//! Rows that are chosen by a sample, and rows with equal tasks.

use std::fmt::Write as _;

use turnlane_runtime::fanout::import::{AddItems, ImportError, StreamChunk};
use turnlane_runtime::fanout::input::{Filters, Format, InputSpec};
use turnlane_store::fanout::{ItemState, JobRow, JobState};

use super::{Desk, new_job, spec};

fn sampled(rows: u64, key: Option<&str>) -> InputSpec {
    InputSpec {
        filters: Filters {
            sample: Some(rows),
            sample_key: key.map(str::to_owned),
            ..Filters::default()
        },
        ..spec(Format::Csv)
    }
}

/// Imports a table and returns the cells of its rows, sorted.
async fn cells(desk: &Desk, id: &str, table: &str, spec: InputSpec) -> Vec<String> {
    let path = desk.file("in.csv", table);
    let job = desk.create(new_job(id, "{n}", "{}")).await;
    let job = desk.imports.import_path(job, &path, spec).await.unwrap();
    let rows = desk.rows(&job).await;
    assert!(rows.is_sorted_by_key(|row| row.item.seq));
    let mut cells: Vec<_> = rows
        .iter()
        .map(|row| row.cells.as_str().to_owned())
        .collect();
    cells.sort();
    cells
}

fn table(rows: impl Iterator<Item = u32>) -> String {
    rows.fold("n\n".to_owned(), |mut text, row| {
        writeln!(text, "v{row}").unwrap();
        text
    })
}

#[tokio::test]
async fn a_sample_depends_on_the_rows_and_the_key_and_not_on_their_order() {
    let desk = Desk::new();
    let forth = cells(&desk, "a", &table(0..2_000), sampled(20, None)).await;
    assert_eq!(forth.len(), 20);
    let back = cells(&desk, "b", &table((0..2_000).rev()), sampled(20, None)).await;
    assert_eq!(forth, back);
    let other = cells(&desk, "c", &table(0..2_000), sampled(20, Some("k"))).await;
    assert_ne!(forth, other);
    // One more row displaces at most one.
    let grown = cells(&desk, "d", &table(0..2_001), sampled(20, None)).await;
    let kept = grown.iter().filter(|cell| forth.contains(cell)).count();
    assert!(kept >= 19, "{kept}");
    let all = cells(&desk, "e", &table(0..3), sampled(20, None)).await;
    assert_eq!(all.len(), 3);
    let (first, second) = (desk.job("a").await, desk.job("c").await);
    assert_ne!(first.fingerprint, second.fingerprint);
}

#[tokio::test]
async fn a_stream_with_a_sample_that_is_cut_off_starts_over() {
    let desk = Desk::new();
    let input = table(0..2_000).into_bytes();
    let whole = cells(&desk, "whole", &table(0..2_000), sampled(5, None)).await;
    let job = desk.create(new_job("cut", "{n}", "{}")).await;
    let begun = desk.imports.begin_stream(job, sampled(5, None)).await;
    let chunk = |bytes, end| StreamChunk {
        offset: 0,
        bytes,
        end,
    };
    let job = begun.unwrap().job;
    let half = desk
        .imports
        .write_stream(job, chunk(&input[..6_000], false));
    half.await.unwrap();
    let job = desk.job("cut").await;
    assert_eq!((job.import.offset, job.total), (0, 0));
    let other = desk.other_imports();
    let done = other.write_stream(job, chunk(&input, true)).await.unwrap();
    assert_eq!(done.job.state, JobState::Ready);
    let rows = desk.rows(&done.job).await;
    let mut rows: Vec<_> = rows
        .iter()
        .map(|row| row.cells.as_str().to_owned())
        .collect();
    rows.sort();
    assert_eq!(rows, whole);
}

/// The rows that run, and for each skipped row the one that it repeats.
async fn repeats(desk: &Desk, job: &JobRow) -> Vec<(i64, Option<i64>)> {
    let rows = desk.rows(job).await.into_iter();
    rows.map(|row| {
        let error = row.item.error.map(|error| error.kind);
        match row.item.dup_of {
            Some(_) => assert_eq!(error.as_deref(), Some("duplicate")),
            None => assert_eq!(row.item.state, ItemState::Pending),
        }
        (row.item.seq, row.item.dup_of)
    })
    .collect()
}

#[tokio::test]
async fn rows_with_the_same_task_run_once() {
    let desk = Desk::new();
    let options = r#"{"dedupe":true,"modelColumn":"m"}"#;
    let table = "n,m,other\na,,1\nb,,2\na,,3\na,big,4\na, big,5\n";
    let job = desk.import(new_job("j", "do {n}", options), "in.csv", table);
    let job = job.await.unwrap();
    let expected = [(0, None), (1, None), (2, Some(0)), (3, None), (4, Some(3))];
    assert_eq!(repeats(&desk, &job).await, expected);
    assert_eq!((job.total, job.counts.skipped), (5, 2));
    let plain = desk.import(new_job("k", "do {n}", "{}"), "in.csv", table);
    assert_eq!(plain.await.unwrap().counts.skipped, 0);
    let added = desk.create(new_job("l", "do {n}", options)).await;
    let items = AddItems {
        seq: 0,
        rows: &[r#"{"n":"a","m":""}"#],
    };
    let refused = desk.imports.add_items(added, items).await.unwrap_err();
    assert!(matches!(refused, ImportError::Problems(_)), "{refused}");
}

#[tokio::test]
async fn an_import_that_was_cut_off_knows_the_tasks_of_its_rows() {
    let desk = Desk::new();
    let options = r#"{"dedupe":true}"#;
    let input = table((0..1_500).map(|row| row % 700)).into_bytes();
    let whole = desk.import(new_job("whole", "{n}", options), "in.csv", &input);
    let whole = whole.await.unwrap();
    assert_eq!(whole.counts.skipped, 800);
    let job = desk.create(new_job("cut", "{n}", options)).await;
    let begun = desk.imports.begin_stream(job, spec(Format::Csv)).await;
    let chunk = StreamChunk {
        offset: 0,
        bytes: &input[..5_000],
        end: false,
    };
    let half = desk.imports.write_stream(begun.unwrap().job, chunk).await;
    drop(half.unwrap());
    let job = desk.job("cut").await;
    assert!(job.total > 700, "{}", job.total);
    let offset = job.import.offset;
    let chunk = StreamChunk {
        offset,
        bytes: &input[usize::try_from(offset).unwrap()..],
        end: true,
    };
    let done = desk.other_imports().write_stream(job, chunk).await.unwrap();
    assert_eq!(
        repeats(&desk, &done.job).await,
        repeats(&desk, &whole).await
    );
}

#[tokio::test]
async fn a_column_of_models_or_efforts_has_to_be_there() {
    let desk = Desk::new();
    for (id, option, told) in [
        (
            "a",
            "modelColumn",
            "model_column X was not found in csv headers",
        ),
        (
            "b",
            "effortColumn",
            "effort_column X was not found in csv headers",
        ),
    ] {
        let options = format!(r#"{{"{option}":"X"}}"#);
        let outcome = desk.import(new_job(id, "{n}", &options), "in.csv", "n\na\n");
        let outcome = outcome.await;
        assert_eq!(desk.refused(id, outcome).await, [told]);
    }
}
