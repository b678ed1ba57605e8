//! One call: hooks before it, the tool, hooks after it.
//!
//! The invariant here: whatever happens, a call ends with a text for the model. A failure of a tool
//! is such a text; only a person, a hook, an interrupt or a lost lane end the turn.
//!
//! Which calls run beside each other is decided in `calls`, what our own tools do in `tools`.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;
use turnlane_protocol::item::{
    CommandAction, DynamicToolCall, Extra, ItemBody, ItemStatus, ThreadItem,
};

use super::calls::CALLS_MAX;
use super::{Halt, Setup, next_item_id};
use crate::event::Event;
use crate::hooks::{AfterTool, BeforeTool, ToolResult};
use crate::native::patch;
use crate::native::policy;
use crate::native::stream::{Call, CallKind};
use crate::native::tools::{self, Called, Output, Permission, Slots, Stop, ToolTurn, schema, text};
use crate::outcome::approval_timeout;
use crate::said::{ApprovalRequest, ApprovalSubject, ToolCall};

/// What came of a call.
pub(super) struct Ended {
    pub(super) output: Output,
    /// What hooks want the model to know.
    pub(super) context: Vec<String>,
    /// Why the turn ends with this call.
    pub(super) halt: Option<Halt>,
}

impl Ended {
    fn with(output: Output) -> Self {
        Self {
            output,
            context: Vec::new(),
            halt: None,
        }
    }

    fn halted(text: impl Into<String>, halt: Halt) -> Self {
        Self {
            halt: Some(halt),
            ..Self::with(Output::failure(text))
        }
    }
}

/// Makes one call.
pub(super) struct Caller {
    /// Which of its response, from 0.
    pub(super) nth: usize,
    pub(super) slots: Slots,
    pub(super) turn: Arc<ToolTurn>,
    pub(super) setup: Arc<Setup>,
}

impl Caller {
    /// Whether nothing may run beside this call: it changes what others look at.
    pub(super) fn runs_alone(call: &Call) -> bool {
        match call.name.as_str() {
            tools::APPLY_PATCH | tools::UPDATE_PLAN => true,
            tools::EXEC_COMMAND => {
                let arguments = serde_json::from_str::<Value>(&call.arguments);
                let script = arguments.ok().and_then(|arguments| {
                    let script = arguments.get("cmd")?.as_str()?.to_owned();
                    Some(script)
                });
                script.is_some_and(|script| {
                    matches!(patch::recognise(&script), patch::Script::Patch { .. })
                })
            }
            _ => false,
        }
    }

    /// Runs the call to its end.
    pub(super) async fn run(self, call: Call) -> Ended {
        if self.nth >= CALLS_MAX {
            return Ended::with(Output::failure("too many tool calls in one response"));
        }
        if !self.setup.tools.iter().any(|tool| tool.name == call.name) {
            let settings = &self.setup.settings;
            let environments = settings.environments.as_deref();
            let withheld = schema::withheld(&call.name, &self.turn.tools, environments);
            let text = withheld.unwrap_or_else(|| format!("unsupported call: {}", call.name));
            return Ended::with(Output::failure(self.turn.redactor.text(&text)));
        }
        let arguments = match arguments(&call) {
            Ok(arguments) => arguments,
            Err(problem) => {
                let text = format!("failed to parse function arguments: {problem}");
                return Ended::with(Output::failure(self.turn.redactor.text(&text)));
            }
        };
        let began = Instant::now();
        let slot = self.turn.cancel.unless_cancelled(self.slots.take()).await;
        let Ok(slot) = slot else {
            return Ended::halted(self.aborted(began), Halt::Interrupted(None));
        };
        let hooked = ToolCall {
            call_id: call.call_id.clone(),
            item_id: next_item_id((self.turn.clock)()),
            tool: call.name.clone(),
            arguments: arguments.clone(),
        };
        let called = Called {
            call_id: call.call_id,
            item_id: hooked.item_id.clone(),
            name: call.name,
            arguments,
            permission: Permission::Usual,
            slot,
        };
        self.hooked(hooked, called, began).await
    }

