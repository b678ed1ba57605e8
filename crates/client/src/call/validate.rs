//! The shapes that every call of the thread API must have, on both sides.
//!
//! The invariant here: only what every server and every caller needs is asked for, so that members
//! we do not know and methods we do not know always pass. Texts are exact; programs match them.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// What a member of the params must be.
#[derive(Clone, Copy, Debug)]
enum Need {
    /// A text that is not blank.
    Text(&'static str),
    /// A list, empty or not.
    List(&'static str),
    /// A list with something in it.
    FilledList(&'static str),
    /// A whole number from 1.
    Count(&'static str),
    /// An object.
    Object(&'static str),
}

/// What an answer must carry.
#[derive(Clone, Copy, Debug)]
enum Carries {
    Anything,
    Thread,
    Turn,
    SteeredTurn,
    List,
    ExitCode,
}

const THREAD: Need = Need::Text("threadId");

/// The methods that are checked: what their params need, what their answers carry.
fn rule(method: &str) -> Option<(&'static [Need], Carries)> {
    Some(match method {
        "thread/start" => (&[], Carries::Thread),
        "thread/resume" | "thread/fork" | "thread/read" | "thread/unarchive" => {
            (&[THREAD], Carries::Thread)
        }
        "thread/archive" | "thread/delete" | "thread/unsubscribe" => (&[THREAD], Carries::Anything),
        "thread/list" | "thread/loaded/list" | "skills/list" => (&[], Carries::List),
        "thread/turns/list" | "thread/items/list" => (&[THREAD], Carries::List),
        "thread/revert" => (&[THREAD, Need::Text("beforeTurnId")], Carries::Thread),
        "thread/rollback" => (&[THREAD, Need::Count("numTurns")], Carries::Thread),
        "turn/start" => (&[THREAD, Need::List("input")], Carries::Turn),
        "turn/steer" => (
            &[THREAD, Need::Text("expectedTurnId"), Need::List("input")],
            Carries::SteeredTurn,
        ),
        "turn/interrupt" => (&[THREAD, Need::Text("turnId")], Carries::Anything),
        "command/exec" => (&[Need::FilledList("command")], Carries::ExitCode),
        "command/exec/write" | "command/exec/terminate" => {
            (&[Need::Text("processId")], Carries::Anything)
        }
        "command/exec/resize" => (
            &[Need::Text("processId"), Need::Object("size")],
            Carries::Anything,
        ),
        _ => return None,
    })
}

/// Checks params; the error is the reason.
pub(super) fn request(method: &str, params: &str) -> Result<(), String> {
    let Some((needs, _)) = rule(method) else {
        return Ok(());
    };
    let params: Value = serde_json::from_str(params).map_err(|error| error.to_string())?;
    let Value::Object(params) = params else {
        return Err("params must be an object".to_owned());
    };
    for need in needs {
        let (name, is_met, wanted): (_, fn(&Value) -> bool, _) = match need {
            Need::Text(name) => (name, is_text, "a non-empty string"),
            Need::List(name) => (name, Value::is_array, "an array"),
            Need::FilledList(name) => (name, is_filled, "a non-empty array"),
            Need::Count(name) => (name, is_count, "a positive integer"),
            Need::Object(name) => (name, Value::is_object, "an object"),
        };
        if !params.get(*name).is_some_and(is_met) {
            return Err(format!("params.{name} must be {wanted}"));
        }
    }
    Ok(())
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

fn is_filled(value: &Value) -> bool {
    value.as_array().is_some_and(|list| !list.is_empty())
}

fn is_count(value: &Value) -> bool {
    value.as_u64().is_some_and(|count| count > 0)
}

/// Something with an id; everything else in it is skipped without being kept, since a thread may
/// carry its whole history.
#[derive(Deserialize)]
struct Named {
    id: Option<Value>,
}

/// Checks a result; the error is the reason.
pub(super) fn response(method: &str, result: &str) -> Result<(), String> {
    #[derive(Deserialize)]
    struct WithThread {
        thread: Option<Named>,
    }
    #[derive(Deserialize)]
    struct WithTurn {
        turn: Option<Named>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct WithTurnId {
        turn_id: Option<Value>,
    }
    #[derive(Deserialize)]
    struct WithList {
        #[serde(rename = "data")]
        _data: Vec<IgnoredAny>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct WithExitCode {
        exit_code: Option<Value>,
    }

    let Some((_, carries)) = rule(method) else {
        return Ok(());
    };
    let id = |named: Option<Named>| named.and_then(|named| named.id);
    let (is_met, otherwise) = match carries {
        Carries::Anything => (true, ""),
        Carries::Thread => {
            let found = serde_json::from_str(result).ok();
            let found = found.and_then(|found: WithThread| id(found.thread));
            (
                found.is_some_and(|id| is_text(&id)),
                "result is missing thread id",
            )
        }
        Carries::Turn => {
            let found = serde_json::from_str(result).ok();
            let found = found.and_then(|found: WithTurn| id(found.turn));
            (
                found.is_some_and(|id| is_text(&id)),
                "result is missing turn id",
            )
        }
        Carries::SteeredTurn => {
            let found = serde_json::from_str(result).ok();
            let found = found.and_then(|found: WithTurnId| found.turn_id);
            (
                found.is_some_and(|id| is_text(&id)),
                "result is missing turn id",
            )
        }
        Carries::List => (
            serde_json::from_str::<WithList>(result).is_ok(),
            "result.data must be an array",
        ),
        Carries::ExitCode => {
            let found = serde_json::from_str(result).ok();
            let found = found.and_then(|found: WithExitCode| found.exit_code);
            (
                found.is_some_and(|code| code.is_i64()),
                "result.exitCode must be an integer",
            )
        }
    };
    if is_met {
        Ok(())
    } else {
        Err(otherwise.to_owned())
    }
}

#[cfg(test)]
mod tests;
