//! What serde would take, and we do not.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::*;
use crate::approval::{ApprovalAnswer, ApprovalRespondParams, PermissionsApprovalAnswer};
use crate::bounds::{LIST_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, ROOTS_MAX, TEXT_BYTES_MAX};
use crate::error::ErrorObject;
use crate::handshake::InitializeParams;
use crate::method::{
    CommandExecParams, ThreadNameSetParams, ThreadQueueAddParams, ThreadQueueDeleteParams,
    ThreadStartParams, TurnStartParams,
};

fn refusal<T: for<'de> Deserialize<'de>>(json: &Value) -> String {
    match read_params::<T>(json.to_string().as_bytes()) {
        Ok(_) => panic!("read: {:.200}", json.to_string()),
        Err(why) => ErrorObject::invalid_params(&why).message,
    }
}

fn is_read<T: for<'de> Deserialize<'de>>(json: &Value) {
    if let Err(why) = read_params::<T>(json.to_string().as_bytes()) {
        panic!("{why}");
    }
}

#[test]
fn an_array_is_no_struct_at_any_depth() {
    assert_eq!(
        refusal::<ThreadNameSetParams>(&json!(["thread", "name"])),
        "Invalid request: invalid type: sequence, expected struct ThreadNameSetParams"
    );
    // Plain serde takes each of these.
    serde_json::from_value::<ThreadNameSetParams>(json!(["thread", "name"])).unwrap();
    for nested in [
        json!({"threadId": "t", "turnStartParams": ["t", []]}),
        json!({"threadId": "t", "input": [], "retry": [3, 1, 1]}),
    ] {
        refusal::<ThreadQueueAddParams>(&nested);
    }
    let mode = json!(["plan", {"model": "m", "reasoning_effort": null,
        "developer_instructions": null}]);
    refusal::<TurnStartParams>(&json!({"threadId": "t", "input": [], "collaborationMode": mode}));
    refusal::<InitializeParams>(&json!({"clientInfo": ["n", null, "v"]}));
    refusal::<CommandExecParams>(&json!({"command": ["ls"], "tty": true, "size": [24, 80]}));
    refusal::<ThreadStartParams>(&json!([]));
    refusal::<ThreadQueueDeleteParams>(&json!(["t", "q"]));
}

#[test]
fn lists_maps_and_any_json_are_read_as_before() {
    let json = json!({"threadId": "t", "input": [{"type": "text", "text": "x".repeat(100_000)}],
        "runtimeWorkspaceRoots": ["/a"], "outputSchema": {"enum": [1, "two", null]},
        "responsesapiClientMetadata": {"k": "v"}, "approvalPolicy": {"granular":
            {"mcp_elicitations": true, "rules": true, "sandbox_approval": true}},
        "sandboxPolicy": {"type": "workspaceWrite", "writableRoots": ["/b"]}, "unknown": [[1]]});
    let text = json.to_string();
    let strict: TurnStartParams = read_params(text.as_bytes()).unwrap();
    assert_eq!(strict, serde_json::from_value(json).unwrap());
    let start = json!({"model": "m", "config": {"a": {"b": [1, 2.5, "c"]}}, "ephemeral": true});
    let strict: ThreadStartParams = read_params(start.to_string().as_bytes()).unwrap();
    assert_eq!(strict, serde_json::from_value(start).unwrap());
    assert_eq!(
        read::<Value>(b"[1,{\"a\":null}]").unwrap(),
        json!([1, {"a": null}])
    );
    let numbers: BTreeMap<u32, String> = read(b"{\"7\":\"x\"}").unwrap();
    assert_eq!(numbers[&7], "x");
    assert!(read::<Value>(b"{} {}").is_err(), "nothing follows");
}

#[test]
fn a_text_above_its_bound_is_refused_with_name_and_bound() {
    let long = |bytes: usize| "x".repeat(bytes);
    assert_eq!(
        refusal::<ThreadNameSetParams>(&json!({"threadId": "t", "name": long(8 << 20)})),
        "Invalid request: `name` has 8388608 bytes; at most 1024 are allowed"
    );
    is_read::<ThreadNameSetParams>(&json!({"threadId": "t", "name": long(NAME_BYTES_MAX)}));
    for member in ["name", "version", "title"] {
        let mut client = json!({"name": "n", "version": "v"});
        client[member] = json!(long(NAME_BYTES_MAX + 1));
        let text = refusal::<InitializeParams>(&json!({"clientInfo": client}));
        assert!(text.contains(&format!("`{member}`")), "{text}");
    }
    // Flattened, so that serde buffers them first.
    for (member, bytes_max) in [
        ("model", NAME_BYTES_MAX),
        ("modelProvider", NAME_BYTES_MAX),
        ("serviceTier", NAME_BYTES_MAX),
        ("threadSource", NAME_BYTES_MAX),
        ("engine", NAME_BYTES_MAX),
        ("cwd", PATH_BYTES_MAX),
    ] {
        is_read::<ThreadStartParams>(&json!({member: long(bytes_max)}));
        let text = refusal::<ThreadStartParams>(&json!({member: long(bytes_max + 1)}));
        assert!(text.contains(&format!("`{member}`")), "{text}");
    }
    let roots =
        |roots: Vec<String>| json!({"sandbox": {"type": "workspaceWrite", "writableRoots": roots}});
    let text = refusal::<ThreadStartParams>(&roots(vec![long(PATH_BYTES_MAX + 1)]));
    assert!(text.contains("`writableRoots` has 4097 bytes"), "{text}");
    let text = refusal::<ThreadStartParams>(&roots(vec![String::new(); ROOTS_MAX + 1]));
    assert_eq!(
        text,
        "Invalid request: `writableRoots` has more than 256 elements"
    );
    is_read::<ThreadStartParams>(&roots(vec![String::new(); ROOTS_MAX]));
}

