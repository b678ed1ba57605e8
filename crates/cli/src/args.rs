//! The arguments, and with them what `--help` teaches.

mod app_server;
mod approvals;
mod auth;
mod demo;
pub(crate) mod exec;
mod exec_server;
mod fanout;
mod queue;
mod reach;
mod run;
mod serve;
mod shared;
mod shim;
mod status;
mod store;
mod thread;
mod tools;
mod usage;

use clap::{Parser, Subcommand};

pub(crate) use app_server::{AppServer, AppServerCommand, GenerateJsonSchema};
pub(crate) use approvals::{
    ApprovalsAccept, ApprovalsArgs, ApprovalsCommand, ApprovalsDecline, ApprovalsList,
    ApprovalsShow,
};
pub(crate) use auth::AuthArgs;
pub(crate) use demo::{Demo, DemoSubject};
pub(crate) use exec::{ColorArg, Exec, ExecOptions, Manner, Wanted, Which, Wish};
pub(crate) use exec_server::{DialectArg, ExecServer};
pub(crate) use fanout::{
    FanoutArgs, FanoutCommand, FanoutExport, FanoutItems, FanoutList, FanoutLogs, FanoutPause,
    FanoutResume, FanoutRetry, FanoutRm, FanoutRun, HereArgs, InputArgs, LimitArgs, OneJobArgs,
    StoredJobCommand,
};
pub(crate) use queue::{
    QueueAdd, QueueArgs, QueueCommand, QueueEdit, QueueList, QueueMv, QueuePause, QueueResume,
    QueueRetry, QueueRm, QueueStart, QueueWait,
};
pub(crate) use reach::Reach;
pub(crate) use run::RunArgs;
pub(crate) use serve::{Serve, ServeCommand, ServeStatus, ServeStop};
pub(crate) use shared::{Answer, Text};
pub(crate) use shim::{DaemonUse, OnBlockArg, OnDisconnectArg, OnUnknownArg, ShimArgs};
pub(crate) use status::StatusArgs;
pub(crate) use store::{
    StoreArgs, StoreBackup, StoreCheck, StoreCommand, StoreCompact, StorePrune,
};
pub(crate) use thread::{
    SomeThreads, ThreadArgs, ThreadCommand, ThreadFork, ThreadList, ThreadRelease, ThreadRename,
    ThreadRm, ThreadShortcut, ThreadShow, ThreadStop, ThreadTail,
};
pub(crate) use tools::{CompletionsArgs, ManArgs, ShellArg};

/// A durable runtime for coding agents.
///
/// Every conversation (a thread) has a lane: a crash-safe queue of turns, run one at a time by an
/// engine. Turnlane speaks Codex's protocols on both sides, so the clients and agents you already
/// have work with it.
///
/// This is an early version. What the commands below do, they do completely.
#[derive(Debug, Parser)]
#[command(name = "turnlane", version, after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct Args {
    /// One setting, as in config.toml; before or after a command that runs turns or serves clients
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE")]
    pub(crate) config: Vec<String>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  turnlane demo                                           see it work: nothing to install or set up
  turnlane run 'what does this repository do?'            one turn, here and now
  turnlane serve                                          the daemon: clients come and go, turns run
  turnlane queue add --new 'update the dependencies'      one for the daemon, which may wait
  turnlane status                                         what needs you, and how the night went
  turnlane thread list                                    what there is
  turnlane fanout run files.csv --instruction 'Review {path}'
                                                          one task over the rows of a table
  turnlane app-server --listen ws://127.0.0.1:7071        serve threads to Codex clients
  turnlane doctor                                         what is the matter, if something is
  turnlane exec-server --listen ws://127.0.0.1:0          run commands for a client elsewhere
  turnlane shim --id eng-1 --cwd . --stdio                one member of an orchestrator
  turnlane app-server generate-json-schema --out schema   the messages we serve, as JSON Schema

Environment:
  TURNLANE_HOME  our folder: config.toml, tokens, the database (default ~/.turnlane)
  CODEX_HOME     Codex's folder, whose config.toml is read below ours (default ~/.codex)
  TURNLANE_SERVER, TURNLANE_TOKEN
                 a server elsewhere and its token, for `status`, `thread`, `queue` and
                 `approvals`
  NO_COLOR, CLICOLOR, CLICOLOR_FORCE
                 colours, as in other programs
  RUST_LOG       what to log on standard error: error, warn (default), info (default of `serve`),
                 debug, trace,
                 or by part: RUST_LOG=turnlane_rpc=debug
  LOG_FORMAT     `json` for one JSON object per line, else text

