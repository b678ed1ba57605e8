//! A queue as text: what holds it, what runs, what waits.
//!
//! The invariant here: whoever reads that a queue is held also reads what to type. Pure.

use turnlane_protocol::queue::{QueueState, QueuedTurn, QueuedTurnStatus};
use turnlane_protocol::thread::QueueSummary;

use super::table::{Cell, table};
use super::text::{counted, of_input, one_line, visible};
use super::{Ink, Screen};

/// What holds a queue, in one word; none where nothing does.
pub(crate) fn held(queue: &QueueSummary) -> Option<&'static str> {
    if queue.paused.is_some() {
        Some("paused")
    } else if queue.waiting.is_some() {
        Some("waiting")
    } else if queue.blocked.is_some() {
        Some("failed")
    } else {
        None
    }
}

/// `3`, `3 paused`; empty where there is nothing to say.
pub(crate) fn brief(queue: &QueueSummary) -> Cell {
    match (queue.depth, held(queue)) {
        (0, None) => Cell::new(""),
        (depth, None) => Cell::new(&depth.to_string()),
        (depth, Some("failed")) => Cell::inked(&format!("{depth} failed"), Ink::Red),
        (depth, Some(held)) => Cell::inked(&format!("{depth} {held}"), Ink::Yellow),
    }
}

/// What runs and what holds a queue, a line for each, with what to do about it.
pub(crate) fn state(screen: &Screen, thread: &str, state: &QueueState) -> String {
    let mut lines = Vec::new();
    if let Some(running) = &state.running {
        let running = format!("running  turn {}", running.turn_id);
        lines.push((Ink::Green, running, None));
    }
    let QueueSummary {
        paused,
        waiting,
        blocked,
        ..
    } = &state.summary;
    if let Some(paused) = paused {
        let by = paused.by.as_ref().map(|by| format!(" by {}", one_line(by)));
        let (reason, by) = (one_line(&paused.reason), by.unwrap_or_default());
        let since = screen.ago(paused.since_ms);
        lines.push((
            Ink::Yellow,
            format!("paused   {reason}{by}, {since}"),
            Some(format!("turnlane queue resume {thread}")),
        ));
    }
    if let Some(waiting) = waiting {
        let until = match waiting.until_ms {
            Some(at_ms) => format!("goes on {}", screen.until(at_ms)),
            None => "waits until it is resumed".to_owned(),
        };
        let message = one_line(&waiting.message);
        lines.push((
            Ink::Yellow,
            format!("waiting  {message}; {until}"),
            Some(format!("turnlane queue resume {thread}")),
        ));
    }
    if let Some(blocked) = blocked {
        let (row, message) = (&blocked.queued_turn_id, one_line(&blocked.message));
        lines.push((
            Ink::Red,
            format!("failed   {message}"),
            Some(format!(
                "turnlane queue retry {thread}, or: turnlane queue rm {thread} {row}"
            )),
        ));
    }
    let line = |(ink, text, next): (Ink, String, Option<String>)| {
        let next = next.map(|next| format!("\n         try: {next}"));
        format!("{}{}\n", screen.paint(ink, &text), next.unwrap_or_default())
    };
    lines.into_iter().map(line).collect()
}

/// The rows as a table; empty where there are none.
pub(crate) fn rows(screen: &Screen, rows: &[QueuedTurn]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let cells = |row: &QueuedTurn| {
        let status = match (&row.status, row.not_before_ms) {
            (QueuedTurnStatus::Failed { .. }, _) => Cell::inked("failed", Ink::Red),
            (QueuedTurnStatus::Pending, Some(at_ms)) if at_ms > screen.now_ms => {
                Cell::inked(&screen.until(at_ms), Ink::Yellow)
            }
            (QueuedTurnStatus::Pending, _) => Cell::new("pending"),
        };
        vec![
            Cell::new(&(row.position + 1).to_string()),
            Cell::new(&row.id.to_string()),
            status,
            Cell::inked(&screen.ago(row.created_at_ms), Ink::Dim),
            Cell::new(&visible(&of_input(&row.input))),
        ]
    };
    let rows = rows.iter().map(cells).collect();
    table(screen, &["#", "ROW", "STATUS", "ADDED", "PROMPT"], rows)
}

/// Where a row stands, in words.
pub(crate) fn place(row: &QueuedTurn) -> String {
    match row.position {
        0 => "next in line".to_owned(),
        ahead => {
            let ahead = usize::try_from(ahead).unwrap_or(usize::MAX);
            format!("{} before it", counted(ahead, "turn"))
        }
    }
}
