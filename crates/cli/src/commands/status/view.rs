//! The screen of `turnlane status`, as text and as JSON.
//!
//! The invariant here: both forms say the same. Of threads that need nobody only the number is shown.
//! Pure.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Daemon, Lane, LastDay, Status};
use crate::commands::thread::about;
use crate::shown::ids::short;
use crate::shown::state::Urgency;
use crate::shown::table::{Cell, Column, facts, table};
use crate::shown::text::counted;
use crate::shown::{Ink, Screen};

/// Of failed threads so many are listed.
const FAILURES_MAX: usize = 10;
/// Of each kind of thread so many are listed, but all of those that wait for a person.
const LISTED_MAX: usize = 20;

/// The kinds of threads that are listed, with their titles and their names in JSON.
const KINDS: [(Urgency, &str, &str); 5] = [
    (Urgency::Asks, "Needs you: an agent asks", "needsApproval"),
    (Urgency::Held, "Needs you: the queue is held", "held"),
    (Urgency::Running, "Running", "running"),
    (Urgency::Waits, "Starts by itself", "waits"),
    (Urgency::Queued, "Queued", "queued"),
];

pub(super) fn text(screen: &Screen, status: &Status) -> String {
    let idle = of_kind(status, Urgency::Idle).len();
    let due = status.lanes.iter().filter_map(|lane| lane.due_ms).min();
    let mut text = facts(
        screen,
        &[
            ("daemon", Some(daemon(screen, &status.daemon))),
            ("threads", Some(counts(status, idle))),
            ("next due", due.map(|at_ms| screen.until(at_ms))),
            ("last 24h", Some(outcomes(&status.last_day))),
        ],
    );
    for (urgency, title, _) in KINDS {
        let lanes = of_kind(status, urgency);
        if lanes.is_empty() {
            continue;
        }
        // Writing into a string cannot fail.
        let _ = write!(text, "\n{}\n", screen.paint(Ink::Bold, title));
        let max = match urgency {
            Urgency::Asks | Urgency::Held => usize::MAX,
            _ => LISTED_MAX,
        };
        let rows = lanes.iter().take(max).map(|lane| row(lane, status));
        let shown = table(screen, &COLUMNS, rows.collect());
        let next = lanes.iter().take(max).map(|lane| next(lane, status));
        // The first line is the head.
        for (line, next) in shown.lines().zip(std::iter::once(None).chain(next)) {
            let _ = writeln!(text, "{line}");
            if let Some(next) = next {
                let _ = writeln!(text, "  {next}");
            }
        }
        if lanes.len() > max {
            let _ = writeln!(text, "and {} more", lanes.len() - max);
        }
    }
    text + &failures(screen, &status.last_day)
}

const COLUMNS: [Column; 4] = [
    Column::whole("THREAD"),
    Column::whole("STATE"),
    Column::cut("NAME", 8),
    Column::cut("WHAT", 10).leaves(1),
];

fn of_kind(status: &Status, urgency: Urgency) -> Vec<&Lane> {
    let lanes = status.lanes.iter();
    lanes.filter(|lane| lane.state.urgency == urgency).collect()
}

fn daemon(screen: &Screen, daemon: &Daemon) -> String {
    match daemon {
        Daemon::Absent(why) => why.clone(),
        Daemon::Answers { status, listen } => {
            let on = listen.join(" and ");
            let on = if on.is_empty() {
                on
            } else {
                format!(", on {on}")
            };
            match status {
                None => format!("answers{on}"),
                Some(status) => {
                    let trouble = status.trouble.as_ref();
                    let trouble = trouble.map(|trouble| format!("; {trouble}"));
                    format!(
                        "version {}, process {}, started {}{on}{}",
                        status.version,
                        status.pid,
                        screen.ago(status.started_at_ms),
                        trouble.unwrap_or_default()
                    )
                }
            }
        }
    }
}

