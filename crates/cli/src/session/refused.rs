//! Refusals in words: what is the matter, and what to type next.
//!
//! The invariant here: refusals of a Turnlane server are known by their reason, never by their text;
//! one that is not known here is shown in the server's own words.

use std::fmt;

use anyhow::anyhow;
use serde_json::Value;
use turnlane::{CallError, RpcError, TransportError};

/// How long an id is.
const ID_CHARS: usize = 36;

/// Says how a message names an id.
type Words<'a> = &'a dyn Fn(&str) -> String;

/// The connection ended under a call, in words for a person.
///
/// A command that follows a thread goes on with the next connection instead of showing it. The call may
/// fail before the client tells that it has no connection, so only this error says it in time.
#[derive(Debug)]
struct Lost(String);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Lost {}

/// Returns true if the call failed because the connection ended.
pub(crate) fn is_lost(error: &anyhow::Error) -> bool {
    error.is::<Lost>()
}

/// The refusal of a call with these params, for a person.
pub(super) fn in_words(error: CallError, params: &Value, words: Words<'_>) -> anyhow::Error {
    match error {
        CallError::Rpc(error) => of_server(&error, params, words),
        CallError::Overloaded { .. } => {
            anyhow!("the server is overloaded\n  try again in a moment")
        }
        CallError::Unsupported { method } => anyhow!(
            "the server does not know {method}\n  \
             it is of another version than this command: update the older one and restart the server"
        ),
        CallError::Transport(_) | CallError::Timeout { .. } | CallError::Closed => {
            let is_lost = matches!(error, CallError::Transport(TransportError::Closed { .. }));
            let error = anyhow::Error::new(error);
            let text = format!(
                "the server did not answer: {error:#}\n  \
                 look with `turnlane doctor`, or repeat the command: nothing is done twice by a \
                 `queue add` with the same --key"
            );
            if is_lost {
                anyhow::Error::new(Lost(text))
            } else {
                anyhow!(text)
            }
        }
        other => anyhow::Error::new(other),
    }
}

fn of_server(error: &RpcError, params: &Value, words: Words<'_>) -> anyhow::Error {
    let reason = error.reason().unwrap_or_default();
    let named = |key: &str| params.get(key).and_then(Value::as_str);
    let told = |key: &str| error.data.as_ref()?.get(key)?.as_str();
    // Some calls name an approval; the server then says whose it is.
    let thread = named("threadId").or_else(|| told("threadId")).map(words);
    let row = named("queuedTurnId");
    let told = about_itself(reason, error)
        .or_else(|| about_thread(reason, error, thread.as_deref()?))
        .or_else(|| about_queue(reason, error, thread.as_deref()?, row, words))
        .or_else(|| about_input(reason, error));
    match told {
        Some((what, next)) => anyhow!("{what}\n  {next}"),
        None => anyhow!("{}", plain(&error.message)),
    }
}

/// The message of a server in the words of this program.
///
/// The texts on the wire are those that Codex's clients match; a person reads ours. The name of the
/// method in front and the number behind say nothing to a person.
pub(crate) fn plain(message: &str) -> String {
    let mut text = message.trim();
    // `thread/start: thread/start failed: unknown engine: foo (code -32600)`
    while let Some((front, rest)) = text.split_once(": ") {
        let front = front.strip_suffix(" failed").unwrap_or(front);
        let is_method = front.contains('/')
            && front
                .chars()
                .all(|char| char.is_ascii_alphabetic() || char == '/');
        if !is_method {
            break;
        }
        text = rest;
    }
    let text = without_code(text);
    if let Some(id) = text.strip_prefix("no rollout found for thread id ") {
        return format!("there is no thread {id}; `turnlane thread list` shows those there are");
    }
    if let Some((thread, _)) = text.split_once(" already has an active writer") {
        return format!(
            "{thread} is in use by another process; wait until it has ended, or stop it"
        );
    }
    if let Some(engine) = text.strip_prefix("unknown engine: ") {
        return format!(
            "there is no engine `{engine}`; there are `native`, `codex`, `codex-exec`, and `scripted` on a \
             server that was started with --script"
        );
    }
    text
}

/// The text without ` (code -32600)`, wherever it stands.
fn without_code(text: &str) -> String {
    if let Some((front, rest)) = text.rsplit_once(" (code ")
        && let Some((code, behind)) = rest.split_once(')')
        && code.parse::<i64>().is_ok()
    {
        return format!("{front}{behind}");
    }
    text.to_owned()
}

/// What is the matter, and what to do.
type Told = Option<(String, String)>;

