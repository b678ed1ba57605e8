//! `turnlane thread show`: one thread, its queue and its last turns.
//!
//! The invariant here: what is shown is what is stored; nobody follows the thread, and nothing is
//! started by looking.

use std::process::ExitCode;

use serde_json::{Value, json};
use turnlane::{Item, TurnStatus};
use turnlane_protocol::queue::QueueState;
use turnlane_protocol::thread::{Thread, ThreadStatus};
use turnlane_protocol::turn::{Turn, TurnStatus as Status};

use crate::args::ThreadShow;
use crate::session::{Session, find};
use crate::shown::item::{self, Output};
use crate::shown::table::facts;
use crate::shown::text::{counted, visible};
use crate::shown::time::took;
use crate::shown::{Form, Ink, Screen, queue};

pub(super) async fn run(session: &Session, args: &ThreadShow) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let id = find::thread(session, &args.which.thread).await?;
    let params = json!({"threadId": id, "includeTurns": false});
    let read: Value = session.ask("thread/read", params).await?;
    let params = json!({"threadId": id, "limit": 1});
    // An archived thread has a queue that nobody may look at.
    let held: Option<Value> = session.try_ask("thread/queue/list", &params).await.ok();
    let turns = last_turns(session, &id, args.turns).await?;
    if screen.form == Form::Json {
        let held = held.map(without_rows);
        let shown = json!({"thread": read["thread"], "queue": held, "turns": turns});
        screen.json(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    let thread: Thread = serde_json::from_value(read["thread"].clone())?;
    let state: Option<QueueState> = held.and_then(|held| serde_json::from_value(held).ok());
    let mut text = head(&screen, &thread, state.as_ref());
    if let Some(state) = &state {
        text.push_str(&queue::state(&screen, &id, state));
    }
    for turn in &turns {
        text.push('\n');
        text.push_str(&of_turn(&screen, turn));
    }
    screen.print(&text)?;
    if turns.is_empty() && args.turns > 0 {
        screen.hint("no turn has run on it yet");
    }
    let waits = state.is_some_and(|state| state.summary.depth > 0);
    if waits {
        screen.hint(&format!("`turnlane queue list {id}` shows what waits"));
        if let Some(text) = session.nobody_runs_it() {
            screen.hint(&text);
        }
    }
    Ok(ExitCode::SUCCESS)
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

fn head(screen: &Screen, thread: &Thread, state: Option<&QueueState>) -> String {
    let status = match (&thread.status, state) {
        (_, None) => "archived",
        (ThreadStatus::Active { active_flags }, _) if !active_flags.is_empty() => "waits for you",
        (ThreadStatus::Active { .. }, _) => "running",
        (ThreadStatus::SystemError, _) => "error",
        // One that another process runs is not loaded here.
        (_, Some(state)) if state.running.is_some() => "running",
        (ThreadStatus::Idle, _) => "idle",
        (ThreadStatus::NotLoaded, _) => "stored",
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
            ("status", Some(status.to_owned())),
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
    let title = screen.paint(Ink::Bold, &format!("turn {}", turn.id));
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
