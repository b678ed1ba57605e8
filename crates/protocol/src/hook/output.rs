//! How a hook ended and what it wrote, as a verdict with rewrites, or as a failure.
//!
//! The invariant here: nothing that a hook may have meant as a no is read as a yes: a word or type we
//! do not know where a decision stands is a failure, and a failure follows the hook's policy. Fields
//! that say nothing at their event are warnings.

use serde_json::{Map, Value};

use super::HookEvent;

/// The most that a hook may write to standard output.
const STDOUT_BYTES_MAX: u64 = 1024 * 1024;
/// The reason of a hook that gives none.
pub const NO_MESSAGE: &str = "blocked by hook (no message)";

/// How a hook's process ended, and what it wrote.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// How.
    pub exit: Exit,
    /// What it wrote to standard output, or as much as was kept.
    pub stdout: &'a [u8],
    /// How much it wrote to standard output.
    pub stdout_bytes: u64,
    /// The end of what it wrote to standard error.
    pub stderr: &'a [u8],
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal,
}

/// What a hook said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookOutput {
    /// Whether the step may be done.
    pub verdict: Verdict,
    /// Text for the model.
    pub context: Option<String>,
    /// The tool's input in place of the one it was to be called with.
    pub updated_input: Option<Value>,
    /// The prompt in place of the one that was submitted.
    pub prompt: Option<String>,
    /// The model in place of the one that was chosen.
    pub model: Option<String>,
    /// To be added to the metadata, if it is an object: whoever adds it looks.
    pub metadata: Option<Value>,
    /// Shown to people.
    pub system_message: Option<String>,
    /// What was ignored and why.
    pub warnings: Vec<String>,
}

/// Whether a step may be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// The hook said nothing about it.
    #[default]
    NoOpinion,
    /// It has no objection; at `PermissionRequest` this answers the approval.
    Allow,
    /// A person shall be asked.
    Ask {
        /// Why.
        reason: Option<String>,
    },
    /// No.
    Block {
        /// Why; never blank.
        reason: String,
    },
    /// No, and the turn is over.
    Stop {
        /// Why; never blank.
        reason: String,
    },
}

/// A hook that said nothing we could use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HookFailure {
    /// What kind of failure.
    pub class: FailureClass,
    /// What happened.
    pub message: String,
}

/// The kinds of failures of hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureClass {
    /// Another exit code than 0 and 2, or a signal.
    Exit,
    /// It took too long.
    Timeout,
    /// It could not be started.
    Spawn,
    /// What it wrote cannot be read.
    Output,
    /// Our fault.
    Internal,
    /// Whoever runs it is gone.
    Disconnected,
}

impl FailureClass {
    /// Its word in reasons.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Timeout => "timeout",
            Self::Spawn => "spawn",
            Self::Output => "output",
            Self::Internal => "internal",
            Self::Disconnected => "disconnected",
        }
    }
}

fn failure(class: FailureClass, message: impl Into<String>) -> HookFailure {
    HookFailure {
        class,
        message: message.into(),
    }
}

fn unreadable(message: impl Into<String>) -> HookFailure {
    failure(FailureClass::Output, message)
}

/// Reads how a hook ended that was asked about `event`, which its input called `name`.
pub fn read(event: HookEvent, name: &str, ended: &Ended<'_>) -> Result<HookOutput, HookFailure> {
    match ended.exit {
        Exit::Code(0) => {}
        Exit::Code(2) if event.takes_no() => {
            let reason = reason(Some(String::from_utf8_lossy(ended.stderr).trim()));
            return Ok(HookOutput {
                verdict: Verdict::Block { reason },
                ..HookOutput::default()
            });
        }
        Exit::Code(code) => {
            let message = format!("hook exited with code {code}");
            return Err(failure(FailureClass::Exit, message));
        }
        Exit::Signal => {
            let message = "hook exited without a status code";
            return Err(failure(FailureClass::Exit, message));
        }
    }
    if ended.stdout_bytes > STDOUT_BYTES_MAX {
        return Err(unreadable("hook wrote more than 1 MiB"));
    }
    let text = std::str::from_utf8(ended.stdout);
    let text = text.map_err(|_| unreadable("hook output is not UTF-8"))?;
    let text = text.trim();
    if text.starts_with('{') {
        let members: Map<String, Value> = serde_json::from_str(text)
            .map_err(|why| unreadable(format!("hook output is not JSON: {why}")))?;
        return Reading::new(event, name).object(members);
    }
    let mut output = HookOutput::default();
    if text.is_empty() {
        return Ok(output);
    }
    if event.takes_plain_context() {
        output.context = Some(text.to_owned());
    } else {
        output.warnings.push("output is not JSON".to_owned());
    }
    Ok(output)
}

