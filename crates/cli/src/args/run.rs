//! The flags of `turnlane run`: one turn for a person who looks on.
//!
//! The invariant here: it means what `turnlane exec` means with the same flags, without those that
//! only resuming and scripts need.

use std::path::PathBuf;

use super::exec::{ExecOptions, Manner, Wanted, Wish};

/// What `turnlane run` is told.
#[derive(Debug, clap::Args)]
#[command(
    after_help = AFTER_HELP,
    mut_arg("last", |arg| arg.hide(true)),
    mut_arg("all", |arg| arg.hide(true))
)]
pub(crate) struct RunArgs {
    /// What the agent is asked; `-` or nothing reads it from standard input
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,

    /// A picture for the prompt; may be repeated
    #[arg(
        short,
        long = "image",
        value_name = "FILE",
        num_args = 1,
        value_delimiter = ','
    )]
    images: Vec<PathBuf>,

    #[command(flatten)]
    options: ExecOptions,
}

const AFTER_HELP: &str = "\
What happens is told on standard error, the answer alone is on standard output. Exit code 0: the
turn completed. 1: it failed, was interrupted, or was refused before it began, its answer does not
fit --output-schema, or the answer or the file of -o could not be written. 2: wrong usage. 130:
Ctrl-C, which stops the turn.

The thread is stored: `turnlane thread list` shows it, `turnlane exec resume THREAD PROMPT` goes on
with it, `turnlane queue add --thread THREAD PROMPT` queues more.

Examples:
  turnlane run 'what does this repository do?'
  turnlane run -s workspace-write 'make the tests pass'
  git diff | turnlane run 'review this'";

impl RunArgs {
    /// What is wanted; an error is wrong usage.
    pub(crate) fn wish(self) -> Result<Wish, clap::Error> {
        let Self {
            prompt,
            images,
            options,
        } = self;
        let wish = Wish {
            what: Wanted::New { prompt },
            images,
            options,
            manner: Manner::Strict,
        };
        wish.checked()
    }
}
