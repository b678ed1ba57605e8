//! What every hand-made example must do: come back whole, and fit its schema.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A type that crosses the wire in both directions.
#[cfg(feature = "schema")]
pub(crate) trait Wire: Serialize + DeserializeOwned + schemars::JsonSchema {}
#[cfg(feature = "schema")]
impl<T: Serialize + DeserializeOwned + schemars::JsonSchema> Wire for T {}

/// A type that crosses the wire in both directions.
#[cfg(not(feature = "schema"))]
pub(crate) trait Wire: Serialize + DeserializeOwned {}
#[cfg(not(feature = "schema"))]
impl<T: Serialize + DeserializeOwned> Wire for T {}

/// Reads `json` and writes it back to an equal value.
#[track_caller]
#[expect(
    clippy::needless_pass_by_value,
    reason = "examples are written in place"
)]
pub(crate) fn whole<T: Wire>(json: Value) -> T {
    reads_as(json.clone(), &json)
}

/// Reads `json` and writes it back as `written`.
#[track_caller]
#[expect(
    clippy::needless_pass_by_value,
    reason = "examples are written in place"
)]
pub(crate) fn reads_as<T: Wire>(json: Value, written: &Value) -> T {
    let value: T = match serde_json::from_str(&json.to_string()) {
        Ok(value) => value,
        Err(why) => panic!("{why}: {json}"),
    };
    assert_eq!(&serde_json::to_value(&value).unwrap(), written);
    // A second way in: through a value, as when one message is part of another.
    let again: T = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&again).unwrap(), written);
    #[cfg(feature = "schema")]
    {
        crate::schema::assert_valid::<T>(&json);
        crate::schema::assert_valid::<T>(written);
    }
    value
}

/// The text with which `json` is refused, without the position.
#[track_caller]
#[expect(
    clippy::needless_pass_by_value,
    reason = "examples are written in place"
)]
pub(crate) fn refusal<T: DeserializeOwned>(json: Value) -> String {
    match serde_json::from_str::<T>(&json.to_string()) {
        Ok(_) => panic!("read without complaint: {json}"),
        Err(why) => turnlane_protocol::error::ErrorObject::invalid_params(&why).message,
    }
}

/// `json` with `members` added to or put in place of its own.
#[expect(
    clippy::needless_pass_by_value,
    reason = "examples are written in place"
)]
pub(crate) fn with(mut json: Value, members: Value) -> Value {
    for (name, value) in members.as_object().unwrap() {
        json[name] = value.clone();
    }
    json
}