fn about_thread(reason: &str, error: &RpcError, thread: &str) -> Told {
    let told = |key: &str| error.data.as_ref().and_then(|data| data.get(key));
    Some(match reason {
        "threadNotFound" => (
            format!("there is no thread {thread}"),
            "`turnlane thread list` shows those there are, with --archived those put away"
                .to_owned(),
        ),
        "archived" => (
            format!("thread {thread} is archived"),
            format!("bring it back with `turnlane thread unarchive {thread}`"),
        ),
        "ephemeral" => (
            format!("thread {thread} is not stored, so nothing can be queued on it"),
            "queue it on a thread of its own with `turnlane queue add --new`".to_owned(),
        ),
        "ownedElsewhere" => owned(thread, told("worker")),
        "busy" => (
            format!("a turn runs on thread {thread}"),
            format!(
                "wait for it with `turnlane thread tail {thread} --until-idle`, or stop it with \
                 `turnlane thread stop {thread}`"
            ),
        ),
        "noActiveTurn" => (
            format!("no turn runs on thread {thread}"),
            format!("`turnlane queue list {thread}` shows what waits"),
        ),
        "turnNotFound" => (
            error.message.clone(),
            format!("`turnlane thread show {thread}` shows its turns"),
        ),
        _ => return None,
    })
}

/// Refusals that name what they are about themselves, whatever the call named.
fn about_itself(reason: &str, error: &RpcError) -> Told {
    let told = |key: &str| error.data.as_ref().and_then(|data| data.get(key));
    Some(match reason {
        "nameInUse" => {
            let name = told("name").and_then(Value::as_str)?;
            let other = told("threadId").and_then(Value::as_str)?;
            (
                format!("the name `{name}` is in use by thread {other}"),
                format!(
                    "choose another name, or free it with `turnlane thread rename {other} NAME` or \
                     `turnlane thread archive {other}`"
                ),
            )
        }
        "approvalNotFound" => (
            error.message.clone(),
            "`turnlane approvals list` shows what is open".to_owned(),
        ),
        "approvalResolved" => resolved(told("decision"), told("by")),
        _ => return None,
    })
}

fn about_queue(
    reason: &str,
    error: &RpcError,
    thread: &str,
    row: Option<&str>,
    words: Words<'_>,
) -> Told {
    // Of two rows the server names the one that is missing.
    let missing = error.message.rsplit(": ").next();
    let missing = missing.filter(|missing| missing.len() == ID_CHARS);
    let row = missing.or(row).map(words);
    let told = |key: &str| error.data.as_ref().and_then(|data| data.get(key));
    Some(match reason {
        "idempotencyConflict" => (
            "the key was used on this thread for another prompt".to_owned(),
            "use another --key, or the same prompt".to_owned(),
        ),
        "queueFull" => {
            let max = told("maxDepth").map_or_else(|| "?".to_owned(), Value::to_string);
            (
                format!("the queue of thread {thread} is full ({max} turns)"),
                format!(
                    "wait until some have run, or remove some: `turnlane queue list {thread}`, \
                     `turnlane queue rm {thread} ROW`"
                ),
            )
        }
        "queueEmpty" => (
            format!("nothing is queued on thread {thread}"),
            format!("queue something with `turnlane queue add --thread {thread} PROMPT`"),
        ),
        "queuedTurnNotFound" => (
            match row {
                Some(row) => format!("there is no queued turn {row} on thread {thread}"),
                None => format!("there is no such queued turn on thread {thread}"),
            },
            format!(
                "it may run or have run; `turnlane queue list {thread}` shows what waits, \
                 `turnlane thread show {thread}` what ran"
            ),
        ),
        "notFailed" => match row {
            Some(row) => (
                format!("queued turn {row} has not failed, it waits"),
                format!("run it now with `turnlane queue start {thread} {row}`"),
            ),
            None => (
                "that queued turn has not failed, it waits".to_owned(),
                format!("run the first one now with `turnlane queue start {thread}`"),
            ),
        },
        "staleOrder" => (
            "the queue changed meanwhile".to_owned(),
            format!("look with `turnlane queue list {thread}` and repeat the command"),
        ),
        _ => return None,
    })
}

fn about_input(reason: &str, error: &RpcError) -> Told {
    let next = match reason {
        // On a thread that exists, `about_queue` has answered before. Here the key names a new one.
        "idempotencyConflict" => {
            return Some((
                "the key was used for a thread with other settings".to_owned(),
                "use another --key, or the settings of the first command".to_owned(),
            ));
        }
        "invalidInput" => "say something the agent can work with, and repeat the command",
        "inputTooLarge" | "tooLarge" => {
            "put it into a file in the thread's directory and name the file instead"
        }
        "blockedByHook" => "nothing was stored; change what the hook objects to, or the hook",
        "diskFull" => "nothing was stored; free some space and repeat the command",
        "notWritable" => {
            "make that path writable for the user of the daemon, and repeat the command"
        }
        _ => return None,
    };
    Some((error.message.clone(), next.to_owned()))
}

