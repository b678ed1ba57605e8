//! What wrong usage is answered with: what was wrong, and how it is meant.
//!
//! The invariant here: whatever is wrong with the arguments, usage is on standard error, standard
//! output is empty and the exit code is 2. The parser leaves usage out where a value is wrong or
//! missing; it is added here. What is right is the grammar's business.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
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
        let args = Self::try_parse_from(line).map_err(|error| with_usage(error, line))?;
        if !args.config.is_empty() && !args.command.takes_settings() {
            return Err(without_effect(line));
        }
        Ok(args)
    }
}

/// The command that a line names.
fn command(line: &[OsString]) -> clap::Command {
    let mut top = Args::command();
    top.build();
    // The words before a command may be values; none of ours is called like one.
    let words = line.iter().skip(1).filter_map(|word| word.to_str());
    let named = words.fold(&top, |command, word| {
        command.find_subcommand(word).unwrap_or(command)
    });
    named.clone()
}

fn with_usage(mut error: clap::Error, line: &[OsString]) -> clap::Error {
    let unknown = error.get(ContextKind::InvalidArg);
    if let Some(ContextValue::String(unknown)) = unknown
        && error.kind() == ErrorKind::UnknownArgument
        && ["-c", "--config"].contains(&unknown.as_str())
    {
        return without_effect(line);
    }
    if error.use_stderr() && error.get(ContextKind::Usage).is_none() {
        let usage = ContextValue::StyledStr(command(line).render_usage());
        error.insert(ContextKind::Usage, usage);
    }
    error
}

/// The refusal of a setting for a command that runs no turn and serves no client.
fn without_effect(line: &[OsString]) -> clap::Error {
    let mut command = command(line);
    let name = command.get_bin_name().unwrap_or("turnlane").to_owned();
    command.error(
        ErrorKind::ArgumentConflict,
        format!(
            "`-c` has no effect on `{name}`: it runs no turn and serves no client\n  \
             give it to `turnlane serve`, `app-server`, `exec`, `run` or `queue add`, or write it into \
             $TURNLANE_HOME/config.toml"
        ),
    )
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
    fn a_setting_without_effect_is_refused_by_the_name_of_the_command() {
        for (line, name) in [
            (&["-c", "a=1", "thread", "list"][..], "turnlane thread list"),
            (&["thread", "list", "-c", "a=1"], "turnlane thread list"),
            (&["thread", "list", "--config=a=1"], "turnlane thread list"),
            (&["-c", "a=1", "queue", "list"], "turnlane queue list"),
            (&["queue", "-c", "a=1", "list"], "turnlane queue list"),
            (
                &["approvals", "list", "-c", "a=1"],
                "turnlane approvals list",
            ),
            (&["-c", "a=1", "demo"], "turnlane demo"),
            (&["-c", "a=1", "man", "--out", "d"], "turnlane man"),
        ] {
            let said = said(&[&["turnlane"], line].concat());
            let expected = format!("error: `-c` has no effect on `{name}`");
            assert!(said.starts_with(&expected), "{line:?}: {said}");
        }
        for line in [
            &["-c", "a=1", "serve", "-c", "b=2"][..],
            &["-c", "a=1", "run", "-c", "b=2", "p"],
            &["-c", "a=1", "exec", "-c", "b=2", "p"],
            &["-c", "a=1", "queue", "add", "--new", "-c", "b=2", "p"],
            &["-c", "a=1", "app-server", "-c", "b=2"],
            &["-c", "a=1", "exec-server", "-c", "b=2"],
            &["-c", "a=1", "doctor", "-c", "b=2"],
        ] {
            let line = [&["turnlane"], line].concat();
            let line: Vec<OsString> = line.iter().map(Into::into).collect();
            let args = Args::read(&line).unwrap();
            assert_eq!(args.config, ["a=1"], "{line:?}");
        }
    }

    #[test]
    fn help_is_no_error() {
        let said = said(&["turnlane", "exec", "--help"]);
        assert!(!said.contains("error: "), "{said}");
    }
}
