//! The lines of `--json`: which, in which order, with which members.

use serde_json::{Value, json};
use turnlane_testkit::mock_model::{ApiError, Item, Reply, Usage};

use super::{World, is_answered, shell_or_ok};

/// The lines with ids, which differ from run to run, taken out.
fn plain(lines: Vec<Value>) -> Vec<Value> {
    lines
        .into_iter()
        .map(|mut line| {
            for key in ["thread_id", "turn_id"] {
                if let Some(id) = line.get_mut(key) {
                    assert_eq!(id.as_str().unwrap().len(), 36);
                    *id = json!("ID");
                }
            }
            line
        })
        .collect()
}

#[tokio::test]
async fn a_run_says_thread_turn_items_and_usage() {
    let world = World::new(shell_or_ok).await;
    let ran = world.run(&["--json", "$ echo hi; exit 3"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = plain(ran.lines());
    let words: Vec<_> = ran.types();
    assert_eq!(
        words,
        [
            "thread.started",
            "turn.started",
            "item.started",
            "item.completed",
            "item.completed",
            "turn.completed"
        ]
    );
    let begun = &lines[2]["item"];
    assert_eq!(begun["id"], "item_0");
    assert_eq!(begun["aggregated_output"], "");
    assert_eq!(
        (&begun["exit_code"], &begun["status"]),
        (&Value::Null, &json!("in_progress"))
    );
    let ended = &lines[3]["item"];
    assert_eq!(ended["id"], "item_0");
    assert!(
        ended["command"]
            .as_str()
            .unwrap()
            .ends_with("-c 'echo hi; exit 3'"),
        "{ended}"
    );
    assert_eq!(ended["aggregated_output"], "hi\n");
    assert_eq!(
        (&ended["exit_code"], &ended["status"]),
        (&json!(3), &json!("failed"))
    );
    let message = json!({"type": "item.completed", "item": {
        "id": "item_1", "type": "agent_message", "text": "ok: $ echo hi; exit 3"}});
    assert_eq!(lines[4], message);
}

#[tokio::test]
async fn usage_is_the_threads_and_turn_usage_the_turns() {
    let world = World::new(|_| Reply::text("x").usage(Usage::SAMPLE)).await;
    let five = |factor: i64| {
        json!({"input_tokens": 100 * factor, "cached_input_tokens": 40 * factor,
               "cache_write_input_tokens": 7 * factor, "output_tokens": 20 * factor,
               "reasoning_output_tokens": 5 * factor})
    };
    let first = world.run(&["--json", "one"]).await;
    let last = first.last();
    assert_eq!((&last["usage"], &last["turn_usage"]), (&five(1), &five(1)));
    let thread = first.thread();
    let second = world.run(&["--json", "resume", &thread, "two"]).await;
    let last = second.last();
    assert_eq!((&last["usage"], &last["turn_usage"]), (&five(2), &five(1)));
    assert_eq!(second.thread(), thread);
    let fork = world.run(&["--json", "fork", &thread, "three"]).await;
    assert_ne!(fork.thread(), thread);
    assert_eq!(fork.last()["usage"], five(3), "it begins with its source's");
}

#[tokio::test]
async fn a_failed_turn_says_why_twice_and_once_as_the_last_line() {
    let world =
        World::new(|_| Reply::http_error(ApiError::usage_limit_reached(1_893_531_900))).await;
    let ran = world.run(&["--json", "hi"]).await;
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.types(),
        ["thread.started", "turn.started", "error", "turn.failed"]
    );
    let lines = ran.lines();
    assert_eq!(lines[2]["message"], lines[3]["error"]["message"]);
    assert_eq!(
        (&lines[2]["kind"], &lines[2]["will_retry"]),
        (&json!("quota"), &json!(false))
    );
    assert_eq!(lines[3]["error"]["retry_at"], 1_893_531_900);
    assert_eq!(lines[3]["error"]["kind"], "quota");
}

#[tokio::test]
async fn a_plan_is_one_list_that_ends_before_the_turn() {
    let world = World::new(|request| {
        let plan = |status: &str| {
            let steps =
                json!([{"step": "a", "status": status}, {"step": "b", "status": "pending"}]);
            Reply::function_call("update_plan", json!({"plan": steps}))
        };
        let answers = request.input().iter();
        match answers
            .filter(|item| item["type"] == "function_call_output")
            .count()
        {
            0 => plan("in_progress"),
            1 => plan("completed"),
            _ => Reply::text("planned"),
        }
    })
    .await;
    let ran = world.run(&["--json", "plan"]).await;
    assert_eq!(
        ran.types(),
        [
            "thread.started",
            "turn.started",
            "item.started",
            "item.updated",
            "item.completed",
            "item.completed",
            "turn.completed"
        ]
    );
    let lines = ran.lines();
    let items = json!([{"text": "a", "completed": true}, {"text": "b", "completed": false}]);
    let list = json!({"id": "item_0", "type": "todo_list", "items": items});
    assert_eq!(lines[3]["item"], list);
    assert_eq!(lines[5]["item"], list);
    assert_eq!(lines[4]["item"]["id"], "item_1");
}

#[tokio::test]
async fn lines_cannot_be_split_by_what_a_model_says() {
    let text = format!("a\u{2028}b\u{2029}c\u{85}d {}", "é🦀".repeat(60_000));
    let said = text.clone();
    let world = World::new(move |_| Reply::text(said.clone())).await;
    let ran = world.run(&["--json", "hi"]).await;
    assert!(!ran.stdout.contains(['\u{2028}', '\u{2029}', '\u{85}']));
    assert_eq!(ran.lines()[2]["item"]["text"], text);
}

#[tokio::test]
async fn patches_reasoning_and_warnings_are_items() {
    let world = World::new(|request| {
        if is_answered(request)
            || request
                .input()
                .last()
                .is_some_and(|i| i["type"] == "custom_tool_call_output")
        {
            return Reply::reasoning("**Thought**").and(Item::text("done"));
        }
        let patch = "*** Begin Patch\n*** Add File: new.txt\n+hi\n*** End Patch\n";
        Reply::custom_tool_call("apply_patch", patch)
    })
    .await;
    let missing = world.work().join("none.png");
    let ran = world
        .run(&[
            "--json",
            "-s",
            "workspace-write",
            "-i",
            missing.to_str().unwrap(),
            "--",
            "go",
        ])
        .await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = ran.lines();
    assert_eq!(lines[1]["item"]["type"], "error", "{}", ran.stdout);
    assert_eq!(lines[2]["type"], "turn.started");
    let path = world.work().join("new.txt");
    let change = |status: &str| {
        json!({"id": "item_1", "type": "file_change", "status": status,
               "changes": [{"path": path, "kind": "add"}]})
    };
    assert_eq!(lines[3]["item"], change("in_progress"), "{}", ran.stdout);
    assert_eq!(lines[4]["item"], change("completed"));
    assert_eq!(lines[5]["item"]["type"], "reasoning");
    assert_eq!(lines[6]["item"]["text"], "done");
}

#[tokio::test]
async fn whoever_asks_for_approval_is_declined_and_the_turn_goes_on() {
    let world = World::new(|request| {
        if is_answered(request) {
            return Reply::text("went on");
        }
        let arguments = json!({"cmd": "touch x", "sandbox_permissions": "require_escalated",
                               "justification": "please"});
        Reply::of([Item::function_call("exec_command", arguments).call_id("c1")])
    })
    .await;
    let ran = world
        .run(&[
            "--json",
            "-s",
            "read-only",
            "-c",
            "approval_policy=on-request",
            "go",
        ])
        .await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = ran.lines();
    let declined = lines
        .iter()
        .find(|line| line["item"]["status"] == "declined");
    assert!(declined.is_some(), "{}", ran.stdout);
    assert!(!world.work().join("x").exists());
    assert_eq!(lines[lines.len() - 2]["item"]["text"], "went on");
}

#[tokio::test]
async fn a_script_needs_no_model() {
    let world = World::new(|_| Reply::text("never")).await;
    let script = world.home.path().join("s.yaml");
    std::fs::write(
        &script,
        "version: 1\nturns:\n  - steps:\n      - say: hello\n",
    )
    .unwrap();
    let ran = world
        .run(&["--json", "--script", script.to_str().unwrap(), "hi"])
        .await;
    assert_eq!(ran.lines()[2]["item"]["text"], "hello");
    assert!(world.mock.requests().is_empty());
}
