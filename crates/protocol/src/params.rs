//! From the raw `params` of a request to the type its method wants.
//!
//! The invariant here: absent and null params mean `{}`, so a method whose fields are all optional
//! can be called without any, and one with a required field gets the same refusal either way.
//! Params are an object: an array is refused, as in everything that [`strict`] reads.
//! Unknown fields are ignored by the types themselves: none of them denies any.
//!
//! What an error is answered with is [`ErrorObject::invalid_params`](crate::error::ErrorObject).

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::strict;

/// Reads params; none at all are read as an empty object.
pub fn read<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Result<T, serde_json::Error> {
    strict::read(raw.map_or("{}", RawValue::get).as_bytes())
}

/// Reads params that must be there, as for `initialize`.
pub fn read_required<'a, T: Deserialize<'a>>(
    raw: Option<&'a RawValue>,
) -> Result<T, serde_json::Error> {
    match raw {
        Some(raw) => strict::read(raw.get().as_bytes()),
        None => Err(serde::de::Error::missing_field("params")),
    }
}

/// Tells null from absence, for members where the two differ.
pub(crate) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorObject;

    #[derive(Debug, Deserialize)]
    struct Optional {
        limit: Option<u32>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Required {
        #[expect(dead_code, reason = "only its absence matters")]
        thread_id: String,
    }

    #[test]
    fn no_params_are_an_empty_object() {
        assert_eq!(read::<Optional>(None).unwrap().limit, None);
        let missing = read::<Required>(None).unwrap_err();
        assert_eq!(
            ErrorObject::invalid_params(&missing).message,
            "Invalid request: missing field `threadId`"
        );
    }

    #[test]
    fn required_params_are_missed_by_name() {
        let missing = read_required::<Optional>(None).unwrap_err();
        assert_eq!(
            ErrorObject::invalid_params(&missing).message,
            "Invalid request: missing field `params`"
        );
    }
}
