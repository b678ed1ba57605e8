//! The flags of `turnlane thread`.
//!
//! The invariant here: whatever removes something for good asks first or wants `--yes`.

use std::path::PathBuf;

use clap::Subcommand;

use super::reach::Reach;
use super::shared::{Answer, OneThread};

/// What `turnlane thread` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ThreadArgs {
    #[command(subcommand)]
    pub(crate) command: ThreadCommand,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

const AFTER_HELP: &str = "\
A thread is named by its id, by the short id that lists show (the end of its id), by 8 or more
characters of its beginning or end where only one has them, or by its name. A daemon of this home is used if one runs; without one everything but `tail` and
`stop` works all the same, since threads are stored in $TURNLANE_HOME.

Examples:
  turnlane thread list
  turnlane thread show 5b1d07e4
  turnlane thread show nightly --answers      only the answers
  turnlane thread tail 5b1d07e4               what happens on it, live
  turnlane thread fork 5b1d07e4 --name try
  turnlane thread rename 5b1d07e4 docs
  turnlane thread list --json | jq -r .id     one JSON object per thread

  turnlane thread list --server ws://127.0.0.1:7071 --token-file box.token
                                              those of a daemon elsewhere, here through
                                              `ssh -L 7071:127.0.0.1:7071 box`";

#[derive(Debug, Subcommand)]
pub(crate) enum ThreadCommand {
    /// The threads of this home, the last used first
    ///
    /// STATE says who has to act: `needs approval` and `held` wait for you, `starts in` waits for a
    /// time, `running` and `queued` for the agent; else it is how the last turn ended. With --json one
    /// thread per line, as `thread/list` of the protocol shows it.
    #[command(alias = "ls")]
    List(ThreadList),
    /// One thread: its settings, its queue and its last turns
    ///
    /// With --json one object: `thread` and `turns` (oldest first) as the protocol shows them, and
    /// `queue`, which is null where the thread is archived; with --answers one object per turn: turnId
    /// and answer.
    Show(ThreadShow),
    /// What happens on a thread, live: text, commands, approvals, the queue
    ///
    /// Leaving it (Ctrl-C, exit code 130) stops nothing. A server that is restarted is looked for, and
    /// what happened meanwhile is shown. With --json one event per line, by `type`: turn.started,
    /// item.started, item.delta, item.completed, turn.ended, approval.requested, approval.resolved,
    /// queue.changed, warning, gap, thread.gone.
    Tail(ThreadTail),
    /// Stop the turn that runs on a thread
    ///
    /// What it did stays in the history. The next queued turn begins, unless --pause is given. With
    /// --json one object: threadId, turnId and queue, which is `continue` or `pause`.
    Stop(ThreadStop),
    /// Copy a thread, to go on from the same history
    ///
    /// Queued turns are not copied. Standard output is the id of the new thread; with --json the new
    /// thread, as `thread/fork` shows it.
    Fork(ThreadFork),
    /// Put threads away: a running turn is stopped, queued turns wait until it is brought back
    ///
    /// With --json one object per line: threadId and done.
    Archive(SomeThreads),
    /// Bring threads back that were put away
    ///
    /// With --json one object per line: threadId and done.
    Unarchive(SomeThreads),
    /// Delete threads for good, with their history and their queued turns
    ///
    /// At a terminal it asks first; elsewhere it wants --yes. With --json one object per line:
    /// threadId and done.
    #[command(alias = "delete")]
    Rm(ThreadRm),
    /// Give a thread another name
    ///
    /// A name belongs to one thread at a time; archiving a thread frees its name. With --json one
    /// object: threadId and name.
    Rename(ThreadRename),
    /// Free a thread whose owner has ended in a way that cannot be seen from here
    ///
    /// Threads of dead processes are taken over by themselves. This is for a process of another user or
    /// machine of which that cannot be decided; `turnlane doctor` names such threads. The turn that ran
    /// there is interrupted, and its queued turn follows its rule for crashes. Refused while the owner is
    /// known to be alive. At a terminal it asks first; elsewhere it needs --yes. With --json one object:
    /// threadId, done (`released` or `unowned`) and interrupted.
    Release(ThreadRelease),
}

/// Commands of `turnlane thread` that also work without that word, since servers name them so in
/// their refusals.
#[derive(Debug, Subcommand)]
pub(crate) enum ThreadShortcut {
    /// The same as `turnlane thread fork`
    #[command(hide = true)]
    Fork(Short<ThreadFork>),
    /// The same as `turnlane thread archive`
    #[command(hide = true)]
    Archive(Short<SomeThreads>),
    /// The same as `turnlane thread unarchive`
    #[command(hide = true)]
    Unarchive(Short<SomeThreads>),
}

/// A command with the flags of those above it.
#[derive(Debug, clap::Args)]
pub(crate) struct Short<T: clap::Args> {
    #[command(flatten)]
    args: T,

    #[command(flatten)]
    reach: Reach,
}

impl ThreadShortcut {
    /// What it is short for.
    pub(crate) fn whole(self) -> ThreadArgs {
        let (command, reach) = match self {
            Self::Fork(Short { args, reach }) => (ThreadCommand::Fork(args), reach),
            Self::Archive(Short { args, reach }) => (ThreadCommand::Archive(args), reach),
            Self::Unarchive(Short { args, reach }) => (ThreadCommand::Unarchive(args), reach),
        };
        ThreadArgs { command, reach }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ThreadList {
    /// At most so many
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,

    /// Those that were put away, instead of the others
    #[arg(long)]
    pub(crate) archived: bool,

    /// Only those of this directory
    #[arg(short = 'C', long, alias = "cwd", value_name = "DIR")]
    pub(crate) cd: Option<PathBuf>,

    /// Only those whose name or first message holds this
    #[arg(long, value_name = "TEXT")]
    pub(crate) search: Option<String>,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ThreadShow {
    #[command(flatten)]
    pub(crate) which: OneThread,

    /// Only the answers: of each turn its last message
    #[arg(long)]
    pub(crate) answers: bool,

    /// So many of the last turns; 0 for none
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 10)]
    pub(crate) turns: u32,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ThreadTail {
    #[command(flatten)]
    pub(crate) which: OneThread,

    /// First show so many turns that have ended
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) turns: u32,

    /// End when nothing runs and nothing can start by itself
    ///
    /// The exit code is 0 if the queue is empty. It is 1, and without --json a line says why, if queued turns
    /// wait for you: the queue is paused, its first turn failed, or its provider refuses it until you resume the
    /// queue. It is 1 as well if the running turn asks for an approval and nothing decides it within 5
    /// seconds. A wait that ends by itself, like a back-off, is waited for; a line says until when.
    #[arg(long)]
    pub(crate) until_idle: bool,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ThreadStop {
    #[command(flatten)]
    pub(crate) which: OneThread,

    /// Hold the queue too, until `turnlane queue resume`
    #[arg(long)]
    pub(crate) pause: bool,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ThreadFork {
    #[command(flatten)]
    pub(crate) which: OneThread,

    /// The last turn that is copied; without it, all that have ended
    #[arg(long, value_name = "TURN")]
    pub(crate) at: Option<String>,

    /// What the copy is called
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SomeThreads {
    /// Threads: ids, beginnings or ends of ids (8 characters or more), or names
    #[arg(value_name = "THREAD", required = true)]
    pub(crate) threads: Vec<String>,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ThreadRename {
    #[command(flatten)]
    pub(crate) which: OneThread,

    /// The new name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ThreadRelease {
    #[command(flatten)]
    pub(crate) which: OneThread,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ThreadRm {
    #[command(flatten)]
    pub(crate) some: SomeThreads,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}
