//! `turnlane queue`: the turns that wait, and what becomes of them.
//!
//! The invariant here: the server changes a row only by its id, since places move while one looks. A
//! number that a person typed becomes an id once, when the command begins. Every command that changes
//! something says where that leaves the row or the queue.
//!
//! Adding, listing and waiting have files of their own.

mod add;
mod list;
mod wait;

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};
use turnlane_protocol::queue::{QueueState, QueuedTurn, QueuedTurnStatus};

use crate::args::{
    QueueArgs, QueueCommand, QueueEdit, QueueMv, QueuePause, QueueResume, QueueRetry, QueueRm,
    QueueStart,
};
use crate::session::{Needs, Session, find, with};
use crate::shown::ids::short;
use crate::shown::text::{counted, cut, of_input, one_line};
use crate::shown::{Form, Screen, queue};

/// Among so many of the last turns one that has just begun is looked for.
const LAST_TURNS: usize = 20;
/// How much of a prompt is repeated.
const ABOUT_CHARS: usize = 60;

pub(crate) fn run(args: QueueArgs, before: &[String]) -> anyhow::Result<ExitCode> {
    let QueueArgs { reach, command } = args;
    let needs = match command {
        QueueCommand::Start(_) => Needs::Daemon,
        _ => Needs::Store,
    };
    with(&reach, needs, async |session| match command {
        QueueCommand::Add(args) => add::run(session, &args, before).await,
        QueueCommand::List(args) => list::run(session, &args).await,
        QueueCommand::Edit(args) => edit(session, &args).await,
        QueueCommand::Rm(args) => remove(session, &args).await,
        QueueCommand::Wait(args) => wait::run(session, &args).await,
        QueueCommand::Mv(args) => shift(session, &args).await,
        QueueCommand::Start(args) => start(session, &args).await,
        QueueCommand::Retry(args) => retry(session, &args).await,
        QueueCommand::Pause(args) => pause(session, &args).await,
        QueueCommand::Resume(args) => resume(session, &args).await,
    })
}

/// What a row became, said in both forms.
fn say(screen: &Screen, done: &str, answer: &Value) -> anyhow::Result<QueuedTurn> {
    let row: QueuedTurn = serde_json::from_value(answer["queuedTurn"].clone())?;
    match screen.form {
        Form::Json => screen.json(&answer["queuedTurn"])?,
        Form::People => {
            let place = queue::place(&row);
            let id = short(&row.id.to_string());
            screen.print(&format!("{done} {id}: {place}\n"))?;
        }
    }
    Ok(row)
}

