//! The members of a request before its `input`, in one order.
//!
//! The invariant here: a member is there because a setting asks for it and nobody dropped it, and a
//! member whose parts are all gone is gone itself.
//!
//! `previous_response_id`, `conversation`, `metadata`, `client_metadata` and `temperature` do not
//! occur: everything a model knows is in the body.

use serde_json::{Map, Value, json};
use turnlane_protocol::method::ReasoningSummary;

use super::Fields;
use crate::native::history::Reasoning;
use crate::request::RuntimeTool;

/// The name under which servers know the form of an answer.
const SCHEMA_NAME: &str = "codex_output_schema";

/// The request up to and including the bracket that opens its `input`.
pub(super) fn write(fields: &Fields<'_>, reasoning: Reasoning) -> Vec<u8> {
    let mut head = Head {
        bytes: vec![b'{'],
        drop: fields.drop,
    };
    head.always("model", &fields.model.into());
    head.member("instructions", Some(fields.instructions.into()));
    if !fields.tools.is_empty() && !head.is_dropped("tools") {
        let tools = fields.tools.iter().map(tool).collect();
        head.member("tools", Some(Value::Array(tools)));
        head.member("tool_choice", Some("auto".into()));
        head.member("parallel_tool_calls", Some(true.into()));
    }
    let parts = [
        ("effort", fields.effort.map(Value::from)),
        ("summary", summary(fields.summary).map(Value::from)),
    ];
    head.parts("reasoning", parts);
    head.member("store", Some(false.into()));
    head.always("stream", &true.into());
    let include =
        (reasoning == Reasoning::Encrypted).then(|| json!(["reasoning.encrypted_content"]));
    head.member("include", include);
    head.member(
        "prompt_cache_key",
        Some(fields.thread_id.to_string().into()),
    );
    head.member("service_tier", fields.service_tier.map(Value::from));
    head.member(
        "max_output_tokens",
        fields.max_output_tokens.map(Value::from),
    );
    let parts = [
        ("verbosity", fields.verbosity.map(Value::from)),
        ("format", fields.output_schema.map(format)),
    ];
    head.parts("text", parts);
    head.bytes.extend_from_slice(b",\"input\":[");
    head.bytes
}

struct Head<'a> {
    bytes: Vec<u8>,
    drop: &'a [String],
}

impl Head<'_> {
    fn is_dropped(&self, name: &str) -> bool {
        self.drop.iter().any(|dropped| dropped == name)
    }

    fn always(&mut self, name: &str, value: &Value) {
        if self.bytes.len() > 1 {
            self.bytes.push(b',');
        }
        let member = format!("\"{name}\":{value}");
        self.bytes.extend_from_slice(member.as_bytes());
    }

    fn member(&mut self, name: &str, value: Option<Value>) {
        if let Some(value) = value.filter(|_| !self.is_dropped(name)) {
            self.always(name, &value);
        }
    }

    fn parts<const N: usize>(&mut self, name: &str, parts: [(&str, Option<Value>); N]) {
        let mut object = Map::new();
        for (part, value) in parts {
            if let Some(value) = value.filter(|_| !self.is_dropped(&format!("{name}.{part}"))) {
                object.insert(part.to_owned(), value);
            }
        }
        self.member(name, (!object.is_empty()).then_some(Value::Object(object)));
    }
}

fn summary(summary: Option<ReasoningSummary>) -> Option<&'static str> {
    match summary? {
        ReasoningSummary::Auto => Some("auto"),
        ReasoningSummary::Concise => Some("concise"),
        ReasoningSummary::Detailed => Some("detailed"),
        ReasoningSummary::None => None,
    }
}

fn format(schema: &Value) -> Value {
    json!({"type": "json_schema", "name": SCHEMA_NAME, "strict": true, "schema": schema})
}

/// A tool with parameters that every known server takes: an object with properties.
fn tool(tool: &RuntimeTool) -> Value {
    let mut parameters = tool.parameters.as_object().cloned().unwrap_or_default();
    parameters.insert("type".to_owned(), "object".into());
    let properties = parameters.entry("properties").or_insert_with(|| json!({}));
    if !properties.is_object() {
        *properties = json!({});
    }
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "strict": false,
        "parameters": parameters,
    })
}
