//! The flags of `turnlane exec-server`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use turnlane_rpc::auth::{AuthMode, AuthOptions};

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
    #[arg(short = 'c', value_name = "KEY=VALUE")]
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

/// Who may connect; for every command that listens.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Authentication (websockets)")]
pub(crate) struct AuthArgs {
    /// What a client must show; `none` is for loopback only
    #[arg(long = "ws-auth", value_enum, value_name = "MODE")]
    auth: Option<AuthModeArg>,

    /// A file with the capability token in one line, readable by its owner only
    #[arg(long = "ws-token-file", value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// The SHA-256 of the capability token, in hex
    #[arg(long = "ws-token-sha256", value_name = "HEX")]
    token_sha256: Option<String>,

    /// A file with the secret that signs bearer tokens (HS256)
    #[arg(long = "ws-shared-secret-file", value_name = "FILE")]
    shared_secret_file: Option<PathBuf>,

    /// The issuer a signed token must name
    #[arg(long = "ws-issuer", value_name = "TEXT")]
    issuer: Option<String>,

    /// The audience a signed token must name
    #[arg(long = "ws-audience", value_name = "TEXT")]
    audience: Option<String>,

    /// How far the clock of a token's maker may be off
    #[arg(long = "ws-max-clock-skew-seconds", value_name = "N")]
    max_clock_skew_seconds: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AuthModeArg {
    CapabilityToken,
    SignedBearerToken,
    None,
}

impl AuthArgs {
    pub(crate) fn options(self) -> AuthOptions {
        AuthOptions {
            mode: self.auth.map(|mode| match mode {
                AuthModeArg::CapabilityToken => AuthMode::CapabilityToken,
                AuthModeArg::SignedBearerToken => AuthMode::SignedBearerToken,
                AuthModeArg::None => AuthMode::None,
            }),
            token_file: self.token_file,
            token_sha256: self.token_sha256,
            shared_secret_file: self.shared_secret_file,
            issuer: self.issuer,
            audience: self.audience,
            clock_skew: self.max_clock_skew_seconds.map(Duration::from_secs),
        }
    }
}
