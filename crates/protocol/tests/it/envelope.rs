//! Frames by chance: whatever is written is read, whatever is read does not panic.

use proptest::prelude::*;
use serde_json::{Value, json};
use turnlane_protocol::envelope::{
    Message, RequestId, Stamp, decode, encode_error, encode_notification, encode_request,
    encode_result,
};
use turnlane_protocol::error::{ErrorObject, Reason};

fn any_id() -> impl Strategy<Value = RequestId> {
    prop_oneof![
        any::<i64>().prop_map(RequestId::from),
        any::<String>().prop_map(|text| RequestId::from(text.as_str())),
        Just(RequestId::from_raw("-0").unwrap()),
        Just(RequestId::from_raw(r#""\u0061\ud83d\ude00""#).unwrap()),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Frames of every kind, to be damaged.
fn valid_frames() -> Vec<Vec<u8>> {
    let id = RequestId::from("a\u{1F600}");
    let params = json!({"threadId": "t", "input": [{"type": "text", "text": "\u{e9}\\\""}]});
    let stamp = Stamp {
        emitted_at_ms: 5,
        seq: Some(1),
    };
    vec![
        encode_request(&RequestId::from(7), "turn/start", &params).unwrap(),
        encode_result(&id, &params).unwrap(),
        encode_error(Some(&id), &ErrorObject::overloaded(250)),
        encode_error(None, &ErrorObject::new(1, Reason::Internal, "m")),
        encode_notification("turn/started", &params, Some(stamp)).unwrap(),
    ]
}

/// None for null, as the envelope reads params.
fn raw_value(raw: Option<&serde_json::value::RawValue>) -> Value {
    raw.map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap())
}

proptest! {
    #[test]
    fn requests_read_back_equal(id in any_id(), name in any::<String>(), params in any_json()) {
        let frame = encode_request(&id, &name, &params).unwrap();
        let Ok(Message::Request { id: read, method, params: raw }) = decode(&frame) else {
            panic!("not a request");
        };
        prop_assert_eq!((read, method.as_ref(), raw_value(raw)), (id, name.as_str(), params));
    }

    #[test]
    fn answers_read_back_equal(id in any_id(), result in any_json(), message in any::<String>()) {
        let frame = encode_result(&id, &result).unwrap();
        let Ok(Message::Answer { id: Some(read), outcome: Ok(raw) }) = decode(&frame) else {
            panic!("not a result");
        };
        prop_assert_eq!((read, raw_value(Some(raw))), (id.clone(), result));

        let error = ErrorObject::internal(message);
        let frame = encode_error(Some(&id), &error);
        let Ok(Message::Answer { id: Some(read), outcome: Err(read_error) }) = decode(&frame) else {
            panic!("not an error");
        };
        prop_assert_eq!((read, read_error), (id, error));
    }

    #[test]
    fn notifications_read_back_equal(
        name in any::<String>(),
        params in any_json(),
        emitted_at_ms in any::<i64>(),
        seq in any::<Option<u64>>(),
    ) {
        let stamp = Stamp { emitted_at_ms, seq };
        let frame = encode_notification(&name, &params, Some(stamp)).unwrap();
        let Ok(Message::Notification { method, params: raw, stamp: read }) = decode(&frame) else {
            panic!("not a notification");
        };
        prop_assert_eq!((method.as_ref(), raw_value(raw)), (name.as_str(), params));
        prop_assert_eq!((read.emitted_at_ms, read.seq), (Some(emitted_at_ms), seq));
    }

    #[test]
    fn any_bytes_are_a_message_or_a_refusal(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        _ = decode(&bytes);
    }

    #[test]
    fn any_json_is_a_message_or_a_refusal_with_a_reason(json in any_json()) {
        if let Err(refusal) = decode(json.to_string().as_bytes()) {
            prop_assert!(refusal.error.reason().is_some());
        }
    }

    #[test]
    fn damaged_frames_are_a_message_or_a_refusal(
        which in 0..5_usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..8),
    ) {
        let mut frame = valid_frames().swap_remove(which);
        for (place, byte, how) in damage {
            if frame.is_empty() {
                break;
            }
            let place = place.index(frame.len());
            match how {
                0 => frame[place] = byte,
                1 => frame.insert(place, byte),
                _ => _ = frame.remove(place),
            }
        }
        _ = decode(&frame);
    }
}
