//! `turnlane thread show`: one thread, its queue and its last turns.
//!
//! The invariant here: what is shown is what is stored; nobody follows the thread, and nothing is
//! started by looking.

use std::process::ExitCode;

use serde_json::{Value, json};
use turnlane::{Item, TurnStatus};
use turnlane_protocol::queue::QueueState;
use turnlane_protocol::thread::{LastTurn, Thread};
use turnlane_protocol::turn::{Turn, TurnStatus as Status};

use super::about;
use crate::args::ThreadShow;
use crate::session::{Session, find};
use crate::shown::ids::short;
use crate::shown::item::{self, Output};
use crate::shown::state::{self, OpenApproval};
use crate::shown::table::facts;
use crate::shown::text::{counted, visible};
use crate::shown::time::took;
use crate::shown::{Form, Ink, Screen, queue};

pub(super) async fn run(session: &Session, args: &ThreadShow) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let id = find::thread(session, &args.which.thread).await?;
    if args.answers {
        return answers(session, &screen, &id, args.turns).await;
    }
    let params = json!({"threadId": id, "includeTurns": false});
    let read: Value = session.ask("thread/read", params).await?;
    let params = json!({"threadId": id, "limit": 1});
    // The queue of an archived thread cannot be listed.
    let held: Option<Value> = session.try_ask("thread/queue/list", &params).await.ok();
    // The last one says how the thread stands, also where no turn is shown.
    let mut turns = last_turns(session, &id, args.turns.max(1)).await?;
    let last = turns.last().cloned();
    if args.turns == 0 {
        turns.clear();
    }
    if screen.form == Form::Json {
        let held = held.map(without_rows);
        let shown = json!({"thread": read["thread"], "queue": held, "turns": turns});
        screen.json(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut thread: Thread = serde_json::from_value(read["thread"].clone())?;
    thread.last_turn = last.as_ref().and_then(as_last);
    let state: Option<QueueState> = held.and_then(|held| serde_json::from_value(held).ok());
    let open = open_approvals(session, &id).await;
    let word = session.word(&id);
    let mut text = head(&screen, &thread, state.as_ref(), &open);
    if let Some(state) = &state {
        text.push_str(&queue::state(&screen, &word, state));
    }
    text.push_str(&questions(&screen, &open));
    for turn in &turns {
        text.push('\n');
        text.push_str(&of_turn(&screen, turn));
    }
    screen.print(&text)?;
    if last.is_none() {
        screen.hint("no turn has run on it yet");
    }
    let waits = state.is_some_and(|state| state.summary.depth > 0);
    if waits {
        screen.hint(&format!("`turnlane queue list {word}` shows what waits"));
        if let Some(text) = session.nobody_runs_it() {
            screen.hint(&text);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the answers of the last turns and nothing else: of each turn its last message.
async fn answers(
    session: &Session,
    screen: &Screen,
    thread: &str,
    count: u32,
) -> anyhow::Result<ExitCode> {
    let turns = last_turns(session, thread, count).await?;
    let mut is_first = true;
    for turn in &turns {
        let mut items = turn["items"].as_array().into_iter().flatten();
        let message = items.rfind(|item| item["type"] == "agentMessage");
        let Some(text) = message.and_then(|message| message["text"].as_str()) else {
            continue;
        };
        match screen.form {
            Form::Json => screen.json(&json!({"turnId": turn["id"], "answer": text}))?,
            Form::People => {
                let before = if is_first { "" } else { "\n" };
                screen.print(&format!("{before}{}\n", visible(text)))?;
            }
        }
        is_first = false;
    }
    if is_first {
        screen.hint("no turn of it has answered yet");
    }
    Ok(ExitCode::SUCCESS)
}

/// The open approvals of a thread; none where the server has no list of them.
pub(in crate::commands) async fn open_approvals(session: &Session, thread: &str) -> Vec<Value> {
    let params = json!({"threadId": thread});
    let open: Result<Value, _> = session.try_ask("approval/list", &params).await;
    match open.map(|mut open| open["data"].take()) {
        Ok(Value::Array(open)) => open,
        Ok(_) | Err(_) => Vec::new(),
    }
}

/// The open questions of a thread, each with the commands that answer it.
pub(in crate::commands) fn questions(screen: &Screen, open: &[Value]) -> String {
    let line = |approval: &Value| {
        let id = short(approval["approvalId"].as_str().unwrap_or_default());
        let title = screen.paint(Ink::Yellow, "needs approval");
        format!(
            "{title}  {}\n         try: turnlane approvals accept {id}, or: turnlane approvals \
             decline {id}\n",
            about(approval)
        )
    };
    open.iter().map(line).collect()
}

/// How a turn that was read stands, in short.
fn as_last(turn: &Value) -> Option<LastTurn> {
    let turn: Turn = serde_json::from_value(turn.clone()).ok()?;
    Some(LastTurn {
        id: turn.id,
        status: turn.status,
        started_at_ms: turn.started_at.unwrap_or(0) * 1_000,
        completed_at_ms: turn.completed_at.map(|at| at * 1_000),
        error_kind: turn.error.and_then(|error| error.kind),
    })
}

fn without_rows(mut queue: Value) -> Value {
    if let Some(members) = queue.as_object_mut() {
        members.remove("data");
        members.remove("nextCursor");
    }
    queue
}

/// So many of the last turns, the oldest first.
pub(super) async fn last_turns(
    session: &Session,
    thread: &str,
    count: u32,
) -> anyhow::Result<Vec<Value>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let params = json!({"threadId": thread, "sortDirection": "desc", "itemsView": "full"});
    let max = usize::try_from(count).unwrap_or(usize::MAX);
    let (mut turns, _) = session.list("thread/turns/list", params, Some(max)).await?;
    turns.reverse();
    Ok(turns)
}

fn head(screen: &Screen, thread: &Thread, state: Option<&QueueState>, open: &[Value]) -> String {
    let asked = if open.is_empty() {
        OpenApproval::No
    } else {
        OpenApproval::Yes
    };
    let status = match state {
        None => "archived".to_owned(),
        // One that another process is about to run has no turn yet.
        Some(state) if state.running.is_some() && open.is_empty() => "running".to_owned(),
        Some(_) => state::of_thread(screen, thread, asked).word,
    };
    let waits = state.map(|state| {
        let depth = usize::try_from(state.summary.depth).unwrap_or(usize::MAX);
        match depth {
            0 => "empty".to_owned(),
            depth => format!("{} waiting", counted(depth, "turn")),
        }
    });
    let forked = thread.forked_from_id.as_ref().map(ToString::to_string);
    facts(
        screen,
        &[
            ("thread", Some(thread.id.to_string())),
            ("name", thread.name.clone()),
            ("state", Some(status)),
            ("directory", Some(thread.cwd.clone())),
            ("engine", thread.engine.clone()),
            ("model", thread.model.clone()),
            ("copy of", forked),
            ("created", Some(screen.ago(thread.created_at * 1_000))),
            ("updated", Some(screen.ago(thread.updated_at * 1_000))),
            ("queue", waits),
        ],
    )
}

/// A turn that has ended, or as far as it is.
pub(super) fn of_turn(screen: &Screen, turn: &Value) -> String {
    let Ok(turn) = serde_json::from_value::<Turn>(turn.clone()) else {
        return String::new();
    };
    let when = turn.started_at.map(|at| screen.ago(at * 1_000));
    let when = when.unwrap_or_default();
    let id = short(&turn.id.to_string());
    let title = screen.paint(Ink::Bold, &format!("turn {id}"));
    let mut text = format!("{title}  {when}\n");
    for one in &turn.items {
        text.push_str(&of_item(screen, one));
    }
    text.push_str(&end_of_read(screen, &turn));
    text
}

/// How a turn that was read ended, in a line; nothing where it has not.
pub(super) fn end_of(screen: &Screen, turn: &Value) -> String {
    let turn = serde_json::from_value::<Turn>(turn.clone());
    turn.map_or_else(|_| String::new(), |turn| end_of_read(screen, &turn))
}

fn end_of_read(screen: &Screen, turn: &Turn) -> String {
    let error = turn.error.as_ref().map(|error| error.message.as_str());
    let status = match turn.status {
        Status::Completed => TurnStatus::Completed,
        Status::Failed => TurnStatus::Failed,
        Status::Interrupted => TurnStatus::Interrupted,
        // It has no end yet.
        Status::InProgress => return String::new(),
    };
    end(screen, &status, error, turn.duration_ms)
}

fn of_item(screen: &Screen, one: &Item) -> String {
    item::begun(screen, one) + &item::ended(screen, one, Output::Last)
}

/// How a turn ended, in a line.
pub(super) fn end(
    screen: &Screen,
    status: &TurnStatus,
    error: Option<&str>,
    millis: Option<i64>,
) -> String {
    let took = millis.map(|millis| format!(" in {}", took(millis)));
    let took = took.unwrap_or_default();
    let (ink, text) = match status {
        TurnStatus::Completed => (Ink::Green, format!("completed{took}")),
        TurnStatus::Interrupted => (Ink::Yellow, format!("interrupted{took}")),
        TurnStatus::Failed => (Ink::Red, format!("failed{took}")),
        TurnStatus::Unknown(word) => (Ink::Plain, visible(word)),
        _ => (Ink::Plain, "ended".to_owned()),
    };
    let why = error.map(|error| format!(": {}", visible(error)));
    let why = why.unwrap_or_default();
    format!("{}{why}\n", screen.paint(ink, &text))
}