Exit codes: 0 done, 1 refused or failed, 2 wrong usage.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it work in a few seconds: a queue of turns, a sandbox, an approval, a kill -9, the recovery
    ///
    /// It needs no API key, no agent, no server and no setup, and leaves nothing behind. It ends by
    /// checking what it claims, and with what to type next.
    Demo(Demo),

    /// Run one turn and look on: what happens on standard error, the answer on standard output
    Run(Box<RunArgs>),

    /// One screen: the daemon, what needs you, what runs, what waits, and how the last day went
    ///
    /// Works with and without a daemon. With --json one object.
    Status(StatusArgs),

    /// Threads: list, show, follow, stop, copy, put away, delete
    Thread(ThreadArgs),

    /// Queued turns: add, list, change, move, start, retry, hold
    Queue(Box<QueueArgs>),

    /// Jobs: one template over the rows of a table, one agent per row, one result per row
    Fanout(Box<FanoutArgs>),

    /// What agents ask before they do it: list, show, accept, decline
    Approvals(ApprovalsArgs),

    /// Run one turn without a person: a prompt in, the answer out
    ///
    /// Made to stand where `codex exec` stands: the same arguments, the same events with --json, the
    /// same exit codes. A thread that is busy is waited for, a signal leaves nothing running, and
    /// whatever was answered is on disk.
    Exec(Box<Exec>),

    /// Run as a daemon: serve clients, and run queued turns whether or not anybody is connected
    ///
    /// It listens on a websocket and on a socket in our folder, drains every queue of its home from
    /// its start on, and takes over what a crashed process left. Whatever was answered is on disk:
    /// queue turns, close the laptop, find them done.
    Serve(Box<Serve>),

    /// Serve threads and turns to clients such as the Codex terminal UI and the official SDKs
    ///
    /// It speaks Codex's app-server protocol and runs turns with its own agent loop, against any
    /// provider of the Responses API. What was answered is on disk: turns go on when clients leave,
    /// and a restart finds everything that was accepted.
    AppServer(Box<AppServer>),

    /// Run one member of an orchestrator such as batty: commands in, events out
    ///
    /// It stands where an orchestrator starts a program per member, and speaks its protocol: length
    /// frames on descriptor 3, JSON lines on standard input and output, or a unix socket. Messages,
    /// their order and their outcomes are on disk before they are acknowledged; the same --id in the
    /// same directory goes on after any crash. docs/orchestrators.md has the protocol.
    Shim(Box<ShimArgs>),

    /// Run commands and read files here for a client elsewhere: Codex, or any program
    ///
    /// Two dialects share one port and are told apart by a client's first message: `exec-server.v0`,
    /// and `process.v1`, which is what Codex speaks to a remote environment plus extensions of ours.
    /// Whatever a command starts is ended with it: on request, when its client goes away, and when
    /// this server dies.
    ExecServer(Box<ExecServer>),

    /// Keep the database: back it up, check it, delete old threads, make it smaller
    Store(StoreArgs),

    /// Check the installation: home directory, database, daemon, configuration, provider, sandbox
    ///
    /// Everything is tried, nothing is guessed from versions, nothing is changed. The database is read
    /// whole and its write lock is tried; a daemon that runs is asked. Each finding is `ok`, `fine`
    /// (absent, and nothing needs it) or `fix this` with what to type. Exit code 0: a turn could run in
    /// this directory and nothing has to be fixed. Else 1.
    Doctor(Doctor),

    /// Write a script that lets a shell complete our commands and flags
    Completions(CompletionsArgs),

    /// Write manual pages, one per command
    ///
    /// Files of the same names are overwritten, others are left alone.
    Man(ManArgs),

    #[command(flatten)]
    Shortcut(ThreadShortcut),
}

impl Command {
    /// Whether `-c` can have an effect: on a turn, on a server, or on what is checked.
    const fn takes_settings(&self) -> bool {
        match self {
            Self::Run(_)
            | Self::Exec(_)
            | Self::Serve(_)
            | Self::ExecServer(_)
            | Self::Shim(_)
            | Self::Doctor(_) => true,
            Self::AppServer(app_server) => app_server.command.is_none(),
            Self::Queue(queue) => matches!(queue.command, QueueCommand::Add(_)),
            Self::Fanout(fanout) => fanout.command.runs_items(),
            Self::Demo(_)
            | Self::Status(_)
            | Self::Thread(_)
            | Self::Approvals(_)
            | Self::Store(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Shortcut(_) => false,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// One setting to check with, as in config.toml; may be repeated
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE")]
    pub(crate) config: Vec<String>,

    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}
