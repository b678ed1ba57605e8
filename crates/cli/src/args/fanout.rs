//! The flags of `turnlane fanout`.
//!
//! The invariant here: a job is named by its id, the end of its id (6 characters or more) or its name,
//! in every command. Flags of `run` that the server checks are passed on as they are.

mod run;

use std::path::PathBuf;

use clap::Subcommand;

pub(crate) use self::run::{ExportFormatArg, FanoutRun, InputArgs, LimitArgs};
use super::reach::Reach;
use super::shared::Answer;

/// What `turnlane fanout` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FanoutArgs {
    #[command(subcommand)]
    pub(crate) command: FanoutCommand,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

const AFTER_HELP: &str = "\
A job runs one template over the rows of a table, one agent per row, and collects one result per row.
Rows, attempts and results are on disk: after Ctrl-C or a crash the same `fanout run` continues the
job, and no row that has a result runs again.

Exit codes of `run`, `resume`, `retry` and `watch`: 0 every item succeeded or was skipped. 1 the job
failed, or its results could not be written, or the server was lost. 2 wrong usage or bad input, and
nothing was started. 3 some items failed, or the job was cancelled. 4 the job is paused: by a quota, a
login, a budget, too many failures or a deadline. 130 Ctrl-C, 143 SIGTERM: the job is paused.

Examples:
  turnlane fanout run files.csv --instruction 'Review {path}' -o reviews.csv
  git ls-files '*.rs' | turnlane fanout run - --format lines --instruction 'Review {line}' -j 16
  turnlane fanout run files.csv --template review.txt --schema score.json --dry-run
  turnlane fanout list
  turnlane fanout items review --state failed
  turnlane fanout retry review --failed
  turnlane fanout export review -o reviews.csv
  turnlane fanout run files.csv --instruction 'Fix {path}' --worktree item -s workspace-write

docs/fanout.md has a worked example.";

#[derive(Debug, Subcommand)]
pub(crate) enum FanoutCommand {
    /// Run a template over the rows of a file, or continue the job that did
    ///
    /// Progress is shown on standard error. With --json one object per line on standard output:
    /// fanout.started, fanout.progress, with --items fanout.item for every item that has ended, and
    /// fanout.ended at last.
    Run(Box<FanoutRun>),
    /// Continue a paused job; without a daemon it runs in this process until it has ended
    Resume(FanoutResume),
    /// Run failed or cancelled items again; without a daemon in this process
    Retry(FanoutRetry),
    #[command(flatten)]
    Stored(StoredJobCommand),
}

/// Commands about stored jobs, which run no item in this process.
#[derive(Debug, Subcommand)]
pub(crate) enum StoredJobCommand {
    /// List jobs, the newest first
    ///
    /// With --json one object per line, as `fanout/list` shows it.
    #[command(alias = "ls")]
    List(FanoutList),
    /// Show one job
    ///
    /// With --json one object, as `fanout/read` shows it.
    Show(OneJobArgs),
    /// Follow a job until it has ended or is paused; starts nothing
    Watch(OneJobArgs),
    /// List the items of a job, in input order
    ///
    /// With --json one object per line, as `fanout/items/list` shows it.
    Items(FanoutItems),
    /// Show one item: its row, its attempts with their threads, its result
    ///
    /// With --json one object, as `fanout/items/read` shows it.
    Logs(FanoutLogs),
    /// Show what a job has used
    ///
    /// With --json one object: jobId and usage.
    Cost(OneJobArgs),
    /// Pause a job: no further item starts; running ones finish, or are interrupted with --now
    Pause(FanoutPause),
    /// Cancel a job: pending items never start, running ones are interrupted
    Cancel(OneJobArgs),
    /// Write the results so far to a file, or to standard output
    Export(FanoutExport),
    /// Delete a job with its rows, results, threads and worktrees
    ///
    /// A job whose worktrees have work in them is deleted with --force only.
    #[command(alias = "delete")]
    Rm(FanoutRm),
}

impl FanoutCommand {
    /// Returns true if it may run items in this process, where `-c` has an effect.
    pub(crate) const fn runs_items(&self) -> bool {
        !matches!(self, Self::Stored(_))
    }
}

/// One job.
#[derive(Debug, clap::Args)]
pub(crate) struct OneJobArgs {
    /// The job: its id, the end of it (6 characters or more), or its name
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FanoutList {
    /// At most so many jobs; all without it
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FanoutItems {
    #[command(flatten)]
    pub(crate) one: OneJobArgs,

    /// Only items in this state: pending, running, succeeded, failed, skipped, cancelled; may be
    /// repeated
    #[arg(long, value_name = "STATE", value_parser = run::item_state)]
    pub(crate) state: Vec<turnlane::JobItemState>,

    /// At most so many items; all without it
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FanoutLogs {
    #[command(flatten)]
    pub(crate) one: OneJobArgs,

    /// The item's id
    #[arg(value_name = "ITEM")]
    pub(crate) item: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FanoutPause {
    #[command(flatten)]
    pub(crate) one: OneJobArgs,

    /// Interrupt the items that run, after the job's grace
    #[arg(long)]
    pub(crate) now: bool,
}

/// The flags of commands that run a job in this process where no daemon does.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct HereArgs {
    /// Run the items by this script (YAML or JSON) instead of a model: for demos and tests
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,

    /// With --json: one line for every item that has ended
    #[arg(long, requires = "json")]
    pub(crate) items: bool,

    /// Show no progress
    #[arg(long)]
    pub(crate) no_progress: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FanoutResume {
    #[command(flatten)]
    pub(crate) one: OneJobArgs,

    #[command(flatten)]
    pub(crate) here: HereArgs,
}

#[derive(Debug, clap::Args)]
#[group(id = "which", multiple = true)]
pub(crate) struct FanoutRetry {
    #[command(flatten)]
    pub(crate) one: OneJobArgs,

    /// Items that failed; what is retried unless something else is named
    #[arg(long)]
    pub(crate) failed: bool,

    /// Items that were cancelled
    #[arg(long)]
    pub(crate) cancelled: bool,

    /// This item; may be repeated
    #[arg(long = "item", value_name = "ITEM", conflicts_with_all = ["failed", "cancelled"])]
    pub(crate) ids: Vec<String>,

    /// A new template for these items and for rows that have not run
    #[arg(long, value_name = "FILE")]
    pub(crate) template: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) here: HereArgs,
}

#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each flag that is given or not"
)]
pub(crate) struct FanoutExport {
    #[command(flatten)]
    pub(crate) one: OneJobArgs,

    /// The file; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// The format; by the suffix of the file unless it is set
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<ExportFormatArg>,

    /// Replace a file that exists
    #[arg(long)]
    pub(crate) force: bool,

    /// Add columns about errors, threads, tokens and times
    #[arg(long)]
    pub(crate) wide: bool,

    /// Add a column for each top-level member of the results
    #[arg(long)]
    pub(crate) flatten: bool,

    /// Do not guard cells that a spreadsheet would read as formulas
    #[arg(long)]
    pub(crate) csv_raw: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FanoutRm {
    #[command(flatten)]
    pub(crate) one: OneJobArgs,

    /// Delete worktrees that have work in them too; branches with commits stay
    #[arg(long)]
    pub(crate) force: bool,
}
