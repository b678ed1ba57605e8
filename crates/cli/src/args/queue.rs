//! The flags of `turnlane queue`.
//!
//! The invariant here: a row is always named together with its thread, and a place in a queue by
//! exactly one flag.

mod add;

use clap::{ArgGroup, Subcommand};

pub(crate) use self::add::QueueAdd;
use super::reach::Reach;
use super::shared::{Answer, OneRow, OneThread, Text};

/// What `turnlane queue` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    pub(crate) command: QueueCommand,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

const AFTER_HELP: &str = "\
Every thread has one queue; the daemon of this home runs its turns one at a time, in order. What was
queued is on disk. Without a daemon everything but `start` works; nothing runs until there is one.

A turn that failed to start, or was cut off by a crash, stays in its place and holds the queue until
it is retried, changed, moved or removed.

Examples:
  turnlane queue add --thread 5b1d07e4 'now the docs'
  turnlane queue add --new --cd ~/src/app -s workspace-write -a never --not-before 8h 'update it'
  turnlane queue list                                 every queue with something in it
  turnlane queue list nightly
  turnlane queue mv nightly 3 --first                 the numbers are those of `queue list`
  turnlane queue wait nightly 3                       until its turn has ended";

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Queue a turn, on a thread that exists or on a new one
    ///
    /// When it returns, the turn is on disk. With --json one object: threadId, queuedTurn (the row, as
    /// `thread/queue/list` shows it), deduplicated, and for a repeated --key also turnId and state.
    Add(Box<QueueAdd>),
    /// What waits: of one thread, or of all that have something waiting
    ///
    /// With --json one object for a thread, as `thread/queue/list` shows it, all rows in `data`;
    /// without a thread, one thread per line.
    #[command(alias = "ls")]
    List(QueueList),
    /// Ask something else in a queued turn; its place and its id stay
    ///
    /// With --json the row, as `thread/queue/list` shows it.
    Edit(QueueEdit),
    /// Remove queued turns
    ///
    /// One that runs is no longer queued: `turnlane thread stop` stops it. With --json one object per
    /// line: queuedTurnId and deleted. The numbers of `queue list` are looked up once, before anything
    /// is removed.
    #[command(alias = "delete")]
    Rm(QueueRm),
    /// Wait until the turn of a queued turn has ended
    ///
    /// Exit code 0: it completed. 1: it failed, was interrupted or removed, or the queue is held and only
    /// a person can let it go on; what happened is said. 130: Ctrl-C, which stops nothing. With --json
    /// one object: threadId, queuedTurnId, turnId and status.
    Wait(QueueWait),
    /// Move a queued turn within its queue
    ///
    /// With --json the row, as `thread/queue/list` shows it.
    Mv(QueueMv),
    /// Run a queued turn now: the next one, or the one that is named; ends a pause and a wait
    ///
    /// With --json one object: threadId and turnId.
    Start(QueueStart),
    /// Let a failed turn try again, in its place: the one that holds the queue, or the named one
    ///
    /// With --json the row, as `thread/queue/list` shows it.
    Retry(QueueRetry),
    /// Hold a queue: what runs goes on, nothing new starts until it is resumed
    ///
    /// With --json the state of the queue, as `thread/queue/pause` answers.
    Pause(QueuePause),
    /// End a pause, or a wait for a provider
    ///
    /// A turn that failed holds the queue all the same: see `turnlane queue retry`. With --json the
    /// state of the queue, as `thread/queue/resume` answers.
    Resume(QueueResume),
}

#[derive(Debug, clap::Args)]
pub(crate) struct QueueList {
    /// The thread: its id, the beginning or end of it (8 characters or more), or its name
    #[arg(value_name = "THREAD")]
    pub(crate) thread: Option<String>,

    /// At most so many rows, or threads; all without it
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct QueueEdit {
    #[command(flatten)]
    pub(crate) which: OneThread,

    #[command(flatten)]
    pub(crate) row: OneRow,

    #[command(flatten)]
    pub(crate) text: Text,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct QueueRm {
    #[command(flatten)]
    pub(crate) which: OneThread,

    /// Queued turns: numbers in `queue list`, ids, or beginnings or ends of ids (8 characters or more)
    #[arg(value_name = "ROW", required_unless_present = "all")]
    pub(crate) rows: Vec<String>,

    /// Everything that waits
    #[arg(long, conflicts_with = "rows")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct QueueWait {
    #[command(flatten)]
    pub(crate) which: OneThread,

    #[command(flatten)]
    pub(crate) row: OneRow,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("place").required(true))]
pub(crate) struct QueueMv {
    #[command(flatten)]
    pub(crate) which: OneThread,

    #[command(flatten)]
    pub(crate) row: OneRow,

    /// To the head of the queue
    #[arg(long, group = "place")]
    pub(crate) first: bool,

    /// To the end of the queue
    #[arg(long, group = "place")]
    pub(crate) last: bool,

    /// In front of this one
    #[arg(long, value_name = "ROW", group = "place")]
    pub(crate) before: Option<String>,

    /// Behind this one
    #[arg(long, value_name = "ROW", group = "place")]
    pub(crate) after: Option<String>,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct QueueStart {
    #[command(flatten)]
    pub(crate) which: OneThread,

    /// The queued turn; the next one without it
    #[arg(value_name = "ROW")]
    pub(crate) row: Option<String>,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct QueueRetry {
    #[command(flatten)]
    pub(crate) which: OneThread,

    /// The queued turn; the one that holds the queue without it
    #[arg(value_name = "ROW")]
    pub(crate) row: Option<String>,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct QueuePause {
    #[command(flatten)]
    pub(crate) which: OneThread,

    /// Why, for those who look at the queue
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct QueueResume {
    #[command(flatten)]
    pub(crate) which: OneThread,

    #[command(flatten)]
    pub(crate) answer: Answer,
}
