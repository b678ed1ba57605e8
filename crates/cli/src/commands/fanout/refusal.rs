//! Refusals of calls about jobs, in words, with the exit code that they mean.
//!
//! The invariant here: bad input and wrong usage are exit code 2, and nothing was started; everything
//! else is 1.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::Value;
use turnlane::{CallError, JobImportError, RpcError};

use crate::logging::{self, Weight};
use crate::session::refused;

/// Wrong usage or bad input: nothing was started.
pub(super) const WRONG_USAGE: u8 = 2;

/// The reasons of refusals that are the caller's to mend.
const OF_THE_CALLER: [&str; 10] = [
    "badInput",
    "badLimit",
    "badSchema",
    "badTemplate",
    "channelUnsupported",
    "invalidParams",
    "noPrice",
    "noWorktree",
    "outputExists",
    "outputIsInput",
];

/// Says what was refused, with the exit code that it means.
pub(super) fn told(error: &CallError) -> anyhow::Result<ExitCode> {
    let CallError::Rpc(error) = error else {
        anyhow::bail!("{}", words(error));
    };
    let is_of_the_caller = error
        .reason()
        .is_some_and(|reason| OF_THE_CALLER.contains(&reason));
    if !is_of_the_caller {
        anyhow::bail!("{}", of_server(error));
    }
    usage(&of_server(error))
}

/// The same for an import.
pub(super) fn told_import(error: &JobImportError) -> anyhow::Result<ExitCode> {
    match error {
        JobImportError::Call(error) => told(error),
        JobImportError::Read(error) => usage(&format!("failed to read input: {error}")),
    }
}

/// Returns true if the server refused the rows, so that the job can never run.
pub(super) fn is_bad_input(error: &JobImportError) -> bool {
    matches!(error, JobImportError::Call(CallError::Rpc(error)) if error.reason() == Some("badInput"))
}

/// Returns true if the output file is in the way.
pub(super) fn is_output_exists(error: &CallError) -> bool {
    matches!(error, CallError::Rpc(error) if error.reason() == Some("outputExists"))
}

/// Says that the usage or the input is wrong.
pub(super) fn usage(text: &str) -> anyhow::Result<ExitCode> {
    logging::announce(Weight::Error, &format!("error: {text}"))?;
    Ok(ExitCode::from(WRONG_USAGE))
}

/// The refusal of a call in words.
pub(super) fn words(error: &CallError) -> String {
    match error {
        CallError::Rpc(error) => of_server(error),
        CallError::Unsupported { .. } => "the server does not know fan-out jobs\n  \
             it is of another version than this command: update the older one and restart the server"
            .to_owned(),
        CallError::Transport(_) | CallError::Timeout { .. } | CallError::Closed => format!(
            "the server was lost: {error}\n  \
             the job is stored; `turnlane fanout list` shows its state"
        ),
        other => other.to_string(),
    }
}

fn of_server(error: &RpcError) -> String {
    let message = refused::plain(&error.message);
    match error.reason() {
        Some("badInput") => problems(error).unwrap_or(message),
        Some("jobNotFound") => {
            format!("{message}\n  `turnlane fanout list` shows the jobs there are")
        }
        Some("ambiguousJob") => format!("{message}\n  name one of them by the end of its id"),
        Some("noPrice") => format!("{message}\n  limit the tokens instead, with --max-tokens"),
        Some("badLimit") => with_flag(&message),
        Some("channelUnsupported") => format!("{message}\n  --result auto chooses what it can"),
        Some("wrongState") => with_way_on(error, message),
        Some("outputExists") => format!("{message}\n  --force replaces it"),
        Some("unlanded") => format!(
            "{message}{}\n  commit or copy what you need; --force deletes the rest (branches with commits stay)",
            with_work(error)
        ),
        _ => message,
    }
}

/// Every worktree with work on a line of its own.
fn with_work(error: &RpcError) -> String {
    let listed = error.data.as_ref().and_then(|data| data.get("worktrees"));
    let listed = listed.and_then(Value::as_array);
    let mut text = String::new();
    for tree in listed.into_iter().flatten() {
        let item = tree["itemId"].as_str().unwrap_or("(no item)");
        let path = tree["path"].as_str().unwrap_or_default();
        let found = match tree["error"].as_str() {
            Some(error) => error.to_owned(),
            None if tree["dirty"] == true => format!("{} changed files", tree["changedFiles"]),
            None => "commits".to_owned(),
        };
        // Writing to a text cannot fail.
        let _ = write!(text, "\n  {item}: {path} ({found})");
    }
    text
}

/// Names a limit by its flag: `timeoutMs must be >= 1` is about `--timeout`.
fn with_flag(message: &str) -> String {
    let (member, rest) = message.split_once(' ').unwrap_or((message, ""));
    let mut flag = String::from("--");
    for letter in member.strip_suffix("Ms").unwrap_or(member).chars() {
        if letter.is_ascii_uppercase() {
            flag.push('-');
        }
        flag.push(letter.to_ascii_lowercase());
    }
    format!("{flag} {rest}")
}

/// Says how an ended job goes on, where the wrong command for it was typed.
fn with_way_on(error: &RpcError, message: String) -> String {
    let state = error.data.as_ref().and_then(|data| data["state"].as_str());
    match state {
        Some("finishedWithFailures" | "cancelled") if message.starts_with("cannot resume") => {
            format!("{message}\n  `turnlane fanout retry` runs its failed or cancelled items again")
        }
        _ => message,
    }
}

/// Every problem of an input on a line of its own; none where there is only one without a line.
fn problems(error: &RpcError) -> Option<String> {
    let problems = error.data.as_ref()?.get("problems")?.as_array()?;
    let mut lines = Vec::new();
    for problem in problems {
        let message = problem["message"].as_str()?;
        // Most texts name their line themselves.
        match problem.get("line").and_then(Value::as_u64) {
            Some(line) if !message.contains("line ") => {
                lines.push(format!("line {line}: {message}"));
            }
            _ => lines.push(message.to_owned()),
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n  "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(message: &str, data: Value) -> RpcError {
        RpcError {
            code: -32600,
            message: message.to_owned(),
            data: Some(data),
        }
    }

    #[test]
    fn every_problem_of_an_input_is_named_with_its_line() {
        let data = json!({"reason": "badInput", "problems": [
            {"line": 4, "message": "csv row 3 has 1 fields but header has 2 (line 4)"},
            {"line": 9, "message": "a NUL character"},
            {"line": null, "message": "csv input must include a header row"}]});
        assert_eq!(
            of_server(&error("first", data)),
            "csv row 3 has 1 fields but header has 2 (line 4)\n  line 9: a NUL character\n  \
             csv input must include a header row"
        );
    }

    #[test]
    fn a_limit_is_named_by_its_flag() {
        for (message, told) in [
            ("timeoutMs must be >= 1", "--timeout must be >= 1"),
            (
                "startRate must be a whole number >= 1",
                "--start-rate must be a whole number >= 1",
            ),
            (
                "concurrency must be 1 to 1024",
                "--concurrency must be 1 to 1024",
            ),
        ] {
            let error = error(message, json!({"reason": "badLimit"}));
            assert_eq!(of_server(&error), told);
        }
    }

    #[test]
    fn a_missing_job_says_where_to_look() {
        let told = of_server(&error("job not found: x", json!({"reason": "jobNotFound"})));
        assert!(told.contains("turnlane fanout list"), "{told}");
    }
}
