//! Files that are imported, and files that are refused whole.

use std::sync::Arc;

use turnlane_runtime::fanout::import::{DryRun, ImportNotes};
use turnlane_runtime::fanout::input::{Filters, Format, InputSpec};
use turnlane_runtime::fanout::preview::preview;
use turnlane_store::fanout::{JobQuery, JobState};

use super::{Desk, new_job, spec};

async fn warnings(desk: &Desk, id: &str) -> Vec<String> {
    ImportNotes::of_job(&desk.job(id).await).unwrap().warnings
}

#[tokio::test]
async fn a_table_becomes_rows_of_a_ready_job() {
    let desk = Desk::new();
    let input = "\u{feff}name,text\r\nann,\"a\nb\"\r\n,\r\nbob,\"x\"\"\"\r\n";
    let job = desk
        .import(new_job("j", "Greet {name}", "{}"), "in.csv", input)
        .await;
    let job = job.unwrap();
    assert_eq!((job.state, job.total), (JobState::Ready, 2));
    assert_eq!(job.columns.as_str(), r#"["name","text"]"#);
    assert_eq!(job.import.blank_rows, 1);
    assert_eq!(job.import.offset, i64::try_from(input.len()).unwrap());
    let rows = desk.rows(&job).await;
    let cells: Vec<&str> = rows.iter().map(|row| row.cells.as_str()).collect();
    assert_eq!(cells, [r#"["ann","a\nb"]"#, r#"["bob","x\""]"#]);
    assert_eq!(desk.ids(&job).await, ["row-1", "row-3"]);
    assert_eq!(desk.job("j").await, job);
    let again = desk.import_path(job.clone(), "/nowhere".as_ref()).await;
    assert_eq!(again.unwrap(), job, "a sealed job reads no file");
}

/// Name, suffix and content of a file, and its problem.
const PROBLEMS: [(&str, &str, &[u8], &str); 12] = [
    ("empty", "csv", b"", "csv input must include a header row"),
    ("twice", "csv", b"a,x,x\n", "csv header x is duplicated"),
    ("blank", "csv", b"a,\n", "csv header column 2 has no name"),
    (
        "short",
        "csv",
        b"a,b\n\"1\n\",2\n3\n",
        "csv row 3 has 1 fields but header has 2 (line 4)",
    ),
    (
        "open",
        "csv",
        b"a\n1\n\"2\n3\n",
        "unclosed quote, opened at line 3",
    ),
    (
        "utf8",
        "csv",
        b"a\nx\n\xff\n",
        "input is not valid UTF-8 (line 3, byte offset 4)",
    ),
    (
        "nul",
        "tsv",
        b"a\nx\0\n",
        "input has a NUL character (line 2, byte offset 3)",
    ),
    (
        "nope",
        "csv",
        b"b,c\n1,2\n",
        "unknown placeholder {a}; columns: b, c",
    ),
    (
        "list",
        "jsonl",
        b"{\"a\":1}\n[]\n",
        "line 2 is not a JSON object",
    ),
    (
        "none",
        "jsonl",
        b"{\"b\":1}\n",
        "unknown placeholder {a}; columns: b",
    ),
    (
        "lacks",
        "jsonl",
        b"{\"a\":1}\n{\"b\":1}\n",
        "row lacks column a, which the instruction uses (line 2)",
    ),
    (
        "line",
        "txt",
        b"x\n",
        "unknown placeholder {a}; columns: line",
    ),
];

#[tokio::test]
async fn a_file_with_a_problem_fails_the_job_whole() {
    let desk = Desk::new();
    for (id, suffix, content, expected) in PROBLEMS {
        let job = new_job(id, "Do {a}", "{}");
        let outcome = desk.import(job, &format!("in.{suffix}"), content).await;
        assert_eq!(desk.refused(id, outcome).await, [expected], "{id}");
    }
}

#[tokio::test]
async fn a_row_of_more_than_a_mebibyte_fails_the_job() {
    let desk = Desk::new();
    let content = format!("a\n1\n{}\n", "x".repeat(1_048_577));
    let outcome = desk
        .import(new_job("j", "{a}", "{}"), "in.csv", content)
        .await;
    let expected = ["csv row 3 is longer than 1048576 bytes (line 3)"];
    assert_eq!(desk.refused("j", outcome).await, expected);
}

#[tokio::test]
async fn a_path_that_is_no_readable_file_is_refused() {
    let desk = Desk::new();
    let folder = desk.files.path();
    let missing = folder.join("none.csv");
    for (id, path, reason) in [
        ("a", missing.as_path(), "No such file or directory"),
        ("b", folder, "not a regular file"),
        ("c", "/dev/zero".as_ref(), "not a regular file"),
    ] {
        let job = desk.create(new_job(id, "x", "{}")).await;
        let outcome = desk.import_path(job, path).await;
        let expected = format!("failed to read csv input {}: {reason}", path.display());
        assert_eq!(desk.refused(id, outcome).await, [expected]);
    }
}

#[tokio::test]
async fn problems_are_collected_to_20() {
    let desk = Desk::new();
    let input = format!("a,b\n1,2\n{}", "1\n".repeat(30));
    let outcome = desk.import(new_job("j", "x", "{}"), "in.csv", input).await;
    let texts = desk.refused("j", outcome).await;
    assert_eq!(texts.len(), 20);
    assert_eq!(
        texts[19],
        "csv row 22 has 1 fields but header has 2 (line 22)"
    );
    assert_eq!(desk.job("j").await.total, 0, "nothing was imported");
}

#[tokio::test]
async fn a_table_without_rows_is_ready_with_a_warning() {
    let desk = Desk::new();
    let cases = [
        ("a", "in.csv", "x;y\n", 2),
        ("b", "in.jsonl", "\n", 1),
        ("c", "in.txt", "", 1),
    ];
    for (id, name, content, count) in cases {
        let job = desk.import(new_job(id, "Do it", "{}"), name, content).await;
        let job = job.unwrap();
        assert_eq!((job.state, job.total), (JobState::Ready, 0));
        let warnings = warnings(&desk, id).await;
        assert_eq!(warnings.len(), count, "{warnings:?}");
        assert_eq!(warnings[count - 1], "input has no data rows");
    }
    let semicolons = "only one column found; did you mean --delimiter ';'?";
    assert_eq!(warnings(&desk, "a").await[0], semicolons);
}

#[tokio::test]
async fn missing_columns_may_be_allowed() {
    let desk = Desk::new();
    let options = r#"{"allowMissing":true,"other":1}"#;
    let job = new_job("j", "{a}-{nope}", options);
    let job = desk
        .import(job, "in.jsonl", "{\"a\":1}\n{\"b\":2}\n")
        .await
        .unwrap();
    assert_eq!(job.total, 2);
    assert_eq!(job.columns.as_str(), r#"["a","b"]"#);
    let shown = preview(&desk.store, &job, 3).await.unwrap();
    assert!(shown.prompts[1].text.contains("Instruction:\n-{nope}\n"));
}

#[tokio::test]
async fn filters_are_part_of_the_job() {
    let desk = Desk::new();
    let path = desk.file("in.csv", "k,v\na,1\nb,2\na,3\na,4\n");
    let filters = Filters {
        values: vec![("k".to_owned(), "a".to_owned())],
        offset: 1,
        limit: Some(1),
        ..Filters::default()
    };
    let spec = |filters| InputSpec {
        filters,
        ..InputSpec::default()
    };
    let job = desk.create(new_job("j", "{v}", "{}")).await;
    let filtered = desk
        .imports
        .import_path(job, &path, spec(filters.clone()))
        .await;
    let filtered = filtered.unwrap();
    assert_eq!(desk.ids(&filtered).await, ["row-3"]);
    let job = desk.create(new_job("k", "{v}", "{}")).await;
    let whole = desk
        .imports
        .import_path(job, &path, InputSpec::default())
        .await;
    assert_ne!(whole.unwrap().fingerprint, filtered.fingerprint);
    let unknown = Filters {
        values: vec![("z".to_owned(), String::new())],
        ..filters
    };
    let job = desk.create(new_job("l", "{v}", "{}")).await;
    let outcome = desk.imports.import_path(job, &path, spec(unknown)).await;
    let texts = desk.refused("l", outcome).await;
    assert_eq!(texts, ["filter column z was not found in csv headers"]);
}

#[tokio::test]
async fn a_dry_run_finds_the_same_and_stores_nothing() {
    let desk = Desk::new();
    let options = r#"{"idColumn":"id","onDuplicate":"skip"}"#;
    let job = || new_job("j", "Do {v}", options);
    let path = desk.file("in.csv", "id,v\nx,1\ny,2\nx,3\n,4\n");
    let begin = || {
        let clock = Arc::new(desk.home.clock.clone());
        DryRun::begin(job(), clock, spec(Format::Csv), 3)
    };
    let dry = begin().await.unwrap().read_path(&path).await.unwrap();
    assert_eq!((dry.preview.total, dry.skipped), (3, 1));
    let ids: Vec<_> = dry
        .preview
        .prompts
        .iter()
        .map(|one| one.item_id.as_str())
        .collect();
    assert_eq!(ids, ["x", "y", "row-4"]);
    let first = &dry.preview.prompts[0].text;
    assert!(first.starts_with(
        "You are processing one item for a generic agent job.\nJob ID: j\nItem ID: x\n"
    ));
    let chars: usize = dry
        .preview
        .prompts
        .iter()
        .map(|one| one.text.chars().count())
        .sum();
    assert_eq!(dry.preview.estimated_tokens, chars as u64 / 4);
    let jobs = desk.store.jobs(JobQuery {
        after: None,
        states: Vec::new(),
        parent: None,
        limit: 10,
    });
    assert_eq!(jobs.await.unwrap().jobs, []);
    let made = desk.create(job()).await;
    let made = desk.import_path(made, &path).await.unwrap();
    assert_eq!(made.fingerprint, Some(dry.fingerprint));
    let shown = preview(&desk.store, &made, 3).await.unwrap();
    assert_eq!(shown, dry.preview);
    desk.file("in.csv", "id,w\n1,2\n");
    let refused = begin().await.unwrap().read_path(&path).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "unknown placeholder {v}; columns: id, w"
    );
}
