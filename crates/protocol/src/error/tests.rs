//! Every error's code, text and `data`, letter for letter.

mod fanout;
mod processes;
mod threads;

use super::*;
use serde_json::json;

#[test]
fn every_reason_is_its_own_word() {
    for &reason in Reason::ALL {
        assert_eq!(Reason::from_word(reason.as_str()), Some(reason));
        assert_eq!(
            serde_json::to_value(reason).unwrap(),
            json!(reason.as_str())
        );
    }
}

#[test]
fn the_overload_refusal_is_exactly_what_clients_match() {
    let refusal = serde_json::to_value(ErrorObject::overloaded(250)).unwrap();
    assert_eq!(
        refusal,
        json!({"code": -32001, "message": "Server overloaded; retry later.",
            "data": {"reason": "overloaded", "errorInfo": "server_overloaded", "retryAfterMs": 250}})
    );
}

#[test]
fn serde_texts_lose_their_position_and_the_content_of_strings() {
    let wrong_type = serde_json::from_str::<String>("5").unwrap_err();
    assert_eq!(
        ErrorObject::invalid_params(&wrong_type).message,
        "Invalid request: invalid type: integer `5`, expected a string"
    );
    let prompt = serde_json::from_str::<Vec<u8>>("\"my secret, expected plan\"").unwrap_err();
    assert_eq!(
        ErrorObject::invalid_params(&prompt).message,
        "Invalid request: invalid type: string, expected a sequence"
    );
    let long = format!("\"{}\"", "x".repeat(500));
    let variant = serde_json::from_str::<Reason>(&long).unwrap_err();
    assert!(
        !ErrorObject::invalid_params(&variant)
            .message
            .contains("xxxx")
    );
}

#[test]
fn an_error_of_the_exec_server_is_a_code_and_a_text() {
    let missing = serde_json::from_str::<Vec<Reason>>("[1]").unwrap_err();
    let error = ErrorObject::bare_params(&missing);
    assert!(!error.message.contains(" at line "), "{error}");
    assert_eq!(
        serde_json::to_value(ErrorObject::bare(-32004, "gone")).unwrap(),
        json!({"code": -32004, "message": "gone"})
    );
}

#[test]
fn an_error_of_another_server_without_data_is_read() {
    let error: ErrorObject =
        serde_json::from_value(json!({"code": -32601, "message": "no"})).unwrap();
    assert_eq!(error.reason(), None);
}

#[test]
fn a_long_word_of_a_caller_is_cut() {
    let long = "é".repeat(500);
    let error = ErrorObject::invalid_cursor(&long);
    assert_eq!(
        error.message,
        format!("invalid cursor: {}", "é".repeat(QUOTED_CHARS_MAX))
    );
}

/// What an error must be: its code, its text, its `data`.
type Row = (ErrorObject, i64, String, Value);

#[track_caller]
fn check(rows: Vec<Row>) {
    for (error, code, message, data) in rows {
        assert_eq!(error.code, code, "{message}");
        assert_eq!(error.message, message);
        assert_eq!(error.data, Some(data), "{message}");
    }
}

fn row(error: ErrorObject, message: &str, data: Value) -> Row {
    (error, INVALID_REQUEST, message.to_owned(), data)
}
