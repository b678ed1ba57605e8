//! Every type of item, and what we do not know of items.

use serde_json::{Value, json};
use turnlane_protocol::item::{ItemBody, MessagePhase, ThreadItem};

use crate::example::{reads_as, refusal, whole, with};

/// An item of this type with these members and those that all items have.
pub(crate) fn item(kind: &str, members: Value) -> Value {
    let all = json!({"type": kind, "id": "item_1", "startedAtMs": 5, "completedAtMs": null});
    with(all, members)
}

fn command(members: Value) -> Value {
    let all = json!({"command": "ls", "cwd": "/w", "status": "inProgress", "commandActions": [],
        "processId": null, "source": "agent", "aggregatedOutput": null, "exitCode": null,
        "durationMs": null, "pluginId": null, "scriptPath": null, "outcome": null});
    item("commandExecution", with(all, members))
}

fn mcp_tool_call(members: Value) -> Value {
    let all = json!({"server": "s", "tool": "t", "arguments": {"a": [1, null]},
        "status": "inProgress", "result": null, "error": null, "durationMs": null,
        "appContext": null, "pluginId": null, "readOnlyHint": null, "mcpAppResourceUri": null,
        "mcpAppUi": null});
    item("mcpToolCall", with(all, members))
}

fn agent_message(members: Value) -> Value {
    let all = json!({"text": "", "phase": null, "memoryCitation": null, "delivery": null,
        "questions": null});
    item("agentMessage", with(all, members))
}

/// At least one of every type.
fn words() -> Vec<Value> {
    vec![
        item("userMessage", json!({"clientId": null, "content": []})),
        item(
            "userMessage",
            json!({"clientId": "c-1", "completedAtMs": 6,
                "content": [{"type": "text", "text": "hi", "text_elements": []}]}),
        ),
        agent_message(json!({})),
        agent_message(
            json!({"text": "done", "phase": "commentary", "memoryCitation": {"a": 1},
            "delivery": "async", "questions": [{"q": 1}]}),
        ),
        agent_message(json!({"phase": "partial_answer"})),
        agent_message(json!({"phase": "final_answer"})),
        item(
            "reasoning",
            json!({"summary": ["a", "b"], "content": ["c"]}),
        ),
        item("plan", json!({"text": "1. look"})),
        item(
            "hookPrompt",
            json!({"fragments": [{"hookRunId": "r", "text": "mind the gap"}]}),
        ),
        item("enteredReviewMode", json!({"review": "current changes"})),
        item("exitedReviewMode", json!({"review": "fine"})),
    ]
}

fn actions() -> Vec<Value> {
    vec![
        command(json!({})),
        command(
            json!({"status": "completed", "processId": "7", "source": "userShell",
            "aggregatedOutput": "a\n", "exitCode": 0, "durationMs": 12, "pluginId": "p",
            "scriptPath": "/s", "outcome": "exited", "commandActions": [
                {"type": "read", "command": "cat a", "name": "a", "path": "/w/a"},
                {"type": "listFiles", "command": "ls", "path": null},
                {"type": "search", "command": "rg x", "query": "x", "path": "src"},
                {"type": "unknown", "command": "make"}]}),
        ),
        command(json!({"status": "failed", "source": "unifiedExecStartup",
            "outcome": "signalled"})),
        command(
            json!({"status": "failed", "source": "unifiedExecInteraction", "exitCode": -1,
            "outcome": "timedOut"}),
        ),
        command(json!({"status": "failed", "source": null, "outcome": "interrupted"})),
        command(json!({"status": "declined", "outcome": "declined"})),
        item(
            "fileChange",
            json!({"status": "completed", "changes": [
                {"path": "a", "kind": {"type": "add"}, "diff": "hi\n"},
                {"path": "b", "kind": {"type": "delete"}, "diff": "ho\n"},
                {"path": "c", "kind": {"type": "update", "move_path": "d"}, "diff": "@@"},
                {"path": "e", "kind": {"type": "update", "move_path": null}, "diff": "@@"}]}),
        ),
        mcp_tool_call(json!({})),
        mcp_tool_call(
            json!({"status": "completed", "durationMs": 3, "readOnlyHint": true,
            "result": {"content": [{"type": "text", "text": "x"}], "structuredContent": {"a": 1},
                "_meta": {"b": 2}},
            "appContext": {"c": 3}, "pluginId": "p", "mcpAppResourceUri": "u", "mcpAppUi": {}}),
        ),
        mcp_tool_call(json!({"status": "failed", "error": {"message": "no"}, "arguments": null})),
        item(
            "dynamicToolCall",
            json!({"tool": "t", "arguments": {}, "status": "completed", "namespace": "n",
                "contentItems": [{"type": "inputText", "text": "x"}], "success": true,
                "durationMs": 4}),
        ),
        item(
            "webSearch",
            json!({"query": "rust", "results": [1],
            "action": {"type": "search", "query": "rust", "queries": null}}),
        ),
        item("imageView", json!({"path": "/a.png"})),
        item("contextCompaction", json!({})),
        item("sleep", json!({"durationMs": 1000})),
        item(
            "functionCallOutput",
            json!({"name": "f", "output": "x", "namespace": null}),
        ),
        item(
            "collabAgentToolCall",
            json!({"tool": "spawnAgent", "status": "interrupted", "senderThreadId": "a",
                "receiverThreadIds": ["b"], "agentsStates": {"b": {"status": "running"}},
                "prompt": "look", "model": "m", "reasoningEffort": "high"}),
        ),
        item(
            "subAgentActivity",
            json!({"kind": "x", "agentThreadId": "b", "agentPath": "/"}),
        ),
        item(
            "imageGeneration",
            json!({"status": "completed", "result": "AA=="}),
        ),
    ]
}

