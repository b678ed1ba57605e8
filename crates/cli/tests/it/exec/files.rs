//! Files of a run: the last message, the schema; and the hint about an open pipe.

use std::time::Duration;

use serde_json::json;
use turnlane_testkit::mock_model::{ApiError, Item, Reply};
use turnlane_testkit::wait::DEADLINE;

use super::{World, shell_or_ok};

#[tokio::test]
async fn the_last_message_is_written_after_a_completed_turn_only() {
    let world = World::new(|request| match request.last_user_text().as_str() {
        "two" => Reply::of([Item::text("first"), Item::text("second")]),
        "none" => Reply::of([]),
        _ => Reply::http_error(ApiError::bad_request("x", "no")),
    })
    .await;
    let file = world.home.path().join("last.txt");
    let path = file.display().to_string();
    let ran = world.run(&["--json", "-o", &path, "two"]).await;
    assert_eq!(ran.code, 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "second");
    let ran = world.run(&["--json", "-o", &path, "fails"]).await;
    assert_eq!(ran.code, 1);
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "second",
        "not touched"
    );
    let ran = world.run(&["--json", "-o", &path, "none"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
    let warned = format!("Warning: no last agent message; wrote empty content to {path}");
    assert!(ran.stderr.contains(&warned), "{}", ran.stderr);
    let nowhere = world.home.path().join("none/x").display().to_string();
    let ran = world.run(&["--json", "-o", &nowhere, "two"]).await;
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.contains("is not writable"), "{}", ran.stderr);
    assert!(
        ran.last_of_stderr()
            .starts_with("Failed to write last message file ")
    );
}

#[tokio::test]
async fn an_interrupted_turn_leaves_the_file_as_it_was() {
    let world = World::new(shell_or_ok).await;
    let file = world.home.path().join("last.txt");
    std::fs::write(&file, "before").unwrap();
    let path = file.display().to_string();
    let mut running = world
        .begin(&["--json", "-o", &path, "$ sleep 1000"])
        .without_input();
    running.line("item.started").await;
    running.signal(rustix::process::Signal::INT);
    assert_eq!(running.end().await.code, 1);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "before");
    assert_eq!(
        std::fs::read_dir(world.home.path())
            .unwrap()
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().contains("last.txt")
            })
            .count(),
        1,
        "nothing beside it"
    );
}

#[tokio::test]
async fn a_schema_is_sent_and_an_answer_that_does_not_fit_is_a_warning() {
    let world = World::new(|request| Reply::text(request.last_user_text())).await;
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}},
                        "required": ["a"], "additionalProperties": false});
    let file = world.home.path().join("schema.json");
    std::fs::write(&file, schema.to_string()).unwrap();
    let path = file.display().to_string();
    let ran = world
        .run(&["--json", "--output-schema", &path, "{\"a\":1}"])
        .await;
    assert_eq!(ran.code, 0);
    assert!(!ran.stderr.contains("does not fit"), "{}", ran.stderr);
    let requests = world.mock.requests();
    let format = json!({"type": "json_schema", "name": "codex_output_schema", "strict": true,
                        "schema": schema});
    assert_eq!(requests[0].body["text"]["format"], format);
    let ran = world
        .run(&["--json", "--output-schema", &path, "prose"])
        .await;
    assert_eq!(ran.code, 0);
    assert!(
        ran.stderr.contains("does not fit the output schema"),
        "{}",
        ran.stderr
    );
}

#[tokio::test]
async fn an_open_pipe_is_named_after_three_seconds() {
    let world = World::new(|_| Reply::text("x")).await;
    let mut running = world.begin(&["--json", "p"]);
    let hint = "still waiting for end of stdin (close it or use </dev/null)";
    let limit = DEADLINE.min(Duration::from_mins(1));
    running
        .process
        .wait_for_stderr_line(|line| line == hint, limit)
        .await
        .unwrap();
    drop(running.process.take_stdin());
    assert_eq!(running.end().await.code, 0);
}

#[tokio::test]
async fn the_model_is_told_of_a_picture_that_could_not_be_read() {
    let world = World::new(|_| Reply::text("ok")).await;
    let ran = world.run(&["--json", "-i", "nope.png", "--", "look"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let request = world.mock.requests().remove(0);
    let input = json!(request.input());
    let sent = input.as_array().unwrap().last().unwrap()["content"].clone();
    let told = "A picture of this message could not be read: image nope.png: No such file or \
                directory (os error 2)";
    let expected = json!([
        {"type": "input_text", "text": "look"},
        {"type": "input_text", "text": told},
    ]);
    assert_eq!(sent, expected, "{input}");
    assert!(ran.stdout.contains("nope.png"), "{}", ran.stdout);
}