#[test]
fn configuration_is_bounded_below_its_own_name() {
    let config = |config: Value| json!({"config": config});
    is_read::<ThreadStartParams>(&config(json!({"a": {"name": "x".repeat(TEXT_BYTES_MAX)}})));
    let text = refusal::<ThreadStartParams>(&config(
        json!({"a": [{"b": "x".repeat(TEXT_BYTES_MAX + 1)}]}),
    ));
    assert!(text.contains("`config` has 65537 bytes"), "{text}");
    let text = refusal::<ThreadStartParams>(&config(json!({"k".repeat(1 << 20): 1})));
    assert!(text.len() < 200 && text.contains("`config`"), "{text}");
    let many: Map<String, Value> = (0..=LIST_MAX).map(|n| (n.to_string(), json!(n))).collect();
    let text = refusal::<ThreadStartParams>(&config(Value::Object(many)));
    assert_eq!(text, "Invalid request: `config` has more than 1024 members");
}

#[test]
fn only_the_exact_words_are_a_decision() {
    let decided = |json: &str| read_decision::<ApprovalAnswer>(json.as_bytes()).is_ok();
    assert!(decided(r#"{"decision":"accept"}"#));
    let amendment =
        r#"{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["a"]}}}"#;
    assert!(decided(amendment));
    for odd in [
        r#"["accept"]"#,
        r#"[["accept"]]"#,
        r#""accept""#,
        r#"{"decision":["accept"]}"#,
        r#"{"decision":{"accept":null}}"#,
        r#"{"decision":{"accept":{}}}"#,
        r#"{"decision":{"decision":"accept"}}"#,
        r#"{"result":{"decision":"accept"}}"#,
        r#"{"decision":"Accept"}"#,
        r#"{"decision":"ACCEPT"}"#,
        r#"{"decision":" accept"}"#,
        r#"{"decision":"accept\u0000"}"#,
        r#"{"decision":"accepted"}"#,
        r#"{"decision":"yes"}"#,
        r#"{"decision":true}"#,
        r#"{"decision":1}"#,
        r#"{"decision":0}"#,
        r#"{"decision":null}"#,
        r#"{"Decision":"accept"}"#,
        r#"{"decision":"decline","decision":"accept"}"#,
        r#"{"decision":"accept","decision":"accept"}"#,
        r#"{"decision":"accept","unless":"it is friday"}"#,
        r#"{"decision":"accept"} {"decision":"accept"}"#,
        r#"{"decision":{"acceptWithExecpolicyAmendment":["a"]}}"#,
        r#"{"decision":{"acceptWithExecpolicyAmendment":[["a"]]}}"#,
        r#"{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":"a"}}}"#,
        r#"{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["a"],"x":1}}}"#,
        r#"{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["a"]},"decline":null}}"#,
        "1",
        "null",
        "",
    ] {
        assert!(!decided(odd), "{odd}");
    }
    for respond in [
        json!(["a", "accept"]),
        json!({"approvalId": "a", "decision": ["accept"]}),
        json!({"approvalId": "a", "decision": {"accept": null}}),
    ] {
        refusal::<ApprovalRespondParams>(&respond);
    }
}

#[test]
fn a_grant_of_permissions_is_an_object_without_surprises() {
    let granted = |json: &str| read_decision::<PermissionsApprovalAnswer>(json.as_bytes()).is_ok();
    assert!(granted(
        r#"{"permissions":{"network":{"enabled":true}},"scope":"session"}"#
    ));
    for odd in [
        r#"[{"network":{"enabled":true}},"session",null]"#,
        r#"{"permissions":[["network",{"enabled":true}]]}"#,
        r#"{"permissions":{"network":{"enabled":true}},"scope":["session"]}"#,
        r#"{"permissions":{"network":{"enabled":false},"network":{"enabled":true}}}"#,
        r#"{"permissions":{"network":{"enabled":false,"enabled":true}}}"#,
        r#"{"permissions":{},"permissions":{"network":{"enabled":true}}}"#,
        r#"{"permissions":{"network":{"enabled":true}},"expires":"soon"}"#,
    ] {
        assert!(!granted(odd), "{odd}");
    }
}
