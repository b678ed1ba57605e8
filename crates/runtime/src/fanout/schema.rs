//! Results: their JSON Schema, and the object in a final message.
//!
//! The invariant here: a schema that was compiled reads nothing but the value it checks. It loads no
//! document of another place, and its patterns run in linear time.

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value};

/// The most problems that one check returns.
pub const PROBLEMS_MAX: usize = 20;

/// The largest result, in bytes of its JSON text.
pub const RESULT_BYTES_MAX: usize = 1_048_576;

/// The longest message of a problem, in characters: a message may quote the value it is about.
const MESSAGE_CHARS_MAX: usize = 500;

/// A compiled JSON Schema of results.
#[derive(Debug)]
pub struct ResultSchema {
    validator: Validator,
}

/// A schema that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It is not a schema, or it refers to another document.
    #[error("the result schema is not valid: {0}")]
    Invalid(String),
    /// Its `$schema` names a draft that results are not checked by.
    #[error("the result schema names {0}; known are JSON Schema 2020-12, 2019-09 and draft 7")]
    UnknownDraft(String),
    /// Its root does not allow an object.
    #[error("the result schema allows no object at its root")]
    NoObject,
}

/// A place at which a result does not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaProblem {
    /// A JSON pointer; empty for the whole result.
    pub path: String,
    /// The problem, for people and models.
    pub message: String,
}

impl ResultSchema {
    /// Compiles a schema. `format` is not asserted.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let draft = draft(schema)?;
        if !allows_object(schema) {
            return Err(SchemaError::NoObject);
        }
        let built = jsonschema::options()
            .with_draft(draft)
            .with_pattern_options(PatternOptions::regex())
            .should_validate_formats(false)
            .build(schema);
        match built {
            Ok(validator) => Ok(Self { validator }),
            Err(error) => Err(SchemaError::Invalid(bounded(&error.to_string()))),
        }
    }

    /// Checks a result; nothing is returned for one that fits.
    pub fn check(&self, result: &Value) -> Vec<SchemaProblem> {
        let problems = self.validator.iter_errors(result).take(PROBLEMS_MAX);
        let problems = problems.map(|error| SchemaProblem {
            path: error.instance_path().to_string(),
            message: bounded(&error.to_string()),
        });
        problems.collect()
    }
}

/// The draft that a schema names; 2020-12 where it names none.
fn draft(schema: &Value) -> Result<Draft, SchemaError> {
    let Some(named) = schema.get("$schema") else {
        return Ok(Draft::Draft202012);
    };
    let uri = named.as_str().unwrap_or_default().trim_end_matches('#');
    let known = uri
        .strip_prefix("http://")
        .or_else(|| uri.strip_prefix("https://"));
    match known {
        Some("json-schema.org/draft/2020-12/schema") => Ok(Draft::Draft202012),
        Some("json-schema.org/draft/2019-09/schema") => Ok(Draft::Draft201909),
        Some("json-schema.org/draft-07/schema") => Ok(Draft::Draft7),
        _ => Err(SchemaError::UnknownDraft(bounded(&named.to_string()))),
    }
}

/// Returns false if the root of a schema refuses every object by its `type`.
fn allows_object(schema: &Value) -> bool {
    match schema.get("type") {
        None => *schema != Value::Bool(false),
        Some(Value::String(word)) => word == "object",
        Some(Value::Array(words)) => words.iter().any(|word| word == "object"),
        // Not a type at all: the compiler says so.
        Some(_) => true,
    }
}

/// A text cut to a bounded length.
fn bounded(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A final message that is not a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FinalMessageError {
    /// It is longer than a result may be.
    #[error("result has {0} bytes; the limit is {RESULT_BYTES_MAX}")]
    TooLong(usize),
    /// It is not JSON.
    #[error("the final message is not JSON: {0}")]
    NotJson(String),
    /// It is JSON, but not an object.
    #[error("result must be a JSON object")]
    NotAnObject,
}

/// Reads the result in a final message: one JSON object, which one code fence may surround.
pub fn final_message(text: &str) -> Result<Map<String, Value>, FinalMessageError> {
    let text = without_fence(text.trim());
    if text.len() > RESULT_BYTES_MAX {
        return Err(FinalMessageError::TooLong(text.len()));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(result)) => Ok(result),
        Ok(_) => Err(FinalMessageError::NotAnObject),
        Err(error) => Err(FinalMessageError::NotJson(error.to_string())),
    }
}

