//! How items are shown in lines.

use serde_json::{Value, json};

use super::*;

fn line(item: Value, phase: Phase) -> Value {
    let mut item = item;
    item["id"] = json!("i1");
    let item: ThreadItem = serde_json::from_value(item).unwrap();
    match shown(&item, phase, Path::new("/w")) {
        Some(body) => serde_json::to_value(body).unwrap(),
        None => Value::Null,
    }
}

fn command(status: &str) -> Value {
    json!({"type": "commandExecution", "command": "/bin/bash -lc x", "cwd": "/w",
           "status": status, "commandActions": [], "processId": null, "source": "agent",
           "aggregatedOutput": null, "exitCode": null, "durationMs": null})
}

#[test]
fn messages_and_reasoning_are_shown_when_they_have_ended_and_say_something() {
    let message = json!({"type": "agentMessage", "text": "hi"});
    assert_eq!(line(message.clone(), Phase::Started), Value::Null);
    let shown = json!({"type": "agent_message", "text": "hi"});
    assert_eq!(line(message, Phase::Completed), shown);
    let reasoning = json!({"type": "reasoning", "summary": ["a", "b"], "content": ["c"]});
    let shown = json!({"type": "reasoning", "text": "a\nb"});
    assert_eq!(line(reasoning, Phase::Completed), shown);
    let blank = json!({"type": "reasoning", "summary": [" "], "content": ["c"]});
    assert_eq!(line(blank, Phase::Completed), Value::Null);
}

#[test]
fn a_command_has_four_words_for_where_it_stands() {
    let running = json!({"type": "command_execution", "command": "/bin/bash -lc x",
                         "aggregated_output": "", "exit_code": null, "status": "in_progress"});
    assert_eq!(line(command("inProgress"), Phase::Started), running);
    for (theirs, ours) in [
        ("inProgress", "failed"),
        ("completed", "completed"),
        ("failed", "failed"),
        ("declined", "declined"),
        ("interrupted", "failed"),
        ("melted", "failed"),
    ] {
        assert_eq!(line(command(theirs), Phase::Completed)["status"], ours);
    }
}

#[test]
fn a_declined_patch_has_failed_and_its_paths_are_absolute() {
    let change = |path: &str, kind: Value| json!({"path": path, "kind": kind, "diff": ""});
    let patch = json!({"type": "fileChange", "status": "declined", "changes": [
        change("/x/a", json!({"type": "add"})),
        change("b", json!({"type": "delete"})),
        change("c", json!({"type": "update", "move_path": null})),
    ]});
    let expected = json!({"type": "file_change", "status": "failed", "changes": [
        {"path": "/x/a", "kind": "add"},
        {"path": "/w/b", "kind": "delete"},
        {"path": "/w/c", "kind": "update"},
    ]});
    assert_eq!(line(patch, Phase::Completed), expected);
}

#[test]
fn tools_of_servers_and_of_clients_are_one_kind() {
    let call = json!({"type": "mcpToolCall", "server": "toy", "tool": "add",
        "arguments": {"a": 2}, "status": "completed", "error": null, "durationMs": 1,
        "result": {"content": [{"type": "text", "text": "5"}], "structuredContent": {"sum": 5},
                   "_meta": {"k": 1}}});
    let expected = json!({"type": "mcp_tool_call", "server": "toy", "tool": "add",
        "arguments": {"a": 2}, "error": null, "status": "completed",
        "result": {"content": [{"type": "text", "text": "5"}], "structured_content": {"sum": 5},
                   "_meta": {"k": 1}}});
    assert_eq!(line(call, Phase::Completed), expected);
    let dynamic = |success: Value, namespace: Value| {
        json!({"type": "dynamicToolCall", "tool": "t", "arguments": {}, "status": "completed",
               "namespace": namespace, "success": success, "durationMs": null,
               "contentItems": [{"type": "inputText", "text": "no"}]})
    };
    let refused = line(dynamic(json!(false), json!("ns")), Phase::Completed);
    let expected = json!({"type": "mcp_tool_call", "server": "ns", "tool": "t", "arguments": {},
        "result": null, "error": {"message": "no"}, "status": "failed"});
    assert_eq!(refused, expected);
    let fine = line(dynamic(json!(true), json!(null)), Phase::Completed);
    assert_eq!(fine["server"], "turnlane");
    let content = json!([{"type": "text", "text": "no"}]);
    assert_eq!(fine["result"]["content"], content);
}

#[test]
fn calls_about_agents_and_searches_are_spelled_with_underscores() {
    let call = json!({"type": "collabAgentToolCall", "tool": "spawnAgent", "status": "completed",
        "senderThreadId": "s", "receiverThreadIds": ["r"], "prompt": "p", "model": null,
        "reasoningEffort": null, "agentsStates": {"r": {"status": "pendingInit", "message": null}}});
    let expected = json!({"type": "collab_tool_call", "tool": "spawn_agent",
        "sender_thread_id": "s", "receiver_thread_ids": ["r"], "prompt": "p",
        "agents_states": {"r": {"status": "pending_init", "message": null}}, "status": "completed"});
    assert_eq!(line(call, Phase::Completed), expected);
    let search = |action: Value| {
        let item = json!({"type": "webSearch", "query": "q", "action": action, "results": null});
        line(item, Phase::Completed)["action"].clone()
    };
    assert_eq!(search(Value::Null), json!({"type": "other"}));
    let page = search(json!({"type": "openPage", "url": "u"}));
    assert_eq!(page, json!({"type": "open_page", "url": "u"}));
}

#[test]
fn everything_else_is_left_out() {
    for word in [
        "userMessage",
        "plan",
        "contextCompaction",
        "sleep",
        "somethingNew",
    ] {
        let item = json!({"type": word, "text": "", "content": [], "durationMs": 1});
        assert_eq!(line(item.clone(), Phase::Started), Value::Null, "{word}");
        assert_eq!(line(item, Phase::Completed), Value::Null, "{word}");
    }
}

#[test]
fn what_was_open_at_the_end_has_failed() {
    let item: ThreadItem = serde_json::from_value({
        let mut item = command("inProgress");
        item["id"] = json!("i1");
        item
    })
    .unwrap();
    let body = shown(&item, Phase::Started, Path::new("/w")).unwrap();
    let body = serde_json::to_value(given_up(body)).unwrap();
    assert_eq!(body["status"], "failed");
}
