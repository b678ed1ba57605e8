//! `turnlane thread list`: the threads of this home, the last used first.
//!
//! The invariant here: a line is a thread, in both forms; nothing is cut but at a terminal's edge.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Value, json};
use turnlane_protocol::thread::{ActiveFlag, Thread, ThreadStatus};

use crate::args::ThreadList;
use crate::session::{More, Session};
use crate::shown::table::{Cell, table};
use crate::shown::text::of_input;
use crate::shown::{Form, Ink, Screen, queue};

pub(super) async fn run(session: &Session, args: &ThreadList) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let max = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut params = json!({"archived": args.archived, "sortKey": "updated_at"});
    if let Some(folder) = &args.cd {
        let path = session.directory(folder);
        let path = path.with_context(|| format!("cannot find {}", folder.display()))?;
        params["cwd"] = json!(path);
    }
    if let Some(text) = &args.search {
        params["searchTerm"] = json!(text);
    }
    let (threads, more) = session.list("thread/list", params, Some(max)).await?;
    if screen.form == Form::Json {
        for thread in &threads {
            screen.json(thread)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if threads.is_empty() {
        screen.hint(&nothing(args));
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = Vec::new();
    for one in &threads {
        rows.extend(row(session, &screen, one).await);
    }
    let head = ["THREAD", "STATUS", "QUEUE", "UPDATED", "ABOUT"];
    screen.print(&table(&screen, &head, rows))?;
    let asks = |thread: &Value| thread["status"]["activeFlags"][0] == "waitingOnApproval";
    if threads.iter().any(asks) {
        screen.hint("an agent waits for a decision: `turnlane approvals list`");
    }
    if more == More::Yes {
        let limit = args.limit.saturating_mul(2);
        screen.hint(&format!(
            "there are more: `turnlane thread list -n {limit}`"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn nothing(args: &ThreadList) -> String {
    let next = if args.archived {
        "put one away with `turnlane thread archive THREAD`"
    } else {
        "begin one with `turnlane run PROMPT`, or queue a turn with `turnlane queue add --new PROMPT`"
    };
    let narrowed = args.cd.is_some() || args.search.is_some();
    let what = match (narrowed, args.archived) {
        (true, _) => "no thread fits",
        (false, true) => "no thread is archived",
        (false, false) => "there are no threads",
    };
    format!("{what}; {next}")
}

/// None for what is no thread.
async fn row(session: &Session, screen: &Screen, thread: &Value) -> Option<Vec<Cell>> {
    let thread: Thread = serde_json::from_value(thread.clone()).ok()?;
    let summary = thread.queue.as_ref();
    let about = match &thread.name {
        Some(name) => name.clone(),
        None if !thread.preview.is_empty() => thread.preview.clone(),
        // Nothing has run yet; what it is about stands in its queue.
        None if summary.is_some_and(|queue| queue.depth > 0) => next(session, &thread).await,
        None => String::new(),
    };
    Some(vec![
        Cell::new(&thread.id.to_string()),
        status(&thread.status),
        summary.map_or_else(|| Cell::new(""), queue::brief),
        Cell::inked(&screen.ago(thread.updated_at * 1_000), Ink::Dim),
        Cell::new(&about),
    ])
}

/// What the first turn in the queue asks; nothing if that cannot be told.
async fn next(session: &Session, thread: &Thread) -> String {
    let params = json!({"threadId": thread.id, "limit": 1});
    let queue: Result<Value, _> = session.try_ask("thread/queue/list", &params).await;
    let input = queue.ok().map(|mut queue| queue["data"][0]["input"].take());
    of_input(
        input
            .as_ref()
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice),
    )
}

/// What a thread does, in words.
pub(super) fn status(status: &ThreadStatus) -> Cell {
    match status {
        ThreadStatus::NotLoaded => Cell::inked("stored", Ink::Dim),
        ThreadStatus::Idle => Cell::new("idle"),
        ThreadStatus::SystemError => Cell::inked("error", Ink::Red),
        ThreadStatus::Active { active_flags } => match active_flags.first() {
            None => Cell::inked("running", Ink::Green),
            Some(ActiveFlag::WaitingOnApproval) => Cell::inked("needs approval", Ink::Yellow),
            Some(ActiveFlag::WaitingOnUserInput) => Cell::inked("asks", Ink::Yellow),
        },
    }
}
