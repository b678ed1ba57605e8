//! `turnlane queue list`: the rows that wait, and what holds them.
//!
//! The invariant here: a queue is shown whole unless a number was asked for, and then says how many rows
//! were left out. A queue that is held says what to type.

use std::process::ExitCode;

use serde_json::{Value, json};
use turnlane_protocol::queue::{QueueState, QueuedTurn};
use turnlane_protocol::thread::Thread;

use crate::args::QueueList;
use crate::commands::thread::list::{asking, head, is_asking};
use crate::commands::thread::show::{open_approvals, questions};
use crate::session::{More, Session, find};
use crate::shown::ids::shorts;
use crate::shown::queue::{QueueTable, Runner};
use crate::shown::state::{self, OpenApproval};
use crate::shown::table::{Cell, Column, table};
use crate::shown::text::of_input;
use crate::shown::{Form, Ink, Screen, queue};

pub(super) async fn run(session: &Session, args: &QueueList) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let max = args
        .limit
        .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    match &args.thread {
        Some(thread) => {
            let thread = find::thread(session, thread).await?;
            one(session, &screen, &thread, max).await?;
        }
        None => all(session, &screen, max).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn one(
    session: &Session,
    screen: &Screen,
    thread: &str,
    max: Option<usize>,
) -> anyhow::Result<()> {
    let params = json!({"threadId": thread});
    // The rows first: the state is then at least as new as they are.
    let (data, more) = session.list("thread/queue/list", params, max).await?;
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
    let open = open_approvals(session, thread).await;
    let shown = QueueTable {
        state: &state,
        asked: if open.is_empty() {
            OpenApproval::No
        } else {
            OpenApproval::Yes
        },
        runner: match session.nobody_runs_it() {
            None => Runner::Runs,
            Some(_) => Runner::Absent,
        },
    };
    let word = session.word(thread);
    let text = queue::state(screen, &word, &state) + &questions(screen, &open);
    screen.print(&(text + &queue::rows(screen, &rows, &shown)))?;
    let depth = usize::try_from(state.summary.depth).unwrap_or(usize::MAX);
    if more == More::Yes {
        let left_out = depth.saturating_sub(rows.len());
        screen.hint(&format!("and {left_out} more, which wait behind these"));
    }
    if rows.is_empty() {
        screen.hint(&format!(
            "nothing waits; queue something with `turnlane queue add --thread {word} PROMPT`"
        ));
    } else if let Some(text) = session.nobody_runs_it() {
        screen.hint(&text);
    }
    Ok(())
}

async fn all(session: &Session, screen: &Screen, max: Option<usize>) -> anyhow::Result<()> {
    let params = json!({"sortKey": "updated_at"});
    let (threads, _) = session.list("thread/list", params, None).await?;
    let has_work = |thread: &&Value| {
        let queue = &thread["queue"];
        queue["depth"].as_u64().unwrap_or(0) > 0 || !queue["paused"].is_null()
    };
    let mut waiting: Vec<_> = threads.iter().filter(has_work).collect();
    let left_out = waiting.len().saturating_sub(max.unwrap_or(usize::MAX));
    waiting.truncate(max.unwrap_or(usize::MAX));
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
    let asking = asking(session).await;
    let ids = shorts(
        waiting
            .iter()
            .map(|thread| thread["id"].as_str().unwrap_or_default()),
    );
    let mut rows = Vec::new();
    for (thread, id) in waiting.iter().zip(&ids) {
        let Ok(thread) = serde_json::from_value::<Thread>((*thread).clone()) else {
            continue;
        };
        let mut state = state::of_thread(screen, &thread, is_asking(&asking, &thread));
        let mut about = thread.preview.clone();
        if let Some(head) = head(session, &thread).await {
            state = state::of_head(screen, state, &head);
            if about.is_empty() {
                about = of_input(&head.input);
            }
        }
        let summary = thread.queue.as_ref();
        rows.push(vec![
            Cell::new(id),
            summary.map_or_else(|| Cell::new(""), queue::brief),
            state.cell(),
            Cell::new(thread.name.as_deref().unwrap_or_default()),
            Cell::inked(&about, Ink::Dim),
        ]);
    }
    let columns = [
        Column::whole("THREAD"),
        Column::whole("QUEUE"),
        Column::whole("STATE"),
        Column::cut("NAME", 12),
        Column::cut("ABOUT", 16).leaves(1),
    ];
    screen.print(&table(screen, &columns, rows))?;
    if left_out > 0 {
        screen.hint(&format!(
            "and {left_out} more threads with something waiting"
        ));
    }
    screen.hint("`turnlane queue list THREAD` shows what waits there");
    if let Some(text) = session.nobody_runs_it() {
        screen.hint(&text);
    }
    Ok(())
}
