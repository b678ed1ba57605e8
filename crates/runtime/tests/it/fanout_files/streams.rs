//! Streams and added rows: repeated calls, wrong offsets, ends.

use turnlane_runtime::fanout::import::{
    AddItems, ImportError, ImportNotes, ImportState, StreamChunk,
};
use turnlane_runtime::fanout::input::Format;
use turnlane_store::fanout::{JobRow, JobState};

use super::{Desk, new_job, spec};

impl Desk {
    async fn write(
        &self,
        id: &str,
        offset: i64,
        bytes: &str,
        end: bool,
    ) -> Result<ImportState, ImportError> {
        let chunk = StreamChunk {
            offset,
            bytes: bytes.as_bytes(),
            end,
        };
        self.imports.write_stream(self.job(id).await, chunk).await
    }

    async fn begin(&self, id: &str, instruction: &str) -> ImportState {
        let job = self.create(new_job(id, instruction, "{}")).await;
        self.imports
            .begin_stream(job, spec(Format::Csv))
            .await
            .unwrap()
    }

    async fn add(&self, id: &str, seq: i64, rows: &[&str]) -> Result<ImportState, ImportError> {
        let items = AddItems { seq, rows };
        self.imports.add_items(self.job(id).await, items).await
    }
}

fn mismatch(outcome: Result<ImportState, ImportError>) -> i64 {
    match outcome {
        Err(ImportError::OffsetMismatch { next }) => next,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn chunks_may_be_repeated_but_not_left_out() {
    let desk = Desk::new();
    assert_eq!(desk.begin("j", "{a}").await.next, 0);
    assert_eq!(desk.write("j", 0, "a,b\n1,", false).await.unwrap().next, 6);
    assert_eq!(desk.write("j", 0, "a,b\n1,", false).await.unwrap().next, 6);
    assert_eq!(desk.write("j", 3, "x", false).await.unwrap().next, 6);
    assert_eq!(mismatch(desk.write("j", 7, "x", false).await), 6);
    let last = desk.write("j", 6, "2\n3,4", true).await.unwrap();
    assert_eq!(
        (last.job.state, last.job.total, last.next),
        (JobState::Ready, 2, 11)
    );
    let again = desk.write("j", 6, "2\n3,4", true).await.unwrap();
    assert_eq!((again.next, again.job.total), (11, 2));
    assert_eq!(mismatch(desk.write("j", 12, "x", false).await), 11);
}

#[tokio::test]
async fn a_stream_without_its_end_stays_importing() {
    let desk = Desk::new();
    desk.begin("j", "{a}").await;
    desk.write("j", 0, "a\n1\n2\n", false).await.unwrap();
    let job = desk.job("j").await;
    assert_eq!(job.state, JobState::Importing);
    let sealed = desk.imports.seal(job.clone()).await;
    assert!(matches!(sealed, Err(ImportError::Unfinished)), "{sealed:?}");
    let other = desk
        .imports
        .begin_stream(job.clone(), spec(Format::Tsv))
        .await;
    assert!(matches!(other, Err(ImportError::OtherSource)), "{other:?}");
    let rows = desk.add("j", 0, &["{}"]).await;
    assert!(matches!(rows, Err(ImportError::OtherSource)), "{rows:?}");
}

#[tokio::test]
async fn a_stream_with_a_problem_fails_the_job() {
    let desk = Desk::new();
    desk.begin("j", "{b}").await;
    let outcome = desk.write("j", 0, "a\n1\n", false).await;
    let outcome = outcome.map(|state| state.job);
    let expected = ["unknown placeholder {b}; columns: a"];
    assert_eq!(desk.refused("j", outcome).await, expected);
    let late = desk.write("j", 4, "2\n", false).await;
    assert!(
        matches!(late, Err(ImportError::WrongState(JobState::Failed))),
        "{late:?}"
    );
}

#[tokio::test]
async fn added_rows_are_numbered_and_sealed() {
    let desk = Desk::new();
    desk.create(new_job("j", "{b}", r#"{"idColumn":"a"}"#))
        .await;
    let first = [r#"{"a": "x", "b": 1.50}"#, r#"{"b": 2}"#];
    assert_eq!(desk.add("j", 0, &first).await.unwrap().next, 2);
    assert_eq!(
        desk.add("j", 0, &first).await.unwrap().next,
        2,
        "a repeated call"
    );
    assert_eq!(mismatch(desk.add("j", 3, &first).await), 2);
    assert_eq!(
        desk.add("j", 2, &[r#"{"b":3,"c":4}"#]).await.unwrap().next,
        3
    );
    let job = desk.imports.seal(desk.job("j").await).await.unwrap();
    assert_eq!((job.state, job.total), (JobState::Ready, 3));
    assert_eq!(job.columns.as_str(), r#"["a","b","c"]"#);
    assert_eq!(desk.ids(&job).await, ["x", "row-2", "row-3"]);
    let rows = desk.rows(&job).await;
    assert_eq!(rows[0].cells.as_str(), r#"{"a":"x","b":1.50}"#);
    let again: JobRow = desk.imports.seal(job.clone()).await.unwrap();
    assert_eq!(again, job);
}

#[tokio::test]
async fn a_call_with_a_problem_adds_nothing() {
    let desk = Desk::new();
    desk.create(new_job("j", "{b}", r#"{"idColumn":"b"}"#))
        .await;
    for (rows, problem) in [
        (["{\"b\":1}", "[]"], "row 2 is not a JSON object"),
        (["{\"b\":1,\"b\":2}", "{}"], "row 1 has the key \"b\" twice"),
        (
            ["{\"b\":1}", "{\"b\":1}"],
            "duplicate id \"1\" in row 2, first used in row 1",
        ),
    ] {
        match desk.add("j", 0, &rows).await {
            Err(ImportError::Problems(problems)) => assert_eq!(problems[0].message, problem),
            other => panic!("{other:?}"),
        }
        let job = desk.job("j").await;
        assert_eq!((job.state, job.total), (JobState::Importing, 0));
    }
    desk.add("j", 0, &["{\"b\":1}"]).await.unwrap();
    let job = desk.job("j").await;
    let sealed = desk.imports.seal(job).await.unwrap();
    assert_eq!(sealed.state, JobState::Ready);
}

#[tokio::test]
async fn the_seal_finds_placeholders_that_no_row_has() {
    let desk = Desk::new();
    desk.create(new_job("j", "{nope} {a}", "{}")).await;
    desk.add("j", 0, &["{\"a\":1}", "{\"b\":1}"]).await.unwrap();
    let outcome = desk.imports.seal(desk.job("j").await).await;
    let expected = [
        "row lacks column a, which the instruction uses (line 2)",
        "unknown placeholder {nope}; columns: a, b",
    ];
    assert_eq!(desk.refused("j", outcome).await, expected);
    let empty = desk.create(new_job("k", "{a}", "{}")).await;
    let empty = desk.imports.seal(empty).await.unwrap();
    assert_eq!((empty.state, empty.total), (JobState::Ready, 0));
    let notes = ImportNotes::of_job(&empty).unwrap();
    assert_eq!(notes.warnings, ["input has no data rows"]);
}
