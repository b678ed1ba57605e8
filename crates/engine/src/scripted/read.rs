//! From the tree of a script to a [`Script`].
//!
//! The invariant here: what is not understood is refused, with its place. A key nobody reads would
//! be a test that does not test what it says.
//!
//! Whether there is somebody who can do what says `real: true` is found when it is played.

use std::time::Duration;

use turnlane_protocol::item::MessagePhase;
use turnlane_protocol::notification::{PlanStep, PlanStepStatus};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};
use turnlane_protocol::usage::TokenCounts;

use super::node::{Fields, Node};
use super::patch;
use super::script::{
    AbortSteps, Approve, Await, Awaited, Effect, End, Exec, Failure, Patch, Rule, RuntimeCall, Say,
    Script, Step, Tool,
};
use crate::error::Error;
use crate::limits::kind_of;

/// Characters per delta where a script does not say.
const CHUNK_CHARS: usize = 16;
const FALLBACK_TEXT: &str = "You said: {input}";

pub(super) fn script(file: &str, text: &str, aborts: AbortSteps) -> Result<Script, Error> {
    let root = Node::parse(file, text)?;
    let fields = root.fields(&["version", "turns", "fallback"])?;
    let version = fields.need("version")?;
    if version.number::<u32>()? != 1 {
        return Err(version.bad("only version 1 is known"));
    }
    let turns = fields.get("turns").map(Node::list).transpose()?;
    let turns = turns.unwrap_or_default().iter();
    let turns = turns
        .map(|turn| rule(turn, aborts))
        .collect::<Result<_, _>>()?;
    let fallback = match fields.get("fallback") {
        None => vec![Step::Say(plain_say(FALLBACK_TEXT))],
        Some(node) if node.is_list() => steps(node, aborts)?,
        Some(node) => vec![step(node, aborts)?],
    };
    Ok(Script { turns, fallback })
}

fn rule(node: &Node, aborts: AbortSteps) -> Result<Rule, Error> {
    let fields = node.fields(&["match", "at", "times", "steps"])?;
    for counted in ["at", "times"]
        .map(|name| fields.get(name))
        .into_iter()
        .flatten()
    {
        if counted.number::<u32>()? == 0 {
            return Err(counted.bad("counts from 1"));
        }
    }
    Ok(Rule {
        part: fields.text("match")?,
        at: fields.number("at")?,
        times: fields.number("times")?,
        steps: steps(fields.need("steps")?, aborts)?,
    })
}

fn steps(node: &Node, aborts: AbortSteps) -> Result<Vec<Step>, Error> {
    node.list()?.iter().map(|node| step(node, aborts)).collect()
}

fn step(node: &Node, aborts: AbortSteps) -> Result<Step, Error> {
    let (name, node) = node.single()?;
    Ok(match name {
        "reasoning" => Step::Reasoning(say(node, Phase::None)?),
        "say" => Step::Say(say(node, Phase::Read)?),
        "exec" => Step::Exec(exec(
            &node.fields(&["cmd", "output", "exit", "ms", "real"])?,
        )?),
        "patch" => Step::Patch(patch_step(&node.fields(&["input", "ms", "real"])?)?),
        "call" => Step::Call(runtime_call(node)?),
        "approve" => Step::Approve(approve(node, aborts)?),
        "plan" => Step::Plan(plan(node)?),
        "usage" => Step::Usage(usage(node)?),
        "await" => Step::Await(wait(node)?),
        "error" => Step::Error(failure(node)?),
        "end" => Step::End(end(node, aborts)?),
        _ => {
            let known =
                "reasoning, say, exec, patch, call, approve, plan, usage, await, error or end";
            return Err(node.bad(format!("unknown step, expected {known}")));
        }
    })
}

/// Whether a step may name the part of the answer it is.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Read,
    None,
}

