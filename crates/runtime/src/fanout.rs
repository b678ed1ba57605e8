//! Fan-out jobs: one template over many rows, one agent thread per row, one result per row.
//!
//! The invariant here: a job is rows in the store and nothing else; any worker that has the store open
//! can continue it. The pure parts decide (`row`, `template`, `prompt`, `ids`, `schema`, `input`), the
//! others carry out what they decide.

pub mod export;
pub mod ids;
pub mod import;
pub mod input;
pub mod preview;
pub mod prompt;
pub mod row;
pub mod schema;
pub mod template;
pub mod worktree;
