//! Calls of a script to tools of the runtime: told as one dynamicToolCall item each.
//!
//! The invariant here: a call is durable before the runtime is asked, as with any other tool. An answer
//! that ends the turn ends it without another step.
//!
//! What the tools do is the runtime's business.

use serde_json::{Value, json};
use turnlane_protocol::item::{DynamicToolCall, Extra, ItemBody, ItemStatus};

use super::play::{Player, Stop};
use super::script::RuntimeCall;
use crate::said::ToolCall;

/// The beginning of a placeholder for the rest of a line of the input.
const LINE: &str = "{line:";

impl Player {
    /// Calls a tool of the runtime and takes its answer.
    pub(super) async fn call_runtime(&mut self, call: &RuntimeCall) -> Result<(), Stop> {
        let item_id = self.stage.next_item_id();
        let text = self.with_lines(&call.arguments);
        let arguments: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        let call = ToolCall {
            call_id: item_id.to_string(),
            item_id: item_id.clone(),
            tool: call.name.clone(),
            arguments: arguments.clone(),
        };
        self.stage.record(vec![self.scribe.call(&call)]).await?;
        self.open_call = Some(call.call_id.clone());
        let body = ItemBody::DynamicToolCall(Box::new(DynamicToolCall {
            tool: call.tool.clone(),
            arguments,
            status: ItemStatus::InProgress,
            namespace: None,
            content_items: None,
            success: None,
            duration_ms: None,
            extra: Extra::new(),
        }));
        self.stage.start(item_id, body).await?;
        self.stage.commit().await?;
        let call_id = call.call_id.clone();
        let answer = self.control.ask.call_tool(call).await;
        // An interrupt answers too, but then the tool has said nothing.
        self.stop_if_cancelled()?;
        let finish = |body: &mut ItemBody| {
            if let ItemBody::DynamicToolCall(call) = body {
                call.status = if answer.success {
                    ItemStatus::Completed
                } else {
                    ItemStatus::Failed
                };
                call.success = Some(answer.success);
                let content = json!({"type": "inputText", "text": answer.text});
                call.content_items = Some(vec![content]);
            }
        };
        self.stage.complete(finish).await?;
        self.open_call = None;
        let entry = self.scribe.answer(&call_id, &answer.text);
        self.stage.record(vec![entry]).await?;
        if answer.end_turn {
            return Err(Stop::Completed);
        }
        Ok(())
    }

    /// Replaces every `{line:PREFIX}` by the rest of the first line that begins with the prefix, as the
    /// inside of a JSON string. The last message is looked through before the first one of the thread.
    fn with_lines(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(LINE) {
            filled.push_str(before);
            let Some((prefix, behind)) = after.split_once('}') else {
                filled.push_str(LINE);
                rest = after;
                continue;
            };
            let mut lines = self.heard.lines().chain(self.first_heard.lines());
            let found = lines.find_map(|line| line.strip_prefix(prefix));
            let found = found.unwrap_or_default();
            let quoted = Value::from(found).to_string();
            filled.push_str(&quoted[1..quoted.len() - 1]);
            rest = behind;
        }
        filled.push_str(rest);
        filled
    }
}
