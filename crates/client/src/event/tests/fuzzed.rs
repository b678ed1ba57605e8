//! Any JSON under any method.

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::super::{Event, EventBody};
use crate::outcome::{ErrorInfo, TurnView, Usage};

/// Names that decoding looks for, so that random objects reach every branch.
const NAMES: &[&str] = &[
    "threadId",
    "turnId",
    "itemId",
    "delta",
    "summaryIndex",
    "turn",
    "item",
    "id",
    "status",
    "type",
    "items",
    "error",
    "message",
    "codexErrorInfo",
    "httpConnectionFailed",
    "httpStatusCode",
    "kind",
    "plan",
    "step",
    "explanation",
    "diff",
    "tokenUsage",
    "total",
    "last",
    "inputTokens",
    "outputTokens",
    "run",
    "missed",
    "requestId",
    "summary",
    "details",
    "willRetry",
    "usage",
    "thread",
    "approval",
    "durationMs",
    "attempt",
    "blockedBy",
    "text",
    "content",
    "startedAtMs",
];

/// Words that decoding looks for.
const WORDS: &[&str] = &[
    "",
    "t",
    "completed",
    "failed",
    "inProgress",
    "agentMessage",
    "userMessage",
    "commandExecution",
    "fileChange",
    "reasoning",
    "active",
    "other",
    "unauthorized",
    "text",
];

/// Methods beyond the protocol's own list.
const METHODS: &[&str] = &[
    "",
    "thread/queue/changed",
    "configWarning",
    "deprecationNotice",
    "guardianWarning",
    "item/x/delta",
];

pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(WORDS).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        let name = prop_oneof![
            8 => proptest::sample::select(NAMES).prop_map(str::to_owned),
            1 => any::<String>(),
        ];
        let members = proptest::collection::vec((name, inner.clone()), 0..8);
        prop_oneof![
            1 => proptest::collection::vec(inner, 0..5).prop_map(Value::Array),
            4 => members.prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn any_method() -> impl Strategy<Value = String> {
    let listed = turnlane_protocol::notification::method::ALL;
    prop_oneof![
        6 => proptest::sample::select(listed).prop_map(str::to_owned),
        1 => proptest::sample::select(METHODS).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn any_notification_is_an_event_and_the_unknown_ones_are_whole(
        method in any_method(),
        params in any_json(),
        seq in any::<Option<u64>>(),
    ) {
        let raw = params.to_string();
        let event = Event::decode(method.clone(), raw.as_bytes(), seq);
        prop_assert_eq!(&event.method, &method);
        prop_assert_eq!(event.seq, seq);
        prop_assert_eq!(event.bytes, raw.len());
        if let EventBody::Unknown(kept) = &event.body {
            prop_assert_eq!(kept.params.get(), &raw);
        }
        let named = params.get("threadId").and_then(Value::as_str).filter(|id| !id.is_empty());
        if let Some(id) = named {
            prop_assert_eq!(event.thread.map(|thread| thread.to_string()), Some(id.to_owned()));
        }
    }

    #[test]
    fn any_bytes_are_an_event(method in any_method(), params in any::<Vec<u8>>()) {
        let event = Event::decode(method.clone(), &params, None);
        prop_assert_eq!(event.method, method);
    }

    #[test]
    fn any_json_may_stand_for_a_turn_an_error_or_counts(value in any_json()) {
        let id = value.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
        prop_assert_eq!(TurnView::from_json(&value).is_some(), id.is_some());
        prop_assert_eq!(ErrorInfo::from_json(&value).is_some(), value.is_object());
        if let Some(usage) = Usage::from_json(&value) {
            prop_assert_ne!(usage, Usage::default());
        }
    }
}
