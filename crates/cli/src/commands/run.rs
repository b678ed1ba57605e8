//! `turnlane run`: one turn for a person who looks on.
//!
//! It is `turnlane exec` of a new thread in every respect but its arguments; what happens, and in
//! which words it is told, is decided there.

use std::process::ExitCode;

use super::exec;
use crate::args::RunArgs;

/// Runs the command; everything people have to know is said.
pub(crate) fn run(args: RunArgs, before: &[String]) -> ExitCode {
    exec::run_wish(args.wish(), before)
}
