//! The flags of `turnlane exec`: those of `codex exec`, on either side of `resume` and `fork`.
//!
//! The invariant here: what cannot be meant together is wrong usage and is said before anything else
//! happens. The options themselves are in `options`; what they do is the command's business.

pub(crate) mod options;

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Subcommand};

pub(crate) use self::options::{ColorArg, ExecOptions};
use super::Args;

/// What `turnlane exec` is told.
#[derive(Debug, clap::Args)]
#[command(
    after_help = AFTER_HELP,
    args_override_self = true,
    override_usage = "turnlane exec [OPTIONS] [PROMPT]\n       \
                      turnlane exec [OPTIONS] resume [OPTIONS] [THREAD] [PROMPT]\n       \
                      turnlane exec [OPTIONS] fork [OPTIONS] <THREAD> [PROMPT]"
)]
pub(crate) struct Exec {
    /// What the agent is asked; `-` or nothing reads it from standard input
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,

    /// Pictures for the prompt, one or more; end the list with `--`
    #[arg(short, long = "image", value_name = "FILE", num_args = 1.., value_delimiter = ',')]
    images: Vec<PathBuf>,

    #[command(flatten)]
    options: ExecOptions,

    #[command(subcommand)]
    command: Option<ExecCommand>,
}

#[derive(Debug, Subcommand)]
enum ExecCommand {
    /// Say something more on a thread that exists
    #[command(args_override_self = true)]
    Resume(Further),
    /// Say something on a copy of a thread
    #[command(args_override_self = true)]
    Fork(Further),
    #[command(hide = true)]
    Review {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        anything: Vec<String>,
    },
}

/// What `resume` and `fork` are told besides the options.
#[derive(Debug, clap::Args)]
struct Further {
    /// The thread: its id, or its name; with `--last` this is the prompt
    #[arg(value_name = "THREAD")]
    thread: Option<String>,

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

/// What is wanted, with both sides of a subcommand joined.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) what: Wanted,
    pub(crate) images: Vec<PathBuf>,
    pub(crate) options: ExecOptions,
    pub(crate) manner: Manner,
}

/// What a run makes of things that go wrong beside its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As `codex exec`, whose scripts rely on it: a missing picture, an answer that does not fit its
    /// schema and a file that cannot be written are warnings.
    AsCodex,
    /// They fail the run; a missing picture before its turn is sent.
    Strict,
}

/// On which thread something is said, and what the arguments say of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    New {
        prompt: Option<String>,
    },
    Resume {
        which: Which,
        prompt: Option<String>,
    },
    Fork {
        thread: String,
        prompt: Option<String>,
    },
}

/// Which thread is resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Named(String),
    Last,
}

impl Exec {
    /// What is wanted; an error is wrong usage.
    pub(crate) fn wish(self) -> Result<Wish, clap::Error> {
        let Self {
            prompt,
            images,
            options,
            command,
        } = self;
        let (kind, further) = match command {
            None => {
                let wish = Wish {
                    what: Wanted::New { prompt },
                    images,
                    options,
                    manner: Manner::AsCodex,
                };
                return wish.checked();
            }
            Some(ExecCommand::Review { .. }) => return Err(not_yet("review")),
            Some(ExecCommand::Resume(further)) => (Kind::Resume, further),
            Some(ExecCommand::Fork(further)) => (Kind::Fork, further),
        };
        if prompt.is_some() {
            return Err(wrong("a prompt before `resume` or `fork`"));
        }
        let options = options.then(further.options);
        let what = match (kind, further.thread, further.prompt) {
            (Kind::Resume, thread, prompt) => resumed(&options, thread, prompt)?,
            (Kind::Fork, Some(thread), prompt) if !options.last => Wanted::Fork { thread, prompt },
            (Kind::Fork, _, _) => return Err(wrong("`fork` needs the thread to copy")),
        };
        let wish = Wish {
            what,
            images: images.into_iter().chain(further.images).collect(),
            options,
            manner: Manner::AsCodex,
        };
        wish.checked()
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Resume,
    Fork,
}

fn resumed(
    options: &ExecOptions,
    thread: Option<String>,
    prompt: Option<String>,
) -> Result<Wanted, clap::Error> {
    match (options.last, thread, prompt) {
        (true, prompt, None) => Ok(Wanted::Resume {
            which: Which::Last,
            prompt,
        }),
        (true, _, Some(_)) => Err(wrong("a thread together with `--last`")),
        (false, Some(thread), prompt) => Ok(Wanted::Resume {
            which: Which::Named(thread),
            prompt,
        }),
        (false, None, _) => Err(wrong("`resume` needs a thread or `--last`")),
    }
}

impl Wish {
    pub(super) fn checked(self) -> Result<Self, clap::Error> {
        let options = &self.options;
        if options.idle.wants_worktree() {
            return Err(not_yet("--worktree"));
        }
        let resumes = matches!(self.what, Wanted::Resume { .. });
        if (options.last || options.all) && !resumes {
            return Err(wrong("`--last` or `--all` without `resume`"));
        }
        Ok(self)
    }
}

fn not_yet(what: &str) -> clap::Error {
    wrong(&format!("{what}: not supported by turnlane exec yet"))
}

fn wrong(message: &str) -> clap::Error {
    let mut command = Args::command();
    command.build();
    let exec = command.find_subcommand_mut("exec");
    match exec {
        Some(exec) => exec.error(ErrorKind::ArgumentConflict, message),
        None => clap::Error::raw(ErrorKind::ArgumentConflict, message),
    }
}

const AFTER_HELP: &str = "\
Standard output is the final message and nothing else, or with --json one event per line; progress
goes to standard error. Exit code 0: the turn completed. 1: it failed, was interrupted, or was
refused before it began, or standard output could not be written. 2: wrong usage.

As with `codex exec`, a picture that is missing, an answer that does not fit --output-schema and a
file of -o that cannot be written are warnings, and the exit code is that of the turn. `turnlane run`
is strict: there each of them is exit code 1, and without its picture nothing is sent.

If the daemon that runs the turn ends, the command says so at once and waits up to 30 s for the next
one, which decides what became of the turn. `turnlane run` ends after a second.

Without a running daemon the thread is run in this process; either way it is stored in
$TURNLANE_HOME and can be resumed from any program.

Examples:
  turnlane exec \"what does this repository do?\"
  turnlane exec --json -s workspace-write \"make the tests pass\" | jq .
  git diff | turnlane exec \"review this\"
  turnlane exec resume --last \"now the docs\"
  turnlane exec -o answer.json --output-schema schema.json - < prompt.txt";

#[cfg(test)]
mod tests;
