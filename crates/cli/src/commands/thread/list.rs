//! `turnlane thread list`: the threads of this home, the last used first.
//!
//! The invariant here: a line is a thread, in both forms; nothing is cut but at a terminal's edge. A
//! thread that waits for a person says so, whatever else it does.

use std::collections::HashSet;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Value, json};
use turnlane_protocol::queue::QueuedTurn;
use turnlane_protocol::thread::Thread;

use crate::args::ThreadList;
use crate::session::{More, Session};
use crate::shown::ids::shorts;
use crate::shown::state::{self, OpenApproval, Urgency};
use crate::shown::table::{Cell, Column, table};
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
    let asking = asking(session).await;
    let ids = shorts(
        threads
            .iter()
            .map(|one| one["id"].as_str().unwrap_or_default()),
    );
    let mut rows = Vec::new();
    for (one, id) in threads.iter().zip(&ids) {
        rows.extend(row(session, &screen, one, id, &asking).await);
    }
    screen.print(&table(&screen, &COLUMNS, rows))?;
    let asks = |thread: &Value| asking.iter().any(|id| thread["id"] == id.as_str());
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

const COLUMNS: [Column; 6] = [
    Column::whole("THREAD"),
    Column::whole("STATE"),
    Column::whole("QUEUE").leaves(1),
    Column::whole("UPDATED").leaves(2),
    Column::cut("NAME", 12),
    Column::cut("ABOUT", 16).leaves(3),
];

/// The threads of which an approval is open; none where the server has no list of them.
pub(in crate::commands) async fn asking(session: &Session) -> HashSet<String> {
    let open: Result<Value, _> = session.try_ask("approval/list", &json!({})).await;
    let open = open.map(|mut open| open["data"].take()).unwrap_or_default();
    let threads = open.as_array().into_iter().flatten();
    threads
        .filter_map(|approval| approval["threadId"].as_str().map(str::to_owned))
        .collect()
}

/// Whether an approval of this thread is among those.
pub(in crate::commands) fn is_asking(asking: &HashSet<String>, thread: &Thread) -> OpenApproval {
    if asking.contains(&thread.id.to_string()) {
        OpenApproval::Yes
    } else {
        OpenApproval::No
    }
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
async fn row(
    session: &Session,
    screen: &Screen,
    thread: &Value,
    id: &str,
    asking: &HashSet<String>,
) -> Option<Vec<Cell>> {
    let thread: Thread = serde_json::from_value(thread.clone()).ok()?;
    let summary = thread.queue.as_ref();
    let mut state = state::of_thread(screen, &thread, is_asking(asking, &thread));
    let mut about = thread.preview.clone();
    // What waits, and for which time, stands in the queue.
    let waits = summary.is_some_and(|queue| queue.depth > 0);
    if (state.urgency == Urgency::Queued || (waits && about.is_empty()))
        && let Some(head) = head(session, &thread).await
    {
        state = state::of_head(screen, state, &head);
        if about.is_empty() {
            about = of_input(&head.input);
        }
    }
    Some(vec![
        Cell::new(id),
        state.cell(),
        summary.map_or_else(|| Cell::new(""), queue::brief),
        Cell::inked(&screen.ago(thread.updated_at * 1_000), Ink::Dim),
        Cell::new(thread.name.as_deref().unwrap_or_default()),
        Cell::inked(&about, Ink::Dim),
    ])
}

/// The next row of a thread's queue; none if that cannot be told.
pub(in crate::commands) async fn head(session: &Session, thread: &Thread) -> Option<QueuedTurn> {
    let params = json!({"threadId": thread.id, "limit": 1});
    let queue: Value = session.try_ask("thread/queue/list", &params).await.ok()?;
    serde_json::from_value(queue["data"][0].clone()).ok()
}
