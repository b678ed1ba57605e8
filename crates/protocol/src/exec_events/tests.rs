//! Lines as they stand on standard output, byte for byte.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::*;

fn line(event: &Event) -> String {
    let mut line = String::from_utf8(encode_line(event).unwrap()).unwrap();
    assert_eq!(line.pop(), Some('\n'));
    assert!(!line.contains(['\n', '\u{85}', '\u{2028}', '\u{2029}']));
    line
}

fn completed(body: ItemBody) -> String {
    let item = Item {
        id: "item_0".to_owned(),
        body,
    };
    let line = line(&Event::ItemCompleted { item });
    let inner = line.strip_prefix(r#"{"type":"item.completed","item":{"id":"item_0","type":"#);
    inner.unwrap().strip_suffix("}}").unwrap().to_owned()
}

#[test]
fn events_have_the_members_and_order_of_codex_and_ours_behind_them() {
    let thread_id = "01a2b3c4-0000-7000-8000-00000000000a".to_owned();
    assert_eq!(
        line(&Event::ThreadStarted { thread_id }),
        r#"{"type":"thread.started","thread_id":"01a2b3c4-0000-7000-8000-00000000000a"}"#
    );
    assert_eq!(line(&Event::TurnStarted), r#"{"type":"turn.started"}"#);
    let usage = Usage {
        input_tokens: 1100,
        cached_input_tokens: 840,
        cache_write_input_tokens: 0,
        output_tokens: 70,
        reasoning_output_tokens: 35,
    };
    let ended = Event::TurnCompleted {
        usage,
        turn_usage: None,
        turn_id: "t".to_owned(),
    };
    assert_eq!(
        line(&ended),
        r#"{"type":"turn.completed","usage":{"input_tokens":1100,"cached_input_tokens":840,"cache_write_input_tokens":0,"output_tokens":70,"reasoning_output_tokens":35},"turn_usage":null,"turn_id":"t"}"#
    );
    let failure = |retry_at| Event::TurnFailed {
        error: Failure {
            message: "m".to_owned(),
            kind: ErrorKind::Quota,
            retry_at,
        },
        turn_id: "t".to_owned(),
    };
    assert_eq!(
        line(&failure(Some(1_893_531_900))),
        r#"{"type":"turn.failed","error":{"message":"m","kind":"quota","retry_at":1893531900},"turn_id":"t"}"#
    );
    assert_eq!(
        line(&failure(None)),
        r#"{"type":"turn.failed","error":{"message":"m","kind":"quota"},"turn_id":"t"}"#
    );
    let error = Event::Error {
        message: "Reconnecting... 1/2 (x)".to_owned(),
        kind: ErrorKind::Network,
        will_retry: true,
    };
    assert_eq!(
        line(&error),
        r#"{"type":"error","message":"Reconnecting... 1/2 (x)","kind":"network","will_retry":true}"#
    );
}

#[test]
fn items_have_the_members_and_order_of_codex() {
    let command = ItemBody::CommandExecution(CommandExecution {
        command: "/bin/bash -lc 'x'".to_owned(),
        aggregated_output: String::new(),
        exit_code: None,
        status: CallStatus::InProgress,
    });
    assert_eq!(
        completed(command),
        r#""command_execution","command":"/bin/bash -lc 'x'","aggregated_output":"","exit_code":null,"status":"in_progress""#
    );
    let change = ItemBody::FileChange(FileChange {
        changes: vec![FileUpdate {
            path: "/w/a".to_owned(),
            kind: FileUpdateKind::Add,
        }],
        status: CallStatus::Failed,
    });
    assert_eq!(
        completed(change),
        r#""file_change","changes":[{"path":"/w/a","kind":"add"}],"status":"failed""#
    );
    let call = ItemBody::McpToolCall(McpToolCall {
        server: "toy".to_owned(),
        tool: "add".to_owned(),
        arguments: json!({"a": 2}),
        result: Some(McpToolResult {
            content: vec![json!({"type": "text", "text": "5"})],
            structured_content: None,
            meta: None,
        }),
        error: None,
        status: CallStatus::Completed,
    });
    assert_eq!(
        completed(call),
        r#""mcp_tool_call","server":"toy","tool":"add","arguments":{"a":2},"result":{"content":[{"text":"5","type":"text"}],"structured_content":null},"error":null,"status":"completed""#
    );
    let collab = ItemBody::CollabToolCall(CollabToolCall {
        tool: "spawn_agent".to_owned(),
        sender_thread_id: "s".to_owned(),
        receiver_thread_ids: vec!["r".to_owned()],
        prompt: Some("p".to_owned()),
        agents_states: BTreeMap::from([(
            "r".to_owned(),
            AgentState {
                status: "pending_init".to_owned(),
                message: None,
            },
        )]),
        status: CallStatus::Completed,
    });
    assert_eq!(
        completed(collab),
        r#""collab_tool_call","tool":"spawn_agent","sender_thread_id":"s","receiver_thread_ids":["r"],"prompt":"p","agents_states":{"r":{"status":"pending_init","message":null}},"status":"completed""#
    );
    let search = ItemBody::WebSearch(WebSearch {
        query: "q".to_owned(),
        action: Map::from_iter([("type".to_owned(), Value::from("other"))]),
        call_id: "ws_1".to_owned(),
    });
    assert_eq!(
        completed(search),
        r#""web_search","query":"q","action":{"type":"other"},"call_id":"ws_1""#
    );
    let list = ItemBody::TodoList {
        items: vec![TodoItem {
            text: "a".to_owned(),
            completed: true,
        }],
    };
    assert_eq!(
        completed(list),
        r#""todo_list","items":[{"text":"a","completed":true}]"#
    );
    let warning = ItemBody::Error {
        message: "w".to_owned(),
    };
    assert_eq!(completed(warning), r#""error","message":"w""#);
}

#[test]
fn nothing_in_a_line_splits_it_and_its_text_comes_back() {
    let text = "a\u{2028}b\u{2029}\u{85}\r\n\"\\ ü 🦀 \u{2028}";
    let body = ItemBody::AgentMessage {
        text: text.to_owned(),
    };
    let shown = completed(body);
    assert!(shown.starts_with(r#""agent_message","text":"a\u2028b\u2029\u0085\r\n"#));
    let back: Value = serde_json::from_str(&format!("{{\"type\":{shown}}}")).unwrap();
    assert_eq!(back["text"], text);
}
