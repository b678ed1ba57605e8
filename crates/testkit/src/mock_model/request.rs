//! A request as the mock received it, and the questions tests ask of it.
//!
//! The invariant here: what is recorded is what was sent, headers and bytes included; reading it
//! (the last user text, a tool's output) happens when asked and never fails, only finds nothing.

use bytes::Bytes;
use serde_json::Value;

/// One request, kept as long as the mock lives.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// `POST`, `GET`.
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// The query without its question mark, empty if there is none.
    pub query: String,
    /// Names in lower case, in the order of arrival; values that are not text are left out.
    pub headers: Vec<(String, String)>,
    /// The body's bytes, for tests about bytes.
    pub bytes: Bytes,
    /// The body as JSON, `null` if it is none.
    pub body: Value,
}

impl RecordedRequest {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let named = |(known, _): &&(String, String)| known.eq_ignore_ascii_case(name);
        self.headers
            .iter()
            .find(named)
            .map(|(_, value)| value.as_str())
    }

    /// The authorization header, if the client sent one.
    pub fn authorization(&self) -> Option<&str> {
        self.header("authorization")
    }

    /// The key behind `Bearer`, if the client sent one.
    pub fn bearer_key(&self) -> Option<&str> {
        self.authorization()?.strip_prefix("Bearer ")
    }

    /// The model asked for.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// The input items, none if the input is a plain text.
    pub fn input(&self) -> &[Value] {
        self.body["input"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The text of the last user message: what the model is asked to do.
    pub fn last_user_text(&self) -> String {
        if let Some(text) = self.body["input"].as_str() {
            return text.to_owned();
        }
        let user = self.input().iter().rfind(|item| item["role"] == "user");
        user.map(|item| text_of(&item["content"]))
            .unwrap_or_default()
    }

    /// The output the client sent for this call, of whatever kind of tool, as text.
    pub fn tool_output(&self, call_id: &str) -> Option<String> {
        let answers = |item: &&Value| item["call_id"] == call_id && !item["output"].is_null();
        let output = &self.input().iter().rfind(answers)?["output"];
        Some(text_of(output))
    }

    /// The names of the tools on offer; a tool without name by its type.
    pub fn tool_names(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map_or(&[][..], Vec::as_slice);
        tools
            .iter()
            .filter_map(|tool| tool["name"].as_str().or_else(|| tool["type"].as_str()))
            .collect()
    }
}

/// The text of a message's content or a tool's output: a string, or parts with `text`.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        // Some clients wrap a tool's output: {"content": "...", "success": true}.
        Value::Object(wrapped) => wrapped.get("content").map(text_of).unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(body: Value) -> RecordedRequest {
        RecordedRequest {
            method: "POST".to_owned(),
            path: "/v1/responses".to_owned(),
            query: String::new(),
            headers: vec![("authorization".to_owned(), "Bearer k".to_owned())],
            bytes: Bytes::new(),
            body,
        }
    }

    #[test]
    fn the_last_user_text_is_found_behind_tool_rounds() {
        let request = request(json!({"input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "old"}]},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "new"}, {"type": "input_image"},
                {"type": "input_text", "text": "er"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "out"},
            {"type": "custom_tool_call_output", "call_id": "d", "output": {"content": "patched"}},
        ]}));
        assert_eq!(request.last_user_text(), "new\ner");
        assert_eq!(request.tool_output("c").as_deref(), Some("out"));
        assert_eq!(request.tool_output("d").as_deref(), Some("patched"));
        assert_eq!(request.tool_output("e"), None);
        assert_eq!(request.bearer_key(), Some("k"));
    }

    #[test]
    fn a_body_of_another_shape_is_no_error() {
        assert_eq!(request(json!({"input": "plain"})).last_user_text(), "plain");
        assert_eq!(request(Value::Null).last_user_text(), "");
        assert_eq!(request(Value::Null).tool_names(), Vec::<&str>::new());
    }
}
