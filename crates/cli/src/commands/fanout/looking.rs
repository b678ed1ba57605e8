//! Commands that look at jobs: `list`, `show`, `watch`, `items`, `logs`, `cost`.
//!
//! The invariant here: these commands start and change nothing, in any state of a job.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::anyhow;
use serde_json::json;
use turnlane::{
    ItemWorktree, Job, JobItem, JobItemState, JobState, JobStatus, JobView, SharedFile,
    WorktreeState,
};

use super::follow::{OnSignal, Telling, follow};
use super::progress::rounded;
use super::refusal::words;
use crate::args::{FanoutItems, FanoutList, FanoutLogs, HereArgs, OneJobArgs};
use crate::session::Session;
use crate::shown::ids::short;
use crate::shown::table::{Cell, Column, table};
use crate::shown::text::one_line;
use crate::shown::{Form, Ink, Screen};

/// The job that a person named.
pub(super) async fn find(session: &Session, job: &str) -> anyhow::Result<Job> {
    let found = session.client().jobs().get(job).await;
    found.map_err(|error| anyhow!("{}", words(&error)))
}

async fn read(job: &Job) -> anyhow::Result<JobView> {
    let view = job.status().await;
    view.map_err(|error| anyhow!("{}", words(&error)))
}

/// The word by which people know a job.
pub(super) fn name(job: &JobStatus) -> String {
    job.name.clone().unwrap_or_else(|| short(&job.id))
}

