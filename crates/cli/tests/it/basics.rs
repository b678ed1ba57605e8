//! Version, help, usage errors, logging.

use insta::assert_snapshot;

use super::{shown, turnlane};

#[tokio::test]
async fn the_version_is_one_line() {
    assert_snapshot!(shown(turnlane(&["--version"])).await, @"
    exit 0
    -- stdout
    turnlane 0.1.0
    -- stderr
    ");
}

#[tokio::test]
async fn help_teaches() {
    assert_snapshot!(shown(turnlane(&["--help"])).await, @"
    exit 0
    -- stdout
    A durable runtime for coding agents.

    Every conversation (a thread) has a lane: a crash-safe queue of turns, run one at a time by an
    engine. Turnlane speaks Codex's protocols on both sides, so the clients and agents you already have
    work with it.

    This is an early version. What the commands below do, they do completely.

    Usage: turnlane [OPTIONS] <COMMAND>

    Commands:
      demo         See it work in a few seconds: a queue of turns, a sandbox, an approval, a kill -9,
                   the recovery
      run          Run one turn and look on: what happens on standard error, the answer on standard
                   output
      thread       Threads: list, show, follow, stop, copy, put away, delete
      queue        Queued turns: add, list, change, move, start, retry, hold
      approvals    What agents ask before they do it: list, accept, decline
      exec         Run one turn without a person: a prompt in, the answer out
      serve        Run as a daemon: serve clients, and run queued turns whether or not anybody is
                   connected
      app-server   Serve threads and turns to clients such as the Codex terminal UI and the official
                   SDKs
      exec-server  Run commands and read files here for a client elsewhere: Codex, or any program
      doctor       What this machine offers to contain and confine commands, and why something better is
                   absent
      completions  Write a script that lets a shell complete our commands and flags
      man          Write manual pages, one per command
      help         Print this message or the help of the given subcommand(s)

    Options:
      -c, --config <KEY=VALUE>
              One setting for this run, as in config.toml; may be given before or after the command

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      turnlane demo                                           see it work: nothing to install or set up
      turnlane run 'what does this repository do?'            one turn, here and now
      turnlane serve                                          the daemon: clients come and go, turns run
      turnlane queue add --new 'update the dependencies'      one for the daemon, which may wait
      turnlane thread list                                    what there is
      turnlane app-server --listen ws://127.0.0.1:7071        serve threads to Codex clients
      turnlane doctor                                         what this machine can contain and confine
      turnlane exec-server --listen ws://127.0.0.1:0          run commands for a client elsewhere
      turnlane app-server generate-json-schema --out schema   the messages we serve, as JSON Schema

    Environment:
      TURNLANE_HOME  our folder: config.toml, tokens, the database (default ~/.turnlane)
      CODEX_HOME     Codex's folder, whose config.toml is read below ours (default ~/.codex)
      RUST_LOG       what to log on standard error: error, warn (default), info, debug, trace,
                     or by part: RUST_LOG=turnlane_rpc=debug
      LOG_FORMAT     `json` for one JSON object per line, else text

    Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
    -- stderr
    ");
    assert_snapshot!(shown(turnlane(&["app-server", "generate-json-schema", "--help"])).await, @"
    exit 0
    -- stdout
    Write the JSON Schema of everything we serve, for those who generate clients

    One file per message type and a bundle with all definitions in one. Files of the same names are
    overwritten, others are left alone. The same version always writes the same bytes.

    Usage: turnlane app-server generate-json-schema [OPTIONS] --out <DIR>

    Options:
      -o, --out <DIR>
              The folder to write to; made if it does not exist

          --experimental
              Accepted for scripts that pass it to Codex; our schema always holds everything

      -h, --help
              Print help (see a summary with '-h')
    -- stderr
    ");
}

#[tokio::test]
async fn nothing_to_do_shows_help_and_is_wrong_usage() {
    let shown = shown(turnlane(&[])).await;
    assert!(shown.starts_with("exit 2\n"), "{shown}");
    assert!(
        shown.contains("Usage: turnlane [OPTIONS] <COMMAND>"),
        "{shown}"
    );
}

#[tokio::test]
async fn wrong_usage_says_what_to_do() {
    assert_snapshot!(shown(turnlane(&["app-serve"])).await, @"
    exit 2
    -- stdout
    -- stderr
    error: unrecognized subcommand 'app-serve'

      tip: some similar subcommands exist: 'approvals', 'app-server'

    Usage: turnlane [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(shown(turnlane(&["app-server", "generate-json-schema"])).await, @"
    exit 2
    -- stdout
    -- stderr
    error: the following required arguments were not provided:
      --out <DIR>

    Usage: turnlane app-server generate-json-schema --out <DIR>

    For more information, try '--help'.
    ");
}

#[tokio::test]
async fn a_bad_log_setting_is_named() {
    let help = [
        "app-server",
        "generate-json-schema",
        "--out",
        "/dev/null/no",
    ];
    assert_snapshot!(shown(turnlane(&help).env("LOG_FORMAT", "xml")).await, @"
    exit 1
    -- stdout
    -- stderr
    error: LOG_FORMAT is neither `json` nor `text`: xml
    ");
    assert_snapshot!(shown(turnlane(&help).env("RUST_LOG", "a=b=c")).await, @r#"
    exit 1
    -- stdout
    -- stderr
    error: RUST_LOG is not a log filter: a=b=c: error parsing level filter: expected one of "off", "error", "warn", "info", "debug", "trace", or a number 0-5
    "#);
}