/// A reason that is never blank.
fn reason(given: Option<&str>) -> String {
    let given = given.map(str::trim).filter(|text| !text.is_empty());
    given.unwrap_or(NO_MESSAGE).to_owned()
}

/// One object of output while it is read.
struct Reading<'a> {
    event: HookEvent,
    name: &'a str,
    output: HookOutput,
    /// The strongest no, put in place at the end: a rewrite never outlives it.
    no: Option<Verdict>,
}

impl<'a> Reading<'a> {
    fn new(event: HookEvent, name: &'a str) -> Self {
        Self {
            event,
            name,
            output: HookOutput::default(),
            no: None,
        }
    }

    fn ignored(&mut self, field: &str) {
        let warning = format!("`{field}` is ignored at {}", self.name);
        self.output.warnings.push(warning);
    }

    fn object(mut self, mut members: Map<String, Value>) -> Result<HookOutput, HookFailure> {
        let stop_reason = text(&mut members, "stopReason")?;
        let given = text(&mut members, "reason")?;
        let goes_on = members.remove("continue").unwrap_or(Value::Null);
        let decision = text(&mut members, "decision")?;
        self.output.system_message = text(&mut members, "systemMessage")?;
        members.remove("suppressOutput");
        let specific = members.remove("hookSpecificOutput");
        for field in members.keys().cloned().collect::<Vec<_>>() {
            self.ignored(&field);
        }
        match decision.as_deref() {
            None => {}
            Some("block") if self.event.takes_block_word() => {
                let reason = reason(given.as_deref());
                self.no = Some(Verdict::Block { reason });
            }
            Some("approve") if self.event == HookEvent::PreToolUse => {
                self.output.verdict = Verdict::Allow;
            }
            Some("block" | "approve") => self.ignored("decision"),
            Some(_) => return Err(unreadable("`decision` has an unknown word")),
        }
        match specific {
            None | Some(Value::Null) => {}
            Some(Value::Object(specific)) => self.specific(specific)?,
            Some(_) => return Err(unreadable("`hookSpecificOutput` is no object")),
        }
        match goes_on {
            Value::Null | Value::Bool(true) => {}
            Value::Bool(false) if self.event.takes_no() => {
                let reason = reason(stop_reason.as_deref());
                self.no = Some(Verdict::Stop { reason });
            }
            Value::Bool(false) => self.ignored("continue"),
            _ => return Err(unreadable("`continue` is no boolean")),
        }
        Ok(self.done())
    }

    fn done(self) -> HookOutput {
        let Some(verdict) = self.no else {
            return self.output;
        };
        HookOutput {
            verdict,
            system_message: self.output.system_message,
            warnings: self.output.warnings,
            ..HookOutput::default()
        }
    }

