//! The flags of `turnlane serve`.

use std::path::PathBuf;

use clap::Subcommand;

use super::auth::AuthArgs;
use super::shared::Answer;

/// What `turnlane serve` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct Serve {
    #[command(subcommand)]
    pub(crate) command: Option<ServeCommand>,

    /// Go on in the background: returns when the daemon is ready, and tells its process and addresses.
    /// It has no terminal, and logs to `$TURNLANE_HOME/log/serve.log`
    #[arg(long)]
    pub(crate) detach: bool,

    /// The process that `--detach` has started.
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub(crate) detached: bool,

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

#[derive(Debug, Subcommand)]
pub(crate) enum ServeCommand {
    /// Stop the daemon of this home, and wait until it has ended
    ///
    /// Running turns get `server.shutdown_grace` to end; queued turns wait for the next start. With
    /// --json one object: pid and stopped.
    Stop(ServeStop),
    /// Tell whether a daemon serves this home: exit code 0 if one does, 3 if none does
    ///
    /// With --json one object: state (running, stopping, suspended, silent, none), pid, startedAtMs,
    /// version and listen.
    Status(ServeStatus),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServeStop {
    /// Give running turns no grace: they are cut at their next step, and the next daemon continues them
    #[arg(long)]
    pub(crate) now: bool,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServeStatus {
    #[command(flatten)]
    pub(crate) answer: Answer,
}

const AFTER_HELP: &str = "\
One daemon serves a home. Other commands, the SDKs and `turnlane exec` find it by its socket,
$TURNLANE_HOME/run/app-server.sock, which only you can use. Clients of the websocket show a token as
`Authorization: Bearer TOKEN`; it is in $TURNLANE_HOME/token, which is made on the first start.

The first SIGTERM or SIGINT lets running turns end for server.shutdown_grace (30s) and interrupts
them then; a second one interrupts them at once. Queued turns wait for the next start. SIGHUP, which
is sent when a terminal is closed, does not end a daemon that was started in a terminal: it goes on
and writes to $TURNLANE_HOME/log/serve.log what it would have written there. A daemon that never had
a terminal (systemd, --detach) takes SIGHUP as SIGTERM.

What happens is logged on standard error: the end of each turn, each hold, each approval.
RUST_LOG=warn leaves failures only; LOG_FORMAT=json writes every line as JSON.

Over HTTP, on the websocket's port:
  /healthz   200 until it is told to stop
  /readyz    200 when it serves; 503 while it recovers from a crash, or cannot write to its disk
  /metrics   Prometheus text; needs the token

Settings, in $TURNLANE_HOME/config.toml or with -c:
  server.listen, server.shutdown_grace, server.allowed_hosts, server.allowed_origins
  server.max_connections    how many clients may be connected to each listener (1024)
  lanes.max_running         how many queued turns run at once (32)
  queue.max_depth           how many turns may wait in a new thread (1000)
  queue.on_crash            block (default), continue, retry: when this process died under a turn
  queue.on_stop             continue (default), block, retry: when a stop cut a turn
  queue.on_error            continue (default), block: when a turn failed
  queue.on_cannot_start     block (default), continue: when it could not even begin
  queue.on_limit            wait (default), fail: when the provider has no capacity or allowance
  queue.on_interrupt        pause (default), continue: when a client stopped a turn
  approvals.timeout, approvals.unattended_timeout       no limit (default), or a time
  process.sandbox           enforced (default), container: where this machine gives no mounts (as in
                            a plain container), run sandboxed commands without them
  queue.dedupe_window, queue.poison_limit, thread.unload_after, engine.turn_timeout

Examples:
  turnlane serve                                      a port is picked and told
  turnlane serve --listen ws://127.0.0.1:7071         always the same port
  turnlane serve --detach                             in the background, until `turnlane serve stop`
  turnlane serve status
  codex --remote unix://$HOME/.turnlane/run/app-server.sock      the Codex terminal UI as a client
  curl -H \"Authorization: Bearer $(cat ~/.turnlane/token)\" http://127.0.0.1:7071/metrics";
