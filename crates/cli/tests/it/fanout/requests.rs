//! What the model is sent by `turnlane fanout run`, and what the store holds by then.

use std::collections::HashMap;

use serde_json::json;
use turnlane_testkit::TestProcess;
use turnlane_testkit::mock_model::{At, Gate, Item, Reply};
use turnlane_testkit::wait::{DEADLINE, within};

use super::{World, ends_with, line_of, lines, report, tool_answers, worker_prompt};
use crate::run;

const RUN: [&str; 4] = ["run", "in.csv", "--instruction", "Describe {name}"];

#[tokio::test]
async fn a_job_of_the_native_engine_makes_one_request_per_item() {
    let world = World::new(|request| Reply::of([report(request)])).await;
    world.write_rows("in.csv", 100);
    let ran = world
        .fanout(&[&RUN[..], &["-o", "out.csv", "-j", "64"]].concat())
        .await;
    ends_with(&ran, 0);
    assert_eq!(world.read("out.csv").lines().count(), 101);
    let counts = world.requests_by_item();
    assert_eq!(counts.len(), 100, "{counts:?}");
    assert!(counts.values().all(|&count| count == 1), "{counts:?}");
    assert_eq!(world.mock.requests().len(), 100);
}

#[tokio::test]
async fn calls_beside_a_report_are_finished_without_another_request() {
    let world = World::new(|request| {
        let command = json!({"cmd": "sleep 0.2; echo done > beside"});
        Reply::of([
            report(request),
            Item::function_call("exec_command", command),
        ])
    })
    .await;
    world.write_rows("in.csv", 1);
    let ran = world
        .fanout(&[&RUN[..], &["-s", "danger-full-access"]].concat())
        .await;
    ends_with(&ran, 0);
    assert_eq!(world.read("beside"), "done\n");
    assert_eq!(world.mock.requests().len(), 1);
}

#[tokio::test]
async fn the_worker_prompt_is_one_message_with_one_text() {
    let world = World::new(|request| Reply::of([report(request)])).await;
    std::fs::write(world.path("in.csv"), "name,b\n{b},\"x\ny\"\n").unwrap();
    let ran = world.fanout(&RUN).await;
    ends_with(&ran, 0);
    let requests = world.mock.requests();
    let prompt = worker_prompt(&requests[0]).unwrap();
    let job = world.job().await["id"].as_str().unwrap().to_owned();
    let start = format!(
        "You are processing one item for a generic agent job.\nJob ID: {job}\nItem ID: row-1\n\n\
         Instruction:\nDescribe {{b}}\n\nRow:\n{{\n  \"name\": \"{{b}}\",\n  \"b\": \"x\\ny\"\n}}\n\n\
         Result schema:\n{{}}\n\n"
    );
    assert!(prompt.starts_with(&start), "{prompt}");
    let input = requests[0].input();
    let messages: Vec<_> = input
        .iter()
        .filter(|item| item["content"][0]["text"] == prompt.as_str())
        .collect();
    assert_eq!(messages.len(), 1, "{input:?}");
    let message = messages[0];
    assert_eq!(message["type"], "message");
    assert_eq!(message["role"], "user");
    let content = message["content"].as_array().unwrap();
    assert_eq!(content.len(), 1, "{message}");
    assert_eq!(content[0]["type"], "input_text");
    // Nothing that the model is asked stands behind the prompt.
    assert_eq!(input.last(), Some(message), "{input:?}");
}

#[tokio::test]
async fn claims_turns_and_messages_survive_a_kill_under_their_requests() {
    let gate = Gate::new();
    let world = {
        let gate = gate.clone();
        World::new(move |request| Reply::of([report(request)]).gated_by(At::Request, &gate)).await
    };
    world.write_rows("in.csv", 16);
    let arguments = [&["fanout"][..], &RUN, &["-j", "16"]].concat();
    let mut process = TestProcess::start(world.spec(&arguments)).unwrap();
    within("16 requests", DEADLINE, gate.reached_by(16))
        .await
        .unwrap();
    // Killed, the process writes nothing more: what is found now was stored when all had asked.
    process.kill9().await.unwrap();
    let items = lines(&world.fanout(&["items", "in", "--json"]).await);
    assert_eq!(items.len(), 16);
    let threads: HashMap<_, _> = items
        .iter()
        .map(|item| {
            (
                item["itemId"].as_str().unwrap(),
                item["threadId"].as_str().unwrap(),
            )
        })
        .collect();
    for request in world.mock.requests() {
        let prompt = worker_prompt(&request).unwrap();
        let item = line_of(&prompt, "Item ID: ");
        let shown = run(world.spec(&["thread", "show", threads[item.as_str()], "--json"])).await;
        ends_with(&shown, 0);
        let shown = String::from_utf8(shown.stdout).unwrap();
        let message = serde_json::to_string(&prompt).unwrap();
        assert!(shown.contains(&message), "{shown}");
    }
    assert!(
        world
            .mock
            .requests()
            .iter()
            .all(|request| tool_answers(request) == 0)
    );
}
