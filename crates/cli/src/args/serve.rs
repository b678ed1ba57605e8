//! The flags of `turnlane serve`.

use std::path::PathBuf;

use super::auth::AuthArgs;

/// What `turnlane serve` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Serve {
    /// Where to listen besides the socket in our folder; may be repeated: `ws://IP:PORT` (port 0
    /// picks one), `unix://PATH`, `off` for nothing else [default: server.listen in config.toml, else
    /// `ws://127.0.0.1:0`]
    #[arg(long, value_name = "URL")]
    pub(crate) listen: Vec<String>,

    /// Run turns by this script (YAML or JSON) instead of a model: for demos and tests
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,

    /// One setting for this run, as in config.toml: `-c queue.on_crash=retry`
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE")]
    pub(crate) config: Vec<String>,

    // Last: its heading would also stand above what follows.
    #[command(flatten)]
    pub(crate) auth: AuthArgs,
}

const AFTER_HELP: &str = "\
One daemon serves a home. Other commands, the SDKs and `turnlane exec` find it by its socket,
$TURNLANE_HOME/run/app-server.sock, which only you can use. Clients of the websocket show a token as
`Authorization: Bearer TOKEN`; it is in $TURNLANE_HOME/token, which is made on the first start.

The first SIGTERM or SIGINT lets running turns end for server.shutdown_grace (30s) and interrupts
them then; a second one interrupts them at once. Queued turns wait for the next start.

Over HTTP, on the websocket's port:
  /healthz   200 until it is told to stop
  /readyz    200 when it serves; 503 while it recovers from a crash, or cannot write to its disk
  /metrics   Prometheus text; needs the token

Settings, in $TURNLANE_HOME/config.toml or with -c:
  server.listen, server.shutdown_grace, server.allowed_hosts, server.allowed_origins
  lanes.max_running         how many queued turns run at once (32)
  queue.max_depth           how many turns may wait in a new thread (1000)
  queue.on_crash            block (default), continue, retry: when this process died under a turn
  queue.on_stop             continue (default), block, retry: when a stop cut a turn
  queue.on_error            continue (default), block: when a turn failed
  queue.on_cannot_start     block (default), continue: when it could not even begin
  queue.on_limit            wait (default), fail: when the provider has no capacity or allowance
  queue.on_interrupt        pause (default), continue: when somebody stopped a turn
  approvals.timeout, approvals.unattended_timeout       no limit (default), or a time
  queue.dedupe_window, queue.poison_limit, thread.unload_after, engine.turn_timeout

Examples:
  turnlane serve                                      a port is picked and told
  turnlane serve --listen ws://127.0.0.1:7071         always the same port
  codex --remote unix://$HOME/.turnlane/run/app-server.sock      the Codex terminal UI as a client
  curl -H \"Authorization: Bearer $(cat ~/.turnlane/token)\" http://127.0.0.1:7071/metrics";
