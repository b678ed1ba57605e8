//! Any frame is a message or a refusal, and whoever can be answered gets its id back unchanged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use turnlane_protocol::envelope::{
    Message, RequestId, decode, encode_error, encode_notification, encode_request, encode_result,
};
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::notification::ServerNotification;

fuzz_target!(|frame: &[u8]| match decode(frame) {
    Ok(Message::Request { id, method, params }) => {
        assert_written_in(frame, &id);
        echoes_in_result(&id);
        echoes_in_error(&id, &ErrorObject::unknown_method(&method));
        let again = encode_request(&id, &method, &params).expect("raw JSON is written");
        let Ok(Message::Request {
            id: same,
            method: same_method,
            ..
        }) = decode(&again)
        else {
            panic!("a request is written as something else");
        };
        assert_eq!((same, same_method), (id, method));
    }
    Ok(Message::Notification { method, params, .. }) => {
        let again = encode_notification(&method, &params, None).expect("raw JSON is written");
        assert!(matches!(decode(&again), Ok(Message::Notification { .. })));
        if let Ok(notification) = ServerNotification::read(&method, params) {
            assert_eq!(notification.method(), method);
            let frame = notification.encode(None).expect("what was read is written");
            assert!(matches!(decode(&frame), Ok(Message::Notification { .. })));
        }
    }
    Ok(Message::Answer { id, outcome }) => {
        if let Some(id) = &id {
            assert_written_in(frame, id);
        }
        if let Err(error) = outcome {
            _ = encode_error(id.as_ref(), &error);
        }
    }
    Err(refusal) => {
        assert!(refusal.error.reason().is_some());
        match &refusal.id {
            Some(id) => echoes_in_error(id, &refusal.error),
            None => assert!(encode_error(None, &refusal.error).starts_with(b"{\"id\":null,")),
        }
    }
});

/// The id is a run of the very bytes that were sent.
fn assert_written_in(frame: &[u8], id: &RequestId) {
    let raw = id.to_string();
    assert!(
        frame
            .windows(raw.len())
            .any(|bytes| bytes == raw.as_bytes()),
        "{raw}"
    );
}

fn echoes_in_result(id: &RequestId) {
    let frame = encode_result(id, &Value::Null).expect("null is written");
    assert_written_in(&frame, id);
    assert!(matches!(decode(&frame), Ok(Message::Answer { id: Some(same), .. }) if same == *id));
}

fn echoes_in_error(id: &RequestId, error: &ErrorObject) {
    let frame = encode_error(Some(id), error);
    assert_written_in(&frame, id);
    assert!(matches!(decode(&frame), Ok(Message::Answer { id: Some(same), .. }) if same == *id));
}
