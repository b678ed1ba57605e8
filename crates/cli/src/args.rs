//! The arguments, and with them what `--help` teaches.

mod exec_server;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub(crate) use exec_server::{DialectArg, ExecServer};

/// A durable runtime for coding agents.
///
/// Every conversation (a thread) has a lane: a crash-safe queue of turns, run one at a time by an
/// engine. Turnlane speaks Codex's protocols on both sides, so the clients and agents you already
/// have work with it.
///
/// This is an early version: lanes and engines are libraries so far. What the commands below do,
/// they do completely.
#[derive(Debug, Parser)]
#[command(name = "turnlane", version, after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  turnlane doctor                                         what this machine can contain and confine
  turnlane exec-server --listen ws://127.0.0.1:0          run commands for a client elsewhere
  turnlane app-server generate-json-schema --out schema   the messages we serve, as JSON Schema

Environment:
  TURNLANE_HOME  our folder: config.toml, tokens (default ~/.turnlane)
  RUST_LOG       what to log on standard error: error, warn (default), info, debug, trace,
                 or by part: RUST_LOG=turnlane_rpc=debug
  LOG_FORMAT     `json` for one JSON object per line, else text

Exit codes: 0 done, 1 refused or failed, 2 wrong usage.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The app-server protocol: what clients such as the Codex terminal UI speak
    AppServer(AppServer),

    /// Run commands and read files here for a client elsewhere: Codex, or any program
    ///
    /// Two dialects share one port and are told apart by a client's first message: `exec-server.v0`,
    /// and `process.v1`, which is what Codex speaks to a remote environment plus extensions of ours.
    /// Whatever a command starts is ended with it: on request, when its client goes away, and when
    /// this server dies.
    ExecServer(ExecServer),

    /// What this machine offers to contain and confine commands, and why something better is absent
    ///
    /// Everything is tried, nothing is guessed from versions. Exit code 0 when commands can be
    /// contained with all their descendants and sandboxes can be enforced completely, else 1.
    Doctor(Doctor),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct AppServer {
    #[command(subcommand)]
    pub(crate) command: AppServerCommand,
}

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
