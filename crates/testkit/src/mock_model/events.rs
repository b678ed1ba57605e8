//! From items to the events of the Responses API, in the order in which the API sends them.
//!
//! The invariant here: a rendered answer is one that the real API could have sent. Every item is
//! announced, streamed and done; `sequence_number` counts without gap; deltas joined are the text
//! of the done event and of the final `output`. Everything a server may get wrong is done to the
//! events afterwards, by [`Reply`](super::Reply).
//!
//! Pure: no clock, no randomness. Ids come from the number of the request, so two runs of a test
//! see the same bytes.

use serde_json::{Value, json};

use super::{
    api_error::ApiError,
    item::{Item, Kind},
    usage::Usage,
};

/// How many characters of arguments or input one delta carries.
const ARGUMENT_DELTA_CHARS: usize = 24;

/// A fixed moment: nobody may depend on the provider's clock, and golden files need one value.
const CREATED_AT_S: u64 = 1_893_456_000;

/// How an answer's stream ends.
#[derive(Clone, Debug)]
pub(super) enum End {
    Completed,
    Incomplete { reason: String },
    Failed(ApiError),
    ErrorEvent(ApiError),
    Missing,
}

/// What an answer needs to know about its request.
#[derive(Clone, Debug)]
pub(super) struct Context {
    /// The request's number, from 1; part of every id.
    pub(super) number: usize,
    /// The model the request named.
    pub(super) model: String,
}

/// All events of one answer.
pub(super) fn render(
    items: &[Item],
    end: &End,
    usage: Option<Usage>,
    context: &Context,
) -> Vec<Value> {
    let mut stream = Stream {
        context,
        events: Vec::new(),
        output: Vec::new(),
    };
    let in_progress = stream.response("in_progress");
    stream.push("response.created", json!({"response": in_progress}));
    stream.push("response.in_progress", json!({"response": in_progress}));
    for item in items {
        stream.item(item);
    }
    stream.end(end, usage);
    stream.events
}

struct Stream<'a> {
    context: &'a Context,
    events: Vec<Value>,
    output: Vec<Value>,
}

