//! A queue as text: what holds it, what runs, what waits.
//!
//! The invariant here: whoever reads that a queue is held also reads what to type. Pure.

use turnlane_protocol::queue::{QueueState, QueuedTurn, QueuedTurnStatus};
use turnlane_protocol::thread::QueueSummary;

use super::ids::{short, shorts};
use super::state::OpenApproval;
use super::table::{Cell, Column, table};
use super::text::{counted, of_input, one_line, visible};
use super::time::utc;
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

/// Whether only a person can end what holds a queue.
pub(crate) fn needs_person(queue: &QueueSummary) -> bool {
    let endless = queue.waiting.as_ref();
    let endless = endless.is_some_and(|waiting| waiting.until_ms.is_none());
    queue.paused.is_some() || queue.blocked.is_some() || endless
}

/// `3`, `3 paused`; empty where there is nothing to say.
pub(crate) fn brief(queue: &QueueSummary) -> Cell {
    match (queue.depth, held(queue)) {
        (0, Some("paused")) => Cell::inked("paused", Ink::Yellow),
        // Nothing waits for what the last turn was refused for.
        (0, _) => Cell::new(""),
        (depth, None) => Cell::new(&depth.to_string()),
        (depth, Some("failed")) => Cell::inked(&format!("{depth} failed"), Ink::Red),
        (depth, Some(held)) => Cell::inked(&format!("{depth} {held}"), Ink::Yellow),
    }
}

/// What runs and what holds a queue, a line for each, with what to do about it.
pub(crate) fn state(screen: &Screen, thread: &str, state: &QueueState) -> String {
    let mut lines = Vec::new();
    if let Some(running) = &state.running {
        let running = format!("running  turn {}", short(&running.turn_id.to_string()));
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
        // An empty queue needs no command: the turn that met the error has ended.
        lines.push(if state.summary.depth == 0 {
            let text = format!("waiting  {message}; nothing is queued");
            (Ink::Yellow, text, None)
        } else {
            let next = format!("turnlane queue resume {thread}");
            (
                Ink::Yellow,
                format!("waiting  {message}; {until}"),
                Some(next),
            )
        });
    }
    if let Some(blocked) = blocked {
        let row = short(&blocked.queued_turn_id.to_string());
        let message = one_line(&blocked.message);
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

/// A queue of which the rows are shown.
pub(crate) struct QueueTable<'a> {
    pub(crate) state: &'a QueueState,
    /// Whether the running turn waits for a decision.
    pub(crate) asked: OpenApproval,
    pub(crate) runner: Runner,
}

/// Whether a daemon runs what waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    Runs,
    Absent,
}

/// The rows as a table; empty where there are none.
pub(crate) fn rows(screen: &Screen, rows: &[QueuedTurn], queue: &QueueTable<'_>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let ids: Vec<String> = rows.iter().map(|row| row.id.to_string()).collect();
    let ids = shorts(ids.iter().map(String::as_str));
    let cells = |(row, id): (&QueuedTurn, String)| {
        vec![
            Cell::new(&(row.position + 1).to_string()),
            Cell::new(&id),
            waits_for(screen, row, queue),
            Cell::inked(&screen.ago(row.created_at_ms), Ink::Dim),
            Cell::new(&visible(&of_input(&row.input))),
        ]
    };
    let rows = rows.iter().zip(ids).map(cells).collect();
    let columns = [
        Column::whole("#"),
        Column::whole("ROW"),
        Column::cut("WAITS FOR", 12),
        Column::whole("ADDED").leaves(1),
        Column::cut("PROMPT", 10),
    ];
    table(screen, &columns, rows)
}

/// What keeps a row from running, in a few words.
fn waits_for(screen: &Screen, row: &QueuedTurn, queue: &QueueTable<'_>) -> Cell {
    let summary = &queue.state.summary;
    if let QueuedTurnStatus::Failed { .. } = row.status {
        return Cell::inked("failed", Ink::Red);
    }
    // A provider's limit sets the time of the row too; that it is one says more.
    let is_limited = row.position == 0 && summary.waiting.is_some();
    let later = row.not_before_ms.filter(|at_ms| *at_ms > screen.now_ms);
    if let Some(at_ms) = later.filter(|_| !is_limited) {
        return Cell::inked(&not_before(screen.now_ms, at_ms), Ink::Yellow);
    }
    if row.position > 0 {
        return Cell::new(&format!("row #{}", row.position));
    }
    let until = summary.waiting.as_ref().map(|waiting| waiting.until_ms);
    let (ink, text) = match (queue.state.running.is_some(), until) {
        (true, _) if queue.asked == OpenApproval::Yes => (Ink::Yellow, "needs approval".to_owned()),
        (true, _) => (Ink::Plain, "running turn".to_owned()),
        (false, _) if summary.paused.is_some() => (Ink::Yellow, "paused".to_owned()),
        (false, Some(Some(at_ms))) => (Ink::Yellow, format!("starts {}", screen.until(at_ms))),
        (false, Some(None)) => (Ink::Yellow, "provider".to_owned()),
        (false, None) if queue.runner == Runner::Absent => (Ink::Yellow, "a daemon".to_owned()),
        (false, None) => (Ink::Plain, "starts now".to_owned()),
    };
    Cell::inked(&text, ink)
}

