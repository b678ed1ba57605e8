//! The flags of `turnlane fanout run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, ValueEnum};
use turnlane::{
    ExportFormat, ImportFormat, JobItemState, KeepThreads, MaxFailures, OnDuplicate, OnItemLoss,
    ResultChannel, Worktree,
};

use super::HereArgs;
use crate::args::exec::options::SandboxArg;
use crate::args::shared::Answer;

/// What `turnlane fanout run` is told.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("task").required(true).args(["instruction", "template"]))]
#[command(group = ArgGroup::new("source").required(true).args(["input", "input_flag"]))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each flag that is given or not"
)]
pub(crate) struct FanoutRun {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// The task of each row; `{column}` is replaced by the row's value
    #[arg(long, value_name = "TEXT")]
    pub(crate) instruction: Option<String>,

    /// A file with the task of each row
    #[arg(long, value_name = "FILE")]
    pub(crate) template: Option<PathBuf>,

    /// The column with the items' ids; row numbers without it
    #[arg(long, value_name = "COLUMN")]
    pub(crate) id: Option<String>,

    /// A file with a JSON Schema that every result has to fit
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,

    /// Write the results to this file at the end; without it they stay in the store
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// The job's name; that of the input file without it
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// The way workers deliver results [default: auto]
    #[arg(long, value_enum, value_name = "CHANNEL")]
    pub(crate) result: Option<ChannelArg>,

    /// The engine of the items
    #[arg(long, value_name = "NAME")]
    pub(crate) engine: Option<String>,

    /// The model
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// The directory to work in
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cd: Option<PathBuf>,

    /// Where commands may write
    #[arg(short, long, value_enum, value_name = "MODE")]
    pub(crate) sandbox: Option<SandboxArg>,

    /// What becomes of a second row with the same id [default: error]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) on_duplicate: Option<DuplicateArg>,

    /// Keep placeholders without a column, and let rows of JSON lack columns
    #[arg(long)]
    pub(crate) allow_missing: bool,

    /// Run rows with the same task once; the others are skipped and get its result
    #[arg(long)]
    pub(crate) dedupe: bool,

    /// The column with the model of each row; blank cells mean that of the job
    #[arg(long, value_name = "COLUMN")]
    pub(crate) model_col: Option<String>,

    /// The column with the reasoning effort of each row; blank cells mean that of the job
    #[arg(long, value_name = "COLUMN")]
    pub(crate) effort_col: Option<String>,

    /// What becomes of an item whose process died [default: continue]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) on_crash: Option<CrashArg>,

    /// The threads that stay after their items have ended; all up to 10,000 rows, else those of failed
    /// items
    #[arg(long, value_enum, value_name = "WHICH")]
    pub(crate) keep_threads: Option<KeepArg>,

    /// Where an item works: with all others in the job's directory, or in a git worktree of its own
    #[arg(long, value_enum, value_name = "WHICH", default_value = "none")]
    pub(crate) worktree: WorktreeArg,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    /// One setting for this job, as in config.toml; the job then runs in this process
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE")]
    pub(crate) config: Vec<String>,

    /// Show the number of rows, three prompts and an estimate of tokens; store nothing, call no model
    #[arg(long, conflicts_with_all = ["detach", "new"])]
    pub(crate) dry_run: bool,

    /// Start the job on the daemon and return
    #[arg(long)]
    pub(crate) detach: bool,

    /// Make a new job, although an unfinished one has the same input and settings
    #[arg(long)]
    pub(crate) new: bool,

    /// Replace an output file that exists
    #[arg(long)]
    pub(crate) force: bool,

    /// Wait at a quota until it is reset, at most so long, and continue
    #[arg(long, value_name = "MAX", num_args = 0..=1, default_missing_value = "24h", value_parser = duration)]
    pub(crate) wait_quota: Option<Duration>,

    #[command(flatten)]
    pub(crate) here: HereArgs,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// The input and the rows that are wanted of it.
#[derive(Debug, clap::Args)]
pub(crate) struct InputArgs {
    /// The table: .csv, .tsv, .jsonl or .txt; `-` is standard input
    #[arg(value_name = "INPUT")]
    pub(crate) input: Option<PathBuf>,

    /// The same as INPUT
    #[arg(short = 'i', long = "input", value_name = "INPUT")]
    pub(crate) input_flag: Option<PathBuf>,

