//! The documents: true, complete, and the same every time.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use jsonschema::Validator;
use schemars::JsonSchema;
use serde_json::{Value, json};
use turnlane_protocol::method::TurnStartParams;
use turnlane_protocol::notification::{ServerNotification, method};
use turnlane_protocol::schema::{BUNDLE_FILE, document, documents};
use turnlane_protocol::turn::Turn;

/// Compiled once per type; compiling costs more than everything else here.
static VALIDATORS: LazyLock<Mutex<HashMap<String, &'static Validator>>> =
    LazyLock::new(Mutex::default);

fn validator<T: JsonSchema>() -> &'static Validator {
    VALIDATORS
        .lock()
        .unwrap()
        .entry(T::schema_id().into_owned())
        .or_insert_with(|| {
            let validator = jsonschema::draft7::new(&document::<T>()).unwrap();
            Box::leak(Box::new(validator))
        })
}

/// Panics unless the schema of `T` takes `json`.
#[track_caller]
pub(crate) fn assert_valid<T: JsonSchema>(json: &Value) {
    if let Err(why) = validator::<T>().validate(json) {
        panic!(
            "the schema of {} does not take {json}: {why}",
            T::schema_name()
        );
    }
}

#[test]
fn the_same_documents_are_made_every_time_in_the_same_order() {
    let (one, other) = (documents(), documents());
    assert_eq!(json!(one).to_string(), json!(other).to_string());
    let mut names: Vec<_> = one.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names.pop().as_deref(), Some(BUNDLE_FILE));
    assert!(names.is_sorted());
}

#[test]
fn every_document_is_a_schema_that_needs_no_other_file() {
    for (name, schema) in documents() {
        jsonschema::draft7::meta::validate(&schema).unwrap_or_else(|why| panic!("{name}: {why}"));
        jsonschema::draft7::new(&schema).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

#[test]
fn the_bundle_defines_every_document_once() {
    let mut documents = documents();
    let (_, bundle) = documents.pop().unwrap();
    let definitions = bundle["definitions"].as_object().unwrap();
    for (name, schema) in &documents {
        let title = name.strip_suffix(".json").unwrap();
        assert_eq!(schema["title"], title);
        assert!(definitions.contains_key(title), "{title}");
    }
    // A second type of the same name would get a number.
    assert!(
        !definitions
            .keys()
            .any(|name| name.ends_with(|last: char| last.is_ascii_digit()))
    );
}

#[test]
fn every_notification_is_in_the_schema_under_its_method() {
    let schema = document::<ServerNotification>();
    let methods: Vec<_> = schema["anyOf"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variant| variant["properties"]["method"]["const"].as_str().unwrap())
        .collect();
    assert_eq!(methods, method::ALL);
}

#[test]
fn the_schema_refuses_what_the_types_refuse() {
    let turn = serde_json::to_value(Turn::accepted(
        "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
    ));
    let mut turn = turn.unwrap();
    assert!(validator::<Turn>().is_valid(&turn));
    turn["status"] = json!("paused");
    assert!(!validator::<Turn>().is_valid(&turn));
    for params in [
        json!({"input": []}),
        json!({"threadId": "t", "input": "words"}),
        json!({"threadId": "t", "input": [{"type": "image"}]}),
        json!({"threadId": "t", "input": [], "sandboxPolicy": "full"}),
        json!({"threadId": "t", "input": [], "approvalPolicy": "sometimes"}),
        json!({"threadId": "t", "input": [], "whenBusy": "steer"}),
    ] {
        assert!(
            !validator::<TurnStartParams>().is_valid(&params),
            "{params}"
        );
        assert!(serde_json::from_value::<TurnStartParams>(params).is_err());
    }
}
