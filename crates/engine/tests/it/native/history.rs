//! The same entries give the same requests: after a restart, a fork, a revert, a crash.

use serde_json::json;
use turnlane_engine::{Entry, UnrecordedMessage};
use turnlane_protocol::ids::{ItemId, ThreadId, TurnId};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::{ItemBody, ThreadItem, UserMessage};
use turnlane_testkit::mock_model::{Item, Reply};

use super::support::Bench;

/// A thread of two turns with a tool round each.
async fn two_turns(bench: &Bench) -> [Vec<Entry>; 2] {
    let mut history = Vec::new();
    let mut turns = Vec::new();
    for number in [1, 2] {
        let cmd = json!({"cmd": format!("echo {number}")});
        let call = Item::function_call("exec_command", cmd).call_id(format!("c{number}"));
        bench.mock.push(Reply::reasoning("Think.").and(call));
        bench.mock.push(Reply::text(format!("done {number}")));
        let request = bench.request(number, &format!("turn {number}"), history.clone());
        let seen = bench.start(request).finish().await;
        history = seen.assert_completed().after(&history);
        turns.push(seen.entries);
    }
    turns.try_into().unwrap()
}

async fn sent(bench: &Bench, request: turnlane_engine::TurnRequest) -> serde_json::Value {
    bench.mock.push(Reply::text("fine"));
    bench.start(request).finish().await.assert_completed();
    bench.mock.requests().pop().unwrap().body.clone()
}

#[tokio::test]
async fn a_restart_a_fork_and_a_revert_send_what_they_should() {
    let bench = Bench::new().await;
    let [first, second] = two_turns(&bench).await;
    let all = [first.clone(), second].concat();

    let body = sent(&bench, bench.request(3, "next", all.clone())).await;
    let other = Bench::new().await;
    let mut request = other.request(3, "next", all.clone());
    request.settings.cwd = bench.cwd();
    assert_eq!(
        sent(&other, request).await,
        body,
        "another process, the same request"
    );
    assert_eq!(body["input"].as_array().unwrap().len(), 11);

    let mut fork = bench.request(3, "next", first.clone());
    fork.thread_id = ThreadId::at(9, [9; 10]);
    let key = fork.thread_id.to_string();
    let forked = sent(&bench, fork).await;
    assert_eq!(forked["prompt_cache_key"], key);
    let reverted = sent(&bench, bench.request(3, "next", first)).await;
    assert_eq!(forked["input"], reverted["input"]);
    assert_eq!(
        reverted["input"].as_array().unwrap()[..5],
        body["input"].as_array().unwrap()[..5]
    );
    assert_eq!(reverted["input"].as_array().unwrap().len(), 6);
}

#[tokio::test]
async fn a_command_that_a_crash_cut_off_is_told_as_unknown_and_not_run_again() {
    let bench = Bench::new().await;
    let cmd = json!({"cmd": "touch ran"});
    let call = Item::function_call("exec_command", cmd).call_id("c");
    bench.mock.push(Reply::of([call]));
    bench.mock.push(Reply::text("done"));
    let seen = bench.turn("go").await;
    std::fs::remove_file(bench.cwd.path().join("ran")).unwrap();
    // What was durable when the command began: the message and the call.
    let history = seen.entries[..2].to_vec();
    sent(&bench, bench.request(2, "next", history)).await;
    let request = bench.mock.requests().pop().unwrap();
    let output = request.tool_output("c").unwrap();
    assert!(output.starts_with("no result recorded: "), "{output}");
    assert!(!bench.cwd.path().join("ran").exists());
}

#[tokio::test]
async fn reasoning_of_another_provider_is_left_out_and_the_rest_is_kept() {
    let bench = Bench::new().await;
    let [mut first, _] = two_turns(&bench).await;
    for entry in &mut first {
        entry.provider = "another".to_owned();
    }
    let body = sent(&bench, bench.request(3, "next", first)).await;
    let kinds: Vec<_> = body["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].clone())
        .collect();
    assert_eq!(
        kinds,
        [
            "message",
            "function_call",
            "function_call_output",
            "message",
            "message"
        ]
    );
}

#[tokio::test]
async fn a_message_that_never_became_an_entry_is_sent_behind_its_turn_and_recorded() {
    let bench = Bench::new().await;
    let [first, second] = two_turns(&bench).await;
    let message = UserMessage {
        content: vec![UserInput::text("one more thing")],
        ..UserMessage::default()
    };
    let item = ThreadItem::started(ItemId::from("late"), 5, ItemBody::UserMessage(message));
    let mut request = bench.request(3, "next", [first.clone(), second].concat());
    request.context = vec!["context of a hook".to_owned()];
    request.unrecorded = vec![UnrecordedMessage {
        turn_id: TurnId::at(2, [1; 10]),
        item,
    }];
    bench.mock.push(Reply::text("fine"));
    let seen = bench.start(request).finish().await;
    seen.assert_completed();
    let late = &seen.entries[0];
    assert_eq!(
        (late.turn_id, late.item_id.clone()),
        (TurnId::at(2, [1; 10]), Some("late".into()))
    );
    let sent = bench.mock.requests().pop().unwrap();
    assert_eq!(sent.input()[5]["content"][0]["text"], "one more thing");
    let texts: Vec<_> = sent.input()[11..]
        .iter()
        .map(|item| item["content"][0]["text"].clone())
        .collect();
    assert_eq!(texts, ["context of a hook", "next"]);
}
