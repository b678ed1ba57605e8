//! Version, usage errors, logging. What `--help` says is in `people/help.rs`, for every command.

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