fn say(node: &Node, phases: Phase) -> Result<Say, Error> {
    if !node.is_map() {
        return Ok(plain_say(node.text()?));
    }
    let known: &[&str] = match phases {
        Phase::Read => &["text", "chunk", "delta_ms", "phase"],
        Phase::None => &["text", "chunk", "delta_ms"],
    };
    let fields = node.fields(known)?;
    let phase = |node: &Node| match node.text()? {
        "commentary" => Ok(MessagePhase::Commentary),
        "partial_answer" => Ok(MessagePhase::PartialAnswer),
        "final_answer" => Ok(MessagePhase::FinalAnswer),
        _ => Err(node.bad("expected commentary, partial_answer or final_answer")),
    };
    Ok(Say {
        text: fields.need("text")?.text()?.to_owned(),
        chunk: fields.number("chunk")?.unwrap_or(CHUNK_CHARS),
        pause: millis(&fields, "delta_ms")?.unwrap_or_default(),
        phase: fields.get("phase").map(phase).transpose()?,
    })
}

fn plain_say(text: &str) -> Say {
    Say {
        text: text.to_owned(),
        chunk: CHUNK_CHARS,
        pause: Duration::ZERO,
        phase: None,
    }
}

fn exec(fields: &Fields<'_>) -> Result<Exec, Error> {
    Ok(Exec {
        effect: effect(fields)?,
        cmd: fields.need("cmd")?.text()?.to_owned(),
        output: fields.text("output")?.unwrap_or_default(),
        exit: fields.number("exit")?.unwrap_or(0),
        time: millis(fields, "ms")?.unwrap_or_default(),
    })
}

fn patch_step(fields: &Fields<'_>) -> Result<Patch, Error> {
    let input = fields.need("input")?;
    let text = input.text()?;
    Ok(Patch {
        effect: effect(fields)?,
        input: text.to_owned(),
        changes: patch::changes(text).map_err(|problem| input.bad(problem))?,
        time: millis(fields, "ms")?.unwrap_or_default(),
    })
}

fn effect(fields: &Fields<'_>) -> Result<Effect, Error> {
    Ok(match fields.get("real") {
        Some(node) if node.boolean()? => Effect::Real,
        Some(_) | None => Effect::Told,
    })
}

fn runtime_call(node: &Node) -> Result<RuntimeCall, Error> {
    let fields = node.fields(&["tool", "arguments"])?;
    Ok(RuntimeCall {
        name: fields.need("tool")?.text()?.to_owned(),
        arguments: fields.text("arguments")?.unwrap_or_else(|| "{}".to_owned()),
    })
}

fn approve(node: &Node, aborts: AbortSteps) -> Result<Approve, Error> {
    let fields = node.fields(&[
        "cmd", "output", "exit", "input", "ms", "reason", "accepted", "declined", "real",
    ])?;
    let tool = match (fields.get("cmd"), fields.get("input")) {
        (Some(_), None) => Tool::Exec(exec(&fields)?),
        (None, Some(_)) => Tool::Patch(patch_step(&fields)?),
        (Some(_), Some(_)) | (None, None) => {
            return Err(node.bad("expected either cmd (a command) or input (a patch)"));
        }
    };
    let branch = |name: &str| match fields.get(name) {
        Some(node) => steps(node, aborts),
        None => Ok(Vec::new()),
    };
    Ok(Approve {
        tool,
        reason: fields.text("reason")?,
        accepted: branch("accepted")?,
        declined: branch("declined")?,
    })
}

fn plan(node: &Node) -> Result<Vec<PlanStep>, Error> {
    let step = |node: &Node| {
        let fields = node.fields(&["step", "status"])?;
        let status = fields.need("status")?;
        let status = match status.text()? {
            "pending" => PlanStepStatus::Pending,
            "in_progress" | "inProgress" => PlanStepStatus::InProgress,
            "completed" => PlanStepStatus::Completed,
            _ => return Err(status.bad("expected pending, in_progress or completed")),
        };
        let step = fields.need("step")?.text()?.to_owned();
        Ok(PlanStep { step, status })
    };
    node.list()?.iter().map(step).collect()
}

fn usage(node: &Node) -> Result<TokenCounts, Error> {
    let fields = node.fields(&["input", "cached", "output", "reasoning"])?;
    // Unsigned 32 bits: sums of a turn cannot overflow.
    let count = |name| Ok::<i64, Error>(fields.number::<u32>(name)?.unwrap_or(0).into());
    Ok(TokenCounts {
        input_tokens: count("input")?,
        cached_input_tokens: count("cached")?,
        cache_write_input_tokens: 0,
        output_tokens: count("output")?,
        reasoning_output_tokens: count("reasoning")?,
    })
}

