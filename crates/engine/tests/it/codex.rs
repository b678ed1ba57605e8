//! The engine `codex` with the real Codex and a mock model.
//!
//! Needs the Codex CLI of the pinned version: `TURNLANE_TEST_CODEX` names its program; without it these
//! tests say that they were skipped.

mod approvals;
mod kills;
mod support;
mod turns;