#[test]
fn every_type_comes_back_whole() {
    let mut seen = Vec::new();
    for example in words().into_iter().chain(actions()) {
        let read = whole::<ThreadItem>(example.clone());
        assert!(!matches!(read.body, ItemBody::Other(_)), "{example}");
        assert_eq!(example["type"], read.type_word());
        seen.push(read.type_word().to_owned());
    }
    for known in ItemBody::TYPES {
        assert!(
            seen.iter().any(|word| word == known),
            "no example of {known}"
        );
    }
}

#[test]
fn members_we_do_not_know_stay_in_every_type() {
    for example in words().into_iter().chain(actions()) {
        let read = whole::<ThreadItem>(with(example, json!({"later": {"deep": [1, null, "é"]}})));
        assert!(!matches!(read.body, ItemBody::Other(_)));
    }
    let parts = json!([{"type": "read", "command": "c", "name": "n", "path": "p", "later": 1}]);
    whole::<ThreadItem>(command(json!({"commandActions": parts})));
    let change = json!({"path": "a", "kind": {"type": "add"}, "diff": "", "later": 1});
    whole::<ThreadItem>(item(
        "fileChange",
        json!({"status": "failed", "changes": [change]}),
    ));
}

#[test]
fn words_we_do_not_know_stay_and_the_rest_is_still_read() {
    let read = whole::<ThreadItem>(agent_message(json!({"text": "a", "phase": "afterthought"})));
    let ItemBody::AgentMessage(message) = read.body else {
        panic!("{read:?}")
    };
    assert_eq!(message.text, "a");
    assert_eq!(
        message.phase,
        Some(MessagePhase::Unlisted("afterthought".into()))
    );
    for members in [
        json!({"status": "paused"}),
        json!({"source": "cron"}),
        json!({"outcome": "vanished"}),
        json!({"commandActions": [{"type": "delete", "command": "rm", "deep": {"a": 1}}]}),
    ] {
        let read = whole::<ThreadItem>(command(members));
        assert!(matches!(read.body, ItemBody::CommandExecution(_)));
    }
    let change = json!({"path": "a", "kind": {"type": "chmod", "mode": 7}, "diff": ""});
    whole::<ThreadItem>(item(
        "fileChange",
        json!({"status": "failed", "changes": [change]}),
    ));
}

#[test]
fn types_we_do_not_know_stay_whole() {
    let read = whole::<ThreadItem>(item(
        "hologram",
        json!({"depth": 3, "parts": [{"a": null}]}),
    ));
    assert_eq!((read.type_word(), read.id.as_str()), ("hologram", "item_1"));
    let ItemBody::Other(members) = read.body else {
        panic!("known")
    };
    assert_eq!(
        Value::from(members),
        json!({"type": "hologram", "depth": 3, "parts": [{"a": null}]})
    );
}

#[test]
fn known_types_in_shapes_we_do_not_know_stay_whole() {
    for example in [
        item("agentMessage", json!({"text": {"rich": true}})),
        item(
            "userMessage",
            json!({"content": [{"type": "smell", "ppm": 4}]}),
        ),
        item("commandExecution", json!({"argv": ["ls"]})),
    ] {
        assert!(matches!(
            whole::<ThreadItem>(example).body,
            ItemBody::Other(_)
        ));
    }
}

#[test]
fn what_is_left_out_is_written_as_null() {
    reads_as::<ThreadItem>(
        json!({"type": "agentMessage", "id": "m", "text": "a"}),
        &json!({"type": "agentMessage", "id": "m", "text": "a", "phase": null,
            "memoryCitation": null, "delivery": null, "questions": null,
            "startedAtMs": null, "completedAtMs": null}),
    );
}

#[test]
fn an_item_has_a_type_and_an_id() {
    assert_eq!(
        refusal::<ThreadItem>(json!({"id": "a"})),
        "Invalid request: missing field `type`"
    );
    assert_eq!(
        refusal::<ThreadItem>(json!({"type": "plan", "text": "a"})),
        "Invalid request: missing field `id`"
    );
}
