//! What a command reads on its standard input, and what its output becomes.
//!
//! The invariant here: a command sees the same names as on the server, so that one script serves
//! both. What this client has no place for (a person to be asked, context before a thread) is never
//! dropped in silence: it is a no, or an issue.
//!
//! How output is read is decided in `turnlane_protocol::hook`.

use serde_json::{Map, Value, json};
use turnlane_protocol::hook::{FailureClass, HookEvent, HookFailure, HookOutput, Verdict};

use crate::hooks::wire::Said;
use crate::hooks::{
    HookAction, HookContext, HookIssue, HookPatch, HookPhase, IssueClass, MainStatus,
};

/// The event whose rules hold in a phase, and its name there.
pub(crate) fn event(phase: HookPhase) -> (HookEvent, &'static str) {
    let event = match phase {
        HookPhase::PreSessionStart => HookEvent::SessionStart,
        HookPhase::PreRun => HookEvent::QueueAdmit,
        HookPhase::PreTurn => HookEvent::UserPromptSubmit,
        HookPhase::PostTurn => HookEvent::TurnEnd,
        HookPhase::PreToolUse => HookEvent::PreToolUse,
        HookPhase::PostToolUse => HookEvent::PostToolUse,
        // Phases without an event watch like the end of a turn, under their own names.
        HookPhase::PostRun | HookPhase::PostSessionStart => {
            return (HookEvent::TurnEnd, phase.as_str());
        }
    };
    (event, event.as_str())
}

/// What a command gets on its standard input.
pub(crate) fn input(hook: &str, context: &HookContext) -> Value {
    let (_, name) = event(context.phase);
    let delivery = format!("{}:{name}:{hook}", context.correlation_id);
    let mut input = json!({
        "session_id": context.thread_id,
        "transcript_path": null,
        "cwd": context.cwd,
        "hook_event_name": name,
        "model": context.model,
        "turnlane": {"version": 1, "hook": hook, "delivery_id": delivery, "attempt": 1,
            "metadata": context.metadata},
    });
    if let Value::Object(members) = &mut input {
        members.extend(special(context));
        if let Some(turn) = &context.turn_id {
            members.insert("turn_id".to_owned(), json!(turn));
        }
    }
    input
}

/// The members that only some phases have.
fn special(context: &HookContext) -> Map<String, Value> {
    let members = match context.phase {
        HookPhase::PreSessionStart => {
            let source = match context.thread_id {
                Some(_) => "resume",
                None => "startup",
            };
            json!({"source": source, "permission_mode": "default"})
        }
        HookPhase::PreRun => json!({"prompt": context.prompt, "producer": "queue",
            "client_user_message_id": null}),
        HookPhase::PreTurn => json!({"prompt": context.prompt, "permission_mode": "default"}),
        HookPhase::PostTurn | HookPhase::PostRun | HookPhase::PostSessionStart => {
            let status = match context.main_status {
                Some(MainStatus::Error) => "failed",
                Some(MainStatus::Ok) | None => "completed",
            };
            json!({"status": status, "error": null, "usage": null,
                "last_assistant_message": null, "duration_ms": null})
        }
        HookPhase::PreToolUse | HookPhase::PostToolUse => json!({"tool_name": context.tool_name,
            "tool_input": context.tool_input, "permission_mode": "default"}),
    };
    match members {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// What a command's output means for a hook of this client.
pub(crate) fn said(context: &HookContext, output: HookOutput) -> Said {
    let mut wrong = output.warnings;
    let message = match output.verdict {
        Verdict::NoOpinion | Verdict::Allow => None,
        Verdict::Block { reason } | Verdict::Stop { reason } => Some(reason),
        // Nobody can be asked from here, so it is a no.
        Verdict::Ask { reason } => Some(reason.unwrap_or_default()),
    };
    if let Some(message) = message {
        let action = HookAction::Block { message };
        return Said { action, wrong };
    }
    let mut patch = HookPatch {
        prompt: output.prompt,
        model: output.model,
        tool_input: output.updated_input,
        ..HookPatch::default()
    };
    match output.metadata {
        None | Some(Value::Null) => {}
        Some(Value::Object(metadata)) => patch.metadata = metadata,
        Some(_) => wrong.push("metadata_delta must be null or object".to_owned()),
    }
    if let Some(added) = output.context {
        if context.phase == HookPhase::PreTurn {
            let prompt = patch.prompt.take().or_else(|| context.prompt.clone());
            patch.prompt =
                Some(prompt.map_or(added.clone(), |prompt| format!("{prompt}\n\n{added}")));
        } else {
            let phase = context.phase;
            wrong.push(format!("additionalContext is not allowed in {phase}"));
        }
    }
    let action = if patch == HookPatch::default() {
        HookAction::Noop
    } else {
        HookAction::Mutate(patch)
    };
    Said { action, wrong }
}

/// A command's failure as an issue.
pub(crate) fn issue(hook: &str, phase: HookPhase, failure: HookFailure) -> HookIssue {
    let class = match failure.class {
        FailureClass::Output => IssueClass::Validation,
        FailureClass::Timeout => IssueClass::Timeout,
        FailureClass::Exit | FailureClass::Spawn => IssueClass::Execution,
        FailureClass::Internal | FailureClass::Disconnected => IssueClass::Internal,
    };
    HookIssue {
        hook: hook.to_owned(),
        phase,
        class,
        message: failure.message,
    }
}
