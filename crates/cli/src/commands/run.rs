//! `turnlane run`: one turn for a person who looks on.
//!
//! It is `turnlane exec` of a new thread in every respect but its arguments and its audience: text
//! streams as it comes, refusals are in plain words, and Ctrl-C is exit code 130.

use std::process::ExitCode;

use super::exec;
use crate::args::RunArgs;

/// Runs the command; everything people have to know is said.
pub(crate) fn run(args: RunArgs, before: &[String]) -> ExitCode {
    exec::run_wish(args.wish(), before, exec::Audience::Person)
}
