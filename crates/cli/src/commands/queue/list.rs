//! `turnlane queue list`: what waits, and what holds it.
//!
//! The invariant here: a queue is shown whole, and whoever sees that it is held sees what to type.

use std::process::ExitCode;

use serde_json::{Value, json};
use turnlane_protocol::queue::{QueueState, QueuedTurn};
use turnlane_protocol::thread::Thread;

use crate::args::QueueList;
use crate::session::{Session, find};
use crate::shown::table::{Cell, table};
use crate::shown::{Form, Screen, queue};

pub(super) async fn run(session: &Session, args: &QueueList) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    match &args.thread {
        Some(thread) => {
            let thread = find::thread(session, thread).await?;
            one(session, &screen, &thread).await?;
        }
        None => all(session, &screen).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn one(session: &Session, screen: &Screen, thread: &str) -> anyhow::Result<()> {
    let params = json!({"threadId": thread});
    // The rows first: the state is then at least as new as they are.
    let (data, _) = session.list("thread/queue/list", params, None).await?;
    let params = json!({"threadId": thread, "limit": 1});
    let mut answer: Value = session.ask("thread/queue/list", params).await?;
    if screen.form == Form::Json {
        answer["data"] = json!(data);
        answer["nextCursor"] = Value::Null;
        answer["threadId"] = json!(thread);
        return screen.json(&answer);
    }
    let state: QueueState = serde_json::from_value(answer)?;
    let rows: Vec<QueuedTurn> = serde_json::from_value(Value::Array(data))?;
    let text = queue::state(screen, thread, &state) + &queue::rows(screen, &rows);
    screen.print(&text)?;
    if rows.is_empty() {
        screen.hint(&format!(
            "nothing waits; queue something with `turnlane queue add --thread {thread} PROMPT`"
        ));
    } else if let Some(text) = session.nobody_runs_it() {
        screen.hint(&text);
    }
    Ok(())
}

async fn all(session: &Session, screen: &Screen) -> anyhow::Result<()> {
    let params = json!({"sortKey": "updated_at"});
    let (threads, _) = session.list("thread/list", params, None).await?;
    let has_work = |thread: &&Value| {
        let queue = &thread["queue"];
        queue["depth"].as_u64().unwrap_or(0) > 0 || !queue["paused"].is_null()
    };
    let waiting: Vec<_> = threads.iter().filter(has_work).collect();
    if screen.form == Form::Json {
        for thread in waiting {
            let (id, queue) = (&thread["id"], &thread["queue"]);
            screen.json(&json!({"threadId": id, "queue": queue}))?;
        }
        return Ok(());
    }
    if waiting.is_empty() {
        screen.hint("nothing waits; queue something with `turnlane queue add --new PROMPT`");
        return Ok(());
    }
    let row = |thread: &&Value| {
        let thread: Thread = serde_json::from_value((*thread).clone()).ok()?;
        let summary = thread.queue.as_ref()?;
        let about = thread.name.as_deref().unwrap_or(&thread.preview);
        Some(vec![
            Cell::new(&thread.id.to_string()),
            queue::brief(summary),
            Cell::new(about),
        ])
    };
    let rows = waiting.iter().filter_map(row).collect();
    screen.print(&table(screen, &["THREAD", "QUEUE", "ABOUT"], rows))?;
    screen.hint("`turnlane queue list THREAD` shows what waits there");
    if let Some(text) = session.nobody_runs_it() {
        screen.hint(&text);
    }
    Ok(())
}