impl Stream<'_> {
    /// Appends an event of this type with the members of `event`.
    fn push(&mut self, kind: &str, mut event: Value) {
        event["type"] = json!(kind);
        event["sequence_number"] = json!(self.events.len());
        self.events.push(event);
    }

    /// Appends an event about the item at the end of the output so far.
    fn push_for(&mut self, id: &str, kind: &str, mut event: Value) {
        event["item_id"] = json!(id);
        event["output_index"] = json!(self.output.len());
        self.push(kind, event);
    }

    fn response(&self, status: &str) -> Value {
        json!({
            "id": format!("resp_{}", self.context.number),
            "object": "response",
            "created_at": CREATED_AT_S,
            "status": status,
            "error": null,
            "incomplete_details": null,
            "model": self.context.model,
            "output": self.output,
            "parallel_tool_calls": true,
            "store": false,
            "usage": null,
        })
    }

    fn id(&self, prefix: &str) -> String {
        format!("{prefix}_{}_{}", self.context.number, self.output.len())
    }

    fn added(&mut self, item: &Value) {
        let event = json!({"output_index": self.output.len(), "item": item});
        self.push("response.output_item.added", event);
    }

    fn done(&mut self, item: Value) {
        let event = json!({"output_index": self.output.len(), "item": item});
        self.push("response.output_item.done", event);
        self.output.push(item);
    }

    fn item(&mut self, item: &Item) {
        let call_id = match &item.call_id {
            Some(id) => id.clone(),
            None => self.id("call"),
        };
        match &item.kind {
            Kind::Message { deltas, phase } => self.message(deltas, phase.as_deref()),
            Kind::Refusal { text } => self.refusal(text),
            Kind::Reasoning {
                summary,
                content,
                encrypted,
            } => self.reasoning(summary, content, encrypted.as_deref()),
            Kind::FunctionCall { name, arguments } => {
                let call = json!({"type": "function_call", "name": name, "call_id": call_id});
                self.call(
                    call,
                    "fc",
                    "arguments",
                    "function_call_arguments",
                    arguments,
                );
            }
            Kind::CustomToolCall { name, input } => {
                let call = json!({"type": "custom_tool_call", "name": name, "call_id": call_id});
                self.call(call, "ctc", "input", "custom_tool_call_input", input);
            }
            Kind::LocalShellCall { command } => self.local_shell_call(command, &call_id),
            Kind::WebSearchCall { query } => self.web_search_call(query),
            Kind::Raw(item) => {
                self.added(item);
                self.done(item.clone());
            }
        }
    }

    fn message(&mut self, deltas: &[String], phase: Option<&str>) {
        let id = self.id("msg");
        let text = deltas.concat();
        let part = |text: &str| json!({"type": "output_text", "annotations": [], "text": text});
        let mut item = json!({
            "id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": [],
        });
        if let Some(phase) = phase {
            item["phase"] = json!(phase);
        }
        self.added(&item);
        let at = json!({"content_index": 0});
        let with = |key: &str, value: Value| {
            let mut event = at.clone();
            event[key] = value;
            event
        };
        self.push_for(&id, "response.content_part.added", with("part", part("")));
        for delta in deltas {
            self.push_for(
                &id,
                "response.output_text.delta",
                with("delta", json!(delta)),
            );
        }
        self.push_for(&id, "response.output_text.done", with("text", json!(text)));
        self.push_for(&id, "response.content_part.done", with("part", part(&text)));
        item["status"] = json!("completed");
        item["content"] = json!([part(&text)]);
        self.done(item);
    }

    fn refusal(&mut self, text: &str) {
        let id = self.id("msg");
        let part = |text: &str| json!({"type": "refusal", "refusal": text});
        let mut item = json!({
            "id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": [],
        });
        self.added(&item);
        let event = json!({"content_index": 0, "part": part("")});
        self.push_for(&id, "response.content_part.added", event);
        let event = json!({"content_index": 0, "delta": text});
        self.push_for(&id, "response.refusal.delta", event);
        let event = json!({"content_index": 0, "refusal": text});
        self.push_for(&id, "response.refusal.done", event);
        let event = json!({"content_index": 0, "part": part(text)});
        self.push_for(&id, "response.content_part.done", event);
        item["status"] = json!("completed");
        item["content"] = json!([part(text)]);
        self.done(item);
    }

    fn reasoning(&mut self, summary: &[String], content: &[String], encrypted: Option<&str>) {
        let id = self.id("rs");
        let mut item = json!({"id": id, "type": "reasoning", "summary": []});
        self.added(&item);
        let part = |text: &str| json!({"type": "summary_text", "text": text});
        for (index, text) in summary.iter().enumerate() {
            let event = json!({"summary_index": index, "part": part("")});
            self.push_for(&id, "response.reasoning_summary_part.added", event);
            let event = json!({"summary_index": index, "delta": text});
            self.push_for(&id, "response.reasoning_summary_text.delta", event);
            let event = json!({"summary_index": index, "text": text});
            self.push_for(&id, "response.reasoning_summary_text.done", event);
            let event = json!({"summary_index": index, "part": part(text)});
            self.push_for(&id, "response.reasoning_summary_part.done", event);
        }
        for delta in content {
            let event = json!({"content_index": 0, "delta": delta});
            self.push_for(&id, "response.reasoning_text.delta", event);
        }
        if !content.is_empty() {
            let text = content.concat();
            let event = json!({"content_index": 0, "text": text});
            self.push_for(&id, "response.reasoning_text.done", event);
            item["content"] = json!([{"type": "reasoning_text", "text": text}]);
        }
        item["summary"] = summary.iter().map(|text| part(text)).collect();
        if let Some(encrypted) = encrypted {
            item["encrypted_content"] = json!(encrypted);
        }
        self.done(item);
    }

    /// A call whose `member` arrives in deltas of the events `response.<events>.*`.
    fn call(&mut self, mut item: Value, prefix: &str, member: &str, events: &str, value: &str) {
        let id = self.id(prefix);
        item["id"] = json!(id);
        item["status"] = json!("in_progress");
        item[member] = json!("");
        self.added(&item);
        let characters: Vec<char> = value.chars().collect();
        for delta in characters.chunks(ARGUMENT_DELTA_CHARS) {
            let event = json!({"delta": delta.iter().collect::<String>()});
            self.push_for(&id, &format!("response.{events}.delta"), event);
        }
        let mut event = json!({});
        event[member] = json!(value);
        self.push_for(&id, &format!("response.{events}.done"), event);
        item["status"] = json!("completed");
        item[member] = json!(value);
        self.done(item);
    }

    fn local_shell_call(&mut self, command: &[String], call_id: &str) {
        let mut item = json!({
            "id": self.id("lsh"), "type": "local_shell_call", "status": "in_progress",
            "call_id": call_id, "action": {"type": "exec", "command": command, "env": {}},
        });
        self.added(&item);
        item["status"] = json!("completed");
        self.done(item);
    }

    fn web_search_call(&mut self, query: &str) {
        let id = self.id("ws");
        let mut item = json!({"id": id, "type": "web_search_call", "status": "in_progress"});
        self.added(&item);
        for step in ["in_progress", "searching", "completed"] {
            self.push_for(&id, &format!("response.web_search_call.{step}"), json!({}));
        }
        item["status"] = json!("completed");
        item["action"] = json!({"type": "search", "query": query});
        self.done(item);
    }

    fn end(&mut self, end: &End, usage: Option<Usage>) {
        let usage = json!(usage.map(Usage::to_json));
        match end {
            End::Completed => {
                let mut response = self.response("completed");
                response["usage"] = usage;
                self.push("response.completed", json!({"response": response}));
            }
            End::Incomplete { reason } => {
                let mut response = self.response("incomplete");
                response["usage"] = usage;
                response["incomplete_details"] = json!({"reason": reason});
                self.push("response.incomplete", json!({"response": response}));
            }
            End::Failed(error) => {
                let mut response = self.response("failed");
                response["error"] = error.failure();
                self.push("response.failed", json!({"response": response}));
            }
            End::ErrorEvent(error) => self.push("error", error.event()),
            End::Missing => {}
        }
    }
}

#[cfg(test)]
mod tests;
