//! Every text of the contract, on both sides.

use serde_json::{Value, json};

use super::{request, response};

fn refused(method: &str, params: &Value) -> String {
    request(method, &params.to_string()).unwrap_err()
}

fn lacking(method: &str, result: &Value) -> String {
    response(method, &result.to_string()).unwrap_err()
}

#[test]
fn params_must_be_an_object() {
    for method in ["thread/start", "thread/list", "turn/start", "command/exec"] {
        for params in [json!(null), json!([]), json!("x"), json!(1)] {
            assert_eq!(refused(method, &params), "params must be an object");
        }
    }
}

#[test]
fn every_call_about_a_thread_names_it() {
    for method in [
        "thread/resume",
        "thread/fork",
        "thread/archive",
        "thread/unarchive",
        "thread/delete",
        "thread/read",
        "thread/turns/list",
        "thread/items/list",
        "thread/revert",
        "thread/rollback",
        "thread/unsubscribe",
        "turn/start",
        "turn/steer",
        "turn/interrupt",
    ] {
        for params in [
            json!({}),
            json!({"threadId": ""}),
            json!({"threadId": " "}),
            json!({"threadId": 7}),
            json!({"threadId": null}),
        ] {
            assert_eq!(
                refused(method, &params),
                "params.threadId must be a non-empty string",
                "{method}"
            );
        }
    }
}

#[test]
fn every_other_need_has_its_text() {
    let rows = [
        (
            "thread/revert",
            json!({"threadId": "t"}),
            "params.beforeTurnId must be a non-empty string",
        ),
        (
            "thread/rollback",
            json!({"threadId": "t", "numTurns": 0}),
            "params.numTurns must be a positive integer",
        ),
        (
            "turn/start",
            json!({"threadId": "t"}),
            "params.input must be an array",
        ),
        (
            "turn/steer",
            json!({"threadId": "t", "input": []}),
            "params.expectedTurnId must be a non-empty string",
        ),
        (
            "turn/steer",
            json!({"threadId": "t", "expectedTurnId": "u"}),
            "params.input must be an array",
        ),
        (
            "turn/interrupt",
            json!({"threadId": "t"}),
            "params.turnId must be a non-empty string",
        ),
        (
            "command/exec",
            json!({"command": []}),
            "params.command must be a non-empty array",
        ),
        (
            "command/exec/write",
            json!({}),
            "params.processId must be a non-empty string",
        ),
        (
            "command/exec/terminate",
            json!({}),
            "params.processId must be a non-empty string",
        ),
        (
            "command/exec/resize",
            json!({"processId": "p"}),
            "params.size must be an object",
        ),
    ];
    for (method, params, text) in rows {
        assert_eq!(refused(method, &params), text);
    }
}

#[test]
fn what_has_all_it_needs_passes() {
    let rows = [
        ("thread/start", json!({})),
        ("thread/list", json!({"limit": 3})),
        (
            "thread/read",
            json!({"threadId": "any text", "includeTurns": false}),
        ),
        ("turn/start", json!({"threadId": "t", "input": []})),
        ("turn/interrupt", json!({"threadId": "t", "turnId": "u"})),
        ("command/exec", json!({"command": ["ls"]})),
        (
            "command/exec/resize",
            json!({"processId": "p", "size": {"rows": 1, "cols": 1}}),
        ),
    ];
    for (method, params) in rows {
        assert_eq!(request(method, &params.to_string()), Ok(()), "{method}");
    }
}

#[test]
fn methods_outside_the_table_pass() {
    assert_eq!(request("no/such", "null"), Ok(()));
    assert_eq!(response("no/such", "7"), Ok(()));
}

#[test]
fn an_answer_about_a_thread_names_it() {
    for method in [
        "thread/start",
        "thread/resume",
        "thread/fork",
        "thread/read",
        "thread/unarchive",
        "thread/revert",
        "thread/rollback",
    ] {
        for result in [
            json!(null),
            json!({}),
            json!({"thread": null}),
            json!({"thread": {}}),
            json!({"thread": {"id": ""}}),
            json!({"thread": {"id": 7}}),
            json!({"thread": "t"}),
        ] {
            assert_eq!(lacking(method, &result), "result is missing thread id");
        }
        let whole = json!({"thread": {"id": "t", "turns": [{"x": 1}]}, "more": []});
        assert_eq!(response(method, &whole.to_string()), Ok(()));
    }
}

#[test]
fn an_answer_about_a_turn_names_it() {
    for result in [json!({}), json!({"turn": {}}), json!({"turn": {"id": ""}})] {
        assert_eq!(lacking("turn/start", &result), "result is missing turn id");
    }
    assert_eq!(response("turn/start", r#"{"turn":{"id":"u"}}"#), Ok(()));
    for result in [json!({}), json!({"turnId": ""}), json!({"turnId": null})] {
        assert_eq!(lacking("turn/steer", &result), "result is missing turn id");
    }
    assert_eq!(response("turn/steer", r#"{"turnId":"u"}"#), Ok(()));
}

#[test]
fn a_list_has_an_array() {
    for method in [
        "thread/list",
        "thread/loaded/list",
        "thread/turns/list",
        "thread/items/list",
        "skills/list",
    ] {
        for result in [
            json!({}),
            json!({"data": null}),
            json!({"data": {}}),
            json!([]),
        ] {
            assert_eq!(lacking(method, &result), "result.data must be an array");
        }
        assert_eq!(response(method, r#"{"data":[1,{}]}"#), Ok(()));
    }
}

#[test]
fn a_command_has_an_exit_code() {
    for result in [
        json!({}),
        json!({"exitCode": "0"}),
        json!({"exitCode": 0.5}),
    ] {
        assert_eq!(
            lacking("command/exec", &result),
            "result.exitCode must be an integer"
        );
    }
    assert_eq!(response("command/exec", r#"{"exitCode":-1}"#), Ok(()));
}

#[test]
fn what_is_merely_done_may_be_answered_with_anything() {
    for method in ["thread/archive", "turn/interrupt", "command/exec/write"] {
        assert_eq!(response(method, "null"), Ok(()));
    }
}
