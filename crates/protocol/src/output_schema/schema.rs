//! Whether an `outputSchema` can be one at all.
//!
//! The invariant here: what passes is an object whose well-known keywords have the shapes that JSON
//! Schema gives them, all the way down; a schema that no provider could read is refused before a turn
//! is recorded. Whether an answer fits it is the sibling `answer`'s business.

use serde_json::Value;

use super::DEPTH_MAX;

const TYPES: [&str; 7] = [
    "array", "boolean", "integer", "null", "number", "object", "string",
];

/// Says why a value is no schema; the problem names the place in it.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    if !schema.is_object() {
        return Err("expected an object".to_owned());
    }
    check_at(schema, "$", 0)
}

fn check_at(schema: &Value, at: &str, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("{at} is nested too deeply"));
    }
    let members = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(members) => members,
        _ => return Err(format!("{at} must be an object or a boolean")),
    };
    for (key, value) in members {
        let at = format!("{at}.{key}");
        match key.as_str() {
            "type" => check_type(value, &at)?,
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                let Value::Object(schemas) = value else {
                    return Err(format!("{at} must be an object"));
                };
                for (name, schema) in schemas {
                    check_at(schema, &format!("{at}.{name}"), depth + 1)?;
                }
            }
            "anyOf" | "allOf" | "oneOf" | "prefixItems" => {
                let schemas = value.as_array().filter(|schemas| !schemas.is_empty());
                let Some(schemas) = schemas else {
                    return Err(format!("{at} must be a list of schemas"));
                };
                for (index, schema) in schemas.iter().enumerate() {
                    check_at(schema, &format!("{at}[{index}]"), depth + 1)?;
                }
            }
            "items" if value.is_array() => {}
            "items"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames"
            | "additionalProperties"
            | "unevaluatedProperties" => {
                check_at(value, &at, depth + 1)?;
            }
            "required" => {
                let names = value.as_array();
                if !names.is_some_and(|names| names.iter().all(Value::is_string)) {
                    return Err(format!("{at} must be a list of names"));
                }
            }
            "enum" if !value.is_array() => return Err(format!("{at} must be a list")),
            "$ref" | "pattern" | "format" | "title" | "description" if !value.is_string() => {
                return Err(format!("{at} must be a text"));
            }
            "minimum" | "maximum" | "minLength" | "maxLength" | "minItems" | "maxItems"
                if !value.is_number() =>
            {
                return Err(format!("{at} must be a number"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_type(value: &Value, at: &str) -> Result<(), String> {
    let known = |value: &Value| value.as_str().is_some_and(|word| TYPES.contains(&word));
    let fits = match value {
        Value::Array(words) => !words.is_empty() && words.iter().all(known),
        word => known(word),
    };
    if fits {
        Ok(())
    } else {
        Err(format!("{at} must be one of {}", TYPES.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_usual_schema_passes() {
        let schema = json!({"type": "object", "properties": {"title": {"type": ["string", "null"]},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}}}, "required": ["title"],
            "additionalProperties": false, "x-own": 1});
        assert_eq!(check_schema(&schema), Ok(()));
    }

    #[test]
    fn what_is_no_schema_is_told_where() {
        let rows = [
            (json!("x"), "expected an object"),
            (json!([]), "expected an object"),
            (json!({"properties": []}), "$.properties must be an object"),
            (
                json!({"properties": {"a": 5}}),
                "$.properties.a must be an object or a boolean",
            ),
            (
                json!({"required": [1]}),
                "$.required must be a list of names",
            ),
            (json!({"anyOf": []}), "$.anyOf must be a list of schemas"),
        ];
        for (schema, why) in rows {
            assert_eq!(check_schema(&schema), Err(why.to_owned()));
        }
        assert!(check_schema(&json!({"type": "text"})).is_err());
        let mut deep = json!({});
        for _ in 0..200 {
            deep = json!({"not": deep});
        }
        assert!(
            check_schema(&deep)
                .unwrap_err()
                .ends_with("is nested too deeply")
        );
    }
}
