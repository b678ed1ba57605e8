//! What models are told about the tools: names, descriptions and the schemas of their arguments.
//!
//! The invariant here: the same settings give the same bytes, since they stand at the beginning of
//! every request. Every schema is an object with properties, which the strictest servers want.
//!
//! Arguments are read by the tools themselves, leniently; the tools of the runtime come from the
//! runtime.

use serde_json::{Value, json};
use turnlane_protocol::thread::ThreadEnvironment;

use super::{
    APPLY_PATCH, EXEC_COMMAND, Pictures, ToolSettings, UPDATE_PLAN, VIEW_IMAGE, WRITE_STDIN,
};
use crate::request::RuntimeTool;

/// The names of all built-in tools, which no other tool may have.
pub(crate) const NAMES: [&str; 5] = [
    EXEC_COMMAND,
    WRITE_STDIN,
    APPLY_PATCH,
    UPDATE_PLAN,
    VIEW_IMAGE,
];

/// The answer to a call where there is nowhere to run it; Codex's words.
const NO_ENVIRONMENT: &str = "No usable execution environment is available.";

/// The tools a turn offers.
///
/// `environments` as in the turn's settings: an empty list means that there is nowhere to run
/// commands or touch files.
pub(crate) fn offered(
    tools: &ToolSettings,
    environments: Option<&[ThreadEnvironment]>,
) -> Vec<RuntimeTool> {
    let mut offered = vec![
        tool(EXEC_COMMAND, EXEC, exec()),
        tool(WRITE_STDIN, STDIN, stdin()),
        tool(APPLY_PATCH, PATCH, patch()),
        tool(UPDATE_PLAN, PLAN, plan()),
    ];
    if tools.pictures == Pictures::Taken {
        offered.push(tool(VIEW_IMAGE, IMAGE, image()));
    }
    offered.retain(|tool| withheld(&tool.name, tools, environments).is_none());
    offered
}

/// The answer to a model that calls one of our own tools although the turn withholds it; none if the
/// turn does not withhold it.
pub(crate) fn withheld(
    name: &str,
    tools: &ToolSettings,
    environments: Option<&[ThreadEnvironment]>,
) -> Option<String> {
    let needs_environment = NAMES.contains(&name) && name != UPDATE_PLAN;
    if needs_environment && environments.is_some_and(<[_]>::is_empty) {
        return Some(NO_ENVIRONMENT.to_owned());
    }
    let is_off = tools.withheld.contains(name);
    is_off.then(|| format!("the tool {name} is switched off for this thread"))
}

fn tool(name: &str, description: &str, parameters: Value) -> RuntimeTool {
    RuntimeTool {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters,
    }
}

const EXEC: &str = "Runs a command in a shell and returns its output. A command that is still \
    running after yield_time_ms goes on in a session; write_stdin reads more of its output.";

fn exec() -> Value {
    json!({
        "type": "object",
        "required": ["cmd"],
        "additionalProperties": false,
        "properties": {
            "cmd": {"type": "string", "description": "the shell script to run"},
            "workdir": {
                "type": "string",
                "description": "where to run it; default: the turn's cwd",
            },
            "tty": {
                "type": "boolean",
                "description": "give it a terminal; needed to write to it later",
            },
            "yield_time_ms": {
                "type": "number",
                "description": "how long to wait for output, 250-30000, default 10000",
            },
            "max_output_tokens": {
                "type": "number",
                "description": "longer output is cut in the middle",
            },
            "sandbox_permissions": {
                "type": "string",
                "enum": ["use_default", "require_escalated"],
                "description": "require_escalated asks to run it outside of the sandbox",
            },
            "justification": {
                "type": "string",
                "description": "with require_escalated: one sentence for the person who is asked",
            },
            "prefix_rule": {
                "type": "array",
                "items": {"type": "string"},
                "description": "with require_escalated: the beginning of the command, word by \
                    word, that could be allowed from now on",
            },
        },
    })
}

const STDIN: &str = "Writes to a running command and returns its new output. Empty chars only \
    wait for output.";

fn stdin() -> Value {
    json!({
        "type": "object",
        "required": ["session_id"],
        "additionalProperties": false,
        "properties": {
            "session_id": {"type": "number", "description": "as exec_command returned it"},
            "chars": {"type": "string", "description": "what to write; empty = poll"},
            "yield_time_ms": {
                "type": "number",
                "description": "how long to wait for output: 250-30000 after writing, \
                    5000-300000 when polling",
            },
            "max_output_tokens": {
                "type": "number",
                "description": "longer output is cut in the middle",
            },
        },
    })
}

const PATCH: &str = "Adds, changes, moves and deletes files; all of the patch is applied or \
    nothing. Format:\n\
    *** Begin Patch\n\
    *** Add File: new.txt\n\
    +first line\n\
    *** Update File: src/old.rs\n\
    *** Move to: src/new.rs\n\
    @@ fn main() {\n \
    unchanged line\n\
    -removed line\n\
    +added line\n\
    *** Delete File: gone.txt\n\
    *** End Patch\n\
    Give about three unchanged lines around each change, and a line behind @@ where they stand \
    more than once. `*** Move to` is optional.";

fn patch() -> Value {
    json!({
        "type": "object",
        "required": ["input"],
        "additionalProperties": false,
        "properties": {
            "input": {
                "type": "string",
                "description": "the patch, from *** Begin Patch to *** End Patch",
            },
        },
    })
}

const PLAN: &str = "Shows the person who watches a list of steps and how far each is. Send the \
    whole list each time, with at most one step in progress. For work of several steps only.";

fn plan() -> Value {
    json!({
        "type": "object",
        "required": ["plan"],
        "additionalProperties": false,
        "properties": {
            "explanation": {"type": "string", "description": "why the plan changed"},
            "plan": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["step", "status"],
                    "additionalProperties": false,
                    "properties": {
                        "step": {"type": "string"},
                        "status": {
                            "type": "string",
                            "enum": ["pending", "in_progress", "completed"],
                        },
                    },
                },
            },
        },
    })
}

const IMAGE: &str = "Shows you a picture from a local file: png, jpeg, gif or webp, at most 5 MiB.";

fn image() -> Value {
    json!({
        "type": "object",
        "required": ["path"],
        "additionalProperties": false,
        "properties": {
            "path": {"type": "string", "description": "absolute, or relative to the turn's cwd"},
        },
    })
}