fn counts(status: &Status, idle: usize) -> String {
    let count = |urgency: Urgency, word: &str| {
        let count = of_kind(status, urgency).len();
        (count > 0).then(|| format!("{count} {word}"))
    };
    let asks = match of_kind(status, Urgency::Asks).len() {
        1 => "needs approval",
        _ => "need approval",
    };
    let mut parts: Vec<String> = [
        count(Urgency::Asks, asks),
        count(Urgency::Held, "held"),
        count(Urgency::Running, "running"),
        count(Urgency::Waits, "waiting for a time"),
        count(Urgency::Queued, "queued"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if idle > 0 || parts.is_empty() {
        parts.push(format!("{idle} idle"));
    }
    parts.join(", ")
}

fn outcomes(day: &LastDay) -> String {
    let total = day.completed + day.failed + day.interrupted;
    if total == 0 {
        return "no turn ended".to_owned();
    }
    let tokens = day.tokens.map(|tokens| format!("; {tokens} tokens"));
    let partial = if day.is_partial {
        "; older threads are not counted"
    } else {
        ""
    };
    format!(
        "{} ended: {} completed, {} failed, {} interrupted{}{partial}",
        counted(total, "turn"),
        day.completed,
        day.failed,
        day.interrupted,
        tokens.unwrap_or_default()
    )
}

/// The question of a thread that asks.
fn question<'a>(lane: &Lane, status: &'a Status) -> Option<&'a Value> {
    let mut open = status.approvals.iter();
    open.find(|approval| approval["threadId"] == lane.id.as_str())
}

fn row(lane: &Lane, status: &Status) -> Vec<Cell> {
    let question = question(lane, status);
    let what = match (&lane.why, question) {
        (_, Some(approval)) => about(approval),
        (Some(why), None) => why.clone(),
        (None, None) => lane.about.clone(),
    };
    vec![
        Cell::new(&short(&lane.id)),
        lane.state.cell(),
        Cell::new(lane.name.as_deref().unwrap_or_default()),
        Cell::inked(&what, Ink::Dim),
    ]
}

/// What to type for a thread that needs a person.
fn next(lane: &Lane, status: &Status) -> Option<String> {
    let word = &lane.word;
    match (lane.state.urgency, question(lane, status)) {
        (Urgency::Asks, Some(approval)) => {
            let id = short(approval["approvalId"].as_str().unwrap_or_default());
            Some(format!("turnlane approvals show {id}"))
        }
        (Urgency::Held, _) if lane.state.word == "held: failed" => {
            Some(format!("turnlane queue retry {word}"))
        }
        (Urgency::Held, _) => Some(format!("turnlane queue resume {word}")),
        _ => None,
    }
}

/// The threads whose last turn did not complete within the last day.
fn failures(screen: &Screen, day: &LastDay) -> String {
    if day.failures.is_empty() {
        return String::new();
    }
    let row = |failure: &super::Failure| {
        let ink = match failure.word {
            "failed" => Ink::Red,
            _ => Ink::Yellow,
        };
        vec![
            Cell::new(&short(&failure.id)),
            Cell::inked(failure.word, ink),
            Cell::new(failure.name.as_deref().unwrap_or_default()),
            Cell::new(&failure.message),
        ]
    };
    let columns = [
        Column::whole("THREAD"),
        Column::whole("STATE"),
        Column::cut("NAME", 8),
        Column::cut("WHY", 10).leaves(1),
    ];
    let rows = day.failures.iter().take(FAILURES_MAX).map(row).collect();
    let title = screen.paint(Ink::Bold, "Did not complete in the last 24 hours");
    let mut text = format!("\n{title}\n{}", table(screen, &columns, rows));
    if day.failures.len() > FAILURES_MAX {
        let more = day.failures.len() - FAILURES_MAX;
        let _ = writeln!(text, "and {more} more");
    }
    text
}

pub(super) fn json(status: &Status) -> Value {
    let daemon = match &status.daemon {
        Daemon::Absent(_) => Value::Null,
        Daemon::Answers { status, listen } => {
            let mut told = json!(status);
            if !told.is_object() {
                told = json!({});
            }
            told["listen"] = json!(listen);
            told
        }
    };
    let lane = |lane: &&Lane| {
        json!({
            "threadId": lane.id, "name": lane.name, "state": lane.state.word, "why": lane.why,
            "depth": lane.depth, "dueMs": lane.due_ms,
            "approvalId": question(lane, status).map(|approval| &approval["approvalId"]),
        })
    };
    let day = &status.last_day;
    let failure = |failure: &super::Failure| {
        json!({
            "threadId": failure.id, "name": failure.name, "status": failure.word,
            "message": failure.message,
        })
    };
    let failures: Vec<Value> = day.failures.iter().map(failure).collect();
    let mut all = json!({
        "daemon": daemon,
        "idle": of_kind(status, Urgency::Idle).len(),
        "lastDay": {
            "sinceMs": day.since_ms, "completed": day.completed, "failed": day.failed,
            "interrupted": day.interrupted, "tokens": day.tokens, "partial": day.is_partial,
            "notCompleted": failures,
        },
    });
    for (urgency, _, key) in KINDS {
        let lanes = of_kind(status, urgency);
        all[key] = lanes.iter().map(lane).collect();
    }
    all
}
