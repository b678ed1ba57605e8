//! Imports that are cut off at any moment and continued by another worker.

use std::fmt::Write as _;
use std::pin::pin;
use std::task::Poll;

use turnlane_runtime::fanout::import::{ImportError, StreamChunk};
use turnlane_runtime::fanout::input::Format;
use turnlane_store::fanout::{ItemDetail, JobState};
use turnlane_testkit::Random;

use super::{Desk, new_job, spec};

/// Polls a future so many times and drops it; none where it was not ready by then.
async fn cut_off<T>(future: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

const OPTIONS: &str = r#"{"idColumn":"id","onDuplicate":"suffix"}"#;

/// Rows whose ids repeat, with quoted line ends and blank records between them.
fn table(rows: usize) -> String {
    let mut random = Random::new(7);
    let mut text = String::from("id,text\r\n");
    for row in 0..rows {
        match random.below(10) {
            0 => text.push_str(",\r\n"),
            1 => _ = write!(text, "i{row},\"a\r\n\"\"b\"\n"),
            id => _ = write!(text, "i{},{row}\r\n", id * 7),
        }
    }
    text
}

fn key(rows: &[ItemDetail]) -> Vec<(i64, &str, &str)> {
    rows.iter()
        .map(|row| (row.item.seq, row.item.item_id.as_str(), row.cells.as_str()))
        .collect()
}

#[tokio::test]
async fn a_file_that_is_cut_off_20_times_gives_the_same_rows() {
    let desk = Desk::new();
    let path = desk.file("in.csv", table(25_000));
    let whole = desk.create(new_job("whole", "{text}", OPTIONS)).await;
    let whole = desk.import_path(whole, &path).await.unwrap();
    let mut job = desk.create(new_job("cut", "{text}", OPTIONS)).await;
    let mut random = Random::new(11);
    let (mut cuts, mut offsets) = (0, Vec::new());
    let job = loop {
        // Another worker with its own handle continues each time; the later ones get further.
        let imports = desk.other_imports();
        let import = imports.import_path(job.clone(), &path, spec(Format::Csv));
        let polls = if cuts < 20 {
            1 + random.below(7)
        } else {
            usize::MAX
        };
        match cut_off(import, polls).await {
            None => cuts += 1,
            Some(Err(ImportError::OffsetMismatch { .. })) => {}
            Some(sealed) => break sealed.unwrap(),
        }
        job = desk.job("cut").await;
        offsets.push(job.import.offset);
    };
    offsets.dedup();
    assert!(cuts == 20 && offsets.len() > 3, "{offsets:?}");
    assert_eq!((job.state, job.total), (JobState::Ready, whole.total));
    assert_eq!(job.import.blank_rows, whole.import.blank_rows);
    assert_eq!(job.import.hash, whole.import.hash);
    assert_eq!(job.fingerprint, whole.fingerprint);
    let (rows, expected) = (desk.rows(&job).await, desk.rows(&whole).await);
    assert_eq!(key(&rows), key(&expected));
}

#[tokio::test]
async fn a_stream_that_is_cut_off_is_continued_from_its_offset() {
    let desk = Desk::new();
    let input = table(9_000).into_bytes();
    let whole = desk.import(new_job("whole", "{text}", OPTIONS), "in.csv", &input);
    let whole = whole.await.unwrap();
    let job = desk.create(new_job("cut", "{text}", OPTIONS)).await;
    desk.imports
        .begin_stream(job, spec(Format::Csv))
        .await
        .unwrap();
    let mut random = Random::new(13);
    let mut workers = 0;
    loop {
        workers += 1;
        let imports = desk.other_imports();
        let mut job = desk.job("cut").await;
        if job.state == JobState::Ready {
            break;
        }
        let mut next = usize::try_from(job.import.offset).unwrap();
        // Each worker takes some chunks; the last of them is lost in the middle.
        for left in (0..=random.below(4)).rev() {
            let len = 1 + random.below(40_000);
            let end = input.len().min(next + len);
            let write = imports.write_stream(
                job.clone(),
                StreamChunk {
                    offset: i64::try_from(next).unwrap(),
                    bytes: &input[next..end],
                    end: end == input.len(),
                },
            );
            let polls = if left == 0 && workers < 20 {
                2
            } else {
                usize::MAX
            };
            match cut_off(write, polls).await {
                None => break,
                Some(state) => {
                    let state = state.unwrap();
                    next = usize::try_from(state.next).unwrap();
                    job = state.job;
                }
            }
            if job.state == JobState::Ready {
                break;
            }
        }
    }
    assert!(workers > 3);
    let job = desk.job("cut").await;
    assert_eq!(
        (job.fingerprint, job.total),
        (whole.fingerprint, whole.total)
    );
    let (rows, expected) = (desk.rows(&job).await, desk.rows(&whole).await);
    assert_eq!(key(&rows), key(&expected));
}

#[tokio::test]
async fn a_file_that_changed_is_refused() {
    let desk = Desk::new();
    let input = table(9_000);
    let mut changed_early = input.clone().into_bytes();
    changed_early[20_000] ^= 1;
    let shorter = input.as_bytes()[..1_000].to_vec();
    for (id, content) in [("early", changed_early), ("shorter", shorter)] {
        let path = desk.file("in.csv", &input);
        let mut job = desk.create(new_job(id, "{text}", OPTIONS)).await;
        for polls in 4.. {
            let imports = desk.other_imports();
            let import = imports.import_path(job, &path, spec(Format::Csv));
            assert!(cut_off(import, polls).await.is_none(), "it was not cut off");
            job = desk.job(id).await;
            if job.import.offset > 30_000 {
                break;
            }
        }
        desk.file("in.csv", content);
        let outcome = desk.imports.resume_path(job).await;
        assert_eq!(
            desk.refused(id, outcome).await,
            ["input changed during import"]
        );
    }
}

#[tokio::test]
async fn rows_that_follow_the_committed_ones_may_change() {
    let desk = Desk::new();
    let input = table(9_000);
    let path = desk.file("in.csv", &input);
    let mut job = desk.create(new_job("j", "{text}", OPTIONS)).await;
    while job.import.offset == 0 {
        let imports = desk.other_imports();
        let import = imports.import_path(job, &path, spec(Format::Csv));
        assert!(cut_off(import, 8).await.is_none(), "it was not cut off");
        job = desk.job("j").await;
    }
    desk.file("in.csv", format!("{input}last,row\n"));
    let job = desk.imports.resume_path(job).await.unwrap();
    assert_eq!(
        desk.ids(&job).await.last().map(String::as_str),
        Some("last")
    );
}
