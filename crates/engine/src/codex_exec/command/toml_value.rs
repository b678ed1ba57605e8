//! JSON values as TOML, for `-c key=value`.

use serde_json::{Map, Value};

/// The value on one line; none for null, which TOML does not have.
pub(super) fn write(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::String(text) => Some(string(text)),
        Value::Array(values) => {
            let values: Vec<_> = values.iter().filter_map(write).collect();
            Some(format!("[{}]", values.join(", ")))
        }
        Value::Object(members) => Some(table(members)),
    }
}

/// JSON's form of a string is TOML's, but for one character that TOML wants escaped.
fn string(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.replace('\u{7f}', "\\u007f")
}

fn table(members: &Map<String, Value>) -> String {
    let pair =
        |(key, value): (&String, &Value)| Some(format!("{} = {}", string(key), write(value)?));
    let pairs: Vec<_> = members.iter().filter_map(pair).collect();
    format!("{{{}}}", pairs.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_written_on_one_line() {
        for (value, expected) in [
            (json!(true), "true"),
            (json!(-3), "-3"),
            (json!(0.5), "0.5"),
            (
                json!("a \"b\"\n\u{7f}\u{e9}"),
                "\"a \\\"b\\\"\\n\\u007f\u{e9}\"",
            ),
            (json!(["a", null, 1]), "[\"a\", 1]"),
            (
                json!({"a.b": {"c": [1]}, "n": null}),
                "{\"a.b\" = {\"c\" = [1]}}",
            ),
            (json!({}), "{}"),
        ] {
            assert_eq!(write(&value).as_deref(), Some(expected));
        }
        assert_eq!(write(&Value::Null), None);
    }
}
