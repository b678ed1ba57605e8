//! The schemas of both tools, word for word as models are shown them.

use serde_json::{Value, json};
use turnlane_engine::RuntimeTool;

use super::{shown, status_word};
use crate::fanout::report;
use turnlane_store::fanout::JobState;

fn text(tool: &RuntimeTool) -> Value {
    json!({
        "name": tool.name, "description": tool.description, "parameters": tool.parameters,
    })
}

#[test]
fn the_schema_of_the_spawn_tool_is_the_documented_one() {
    let documented = r#"{"name":"spawn_agents_on_csv",
 "description":"Run one worker agent per row of a table file. {column} in the instruction is replaced by the row's value. Each worker reports one JSON object with report_agent_job_result. Waits until all rows have ended and writes a result CSV.",
 "parameters":{"type":"object","additionalProperties":false,"required":["csv_path","instruction"],"properties":{
  "csv_path":{"type":"string","description":"Input file with a header row."}, "instruction":{"type":"string","description":"Task for each row; {column} inserts a value, {{ and }} are literal braces."},
  "id_column":{"type":"string","description":"Column with a stable id per row; default: row numbers."}, "output_csv_path":{"type":"string","description":"Where to write results; default: beside the input."},
  "max_concurrency":{"type":"number","description":"Workers at once, 1 to 64, default 16."}, "max_workers":{"type":"number","description":"Same as max_concurrency; used only if that is absent."},
  "max_runtime_seconds":{"type":"number","description":"Time limit per worker, default 1800."}, "output_schema":{"type":"object","properties":{},"description":"JSON Schema every result must satisfy."},
  "wait":{"type":"boolean","description":"false returns the job id at once; default true."}}}}"#;
    let documented: Value = serde_json::from_str(documented).unwrap();
    assert_eq!(text(&shown()), documented);
}

#[test]
fn the_schema_of_the_report_tool_is_the_documented_one() {
    let documented = r#"{"name":"report_agent_job_result", "description":"For workers only: record the result of the item being processed.",
 "parameters":{"type":"object","additionalProperties":false,"required":["job_id","item_id","result"],"properties":{
  "job_id":{"type":"string","description":"Job id from the task."},"item_id":{"type":"string","description":"Item id from the task."}, "result":{"type":"object","properties":{},"description":"Result object for this item."},
  "stop":{"type":"boolean","description":"true ends the job: rows not yet started are cancelled."}}}}"#;
    let documented: Value = serde_json::from_str(documented).unwrap();
    assert_eq!(text(&report::shown()), documented);
}

#[test]
fn a_job_in_which_nothing_succeeded_is_never_called_completed() {
    let ended = JobState::FinishedWithFailures;
    assert_eq!(status_word(ended, 0, 3), "failed");
    assert_eq!(status_word(ended, 1, 3), "completed");
    assert_eq!(status_word(JobState::Succeeded, 0, 0), "completed");
    assert_eq!(status_word(JobState::Paused, 5, 0), "paused");
    assert_eq!(status_word(JobState::Cancelled, 5, 0), "cancelled");
}