fn wait(node: &Node) -> Result<Await, Error> {
    let fields = node.fields(&["steer", "gate", "ms"])?;
    let steer = fields.get("steer").map(Node::boolean).transpose()?;
    let at_most = millis(&fields, "ms")?;
    let what = match (steer.unwrap_or(false), fields.text("gate")?) {
        (true, None) => Awaited::Steer,
        (false, Some(gate)) => Awaited::Gate(gate),
        (false, None) if at_most.is_some() => Awaited::Time,
        (true, Some(_)) | (false, None) => {
            return Err(node.bad("expected `steer: true`, a gate or ms"));
        }
    };
    Ok(Await { what, at_most })
}

fn failure(node: &Node) -> Result<Failure, Error> {
    let fields = node.fields(&[
        "info",
        "status",
        "kind",
        "message",
        "retry_after_ms",
        "will_retry",
    ])?;
    let info = match fields.get("info") {
        Some(node) => error_info(node, fields.number("status")?)?,
        None => CodexErrorInfo::Other,
    };
    let kind = match fields.get("kind") {
        Some(node) => error_kind(node)?,
        None => kind_of(&info),
    };
    let will_retry = fields.get("will_retry").map(Node::boolean).transpose()?;
    let message = fields.text("message")?;
    Ok(Failure {
        info,
        kind,
        message: message.unwrap_or_else(|| "the script says so".to_owned()),
        retry_after: millis(&fields, "retry_after_ms")?,
        will_retry: will_retry.unwrap_or(false),
    })
}

/// Words of Codex that lanes act on and that have no variant of their own.
const FURTHER_INFOS: &[&str] = &[
    "flexUnavailable",
    "policyCapacityUnavailable",
    "misalignmentPolicyViolation",
    "tooManyDenials",
    "sessionBudgetExceeded",
];

fn error_info(node: &Node, http_status_code: Option<u16>) -> Result<CodexErrorInfo, Error> {
    let word = node.text()?;
    Ok(match word {
        "httpConnectionFailed" => CodexErrorInfo::HttpConnectionFailed { http_status_code },
        "responseStreamConnectionFailed" => {
            CodexErrorInfo::ResponseStreamConnectionFailed { http_status_code }
        }
        "responseStreamDisconnected" => {
            CodexErrorInfo::ResponseStreamDisconnected { http_status_code }
        }
        "responseTooManyFailedAttempts" => {
            CodexErrorInfo::ResponseTooManyFailedAttempts { http_status_code }
        }
        _ => match serde_json::from_value(word.into()) {
            Ok(CodexErrorInfo::Unlisted(_)) if !FURTHER_INFOS.contains(&word) => {
                return Err(node.bad("not a word of codexErrorInfo"));
            }
            Ok(info) => info,
            Err(_) => return Err(node.bad("not a word of codexErrorInfo")),
        },
    })
}

fn error_kind(node: &Node) -> Result<ErrorKind, Error> {
    match serde_json::from_value(node.text()?.into()) {
        Ok(ErrorKind::Unlisted(_)) | Err(_) => Err(node.bad("not a kind of error")),
        Ok(kind) => Ok(kind),
    }
}

fn end(node: &Node, aborts: AbortSteps) -> Result<End, Error> {
    match (node.text()?, aborts) {
        ("completed", _) => Ok(End::Completed),
        ("interrupted", _) => Ok(End::Interrupted),
        ("failed", _) => Ok(End::Failed),
        ("hang", _) => Ok(End::Hang),
        ("abort", AbortSteps::Allowed) => Ok(End::Abort),
        ("abort", AbortSteps::Refused) => {
            Err(node.bad("abort ends the whole process and is for crash tests only"))
        }
        _ => Err(node.bad("expected completed, interrupted, failed, hang or abort")),
    }
}

fn millis(fields: &Fields<'_>, name: &str) -> Result<Option<Duration>, Error> {
    // 32 bits are 49 days; more is a slip.
    let millis = fields.number::<u32>(name)?;
    Ok(millis.map(|millis| Duration::from_millis(millis.into())))
}
