//! The id of a request, kept as it was written.

use std::fmt;
use std::io::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::bounds::NAME_BYTES_MAX;

/// A string or an integer, as the raw JSON its sender wrote.
///
/// Two ids are equal when their bytes are: `"a"` and `"\u0061"` are different ids, because each
/// sender must get back exactly what it sent.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Repr);

/// Integers are by far the most common ids and need no allocation.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    /// An integer in its shortest spelling.
    Integer(i64),
    /// Raw JSON: a string with its quotes, or an integer spelt otherwise (`-0`).
    Raw(Arc<str>),
}

/// Why an id cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequestId {
    /// It is null, fractional, out of range, or not a scalar at all.
    #[error("id must be a string or an integer")]
    WrongType,
    /// It would be repeated in every answer and error.
    #[error("`id` has more than {NAME_BYTES_MAX} bytes")]
    TooLong,
}

impl RequestId {
    /// Reads an id from the raw JSON text of the `id` member.
    pub fn from_raw(raw: &str) -> Result<Self, BadRequestId> {
        if raw.len() > NAME_BYTES_MAX {
            return Err(BadRequestId::TooLong);
        }
        if raw.starts_with('"') {
            return Ok(Self(Repr::Raw(raw.into())));
        }
        match raw.parse() {
            // A sign that JSON does not have.
            Ok(_) if raw.starts_with('+') => Err(BadRequestId::WrongType),
            // The one integer with two spellings in JSON.
            Ok(0) if raw != "0" => Ok(Self(Repr::Raw(raw.into()))),
            Ok(value) => Ok(Self(Repr::Integer(value))),
            Err(_) => Err(BadRequestId::WrongType),
        }
    }

    /// The id as an integer, if it is one; how we find our own requests in answers.
    pub fn as_i64(&self) -> Option<i64> {
        match &self.0 {
            Repr::Integer(value) => Some(*value),
            Repr::Raw(raw) => raw.parse().ok(),
        }
    }

    /// Appends the id's raw JSON.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        match &self.0 {
            // Writing to a Vec cannot fail; the result is only there for other writers.
            Repr::Integer(value) => _ = write!(out, "{value}"),
            Repr::Raw(raw) => out.extend_from_slice(raw.as_bytes()),
        }
    }
}

impl From<i64> for RequestId {
    fn from(value: i64) -> Self {
        Self(Repr::Integer(value))
    }
}

impl From<&str> for RequestId {
    fn from(text: &str) -> Self {
        Self(Repr::Raw(serde_json::Value::from(text).to_string().into()))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Integer(value) => write!(f, "{value}"),
            Repr::Raw(raw) => f.write_str(raw),
        }
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({self})")
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Repr::Integer(value) => serializer.serialize_i64(*value),
            Repr::Raw(raw) => RawValue::from_string(raw.to_string())
                .map_err(serde::ser::Error::custom)?
                .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_raw(raw.get()).map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for RequestId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RequestId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [{"type": "string"}, {"type": "integer", "format": "int64"}]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_as_the_bytes_that_were_sent() {
        for raw in [
            "7",
            "-1",
            "-0",
            "9223372036854775807",
            r#""a""#,
            r#""\u0061\n""#,
            r#""""#,
        ] {
            let id = RequestId::from_raw(raw).unwrap();
            assert_eq!(id.to_string(), raw);
            assert_eq!(serde_json::to_string(&id).unwrap(), raw);
        }
    }

    #[test]
    fn everything_else_is_not_an_id() {
        for raw in [
            "null",
            "1.0",
            "1e3",
            "9223372036854775808",
            "{}",
            "[1]",
            "true",
            "",
            "+1",
        ] {
            assert_eq!(
                RequestId::from_raw(raw),
                Err(BadRequestId::WrongType),
                "{raw}"
            );
        }
    }

    #[test]
    fn equality_is_of_bytes() {
        assert_ne!(
            RequestId::from_raw(r#""\u0061""#),
            RequestId::from_raw(r#""a""#)
        );
        assert_eq!(RequestId::from("a"), RequestId::from_raw(r#""a""#).unwrap());
        assert_eq!(RequestId::from(5).as_i64(), Some(5));
        assert_eq!(RequestId::from("5").as_i64(), None);
    }
}