    /// The call between the hooks before and after it.
    async fn hooked(&self, mut hooked: ToolCall, mut called: Called, began: Instant) -> Ended {
        let before = self.turn.ask.before_tool(&hooked).await;
        if self.turn.cancel.is_cancelled() {
            // An interrupt answers the question too, but then no hook has said anything.
            return Ended::halted(self.aborted(began), Halt::Interrupted(None));
        }
        let mut context = before.context;
        match before.answer {
            BeforeTool::Continue => {}
            BeforeTool::Rewrite(arguments) => {
                hooked.arguments.clone_from(&arguments);
                called.arguments = arguments;
            }
            BeforeTool::Ask => called.permission = Permission::Asked,
            BeforeTool::Block(text) => called.permission = Permission::Blocked(text),
            BeforeTool::Stop(text) => {
                let text = self.turn.redactor.text(&text).into_owned();
                let halted = Ended::halted(text.clone(), Halt::by_hook(text));
                return Ended { context, ..halted };
            }
        }
        let mut output = match self.dispatch(&called).await {
            Ok(output) => output,
            Err(stop) => {
                let stopped = stopped(&called.name, stop);
                return Ended { context, ..stopped };
            }
        };
        let result = ToolResult {
            text: output.text.clone(),
            success: output.success,
        };
        let after = self.turn.ask.after_tool(&hooked, &result).await;
        context.extend(after.context);
        let mut halt = None;
        match after.answer {
            AfterTool::Keep => {}
            AfterTool::Replace(text) => {
                output.text = self.turn.redactor.text(&text).into_owned();
            }
            AfterTool::Stop(text) => {
                let text = self.turn.redactor.text(&text).into_owned();
                halt = Some(Halt::by_hook(text));
            }
        }
        Ended {
            output,
            context,
            halt,
        }
    }

    /// The output of a call that the end of its turn cut off.
    fn aborted(&self, began: Instant) -> String {
        self.turn.cancel.cut_off(began.elapsed())
    }

    async fn dispatch(&self, called: &Called) -> Result<Output, Stop> {
        let place = self
            .setup
            .tools
            .iter()
            .position(|tool| tool.name == called.name);
        if place.is_some_and(|place| place < self.setup.own_tools) {
            return tools::run(&self.turn, called).await;
        }
        self.runtime_tool(called).await
    }

    /// A tool of the runtime, shown as one dynamicToolCall item.
    async fn runtime_tool(&self, called: &Called) -> Result<Output, Stop> {
        let turn = &self.turn;
        let began = Instant::now();
        let shown = DynamicToolCall {
            tool: called.name.clone(),
            arguments: clean(turn, &called.arguments),
            status: ItemStatus::InProgress,
            namespace: None,
            content_items: None,
            success: None,
            duration_ms: None,
            extra: Extra::new(),
        };
        let body = ItemBody::DynamicToolCall(Box::new(shown.clone()));
        let item = ThreadItem::started(called.item_id.clone(), (turn.clock)(), body);
        let started = Event::ItemStarted(Box::new(item.clone()));
        turn.sink.emit(started).await?;

        let answered = self.ask_runtime(called).await;
        let (output, text) = match answered {
            Ok(output) => (Ok(output.clone()), output.text),
            Err(Stop::Cancelled(_)) => {
                let text = self.aborted(began);
                (Err(Stop::Cancelled(text.clone())), text)
            }
            Err(stop) => (Err(stop), tools::REJECTED.to_owned()),
        };
        let success = output.as_ref().is_ok_and(|output| output.success);
        let completed_at_ms = (turn.clock)();
        let shown = DynamicToolCall {
            // The wire has no other word for a call that was not made.
            status: if success {
                ItemStatus::Completed
            } else {
                ItemStatus::Failed
            },
            content_items: Some(vec![json!({"type": "inputText", "text": text})]),
            success: Some(success),
            duration_ms: item
                .started_at_ms
                .map(|at| completed_at_ms.saturating_sub(at)),
            ..shown
        };
        let item = ThreadItem {
            body: ItemBody::DynamicToolCall(Box::new(shown)),
            completed_at_ms: Some(completed_at_ms),
            ..item
        };
        let completed = Event::ItemCompleted(Box::new(item));
        turn.sink.emit(completed).await?;
        output
    }