fn owned(thread: &str, worker: Option<&Value>) -> (String, String) {
    let pid = worker.and_then(|worker| worker.get("pid")?.as_i64());
    let host = worker.and_then(|worker| worker.get("host")?.as_str());
    let by = match (pid, host) {
        (Some(pid), Some(host)) => format!("process {pid} on {host}"),
        (Some(pid), None) => format!("process {pid}"),
        (None, _) => "another process".to_owned(),
    };
    (
        format!("thread {thread} is in use by {by}"),
        format!(
            "do it there, or wait until that process has left the thread; if it has ended, free the \
             thread with `turnlane thread release {thread}`"
        ),
    )
}

fn resolved(decision: Option<&Value>, by: Option<&Value>) -> (String, String) {
    let word = |value: Option<&Value>| {
        let value = value.filter(|value| !value.is_null())?;
        Some(
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned),
        )
    };
    let how = match (word(decision), word(by)) {
        (Some(decision), Some(by)) => format!(": {decision}, by {by}"),
        (Some(decision), None) => format!(": {decision}"),
        (None, _) => String::new(),
    };
    (
        format!("it was decided before{how}"),
        "`turnlane approvals list` shows what is open".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(reason: &str, more: Value) -> String {
        let mut data = more;
        data["reason"] = json!(reason);
        let error = RpcError {
            code: -32_600,
            message: "as the server says".to_owned(),
            data: Some(data),
        };
        let params = json!({"threadId": "T", "queuedTurnId": "R"});
        let words = |id: &str| id.to_owned();
        format!("{:#}", in_words(CallError::Rpc(error), &params, &words))
    }

    #[test]
    fn every_refusal_of_the_queue_has_a_next_step() {
        for reason in [
            "threadNotFound",
            "archived",
            "ephemeral",
            "ownedElsewhere",
            "invalidInput",
            "inputTooLarge",
            "tooLarge",
            "idempotencyConflict",
            "blockedByHook",
            "queueFull",
            "queueEmpty",
            "queuedTurnNotFound",
            "notFailed",
            "staleOrder",
            "busy",
            "diskFull",
            "notWritable",
            "nameInUse",
            "approvalNotFound",
            "approvalResolved",
        ] {
            let text = shown(reason, json!({"name": "n", "threadId": "O"}));
            assert_eq!(text.lines().count(), 2, "{text}");
        }
        assert_eq!(shown("odd", json!({})), "as the server says");
    }

    #[test]
    fn a_refusal_about_an_approval_names_the_thread_that_the_server_names() {
        let refused = |data: Value| {
            let error = RpcError {
                code: -32600,
                message: "thread O already has an active writer".to_owned(),
                data: Some(data),
            };
            let params = json!({"approvalId": "A", "decision": "accept"});
            let words = |id: &str| id.to_owned();
            format!("{:#}", in_words(CallError::Rpc(error), &params, &words))
        };
        assert_eq!(
            refused(json!({"reason": "ownedElsewhere", "threadId": "O",
                "worker": {"pid": 7, "host": "h"}})),
            "thread O is in use by process 7 on h\n  do it there, or wait until that process has left the \
             thread; if it has ended, free the thread with `turnlane thread release O`"
        );
        // An older server does not name it; then its own text does.
        assert_eq!(
            refused(json!({"reason": "ownedElsewhere"})),
            "thread O is in use by another process; wait until it has ended, or stop it"
        );
    }

    #[test]
    fn methods_codes_and_words_of_others_do_not_reach_a_person() {
        for (wire, shown) in [
            (
                "thread/start: thread/start failed: unknown engine: foo (code -32600)",
                "there is no engine `foo`; there are `native`, `codex`, `codex-exec`, and `scripted` on a \
                 server that was started with --script",
            ),
            (
                "thread t already has an active writer (code -32600)",
                "thread t is in use by another process; wait until it has ended, or stop it",
            ),
            (
                "thread/resume failed: no rollout found for thread id t",
                "there is no thread t; `turnlane thread list` shows those there are",
            ),
            (
                "thread/start: thread/start failed: store is full (code -32603); free some space",
                "store is full; free some space",
            ),
            ("a/b c: it stays (code x)", "a/b c: it stays (code x)"),
            ("plain: text", "plain: text"),
        ] {
            assert_eq!(plain(wire), shown);
        }
    }

    #[test]
    fn what_a_refusal_tells_is_shown() {
        let owned = shown("ownedElsewhere", json!({"worker": {"pid": 7, "host": "h"}}));
        assert!(
            owned.starts_with("thread T is in use by process 7 on h\n"),
            "{owned}"
        );
        let full = shown("queueFull", json!({"maxDepth": 3}));
        assert!(
            full.starts_with("the queue of thread T is full (3 turns)\n"),
            "{full}"
        );
        let decided = shown(
            "approvalResolved",
            json!({"decision": "accept", "by": "client"}),
        );
        assert!(
            decided.starts_with("it was decided before: accept, by client\n"),
            "{decided}"
        );
    }
}
