//! Fan-out jobs: one template over many rows, one agent thread per row, one result per row.
//!
//! The invariant here: a job is rows in the store and nothing else; any worker that has the store open
//! can continue it. The pure parts decide (`row`, `template`, `prompt`, `ids`, `schema`, `input`), the
//! others carry out what they decide.

pub(crate) mod board;
pub mod export;
pub(crate) mod gate;
pub mod ids;
pub mod import;
pub mod input;
pub mod jobs;
pub(crate) mod plan;
pub mod preview;
pub mod prompt;
pub(crate) mod pulse;
pub(crate) mod report;
pub mod row;
pub(crate) mod rules;
pub(crate) mod runner;
pub mod schema;
pub mod template;
pub(crate) mod tools;
pub mod worktree;

use std::sync::Arc;

use crate::lanes::Lanes;
use crate::runtime_tools::Tool;
use crate::shared::Shared;

/// The tools that turns are offered.
pub(crate) fn tools(shared: &Arc<Shared>, lanes: &Arc<Lanes>) -> Vec<Arc<dyn Tool>> {
    let report = report::ReportTool {
        store: Arc::clone(&shared.store),
        board: Arc::clone(&shared.board),
        clock: Arc::clone(&shared.clock),
    };
    // Weak: the table of tools belongs to what they would hold.
    let spawn = tools::SpawnTool {
        shared: Arc::downgrade(shared),
        lanes: Arc::downgrade(lanes),
        options: shared.options.fanout.clone(),
    };
    vec![Arc::new(report), Arc::new(spawn)]
}
