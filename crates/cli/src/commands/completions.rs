//! `turnlane completions`: what lets a shell complete our commands and flags.
//!
//! The invariant here: it is made from the arguments that are parsed, and written to standard output
//! whole or not at all.

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::{Args, CompletionsArgs, ShellArg};
use crate::shown::{Colour, out};

pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<()> {
    let shell = match args.shell {
        ShellArg::Bash => Shell::Bash,
        ShellArg::Zsh => Shell::Zsh,
        ShellArg::Fish => Shell::Fish,
        ShellArg::Elvish => Shell::Elvish,
        ShellArg::PowerShell => Shell::PowerShell,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "turnlane", &mut script);
    let script = String::from_utf8(script).context("the script is not text")?;
    out::print(&script, Colour::Off)
}