    async fn ask_runtime(&self, called: &Called) -> Result<Output, Stop> {
        let turn = &self.turn;
        match &called.permission {
            Permission::Usual => {}
            Permission::Blocked(text) => return Ok(Output::failure(turn.redactor.text(text))),
            Permission::Asked => {
                if let Some(refused) = self.refused(called).await? {
                    return Ok(refused);
                }
            }
        }
        let call = ToolCall {
            call_id: called.call_id.clone(),
            item_id: called.item_id.clone(),
            tool: called.name.clone(),
            arguments: called.arguments.clone(),
        };
        let answer = turn.ask.call_tool(call).await;
        if turn.cancel.is_cancelled() {
            // An interrupt answers too; what the tool did is not known.
            return Err(Stop::Cancelled(String::new()));
        }
        let clean = turn.redactor.text(&answer.text);
        Ok(Output {
            text: text::for_model(&clean, turn.tools.output_tokens_max),
            success: answer.success,
            end_turn: answer.end_turn,
            ..Output::default()
        })
    }

    /// Why the call is not made, when somebody did not accept it.
    async fn refused(&self, called: &Called) -> Result<Option<Output>, Stop> {
        let turn = &self.turn;
        // The boundary knows commands and patches; a call of another tool is asked as a command.
        let command = format!("{} {}", called.name, clean(turn, &called.arguments));
        let request = ApprovalRequest {
            item_id: called.item_id.clone(),
            subject: ApprovalSubject::Command {
                actions: vec![CommandAction::unknown(command.as_str())],
                command,
                cwd: turn.redactor.text(&turn.settings.cwd).into_owned(),
                words: None,
                stdin: None,
                escalated: false,
                proposed_amendment: None,
            },
            reason: None,
            available_decisions: None,
        };
        let decided = called.approve(&turn.ask, request).await;
        if turn.cancel.is_cancelled() {
            return Err(Stop::Cancelled(String::new()));
        }
        if decided.decision.is_accept() {
            // Somebody may have taken the lane while this one waited for an answer.
            turn.sink.commit().await?;
            return Ok(None);
        }
        if decided.is_timed_out() {
            return Err(Stop::Unanswered);
        }
        if decided.decision == turnlane_protocol::approval::Decision::Cancel {
            return Err(Stop::Interrupted);
        }
        let text = decided.reason.unwrap_or_else(|| tools::REJECTED.to_owned());
        Ok(Some(Output::failure(turn.redactor.text(&text))))
    }
}

/// The arguments of a call; the plain input of a custom one.
fn arguments(call: &Call) -> Result<Value, String> {
    match call.kind {
        CallKind::Custom => Ok(Value::String(call.arguments.clone())),
        CallKind::Function => {
            let read = serde_json::from_str::<Value>(&call.arguments);
            let value = read.map_err(|error| error.to_string())?;
            if value.is_object() {
                Ok(value)
            } else {
                Err("they are not a JSON object".to_owned())
            }
        }
    }
}

fn stopped(name: &str, stop: Stop) -> Ended {
    match stop {
        Stop::Cancelled(text) => Ended::halted(text, Halt::Interrupted(None)),
        Stop::Fenced => Ended::halted(String::new(), Halt::Fenced),
        Stop::Unanswered => {
            let error = approval_timeout();
            let text = error.message.clone();
            Ended::halted(text, Halt::Failed(Box::new(error)))
        }
        Stop::Interrupted => {
            let text = match name {
                tools::APPLY_PATCH => policy::PATCH_REJECTED,
                tools::EXEC_COMMAND | tools::WRITE_STDIN => policy::COMMAND_REJECTED,
                _ => tools::REJECTED,
            };
            Ended::halted(text, Halt::Interrupted(None))
        }
    }
}

/// Arguments without keys.
fn clean(turn: &ToolTurn, arguments: &Value) -> Value {
    match arguments {
        Value::String(text) => turn.redactor.text(text).into_owned().into(),
        Value::Array(all) => all.iter().map(|value| clean(turn, value)).collect(),
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| (name.clone(), clean(turn, value)));
            Value::Object(members.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => arguments.clone(),
    }
}
