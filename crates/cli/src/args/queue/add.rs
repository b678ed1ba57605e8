//! The flags of `turnlane queue add`.
//!
//! The invariant here: a turn goes to exactly one thread, which is named or made. A setting that an
//! existing thread cannot take is refused by the parser or by the command, never dropped.

use std::path::PathBuf;

use clap::{ArgGroup, ValueEnum};

use super::super::exec::options::SandboxArg;
use super::super::shared::{Answer, Text};
use crate::shown::time::{When, parse_when};

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("where").required(true), after_help = AFTER_HELP)]
pub(crate) struct QueueAdd {
    /// The thread: its id, the beginning of its id (8 characters or more), or its name
    #[arg(short, long, value_name = "THREAD", group = "where")]
    pub(crate) thread: Option<String>,

    /// Make a new thread for it
    #[arg(long, group = "where")]
    pub(crate) new: bool,

    /// With --new: the name of the thread
    #[arg(long, value_name = "NAME", conflicts_with = "thread")]
    pub(crate) name: Option<String>,

    /// With --name: queue it on the thread of that name if there is one already
    #[arg(long, requires = "name", conflicts_with = "thread")]
    pub(crate) reuse: bool,

    /// With --new: the engine that runs its turns
    #[arg(long, value_name = "NAME", conflicts_with = "thread")]
    pub(crate) engine: Option<String>,

    /// The directory to work in (default with --new: here; with --server, that of the server)
    #[arg(short = 'C', long, alias = "cwd", value_name = "DIR")]
    pub(crate) cd: Option<PathBuf>,

    /// The model
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Where commands may write
    #[arg(short, long, value_enum, value_name = "MODE")]
    pub(crate) sandbox: Option<SandboxArg>,

    /// Let commands of a workspace-write sandbox use the network
    #[arg(long)]
    pub(crate) network: bool,

    /// When the agent asks for an approval; `never` for a night without you
    #[arg(
        short,
        long,
        visible_alias = "ask-for-approval",
        value_enum,
        value_name = "POLICY"
    )]
    pub(crate) ask: Option<AskArg>,

    /// One setting, as in config.toml: `-c model_reasoning_effort=high`; may be repeated
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE")]
    pub(crate) config: Vec<String>,

    /// Not before: in so long (`30m`, `8h`, `2d`) or at a time (`2026-01-31T07:30:00Z`)
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub(crate) not_before: Option<When>,

    /// Repeating the command with the same key makes no second thread and queues no second turn
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,

    #[command(flatten)]
    pub(crate) text: Text,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

const AFTER_HELP: &str = "\
A new thread without -s and -a has the sandbox and the approval policy of the configuration; without
one of those it may read and not write, and a turn that needs more waits for your answer
(`turnlane approvals list`).

On an existing thread (--thread, or --reuse) --cd, -m, -s, -a and -c apply from this turn on. A key
of -c that a turn cannot change is refused.

A key holds for a new thread for as long as the thread exists, and on an existing thread for
queue.dedupe_window (24h) after its turn ended.

Examples:
  turnlane queue add --new --name nightly -s workspace-write --network -a never 'update it all'
  turnlane queue add --new --name nightly --reuse 'again, for what is new since yesterday'
  turnlane queue add --thread nightly --not-before 6h 'write the report'
  turnlane queue add --new --key build-17 --json 'find out why build 17 failed'";

/// The values of `--ask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AskArg {
    /// Before every command that is not known to be harmless
    Untrusted,
    /// When the agent wants to leave its sandbox
    OnRequest,
    /// Never: what the sandbox does not allow fails
    Never,
}

impl AskArg {
    /// The word that the configuration knows it by.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::OnRequest => "on-request",
            Self::Never => "never",
        }
    }
}
