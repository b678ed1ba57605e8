//! The engine `codex-exec` as a lane sees it, with shell scripts in the place of Codex and with Codex.

mod checks;
mod endings;
mod limits;
mod real;
mod streams;
mod support;
