//! JSON that keeps the text it was written with.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A JSON value as text: numbers keep their digits, and members keep their order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Reads a text that is one JSON value.
    pub fn new(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

/// Equal texts are equal; two spellings of one value are not.
impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RawJson {}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for RawJson {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RawJson".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_order_of_members_survive() {
        let text = r#"{"b":1.10,"a":12345678901234567890123}"#;
        let read: RawJson = crate::strict::read(text.as_bytes()).unwrap();
        assert_eq!(read.as_str(), text);
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert!(RawJson::new("{".to_owned()).is_err());
    }
}
