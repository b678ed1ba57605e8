//! The flags of `turnlane app-server`.

use std::path::PathBuf;

use clap::Subcommand;

use super::auth::AuthArgs;

/// What `turnlane app-server` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct AppServer {
    /// Where to listen; may be repeated: `stdio://`, `ws://IP:PORT` (port 0 picks one),
    /// `unix://[PATH]` (default: run/app-server.sock in our folder), `off`
    #[arg(long, value_name = "URL")]
    pub(crate) listen: Vec<String>,

    /// The same as `--listen stdio://`, which is also the default
    #[arg(long)]
    pub(crate) stdio: bool,

    /// Run turns by this script (YAML or JSON) instead of a model: for demos and tests
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,

    /// One setting for this run, as in config.toml: `-c model=m-1`, `-c server.shutdown_grace=5s`
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE")]
    pub(crate) config: Vec<String>,

    #[command(subcommand)]
    pub(crate) command: Option<AppServerCommand>,

    // Last: its heading would also stand above what follows.
    #[command(flatten)]
    pub(crate) auth: AuthArgs,
}

const AFTER_HELP: &str = "\
Clients of a websocket show a token as `Authorization: Bearer TOKEN`; unless told otherwise it is in
$TURNLANE_HOME/token, which is made on first use. A model's key comes from the environment
(OPENAI_API_KEY, or what the provider's `env_key` names) or from $TURNLANE_HOME/keys.env.
Settings come from $CODEX_HOME/config.toml, then $TURNLANE_HOME/config.toml, then -c.

Examples:
  turnlane app-server                                 one client on standard input and output
  turnlane app-server --listen ws://127.0.0.1:7071    many clients, with the token above
  turnlane app-server --listen unix:// --listen ws://127.0.0.1:0
  codex --remote ws://127.0.0.1:7071 --remote-auth-token-env TURNLANE_TOKEN
                                                      the Codex terminal UI as a client, with the
                                                      token of $TURNLANE_HOME/token in that variable";

#[derive(Debug, Subcommand)]
pub(crate) enum AppServerCommand {
    /// Write the JSON Schema of everything we serve, for those who generate clients
    ///
    /// One file per message type and a bundle with all definitions in one. Files of the same names
    /// are overwritten, others are left alone. The same version always writes the same bytes.
    GenerateJsonSchema(GenerateJsonSchema),
}

#[derive(Debug, clap::Args)]
pub(crate) struct GenerateJsonSchema {
    /// The folder to write to; made if it does not exist
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: PathBuf,

    /// Accepted for scripts that pass it to Codex; our schema always holds everything
    #[arg(long)]
    pub(crate) experimental: bool,
}
