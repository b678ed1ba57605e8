//! Whether an answer has the form that was asked for.
//!
//! The invariant here: what this check does not know, it lets pass, and it looks at no more than
//! [`STEPS_MAX`] schemas, since one that refers to itself twice would double the work at each level.
//! It knows types, values, members, elements, alternatives and references within the schema.
//!
//! Whether the schema is one is the sibling `schema`'s business.

use std::cell::Cell;

use serde_json::Value;

use super::DEPTH_MAX;

/// How many schemas are held against parts of an answer; the rest of it is let pass.
const STEPS_MAX: usize = 100_000;

/// Says why a text does not have the form; the problem names the place in it.
pub fn check_answer(schema: &Value, text: &str) -> Result<(), String> {
    let value: Value =
        serde_json::from_str(text.trim()).map_err(|_| "it is not JSON".to_owned())?;
    let check = Check {
        root: schema,
        steps_left: Cell::new(STEPS_MAX),
    };
    check.value(schema, &value, &Place::top())
}

struct Check<'a> {
    root: &'a Value,
    steps_left: Cell<usize>,
}

/// Where in the answer.
#[derive(Clone, Debug)]
struct Place {
    path: String,
    depth: usize,
}

impl Place {
    fn top() -> Self {
        Self {
            path: "$".to_owned(),
            depth: 0,
        }
    }

    fn inner(&self, step: &str) -> Self {
        Self {
            path: format!("{}{step}", self.path),
            depth: self.depth + 1,
        }
    }

    fn says(&self, problem: &str) -> String {
        format!("{} {problem}", self.path)
    }
}

impl Check<'_> {
    fn value(&self, schema: &Value, value: &Value, at: &Place) -> Result<(), String> {
        let steps_left = self.steps_left.get();
        if at.depth > DEPTH_MAX || steps_left == 0 || *schema == Value::Bool(true) {
            return Ok(());
        }
        self.steps_left.set(steps_left - 1);
        if *schema == Value::Bool(false) {
            return Err(at.says("is not allowed"));
        }
        if let Some(name) = schema["$ref"]
            .as_str()
            .and_then(|name| name.strip_prefix('#'))
            && let Some(target) = self.root.pointer(name)
        {
            self.value(target, value, &at.inner(""))?;
        }
        let wanted = &schema["type"];
        if !wanted.is_null() && !types(wanted).any(|name| is_of(value, name)) {
            return Err(at.says(&format!("is not of type {wanted}")));
        }
        if let Some(values) = schema["enum"].as_array()
            && !values.contains(value)
        {
            return Err(at.says("is not one of the allowed values"));
        }
        if let Some(only) = schema.get("const")
            && only != value
        {
            return Err(at.says("is not the allowed value"));
        }
        for word in ["anyOf", "oneOf"] {
            if let Some(choices) = schema[word].as_array() {
                let fits = |choice: &Value| self.value(choice, value, &at.inner("")).is_ok();
                if !choices.iter().any(fits) {
                    return Err(at.says("fits none of the alternatives"));
                }
            }
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.value(part, value, &at.inner(""))?;
        }
        self.members(schema, value, at)?;
        self.elements(schema, value, at)
    }

    fn members(&self, schema: &Value, value: &Value, at: &Place) -> Result<(), String> {
        let Some(members) = value.as_object() else {
            return Ok(());
        };
        let required = schema["required"].as_array().into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            if !members.contains_key(name) {
                return Err(at.says(&format!("has no member `{name}`")));
            }
        }
        for (name, member) in members {
            let known = schema["properties"].get(name);
            let patterns = schema.get("patternProperties").is_some();
            let other = schema.get("additionalProperties").filter(|_| !patterns);
            if let Some(inner) = known.or(other) {
                self.value(inner, member, &at.inner(&format!(".{name}")))?;
            }
        }
        Ok(())
    }

    fn elements(&self, schema: &Value, value: &Value, at: &Place) -> Result<(), String> {
        let Some(elements) = value.as_array() else {
            return Ok(());
        };
        let Some(inner) = schema.get("items").filter(|items| !items.is_array()) else {
            return Ok(());
        };
        // The first elements may have forms of their own.
        let first = schema["prefixItems"].as_array().map_or(0, Vec::len);
        for (nth, element) in elements.iter().enumerate().skip(first) {
            self.value(inner, element, &at.inner(&format!("[{nth}]")))?;
        }
        Ok(())
    }
}

fn types(wanted: &Value) -> impl Iterator<Item = &str> {
    let one = wanted.as_str().into_iter();
    let many = wanted.as_array().into_iter().flatten();
    one.chain(many.filter_map(Value::as_str))
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_fits_or_the_place_is_named() {
        let schema = json!({
            "type": "object",
            "required": ["name", "tags"],
            "additionalProperties": false,
            "properties": {
                "name": {"type": ["string", "null"]},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
                "kind": {"anyOf": [{"const": 1}, {"enum": ["a", "b"]}]},
                "count": {"type": "integer"},
            },
            "$defs": {"tag": {"type": "string"}},
        });
        let problem = |answer: &str| check_answer(&schema, answer).err();
        for fits in [
            r#"{"name": null, "tags": []}"#,
            r#"{"name": "x", "tags": ["a"], "kind": "b", "count": 2.0}"#,
        ] {
            assert_eq!(problem(fits), None);
        }
        for (answer, expected) in [
            ("hello", "it is not JSON"),
            ("[]", "$ is not of type \"object\""),
            (r#"{"name": "x"}"#, "$ has no member `tags`"),
            (
                r#"{"name": "x", "tags": [1]}"#,
                "$.tags[0] is not of type \"string\"",
            ),
            (
                r#"{"name": "x", "tags": [], "more": 1}"#,
                "$.more is not allowed",
            ),
            (
                r#"{"name": "x", "tags": [], "kind": 2}"#,
                "$.kind fits none of the alternatives",
            ),
            (
                r#"{"name": "x", "tags": [], "count": 1.5}"#,
                "$.count is not of type \"integer\"",
            ),
        ] {
            assert_eq!(problem(answer).as_deref(), Some(expected), "{answer}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({"$ref": "#"});
        assert_eq!(check_answer(&schema, "1"), Ok(()));
        // Each level would be looked at twice as often as the one above it.
        let schema = json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]});
        assert_eq!(check_answer(&schema, "1"), Ok(()));
    }
}
