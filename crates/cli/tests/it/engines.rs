//! The engines `codex` and `codex-exec` in the real binary, with the real Codex and a mock model.
//!
//! Each test has a home of its own, in which a link is Codex's program: its processes are known by that
//! path. `TURNLANE_TEST_CODEX` names the real program; without it these tests say that they were skipped.

mod continued;
mod deciding;
mod desk;
mod kills;
mod lanes;
mod shell;
mod stopped;
mod world;

pub(crate) use world::{KEY_VARIABLE, name_key_for_codex};
