//! What stands in AGENTS.md is told to clients by name.

use serde_json::json;
use turnlane_testkit::mock_model::Reply;

use super::{Served, ok};

#[tokio::test]
async fn the_files_a_turn_is_given_are_named_at_its_threads_start() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let (global, own) = (
        served.home.turnlane().join("AGENTS.md"),
        served.work().join("AGENTS.md"),
    );
    std::fs::write(&global, "be kind").unwrap();
    std::fs::write(&own, "be brief").unwrap();
    let mut server = served.stdio().await;
    let params = json!({"cwd": served.work()});
    let started = ok(&mut server.client, "thread/start", params).await;
    assert_eq!(started["instructionSources"], json!([global, own]));
}