    /// Read the input in this format, not in that of its suffix
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<FormatArg>,

    /// The separator of cells, one character
    #[arg(long, value_name = "CHAR")]
    pub(crate) delimiter: Option<char>,

    /// The encoding of an input that is not UTF-8
    #[arg(long, value_name = "NAME")]
    pub(crate) encoding: Option<String>,

    /// Skip so many rows
    #[arg(long, value_name = "ROWS")]
    pub(crate) offset: Option<u64>,

    /// Take at most so many rows
    #[arg(long, value_name = "ROWS")]
    pub(crate) limit: Option<u64>,

    /// Take only rows whose cell in COLUMN is VALUE; may be repeated
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = filter)]
    pub(crate) filters: Vec<(String, String)>,

    /// Take so many of these rows, 1 to 10000, the same ones in every run
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) sample: Option<u64>,

    /// Take another sample: any text
    #[arg(long, value_name = "KEY", requires = "sample")]
    pub(crate) sample_key: Option<String>,
}

impl InputArgs {
    /// The input, however it was named.
    pub(crate) fn path(&self) -> PathBuf {
        let named = self.input.clone().or_else(|| self.input_flag.clone());
        named.unwrap_or_else(|| "-".into())
    }
}

/// The limits of a job.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Items that run at once, 1 to 1024 [default: 8; 4 where each item is a process]
    #[arg(short = 'j', long = "concurrency", value_name = "N")]
    pub(crate) concurrency: Option<u64>,

    /// Starts of items per second
    #[arg(long, value_name = "N")]
    pub(crate) start_rate: Option<f64>,

    /// Further attempts of an item after its first [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u64>,

    /// The longest attempt [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,

    /// The longest time without a sign of an item's engine, while it runs no command [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) idle_timeout: Option<Duration>,

    /// The longest run of the whole job
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) deadline: Option<Duration>,

    /// Pause the job after so many failed items, or such a part of the finished ones [default: 20%]
    #[arg(long, value_name = "N|P%")]
    pub(crate) max_failures: Option<MaxFailures>,

    /// The tokens of all attempts together
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,

    /// The cost of all attempts together, in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<f64>,

    /// The number of attempts of the whole job
    #[arg(long, value_name = "N")]
    pub(crate) max_attempts: Option<u64>,

    /// The time between a stop and the interrupt of running items [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) grace: Option<Duration>,
}

/// A time such as `90s`, `10m` or `2h`; a plain number is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let parsed = crate::shown::time::parse_wait(text);
    parsed.ok_or_else(|| "expected a time such as 90s, 10m or 2h".to_owned())
}

fn filter(text: &str) -> Result<(String, String), String> {
    let (column, value) = text.split_once('=').ok_or("expected COLUMN=VALUE")?;
    Ok((column.to_owned(), value.to_owned()))
}

/// The state of an item by its word.
pub(super) fn item_state(word: &str) -> Result<JobItemState, String> {
    let mut states = JobItemState::ALL.into_iter();
    let found = states.find(|state| state.as_str() == word);
    found.ok_or_else(|| {
        let words: Vec<_> = JobItemState::ALL.iter().map(|it| it.as_str()).collect();
        format!("expected one of {}", words.join(", "))
    })
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident for $of:ty { $($word:ident),* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
        pub(crate) enum $name {
            $(#[doc(hidden)] $word,)*
        }

        impl From<$name> for $of {
            fn from(word: $name) -> Self {
                match word {
                    $($name::$word => Self::$word,)*
                }
            }
        }
    )*};
}

words! {
    /// The values of `--result`.
    ChannelArg for ResultChannel { Auto, Tool, Message, Text }
    /// The values of `--on-duplicate`.
    DuplicateArg for OnDuplicate { Error, Skip, Suffix }
    /// The values of `--on-crash`.
    CrashArg for OnItemLoss { Continue, Restart, Fail }
    /// The values of `--keep-threads`.
    KeepArg for KeepThreads { All, Failed, None }
    /// The values of `--worktree`.
    WorktreeArg for Worktree { None, Item }
    /// The values of `--format` of an input.
    FormatArg for ImportFormat { Csv, Tsv, Jsonl, Lines }
    /// The values of `--format` of an export.
    ExportFormatArg for ExportFormat { Csv, Jsonl }
}
