//! The flags of `turnlane exec-server`.

use clap::ValueEnum;

use super::auth::AuthArgs;

/// What `turnlane exec-server` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ExecServer {
    /// Where to listen: `stdio://`, `ws://IP:PORT` (port 0 picks one) or `unix://PATH`
    #[arg(long, value_name = "URL")]
    pub(crate) listen: Option<String>,

    /// Which dialect a client speaks that does not say so
    #[arg(long, value_enum)]
    pub(crate) dialect: Option<DialectArg>,

    /// End when standard input does, so that whoever started us need not remember to stop us
    #[arg(long)]
    pub(crate) exit_on_stdin_close: bool,

    /// Accepted for scripts that pass it to Codex; requests are never refused for their number
    #[arg(long, value_name = "N")]
    pub(crate) concurrent_requests: Option<u64>,

    /// One setting for this run, as in config.toml: `-c exec_server.max_connections=8`
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE")]
    pub(crate) config: Vec<String>,

    // Last: its heading would also stand above what follows.
    #[command(flatten)]
    pub(crate) auth: AuthArgs,
}

const AFTER_HELP: &str = "\
With a websocket the address is the first line on standard error and, alone, on standard output.
Clients show a token as `Authorization: Bearer TOKEN`; unless told otherwise it is in
$TURNLANE_HOME/exec-server.token, which is made on first use.

Examples:
  turnlane exec-server                                    one client on standard input and output
  turnlane exec-server --listen ws://127.0.0.1:7070       many clients, with the token above
  turnlane exec-server --listen unix:///run/me/exec.sock  many clients of this user
  turnlane exec-server --listen ws://127.0.0.1:7070 --ws-auth none
      for Codex: CODEX_EXEC_SERVER_URL=ws://127.0.0.1:7070 codex";

/// The values of `--dialect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DialectArg {
    /// Decided by the client's first message
    Auto,
    /// `exec-server.v0`
    V0,
    /// `process.v1`
    Process,
}