/// `not before 06:00 UTC`; with its date where that is not within a day.
fn not_before(now_ms: i64, at_ms: i64) -> String {
    const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
    let at = utc(at_ms.div_euclid(1_000));
    let shown = if at_ms - now_ms < DAY_MS {
        at.get(11..).unwrap_or(&at)
    } else {
        &at
    };
    format!("not before {shown}")
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(position: u32, not_before_ms: Option<i64>) -> QueuedTurn {
        let id = "0198c0de-41aa-7000-8000-0123456789ab";
        serde_json::from_value(json!({
            "id": id, "status": {"type": "pending"}, "turnStartParams": null,
            "input": [{"type": "text", "text": "p"}], "clientUserMessageId": "c", "turnId": id,
            "lastTurnId": null, "position": position, "attempts": 0, "notBeforeMs": not_before_ms,
            "source": "queue", "createdAtMs": 0, "updatedAtMs": 0,
        }))
        .unwrap()
    }

    fn shown(
        state: &serde_json::Value,
        asked: OpenApproval,
        runner: Runner,
        row: &QueuedTurn,
    ) -> String {
        let mut whole = json!({"depth": 2, "paused": null, "waiting": null, "blocked": null,
            "running": null, "revision": 1});
        for (key, value) in state.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let state: QueueState = serde_json::from_value(whole).unwrap();
        let queue = QueueTable {
            state: &state,
            asked,
            runner,
        };
        let text = rows(&Screen::plain(), std::slice::from_ref(row), &queue);
        let line = text.lines().nth(1).unwrap();
        line.split("456789ab  ")
            .nth(1)
            .unwrap()
            .split("  just now")
            .next()
            .unwrap()
            .trim()
            .to_owned()
    }

    #[test]
    fn a_row_says_what_it_waits_for() {
        let id = "0198c0de-41aa-7000-8000-0123456789ab";
        let runs = json!({"running": {"queuedTurnId": null, "turnId": id}});
        let paused = json!({"paused": {"reason": "user", "by": null, "sinceMs": 0}});
        let head = row(0, None);
        let (no, yes) = (OpenApproval::No, OpenApproval::Yes);
        assert_eq!(shown(&json!({}), no, Runner::Runs, &head), "starts now");
        assert_eq!(shown(&json!({}), no, Runner::Absent, &head), "a daemon");
        assert_eq!(shown(&runs, no, Runner::Runs, &head), "running turn");
        assert_eq!(shown(&runs, yes, Runner::Runs, &head), "needs approval");
        assert_eq!(shown(&paused, no, Runner::Runs, &head), "paused");
        assert_eq!(shown(&json!({}), no, Runner::Runs, &row(1, None)), "row #1");
        let later = row(1, Some(6 * 3_600_000));
        assert_eq!(
            shown(&json!({}), no, Runner::Runs, &later),
            "not before 06:00 UTC"
        );
        let much_later = row(0, Some(48 * 3_600_000));
        let text = shown(&json!({}), no, Runner::Runs, &much_later);
        assert_eq!(text, "not before 1970-01-03 00:00 UTC");
    }

    #[test]
    fn an_empty_queue_offers_no_command_to_resume_it() {
        let waiting = json!({"kind": "auth", "message": "no key", "sinceMs": 0, "untilMs": null});
        let of = |depth: u32| {
            let state = json!({"depth": depth, "paused": null, "waiting": waiting, "blocked": null,
                "running": null, "revision": 1});
            state_text(&serde_json::from_value(state).unwrap())
        };
        assert_eq!(of(0), "waiting  no key; nothing is queued\n");
        assert!(
            of(1).contains("try: turnlane queue resume docs"),
            "{}",
            of(1)
        );
    }

    fn state_text(queue: &QueueState) -> String {
        state(&Screen::plain(), "docs", queue)
    }
}