async fn edit(session: &Session, args: &QueueEdit) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let text = add::read(&args.text)?;
    let thread = find::thread(session, &args.which.thread).await?;
    let row = find::row(session, &thread, &args.row.row).await?;
    let input = json!([{"type": "text", "text": text, "text_elements": []}]);
    let params = json!({"threadId": thread, "queuedTurnId": row, "input": input});
    let answer: Value = session.ask("thread/queue/update", params).await?;
    let row = say(&screen, "changed", &answer)?;
    if let QueuedTurnStatus::Failed { .. } = row.status {
        let (thread, id) = (session.word(&thread), short(&row.id.to_string()));
        screen.hint(&format!(
            "it has failed before and waits for `turnlane queue retry {thread} {id}`"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

async fn remove(session: &Session, args: &QueueRm) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let thread = find::thread(session, &args.which.thread).await?;
    let word = session.word(&thread);
    let params = json!({"threadId": thread});
    let (waiting, _) = session.list("thread/queue/list", params, None).await?;
    // All are found first: a slip of the pen in the last one removes nothing.
    let mut rows = Vec::new();
    for row in &args.rows {
        rows.push(find::row(session, &thread, row).await?);
    }
    if args.all {
        let ids = waiting.iter().filter_map(|row| row["id"].as_str());
        rows.extend(ids.map(str::to_owned));
        if rows.is_empty() {
            screen.hint("nothing waits, so nothing was removed");
        }
    }
    for row in rows {
        let params = json!({"threadId": thread, "queuedTurnId": row});
        let answer: Value = session.ask("thread/queue/delete", params).await?;
        let id = short(&row);
        if answer["deleted"] != true && args.all {
            // It began to run since the list was read.
            screen.hint(&format!(
                "{id} runs already; `turnlane thread stop {word}` stops it"
            ));
            continue;
        }
        if answer["deleted"] != true {
            bail!(
                "there is no queued turn {id} on thread {word}\n  \
                 it may run or have run; `turnlane queue list {word}` shows what waits, \
                 `turnlane thread show {word}` what ran"
            );
        }
        let asked = waiting.iter().find(|one| one["id"] == row.as_str());
        let asked = asked.and_then(|row| row["input"].as_array());
        let asked = asked.map(|input| cut(&one_line(&of_input(input)), ABOUT_CHARS));
        match screen.form {
            Form::People => {
                // A number may mean another row than a moment ago; the prompt tells which it was.
                let asked = asked.map(|asked| format!(": {asked}")).unwrap_or_default();
                screen.print(&format!("removed {id}{asked}\n"))?;
            }
            Form::Json => screen.json(&json!({"queuedTurnId": row, "deleted": true}))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn shift(session: &Session, args: &QueueMv) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let thread = find::thread(session, &args.which.thread).await?;
    let row = find::row(session, &thread, &args.row.row).await?;
    let mut params = json!({"threadId": thread, "queuedTurnId": row});
    let (key, other) = match (&args.before, &args.after) {
        (Some(other), _) => ("beforeId", Some(other)),
        (None, Some(other)) => ("afterId", Some(other)),
        (None, None) => ("position", None),
    };
    if let Some(other) = other {
        let other = find::row(session, &thread, other).await?;
        if other == row {
            bail!(
                "queued turn {} cannot be moved before or behind itself\n  \
                 name another row; `turnlane queue list {}` shows them",
                short(&row),
                session.word(&thread)
            );
        }
        params[key] = json!(other);
    } else if args.last {
        // Behind everything, however much that is.
        params["position"] = json!(u32::MAX);
    } else {
        params["position"] = json!(0);
    }
    let answer: Value = session.ask("thread/queue/move", params).await?;
    say(&screen, "moved", &answer)?;
    Ok(ExitCode::SUCCESS)
}

async fn start(session: &Session, args: &QueueStart) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let thread = find::thread(session, &args.which.thread).await?;
    let row = match &args.row {
        Some(row) => Some(find::row(session, &thread, row).await?),
        None => None,
    };
    let turn = begin(session, &thread, row).await?;
    match screen.form {
        Form::Json => screen.json(&json!({"threadId": thread, "turnId": turn}))?,
        Form::People => {
            screen.print(&format!("started turn {}\n", short(&turn)))?;
            let word = session.word(&thread);
            screen.hint(&format!("follow it with `turnlane thread tail {word}`"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts a row, the head where none is named; the turn it becomes.
async fn begin(session: &Session, thread: &str, row: Option<String>) -> anyhow::Result<String> {
    let params = json!({"threadId": thread, "limit": 1});
    let before: Value = session.ask("thread/queue/list", params).await?;
    let head = &before["data"][0];
    let mut start = json!({"threadId": thread});
    if let Some(row) = &row {
        start["queuedTurnId"] = json!(row);
    }
    let refused = match session.ask::<Value>("thread/queue/start", start).await {
        Ok(answer) => return Ok(answer["turn"]["id"].as_str().unwrap_or_default().to_owned()),
        Err(refused) => refused,
    };
    // The daemon runs what waits, so it may have begun with the head since we looked.
    let is_head = row.is_none_or(|row| head["id"] == row.as_str());
    match head["turnId"].as_str() {
        Some(turn) if is_head && has_begun(session, thread, turn).await? => Ok(turn.to_owned()),
        _ => Err(refused),
    }
}

async fn has_begun(session: &Session, thread: &str, turn: &str) -> anyhow::Result<bool> {
    let params = json!({"threadId": thread, "sortDirection": "desc", "itemsView": "notLoaded"});
    let (turns, _) = session
        .list("thread/turns/list", params, Some(LAST_TURNS))
        .await?;
    Ok(turns.iter().any(|one| one["id"] == turn))
}

async fn retry(session: &Session, args: &QueueRetry) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let thread = find::thread(session, &args.which.thread).await?;
    let mut params = json!({"threadId": thread});
    if let Some(row) = &args.row {
        params["queuedTurnId"] = json!(find::row(session, &thread, row).await?);
    } else if !is_blocked(session, &thread).await? {
        let word = session.word(&thread);
        bail!(
            "nothing that failed holds the queue of thread {word}\n  \
             `turnlane queue list {word}` shows what waits, and what holds it"
        );
    }
    let answer: Value = session.ask("thread/queue/retry", params).await?;
    say(&screen, "tries again:", &answer)?;
    if let Some(text) = session.nobody_runs_it() {
        screen.hint(&text);
    }
    Ok(ExitCode::SUCCESS)
}

async fn is_blocked(session: &Session, thread: &str) -> anyhow::Result<bool> {
    let params = json!({"threadId": thread, "limit": 1});
    let state: QueueState = session.ask("thread/queue/list", params).await?;
    Ok(state.summary.blocked.is_some())
}

async fn pause(session: &Session, args: &QueuePause) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let thread = find::thread(session, &args.which.thread).await?;
    let mut params = json!({"threadId": thread});
    if let Some(reason) = &args.reason {
        params["reason"] = json!(reason);
    }
    let answer: Value = session.ask("thread/queue/pause", params).await?;
    if screen.form == Form::Json {
        screen.json(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let state: QueueState = serde_json::from_value(answer)?;
    let word = session.word(&thread);
    screen.print(&format!("paused: {}\n", waiting(&state)))?;
    if let Some(running) = &state.running {
        let turn = short(&running.turn_id.to_string());
        screen.hint(&format!(
            "turn {turn} goes on; stop it with `turnlane thread stop {word}`"
        ));
    }
    screen.hint(&format!("go on with `turnlane queue resume {word}`"));
    Ok(ExitCode::SUCCESS)
}

async fn resume(session: &Session, args: &QueueResume) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let thread = find::thread(session, &args.which.thread).await?;
    let params = json!({"threadId": thread});
    let answer: Value = session.ask("thread/queue/resume", params).await?;
    if screen.form == Form::Json {
        screen.json(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let state: QueueState = serde_json::from_value(answer)?;
    screen.print(&format!("resumed: {}\n", waiting(&state)))?;
    if state.summary.blocked.is_some() {
        screen.print(&queue::state(&screen, &session.word(&thread), &state))?;
    }
    if state.summary.depth > 0
        && let Some(text) = session.nobody_runs_it()
    {
        screen.hint(&text);
    }
    Ok(ExitCode::SUCCESS)
}

fn waiting(state: &QueueState) -> String {
    let depth = usize::try_from(state.summary.depth).unwrap_or(usize::MAX);
    format!("{} waiting", counted(depth, "turn"))
}
