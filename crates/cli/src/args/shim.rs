//! The arguments of `turnlane shim`.
//!
//! The invariant here: every flag that an orchestrator may pass to its own shim is accepted. Those that
//! mean nothing here say so.

use std::path::PathBuf;

use clap::ValueEnum;

use super::exec::options::SandboxArg;

/// Options of `turnlane shim`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ShimArgs {
    /// The name of the member: 1 to 64 letters, digits, `.`, `_` and `-`; else `BATTY_MEMBER`
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,

    /// The directory to work in; with the id it names the thread
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// The engine: native, codex or codex-exec; `acp`, `kiro` and `claude` are refused until there is an
    /// engine for them
    #[arg(long, value_name = "TYPE", default_value = "native")]
    pub(crate) agent_type: String,

    /// The program of the engine, for a server in this process; further words are ignored for codex
    #[arg(long, value_name = "CMD")]
    pub(crate) cmd: Option<String>,

    /// Accepted, without effect: there is no other mode
    #[arg(long)]
    pub(crate) sdk_mode: bool,

    /// Accepted, without effect: there is no terminal
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) rows: u16,

    /// Accepted, without effect: there is no terminal
    #[arg(long, value_name = "N", default_value_t = 220)]
    pub(crate) cols: u16,

    /// Append a readable log to this file; rotated at 50 MiB
    #[arg(long, value_name = "FILE")]
    pub(crate) pty_log_path: Option<PathBuf>,

    /// How long a turn may go on after a signal, or after the end of the channel with `drain`; else
    /// `BATTY_GRACEFUL_SHUTDOWN_TIMEOUT_SECS`, else 5
    #[arg(long, value_name = "SECS")]
    pub(crate) graceful_shutdown_timeout_secs: Option<u64>,

    /// Keep uncommitted work in a private ref when the shim ends, never on a branch; else
    /// `BATTY_AUTO_COMMIT_ON_RESTART`, else true
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub(crate) auto_commit_on_restart: Option<bool>,

    /// Speak JSON lines on standard input and output instead of frames on descriptor 3
    #[arg(long, conflicts_with = "listen")]
    pub(crate) stdio: bool,

    #[arg(
        long,
        value_name = "URL",
        value_parser = listen,
        help = "Serve any number of clients on a unix socket: unix://PATH"
    )]
    pub(crate) listen: Option<ShimListen>,

    /// When the orchestrator is gone: stop the turn, drain it, or detach and leave it to the daemon
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) on_disconnect: Option<OnDisconnectArg>,

    /// A message whose outcome a crash left unknown: skip it, block the lane, or retry it
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) on_unknown: Option<OnUnknownArg>,

    /// A message that a limit of the provider stopped: wait and go on, or fail it
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnBlockArg::Wait)]
    pub(crate) on_block: OnBlockArg,

    /// How many messages may wait; further ones are refused
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_queue: u32,

    /// How long a lane that another process holds is waited for; 20 on descriptor 3, else 0
    #[arg(long, value_name = "SECS")]
    pub(crate) handoff_wait: Option<u64>,

    /// End a turn after so many seconds; 0 for never
    #[arg(long, value_name = "SECS", default_value_t = 7_200)]
    pub(crate) turn_timeout: u64,

    /// Report a turn that has been silent for so many seconds; 0 for never
    #[arg(long, value_name = "SECS", default_value_t = 600)]
    pub(crate) stall_after: u64,

    /// The command that the agent is told to reply with; `batty send` on descriptor 3, else none
    #[arg(long, value_name = "COMMAND")]
    pub(crate) reply_command: Option<String>,

    /// Start a new thread in place of the present one; what waits moves there
    #[arg(long)]
    pub(crate) fresh: bool,

    /// Pause the lane after so many failed turns in a row; 0 for never
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) hold_after_failures: u32,

    /// The daemon of the home: require it, never use it, or use it if it answers
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = DaemonUse::Auto)]
    pub(crate) daemon: DaemonUse,

    /// The model
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// One setting, as in config.toml; may be repeated
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE")]
    pub(crate) config: Vec<String>,

    /// Where commands may write
    #[arg(short, long, value_enum, value_name = "MODE")]
    pub(crate) sandbox: Option<SandboxArg>,

    /// A further directory that commands may write to; may be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) add_dir: Vec<PathBuf>,

    /// Run turns by this script instead of a model: for demos and tests
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) script: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
One shim is one lane: messages are queued turns, run one at a time by the engine. Nothing that was
acknowledged is lost by the end of the shim, of the orchestrator, or of the machine.

Examples:
  turnlane shim --id eng-1 --cwd . --stdio        then, after the line {\"event\":\"Ready\",...}, type:
    {\"cmd\":\"SendMessage\",\"from\":\"me\",\"body\":\"what is here?\",\"message_id\":\"m1\"}
  turnlane shim --id eng-1 --cwd . --listen unix:///tmp/eng-1.sock
  BATTY_BINARY_PATH=/path/to/turnlane batty start        with batty's own orchestrator

Exit codes: 0 ended in order, 2 wrong usage, 3 could not start, 4 the lane is held by another
process, 5 the store failed, 6 the channel broke. A signal ends the shim and is raised again.";

/// Where clients are served.
#[derive(Clone, Debug)]
pub(crate) struct ShimListen(pub(crate) PathBuf);

fn listen(url: &str) -> Result<ShimListen, String> {
    match url.strip_prefix("unix://") {
        Some(path) if !path.is_empty() => Ok(ShimListen(path.into())),
        _ => Err("must be unix://PATH".to_owned()),
    }
}

/// The values of `--daemon`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DaemonUse {
    Require,
    Never,
    Auto,
}

/// The values of `--on-disconnect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnDisconnectArg {
    Stop,
    Drain,
    Detach,
}

/// The values of `--on-unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnUnknownArg {
    Skip,
    Block,
    Retry,
}

/// The values of `--on-block`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnBlockArg {
    Wait,
    Fail,
}