    fn specific(&mut self, mut members: Map<String, Value>) -> Result<(), HookFailure> {
        if let Some(name) = text(&mut members, "hookEventName")?
            && name != self.name
        {
            return Err(unreadable("`hookEventName` names another event"));
        }
        let event = self.event;
        for refused in refused_fields(event) {
            if members.get(*refused).is_some_and(|value| !value.is_null()) {
                return Err(unreadable(format!("`{refused}` is not supported")));
            }
            members.remove(*refused);
        }
        if event == HookEvent::PreToolUse {
            self.tool_decision(&mut members)?;
        }
        if event == HookEvent::PermissionRequest {
            self.permission(members.remove("decision"))?;
        }
        if event.takes_context() {
            self.output.context = text(&mut members, "additionalContext")?;
        }
        match members.remove("turnlane") {
            None | Some(Value::Null) => {}
            Some(Value::Object(ours)) => self.ours(ours)?,
            Some(_) => return Err(unreadable("`turnlane` is no object")),
        }
        for field in members.keys().cloned().collect::<Vec<_>>() {
            self.ignored(&field);
        }
        Ok(())
    }

    fn tool_decision(&mut self, members: &mut Map<String, Value>) -> Result<(), HookFailure> {
        let given = text(members, "permissionDecisionReason")?;
        match text(members, "permissionDecision")?.as_deref() {
            None => {}
            Some("allow") => self.output.verdict = Verdict::Allow,
            Some("ask") => self.output.verdict = Verdict::Ask { reason: given },
            Some("deny") => {
                let reason = reason(given.as_deref());
                self.no = Some(Verdict::Block { reason });
            }
            Some(_) => return Err(unreadable("`permissionDecision` has an unknown word")),
        }
        match members.remove("updatedInput") {
            None | Some(Value::Null) => {}
            Some(input @ Value::Object(_)) => self.output.updated_input = Some(input),
            Some(_) => return Err(unreadable("`updatedInput` is no object")),
        }
        Ok(())
    }

    fn permission(&mut self, decision: Option<Value>) -> Result<(), HookFailure> {
        let mut decision = match decision {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::Object(decision)) => decision,
            Some(_) => return Err(unreadable("`decision` is no object")),
        };
        for refused in ["updatedInput", "updatedPermissions"] {
            if decision.get(refused).is_some_and(|value| !value.is_null()) {
                return Err(unreadable(format!("`{refused}` is not supported")));
            }
        }
        let message = text(&mut decision, "message")?;
        let reason = reason(message.as_deref());
        let interrupts = decision.get("interrupt") == Some(&Value::Bool(true));
        match text(&mut decision, "behavior")?.as_deref() {
            Some("allow") => self.output.verdict = Verdict::Allow,
            Some("deny") if interrupts => self.no = Some(Verdict::Stop { reason }),
            Some("deny") => self.no = Some(Verdict::Block { reason }),
            _ => return Err(unreadable("`behavior` has an unknown word")),
        }
        Ok(())
    }

    /// The members that other products do not have.
    fn ours(&mut self, mut members: Map<String, Value>) -> Result<(), HookFailure> {
        let prompt = text(&mut members, "prompt")?;
        let model = text(&mut members, "model")?;
        let metadata = members.remove("metadata").filter(|value| !value.is_null());
        if prompt.is_some() && !self.event.takes_prompt() {
            self.ignored("prompt");
        } else if prompt.as_ref().is_some_and(|text| text.trim().is_empty()) {
            return Err(unreadable("the prompt is empty after a rewrite"));
        } else {
            self.output.prompt = prompt;
        }
        if model.is_some() && !self.event.takes_model() {
            self.ignored("model");
        } else {
            self.output.model = model;
        }
        if metadata.is_some() && !self.event.takes_metadata() {
            self.ignored("metadata");
        } else {
            self.output.metadata = metadata;
        }
        Ok(())
    }
}

/// Fields that promise what is not done; leaving them out in silence would fail open.
fn refused_fields(event: HookEvent) -> &'static [&'static str] {
    match event {
        HookEvent::PermissionRequest => &["updatedInput", "updatedPermissions"],
        HookEvent::PostToolUse => &["updatedMCPToolOutput"],
        _ => &[],
    }
}

/// A member that is a text if it is there.
fn text(members: &mut Map<String, Value>, name: &str) -> Result<Option<String>, HookFailure> {
    match members.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(unreadable(format!("`{name}` is no text"))),
    }
}