/// Says what a job became, in both forms.
pub(super) fn told(screen: &Screen, done: &str, job: &JobView) -> anyhow::Result<ExitCode> {
    match screen.form {
        Form::Json => screen.json(job)?,
        Form::People => {
            let state = job.status.state.as_str();
            let text = if state == done {
                format!("{} is {state}\n", name(&job.status))
            } else {
                format!("{}: {done}, now {state}\n", name(&job.status))
            };
            screen.print(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn list(session: &Session, args: &FanoutList) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let mut jobs = session.client().jobs().list();
    let mut rows = Vec::new();
    let max = args.limit.map_or(usize::MAX, |limit| limit as usize);
    let mut count = 0;
    while count < max
        && let Some(job) = jobs.next().await
    {
        let job = job.map_err(|error| anyhow!("{}", words(&error)))?;
        count += 1;
        match screen.form {
            Form::Json => screen.json(&job)?,
            Form::People => rows.push(row(&screen, &job.status)),
        }
    }
    if screen.form == Form::People {
        if rows.is_empty() {
            screen.hint("there are no jobs; `turnlane fanout run --help` shows how to make one");
        } else {
            screen.print(&table(&screen, &COLUMNS, rows))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

const COLUMNS: [Column; 7] = [
    Column::whole("ID"),
    Column::cut("NAME", 8),
    Column::whole("STATE"),
    Column::whole("OK"),
    Column::whole("FAILED"),
    Column::whole("TOKENS").leaves(1),
    Column::whole("CREATED").leaves(2),
];

fn row(screen: &Screen, job: &JobStatus) -> Vec<Cell> {
    let counts = &job.counts;
    vec![
        Cell::new(&short(&job.id)),
        Cell::new(job.name.as_deref().unwrap_or("")),
        Cell::inked(&state(job), ink(job.state)),
        Cell::new(&format!("{}/{}", counts.succeeded, counts.total)),
        Cell::new(&counts.failed.to_string()),
        Cell::new(&rounded(job.usage.tokens.total_tokens)),
        Cell::new(&screen.ago(job.created_at_ms)),
    ]
}

/// The state with its reason.
fn state(job: &JobStatus) -> String {
    match &job.reason {
        Some(reason) => format!("{} ({reason})", job.state.as_str()),
        None => job.state.as_str().to_owned(),
    }
}

const fn ink(state: JobState) -> Ink {
    match state {
        JobState::Succeeded => Ink::Green,
        JobState::Running => Ink::Cyan,
        JobState::Paused | JobState::Cancelling => Ink::Yellow,
        JobState::Failed | JobState::FinishedWithFailures => Ink::Red,
        JobState::Importing | JobState::Ready | JobState::Cancelled => Ink::Plain,
    }
}

pub(super) async fn show(session: &Session, args: &OneJobArgs) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let job = read(&find(session, &args.job).await?).await?;
    match screen.form {
        Form::Json => screen.json(&job)?,
        Form::People => screen.print(&page(&screen, &job))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The files that several items of a job changed, each with those items.
pub(super) fn shared_files(job: &JobStatus) -> Vec<String> {
    let files = job.worktrees.iter().flat_map(|trees| &trees.shared_files);
    let line = |file: &SharedFile| {
        let mut items = file.item_ids.join(", ");
        if file.items > file.item_ids.len() {
            let _ = write!(items, " and {} more", file.items - file.item_ids.len());
        }
        format!("{}: {items}", file.path)
    };
    files.map(line).collect()
}

/// One job, a line for each fact.
fn page(screen: &Screen, view: &JobView) -> String {
    let job = &view.status;
    let counts = &job.counts;
    let mut facts = vec![
        ("id", job.id.clone()),
        ("name", job.name.clone().unwrap_or_default()),
        ("state", screen.paint(ink(job.state), &state(job))),
        ("reason", job.reason_message.clone().unwrap_or_default()),
        ("task", one_line(&view.instruction)),
        (
            "items",
            format!(
                "{} in all: {} pending, {} running, {} succeeded, {} failed, {} skipped, {} cancelled",
                counts.total,
                counts.pending,
                counts.running,
                counts.succeeded,
                counts.failed,
                counts.skipped,
                counts.cancelled
            ),
        ),
        ("limit", job.current_limit.to_string()),
        (
            "used",
            format!(
                "{} tokens in {} attempts",
                rounded(job.usage.tokens.total_tokens),
                job.usage.attempts
            ),
        ),
        ("output", job.export_path.clone().unwrap_or_default()),
        ("error", job.export_error.clone().unwrap_or_default()),
        ("created", screen.ago(job.created_at_ms)),
    ];
    let times = [("started", job.started_at_ms), ("ended", job.ended_at_ms)];
    for (word, at) in times {
        facts.push((word, at.map(|at| screen.ago(at)).unwrap_or_default()));
    }
    for warning in &job.import.warnings {
        facts.push(("warning", warning.clone()));
    }
    if let Some(trees) = &job.worktrees {
        facts.push(("base", trees.base.clone()));
        facts.push((
            "trees",
            format!("{} with work in {}", trees.kept, trees.directory),
        ));
    }
    for file in shared_files(job) {
        facts.push(("shared", file));
    }
    let mut text = String::new();
    for (word, fact) in facts.into_iter().filter(|(_, fact)| !fact.is_empty()) {
        // Writing to a text cannot fail, here and below.
        let _ = writeln!(text, "{word:<8} {fact}");
    }
    text
}

pub(super) async fn watch(session: &Session, args: &OneJobArgs) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let job = find(session, &args.job).await?;
    let view = read(&job).await?;
    let mut telling = Telling::new(&screen, &HereArgs::default());
    telling.started(&view.status, true);
    let version = view.status.version;
    let followed = follow(&job, version, &mut telling, OnSignal::Leave).await?;
    Ok(followed.finish(&screen))
}

pub(super) async fn items(session: &Session, args: &FanoutItems) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.one.answer);
    let job = find(session, &args.one.job).await?;
    let mut items = job.items_in(args.state.clone());
    let max = args.limit.map_or(usize::MAX, |limit| limit as usize);
    let (mut rows, mut count, mut has_branches) = (Vec::new(), 0, false);
    while count < max
        && let Some(item) = items.next().await
    {
        let item = item.map_err(|error| anyhow!("{}", words(&error)))?;
        count += 1;
        match screen.form {
            Form::Json => screen.json(&item)?,
            Form::People => {
                has_branches |= item.branch.is_some();
                rows.push(item_row(&item));
            }
        }
    }
    if screen.form == Form::People {
        let mut columns = vec![
            Column::cut("ITEM", 8),
            Column::whole("STATE"),
            Column::whole("ATTEMPT"),
            Column::whole("TOKENS").leaves(1),
            Column::cut("ERROR", 20),
        ];
        if has_branches {
            columns.insert(BRANCH_AT, Column::whole("BRANCH").leaves(2));
        } else {
            for row in &mut rows {
                row.remove(BRANCH_AT);
            }
        }
        screen.print(&table(&screen, &columns, rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The place of the branch in the row of an item; only jobs with worktrees show it.
const BRANCH_AT: usize = 4;

fn item_row(item: &JobItem) -> Vec<Cell> {
    let ink = match item.state {
        JobItemState::Succeeded => Ink::Green,
        JobItemState::Failed => Ink::Red,
        JobItemState::Running => Ink::Cyan,
        JobItemState::Pending | JobItemState::Skipped | JobItemState::Cancelled => Ink::Plain,
    };
    let error = item.error.as_ref();
    let error = error.map(|error| format!("{}: {}", error.kind, error.message));
    vec![
        Cell::new(&item.item_id),
        Cell::inked(item.state.as_str(), ink),
        Cell::new(&item.attempt.to_string()),
        Cell::new(&rounded(item.usage.total_tokens)),
        Cell::new(item.branch.as_deref().unwrap_or("")),
        Cell::new(&error.unwrap_or_default()),
    ]
}

pub(super) async fn logs(session: &Session, args: &FanoutLogs) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.one.answer);
    let job = find(session, &args.one.job).await?;
    let item = job.item(args.item.as_str()).await;
    let item = item.map_err(|error| anyhow!("{}", words(&error)))?;
    if screen.form == Form::Json {
        screen.json(&item)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("item     {}\n", item.item.item_id);
    let _ = writeln!(text, "state    {}", item.item.state.as_str());
    let _ = writeln!(text, "row      {}", item.row.as_str());
    for attempt in &item.attempts {
        let outcome = attempt.outcome.map(|outcome| json!(outcome));
        let outcome = outcome.as_ref().and_then(|it| it.as_str());
        let error = attempt.error.as_ref();
        let error = error.map(|error| format!(": {}: {}", error.kind, error.message));
        let _ = writeln!(
            text,
            "attempt  {} {}{}\n         turnlane thread show {}",
            attempt.attempt,
            outcome.unwrap_or("running"),
            error.unwrap_or_default(),
            attempt.thread_id
        );
    }
    for tree in &item.worktrees {
        text.push_str(&shown_tree(tree));
    }
    if let Some(result) = &item.result {
        let _ = writeln!(text, "result   {}", result.as_str());
    }
    screen.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The lines about a worktree.
fn shown_tree(tree: &ItemWorktree) -> String {
    let mut text = match tree.state {
        WorktreeState::Open => format!("tree     {}\n", tree.path),
        // The error of the item says why it has no tree.
        WorktreeState::Removing | WorktreeState::Removed if tree.error.is_some() => {
            return String::new();
        }
        WorktreeState::Removing | WorktreeState::Removed => match &tree.branch {
            Some(branch) => {
                return format!(
                    "tree     removed; its commits are on the branch\nbranch   {branch}\n"
                );
            }
            None => return "tree     removed, nothing was changed\n".to_owned(),
        },
        WorktreeState::Kept => {
            let kind = if tree.dirty {
                "uncommitted changes"
            } else {
                "commits"
            };
            format!("tree     {} ({kind})\n", tree.path)
        }
    };
    if let Some(branch) = &tree.branch {
        let _ = writeln!(text, "branch   {branch}");
    }
    if let Some(head) = &tree.head {
        let _ = writeln!(text, "head     {head}");
    }
    for file in &tree.changed_files {
        let _ = writeln!(text, "changed  {file}");
    }
    let unnamed = tree.changed_count.saturating_sub(tree.changed_files.len());
    if unnamed > 0 {
        let _ = writeln!(text, "changed  {unnamed} more files");
    }
    if let Some(error) = &tree.error {
        let _ = writeln!(text, "error    {error}");
    }
    text
}

pub(super) async fn cost(session: &Session, args: &OneJobArgs) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let job = read(&find(session, &args.job).await?).await?.status;
    let usage = &job.usage;
    match screen.form {
        Form::Json => screen.json(&json!({"jobId": job.id, "usage": usage}))?,
        Form::People => {
            let cost = usage.tokens.cost_usd;
            let cost = cost.map_or("$?".to_owned(), |cost| format!("${cost:.2}"));
            screen.print(&format!(
                "{}: {} tokens ({} in, {} of them cached; {} out, {} of them reasoning) in {} \
                 attempts, {cost}\n",
                name(&job),
                usage.tokens.total_tokens,
                usage.tokens.input_tokens,
                usage.tokens.cached_input_tokens,
                usage.tokens.output_tokens,
                usage.tokens.reasoning_output_tokens,
                usage.attempts
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
