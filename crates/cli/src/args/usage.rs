//! What wrong usage is answered with: what was wrong, and how it is meant.
//!
//! The invariant here: whatever is wrong with the arguments, usage is on standard error, standard
//! output is empty and the exit code is 2. The parser leaves usage out where a value is wrong or
//! missing; it is added here. What is right is the grammar's business.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, Parser as _};

use super::Args;
use crate::shown::out;

impl Args {
    /// The arguments of this process; says what is wrong with them and ends it where something is.
    pub(crate) fn of_this_process() -> Self {
        let line: Vec<OsString> = std::env::args_os().collect();
        Self::read(&line).unwrap_or_else(|error| {
            out::usage(&error);
            std::process::exit(error.exit_code())
        })
    }

    /// The arguments of a command line; an error has usage where it is one.
    fn read(line: &[OsString]) -> Result<Self, clap::Error> {
        Self::try_parse_from(line).map_err(|error| with_usage(error, line))
    }
}

fn with_usage(mut error: clap::Error, line: &[OsString]) -> clap::Error {
    if error.use_stderr() && error.get(ContextKind::Usage).is_none() {
        let mut top = Args::command();
        top.build();
        // The words before a command may be values; none of ours is called like one.
        let words = line.iter().skip(1).filter_map(|word| word.to_str());
        let mut command = words
            .fold(&top, |command, word| {
                command.find_subcommand(word).unwrap_or(command)
            })
            .clone();
        let usage = ContextValue::StyledStr(command.render_usage());
        error.insert(ContextKind::Usage, usage);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &[&str]) -> String {
        let line: Vec<OsString> = line.iter().map(Into::into).collect();
        Args::read(&line).unwrap_err().to_string()
    }

    #[test]
    fn usage_of_the_right_command_is_part_of_whatever_is_wrong() {
        for (line, usage) in [
            (
                &["exec", "-s", "open", "p"][..],
                "turnlane exec [OPTIONS] [PROMPT]",
            ),
            (&["exec", "--model"], "turnlane exec [OPTIONS] [PROMPT]"),
            (&["exec", "--nope"], "turnlane exec [OPTIONS] [PROMPT]"),
            (
                &["exec", "--timeout", "x", "p"],
                "turnlane exec [OPTIONS] [PROMPT]",
            ),
            (&["exec", "resume", "--color", "red"], "resume [OPTIONS]"),
            (
                &["-c", "a=b", "exec-server", "--listen"],
                "turnlane exec-server",
            ),
        ] {
            let said = said(&[&["turnlane"], line].concat());
            assert!(said.starts_with("error: "), "{said}");
            assert_eq!(said.matches("Usage: ").count(), 1, "{said}");
            assert!(said.contains(usage), "{said}");
        }
    }

    #[test]
    fn help_is_no_error() {
        let said = said(&["turnlane", "exec", "--help"]);
        assert!(!said.contains("error: "), "{said}");
    }
}
