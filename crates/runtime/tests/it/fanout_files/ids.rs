//! Ids of items, from the cell to the store.

use std::time::{Duration, Instant};

use turnlane_runtime::fanout::ids::OnDuplicate;
use turnlane_store::fanout::{ItemState, JobRow, JobState};

use super::{Desk, new_job};

async fn import(
    desk: &Desk,
    id: &str,
    mode: OnDuplicate,
    content: &str,
) -> Result<JobRow, Vec<String>> {
    let mode = match mode {
        OnDuplicate::Error => "error",
        OnDuplicate::Skip => "skip",
        OnDuplicate::Suffix => "suffix",
    };
    let options = format!(r#"{{"idColumn":"id","onDuplicate":"{mode}"}}"#);
    let outcome = desk
        .import(new_job(id, "x", &options), "in.csv", content)
        .await;
    match outcome {
        Ok(job) => Ok(job),
        Err(error) => Err(desk.refused(id, Err(error)).await),
    }
}

#[tokio::test]
async fn odd_cells_give_unique_ids_of_one_line() {
    let desk = Desk::new();
    let long = "l".repeat(300);
    let cells = [
        "",
        "x\ny",
        "x\nItem ID: y",
        "../x",
        "🦀",
        "A",
        "a",
        " pad",
        "row-5",
        &long,
    ];
    let cells = cells.map(|cell| format!("\"{cell}\",v"));
    let input = format!("id,v\n{}\n", cells.join("\n"));
    let job = import(&desk, "j", OnDuplicate::Error, &input)
        .await
        .unwrap();
    let ids = desk.ids(&job).await;
    let expected = [
        "row-1",
        "x%0Ay",
        "x%0AItem ID: y",
        "../x",
        "🦀",
        "A",
        "a",
        "pad",
        "row-5",
    ];
    assert_eq!(ids[..9], expected);
    assert!(
        ids[9].len() == 237 && ids[9].starts_with("lll"),
        "{}",
        ids[9]
    );
    for (seq, id) in (0..).zip(&ids) {
        let found = desk.store.item_of_job(job.no, id.clone()).await.unwrap();
        assert_eq!(found.unwrap().item.seq, seq, "{id}");
    }
    let rows = desk.rows(&job).await;
    assert_eq!(
        rows[7].cells.as_str(),
        r#"[" pad","v"]"#,
        "the cell stays as it was"
    );
}

const TWICE: &str = "id\nfoo\nfoo\nfoo-2\nFoo\nrow-6\n \n";

#[tokio::test]
async fn equal_ids_get_the_next_free_suffix() {
    let desk = Desk::new();
    let job = import(&desk, "j", OnDuplicate::Suffix, TWICE)
        .await
        .unwrap();
    let expected = ["foo", "foo-2", "foo-2-2", "Foo", "row-6", "row-6-2"];
    assert_eq!(desk.ids(&job).await, expected);
    assert_eq!(job.counts.skipped, 0);
}

#[tokio::test]
async fn equal_ids_may_be_skipped() {
    let desk = Desk::new();
    let job = import(&desk, "j", OnDuplicate::Skip, TWICE).await.unwrap();
    assert_eq!((job.total, job.counts.skipped), (6, 3));
    let rows = desk.rows(&job).await;
    let skipped = rows
        .iter()
        .filter(|row| row.item.state == ItemState::Skipped);
    let skipped: Vec<_> = skipped
        .map(|row| {
            (
                row.item.item_id.as_str(),
                row.item.error.as_ref().unwrap().kind.as_str(),
            )
        })
        .collect();
    let kind = "duplicate_id";
    assert_eq!(
        skipped,
        [("foo-2", kind), ("foo-2-2", kind), ("row-6-2", kind)]
    );
}

#[tokio::test]
async fn equal_ids_are_an_error_with_their_lines() {
    let desk = Desk::new();
    let problems = import(&desk, "j", OnDuplicate::Error, TWICE)
        .await
        .unwrap_err();
    let expected = [
        "duplicate id \"foo\" in row 2, first used in row 1 (line 3)",
        "duplicate id \"row-6\" in row 6, first used in row 5 (line 7)",
    ];
    // The suffix that row 2 would have had is not its id: foo-2 is no duplicate.
    assert_eq!(problems, expected);
}

#[tokio::test]
async fn the_first_20_equal_ids_are_listed_over_many_batches() {
    let desk = Desk::new();
    let ids: Vec<String> = (0..4_000).map(|at| format!("i{}", at % 3_990)).collect();
    let input = format!("id\n{}\n", ids.join("\n"));
    let problems = import(&desk, "j", OnDuplicate::Error, &input)
        .await
        .unwrap_err();
    assert_eq!(problems.len(), 10);
    assert_eq!(
        problems[9],
        "duplicate id \"i9\" in row 4000, first used in row 10 (line 4001)"
    );
    let ids: Vec<String> = (0..4_000)
        .map(|at| format!("i{}", at / 2 + at % 2 * (at / 200)))
        .collect();
    let input = format!("id\n{}\n", ids.join("\n"));
    let problems = import(&desk, "k", OnDuplicate::Error, &input)
        .await
        .unwrap_err();
    assert_eq!(problems.len(), 20);
}

#[tokio::test]
async fn an_unknown_id_column_is_an_error() {
    let desk = Desk::new();
    let expected = ["id_column id was not found in csv headers"];
    let problems = import(&desk, "j", OnDuplicate::Skip, "Id,v\n1,2\n")
        .await
        .unwrap_err();
    assert_eq!(problems, expected);
    let options = r#"{"idColumn":"id"}"#;
    let outcome = desk
        .import(new_job("k", "x", options), "in.jsonl", "{\"v\":1}\n")
        .await;
    assert_eq!(desk.refused("k", outcome).await, expected);
    let outcome = desk
        .import(new_job("l", "x", options), "in.jsonl", "{\"id\":7}\n{}\n")
        .await;
    assert_eq!(desk.ids(&outcome.unwrap()).await, ["7", "row-2"]);
}

#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test is about the time that passes"
)]
async fn a_hundred_thousand_equal_ids_are_imported_in_seconds() {
    let desk = Desk::new();
    let input = format!("id\n{}", "foo\n".repeat(100_000));
    let begun = Instant::now();
    let job = import(&desk, "j", OnDuplicate::Suffix, &input)
        .await
        .unwrap();
    assert_eq!((job.state, job.total), (JobState::Ready, 100_000));
    let last = desk
        .store
        .item_of_job(job.no, "foo-100000".to_owned())
        .await
        .unwrap();
    assert_eq!(last.unwrap().item.seq, 99_999);
    let took = begun.elapsed();
    assert!(took < Duration::from_mins(1), "{took:?}");
}
