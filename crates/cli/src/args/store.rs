//! The flags of `turnlane store`.
//!
//! The invariant here: a command that deletes threads asks the person first, or needs `--yes`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

use super::shared::Answer;
use crate::shown::time::parse_wait;

/// What `turnlane store` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

const AFTER_HELP: &str = "\
These commands work on the database of this home, turnlane.db in $TURNLANE_HOME, whether or not a
daemon runs; only `compact` needs the daemon to be stopped. To restore a backup, stop the daemon and
put the file in the place of turnlane.db, without turnlane.db-wal and turnlane.db-shm beside it.

Examples:
  turnlane store backup ~/turnlane-monday.db
  turnlane store check
  turnlane store prune --older-than 30d --dry-run    what would go
  turnlane store prune --older-than 30d --archived-only --yes
  turnlane store compact

In config.toml, [store] retention = \"90d\" has the daemon delete archived threads of that age.";

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Copy the database into a new file, while a daemon may go on writing
    ///
    /// The copy is readable only for you, on disk and checked when the command ends. A file that exists
    /// is not overwritten. With --json one object: path and bytes.
    Backup(StoreBackup),
    /// Read the whole database and check it: pages, references, queues
    ///
    /// Nothing is changed. Exit code 1 when something is wrong. With --json one object: schema, problems,
    /// databaseBytes and logBytes.
    Check(StoreCheck),
    /// Delete threads that nothing happened on for a long time
    ///
    /// A thread with queued turns, a running turn or an open approval stays, however old. At a terminal
    /// the command asks first; elsewhere it needs --yes. With --json one object per thread: threadId,
    /// name, archived, lastActivityMs and done, which is `deleted` or `found`.
    Prune(StorePrune),
    /// Write the database anew without free space, so that the file becomes smaller
    ///
    /// It needs as much free space as the database has, and no daemon. With --json one object:
    /// bytesBefore and bytesAfter.
    Compact(StoreCompact),
}

#[derive(Debug, clap::Args)]
pub(crate) struct StoreBackup {
    /// The new file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StoreCheck {
    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StorePrune {
    /// How long nothing must have happened: `12h`, `30d`
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older_than: Duration,

    /// Only threads that are archived
    #[arg(long)]
    pub(crate) archived_only: bool,

    /// Only show what would be deleted
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StoreCompact {
    #[command(flatten)]
    pub(crate) answer: Answer,
}

fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "expected an age such as `12h` or `30d`".to_owned();
    parse_wait(text).ok_or_else(wrong)
}