/// The text inside the one fence that surrounds it, or the text.
fn without_fence(text: &str) -> &str {
    for fence in ["```", "~~~"] {
        let inside = text
            .strip_prefix(fence)
            .and_then(|rest| rest.strip_suffix(fence));
        // The first line may name a language; JSON never begins there.
        if let Some((language, body)) = inside.and_then(|inside| inside.split_once('\n'))
            && !language.contains(['{', '`'])
        {
            return body.trim();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(schema: &Value, result: &Value) -> Vec<SchemaProblem> {
        ResultSchema::compile(schema).unwrap().check(result)
    }

    fn refused(schema: &Value) -> SchemaError {
        ResultSchema::compile(schema).unwrap_err()
    }

    #[test]
    fn problems_have_their_path() {
        let schema = json!({"type": "object", "required": ["score"],
            "properties": {"score": {"type": "number", "maximum": 10}}});
        assert_eq!(problems(&schema, &json!({"score": 3})), []);
        let found = problems(&schema, &json!({"score": "x"}));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "/score");
        assert_eq!(problems(&schema, &json!({}))[0].path, "");
    }

    #[test]
    fn at_most_20_problems_of_bounded_length_are_returned() {
        let schema = json!({"type": "object", "additionalProperties": {"type": "number"}});
        let long = "x".repeat(100_000);
        let result: Map<_, _> = (0..50).map(|at| (format!("k{at}"), json!(long))).collect();
        let found = problems(&schema, &Value::Object(result));
        assert_eq!(found.len(), 20);
        assert!(found.iter().all(|one| one.message.chars().count() <= 501));
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_refused_at_once() {
        assert!(matches!(
            refused(&json!({"type": "objekt"})),
            SchemaError::NoObject
        ));
        let invalid = json!({"type": "object", "required": "score"});
        assert!(matches!(refused(&invalid), SchemaError::Invalid(_)));
        for root in [
            json!({"type": "string"}),
            json!({"type": ["array", "null"]}),
            json!(false),
        ] {
            assert_eq!(refused(&root), SchemaError::NoObject);
        }
        let either = json!({"type": ["object", "null"]});
        assert!(ResultSchema::compile(&either).is_ok());
        assert!(matches!(refused(&json!("x")), SchemaError::Invalid(_)));
    }

    #[test]
    fn a_reference_to_another_document_is_refused() {
        for target in [
            "https://example.com/a.json",
            "file:///etc/passwd",
            "other.json",
        ] {
            let schema = json!({"type": "object", "properties": {"a": {"$ref": target}}});
            assert!(
                matches!(refused(&schema), SchemaError::Invalid(_)),
                "{target}"
            );
        }
        let own =
            json!({"$defs": {"n": {"type": "number"}}, "properties": {"a": {"$ref": "#/$defs/n"}}});
        assert_eq!(problems(&own, &json!({"a": "x"})).len(), 1);
    }

    #[test]
    fn older_drafts_are_read_by_their_name() {
        let schema = |draft: &str| json!({"$schema": draft, "type": "object"});
        for draft in [
            "http://json-schema.org/draft-07/schema#",
            "https://json-schema.org/draft/2019-09/schema",
            "https://json-schema.org/draft/2020-12/schema",
        ] {
            assert!(ResultSchema::compile(&schema(draft)).is_ok(), "{draft}");
        }
        let old = schema("http://json-schema.org/draft-04/schema#");
        assert!(matches!(refused(&old), SchemaError::UnknownDraft(_)));
    }

    #[test]
    fn formats_are_not_asserted_and_patterns_are_linear() {
        let format = json!({"properties": {"a": {"type": "string", "format": "email"}}});
        assert_eq!(problems(&format, &json!({"a": "x"})), []);
        let pattern = json!({"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}});
        let hostile = json!({"a": format!("{}b", "a".repeat(50_000))});
        assert_eq!(problems(&pattern, &hostile).len(), 1);
        let backwards = json!({"properties": {"a": {"pattern": "(a)\\1"}}});
        assert!(matches!(refused(&backwards), SchemaError::Invalid(_)));
    }

    #[test]
    fn one_fence_around_the_object_is_stripped() {
        let object = json!({"a": 1}).as_object().cloned().unwrap();
        for text in [
            "{\"a\":1}",
            " \n{\"a\": 1}\n ",
            "```json\n{\"a\": 1}\n```",
            "```\n{\"a\": 1}```\n",
            "~~~JSON\r\n{\"a\": 1}\r\n~~~",
        ] {
            assert_eq!(final_message(text).as_ref(), Ok(&object), "{text}");
        }
        let twice = "```\n```json\n{\"a\": 1}\n```\n```";
        for text in ["", "here: {\"a\":1}", "{\"a\":1} done", twice, "{\"a\":1"] {
            assert!(
                matches!(final_message(text), Err(FinalMessageError::NotJson(_))),
                "{text}"
            );
        }
        assert_eq!(final_message("[1]"), Err(FinalMessageError::NotAnObject));
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(RESULT_BYTES_MAX));
        assert!(matches!(
            final_message(&long),
            Err(FinalMessageError::TooLong(_))
        ));
    }
}
