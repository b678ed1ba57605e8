//! Threads that wait because it cannot be decided whether their owner lives.
//!
//! The invariant here: the database is only read. A database that cannot be read is told elsewhere.

use std::path::Path;

use serde_json::json;
use turnlane_store::sqlite::unjudged_lanes;

use super::{Finding, Mark, Part};

pub(super) fn waiting_lanes(part: &mut Part, database: &Path) {
    if !database.is_file() {
        return;
    }
    let Ok(lanes) = unjudged_lanes(database) else {
        return;
    };
    let mut told = Vec::new();
    for lane in lanes {
        let (thread, why) = (lane.thread, lane.why.to_string());
        let shown = lane.name.unwrap_or_else(|| thread.to_string());
        let text = format!(
            "thread {shown} waits for worker {}: its lock file cannot be opened, and {why}",
            lane.worker
        );
        let next = format!(
            "if that process has ended, free the thread with `turnlane thread release {thread}`"
        );
        part.findings
            .push(Finding::new(Mark::Fix, "lane", text).next(next));
        told.push(
            json!({"threadId": thread.to_string(), "worker": lane.worker.to_string(), "why": why}),
        );
    }
    part.facts.insert("waitingLanes".to_owned(), json!(told));
}
