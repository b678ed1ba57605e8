//! Arguments that the commands for people share.
//!
//! The invariant here: they mean the same in every command. A text that is said to an agent comes
//! from exactly one of the argument, a file and standard input.
//!
//! What is done with them is each command's business; how things look, that of `shown`.

use std::path::PathBuf;

use super::ColorArg;

/// How a command answers.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct Answer {
    /// JSON on standard output, with exact times, instead of text for people
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) colours: Colours,
}

/// Whether a command uses colours.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct Colours {
    /// Colours: on a terminal (auto), always or never; `NO_COLOR` and `CLICOLOR=0` turn auto off
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        hide_possible_values = true
    )]
    pub(crate) color: ColorArg,
}

/// What an agent is asked.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Text {
    /// What the agent is asked; `-` or nothing reads it from standard input
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,

    /// Read it from this file; `-` is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "prompt")]
    pub(crate) file: Option<PathBuf>,
}

/// One thread.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct OneThread {
    /// The thread: its id, the beginning or end of it (8 characters or more), or its name
    #[arg(value_name = "THREAD")]
    pub(crate) thread: String,
}

/// A row of a queue.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct OneRow {
    /// The queued turn: its number in `queue list`, its id, or the beginning or end of it (8 characters
    /// or more)
    #[arg(value_name = "ROW")]
    pub(crate) row: String,
}
