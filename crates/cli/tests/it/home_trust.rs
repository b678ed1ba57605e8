//! Homes and settings that other users control: refused by every command, with what mends it.
//!
//! What counts as control is judged case by case in the unit tests of `home/trust.rs`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};
use turnlane_testkit::mock_model::Reply;
use turnlane_testkit::{ProcessSpec, TempHome, skipped};

use crate::app_server::{Served, thread, turn};
use crate::run;

/// A user who is neither root nor, usually, the one who runs the tests.
const OTHER: u32 = 65_534;

/// One command of each kind. None of them may wait for anything before it refuses.
const COMMANDS: &[&[&str]] = &[
    &["serve", "--listen", "off"],
    &["app-server"],
    &["app-server", "--listen", "ws://127.0.0.1:0"],
    &["exec-server", "--listen", "ws://127.0.0.1:0"],
    &["exec", "--skip-git-repo-check", "hi"],
    &["run", "--skip-git-repo-check", "hi"],
    &["thread", "list"],
    &["queue", "list"],
    &["approvals", "list"],
];

fn spec(home: &TempHome, arguments: &[&str]) -> ProcessSpec {
    crate::turnlane(arguments)
        .envs(home.env())
        .current_dir(home.workspace())
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn file(path: PathBuf, bits: u32) -> PathBuf {
    fs::write(&path, "").unwrap();
    mode(&path, bits);
    path
}

fn directory(path: PathBuf, bits: u32) -> PathBuf {
    fs::create_dir_all(&path).unwrap();
    mode(&path, bits);
    path
}

fn pipe(path: PathBuf) -> PathBuf {
    mkfifoat(CWD, &path, Mode::from(0o600)).unwrap();
    path
}

/// Every command says this one line and fails. Quotes are not compared: a path with spaces has them.
async fn refused_by(commands: &[&[&str]], home: &TempHome, problem: &str) {
    let problem = &problem.replace('\'', "");
    for arguments in commands {
        let ran = run(spec(home, arguments)).await;
        let said = &ran.stderr_tail.replace('\'', "");
        assert_eq!(ran.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(problem), "{arguments:?}: {problem}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        assert!(ran.stdout.is_empty(), "{arguments:?}");
    }
}

#[tokio::test]
async fn every_command_refuses_a_home_that_others_can_write() {
    let home = TempHome::new().unwrap();
    let path = home.turnlane();
    for bits in [0o770, 0o777, 0o1777] {
        mode(&path, bits);
        let shown = path.display();
        let problem = format!(
            "{shown} can be written by other users (mode {bits:04o}); run: chmod 700 {shown}\n"
        );
        refused_by(COMMANDS, &home, &problem).await;
    }
    // The command that was named mends it.
    mode(&path, 0o700);
    let ran = run(spec(&home, &["thread", "list"])).await;
    assert!(ran.status.success(), "{}", ran.stderr_tail);
}

#[tokio::test]
async fn a_file_that_decides_something_and_others_can_change_is_refused() {
    type Make = fn(&TempHome) -> PathBuf;
    let cases: [(Make, &str); 10] = [
        (
            |home| directory(home.turnlane().join("run"), 0o777),
            "chmod 700 ",
        ),
        (
            |home| file(home.turnlane().join("config.toml"), 0o666),
            "chmod go-w ",
        ),
        (
            |home| file(home.turnlane().join("config.toml"), 0o664),
            "chmod go-w ",
        ),
        (
            |home| file(home.turnlane().join("AGENTS.md"), 0o646),
            "chmod go-w ",
        ),
        (
            |home| file(home.turnlane().join("hooks.json"), 0o666),
            "chmod go-w ",
        ),
        (
            |home| file(home.turnlane().join("keys.env"), 0o640),
            "chmod 600 ",
        ),
        (
            |home| file(home.turnlane().join("token"), 0o604),
            "chmod 600 ",
        ),
        (|home| pipe(home.turnlane().join("config.toml")), "mv "),
        (|home| pipe(home.turnlane().join("token")), "mv "),
        (|home| pipe(home.turnlane().join("turnlane.db")), "mv "),
    ];
    for (make, remedy) in cases {
        let home = TempHome::new().unwrap();
        let path = make(&home);
        let problem = format!("{remedy}{}", path.display());
        refused_by(
            &[&["serve", "--listen", "off"], &["thread", "list"]],
            &home,
            &problem,
        )
        .await;
    }
}

#[tokio::test]
async fn the_settings_of_codex_are_obeyed_only_where_nobody_else_wrote_them() {
    let servers: &[&[&str]] = &[&["serve", "--listen", "off"], &["exec", "hi"]];
    let home = TempHome::new().unwrap();
    let path = home.codex().join("config.toml");
    file(path.clone(), 0o666);
    refused_by(
        servers,
        &home,
        &format!("run: chmod go-w {}", path.display()),
    )
    .await;
    fs::remove_file(&path).unwrap();
    pipe(path.clone());
    refused_by(servers, &home, "is a named pipe, not a regular file").await;
    fs::remove_file(&path).unwrap();
    symlink("/dev/zero", &path).unwrap();
    refused_by(servers, &home, "is a device, not a regular file").await;
    fs::remove_file(&path).unwrap();
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    mode(&path, 0o600);
    refused_by(servers, &home, "is longer than ").await;
    // Settings that only Codex reads are not asked for.
    file(home.codex().join("AGENTS.md"), 0o644);
    fs::remove_file(&path).unwrap();
    let ran = run(spec(&home, &["thread", "list"])).await;
    assert!(ran.status.success(), "{}", ran.stderr_tail);
}

#[tokio::test]
async fn what_belongs_to_another_user_is_refused_also_for_root() {
    if !rustix::process::geteuid().is_root() {
        skipped("only root can give files to another user");
        return;
    }
    let home = TempHome::new().unwrap();
    let shown = home.turnlane().display().to_string();
    chown(home.turnlane(), Some(OTHER), None).unwrap();
    let problem = format!(
        "{shown} belongs to user {OTHER}, but this process runs as user 0; run turnlane as that \
         user: sudo -u '#{OTHER}' turnlane ..., or take it over: chown 0 {shown}\n"
    );
    refused_by(COMMANDS, &home, &problem).await;
    chown(home.turnlane(), Some(0), None).unwrap();
    for path in [
        file(home.turnlane().join("config.toml"), 0o600),
        file(home.turnlane().join("keys.env"), 0o600),
        file(home.codex().join("config.toml"), 0o600),
        directory(home.turnlane().join("run"), 0o700),
    ] {
        chown(&path, Some(OTHER), None).unwrap();
        let problem = format!("{} belongs to user {OTHER}", path.display());
        refused_by(&[&["serve", "--listen", "off"]], &home, &problem).await;
        chown(&path, Some(0), None).unwrap();
    }
}

#[tokio::test]
async fn a_home_behind_a_link_and_below_a_sticky_directory_is_fine() {
    let home = TempHome::new().unwrap();
    let sticky = directory(home.path().join("sticky"), 0o1777);
    let real = sticky.join("home");
    let link = home.path().join("link");
    symlink(&real, &link).unwrap();
    // The first command makes it; the second goes through a link.
    for path in [&real, &link] {
        let spec = spec(&home, &["thread", "list"]).env("TURNLANE_HOME", path.as_os_str());
        let ran = run(spec).await;
        assert!(ran.status.success(), "{}", ran.stderr_tail);
    }
    let made = fs::metadata(&real).unwrap().permissions().mode() & 0o7777;
    assert_eq!(made, 0o700);
}

#[tokio::test]
async fn a_server_that_runs_looks_again_before_each_turn() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let thread = thread(client, &served.work(), json!({})).await;
    let path = file(served.home.turnlane().join("AGENTS.md"), 0o666);
    let end = turn(client, &thread, "hello").await;
    assert_eq!(end["status"], "failed", "{end}");
    let message = end["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("AGENTS.md can be written by other users"),
        "{message}"
    );
    assert!(served.mock.requests().is_empty());
    mode(&path, 0o644);
    let end = turn(client, &thread, "hello").await;
    assert_eq!(end["status"], "completed", "{end}");
}

#[tokio::test]
async fn doctor_tells_everything_that_others_control() {
    let home = TempHome::new().unwrap();
    let paths = [
        home.turnlane(),
        directory(home.turnlane().join("run"), 0o770),
        file(home.turnlane().join("config.toml"), 0o666),
        pipe(home.turnlane().join("token")),
        pipe(home.turnlane().join("turnlane.db")),
    ];
    mode(&home.turnlane(), 0o777);
    let text = run(spec(&home, &["doctor"])).await;
    assert_eq!(text.status.code(), Some(1));
    let text = String::from_utf8(text.stdout).unwrap();
    let json = run(spec(&home, &["doctor", "--json"])).await;
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    let told = report["access"].as_array().unwrap();
    assert_eq!(told.len(), paths.len(), "{report}");
    for path in paths {
        assert!(
            text.contains(&format!("  fix this  access     {} ", path.display())),
            "{text}"
        );
        let named = |one: &&Value| one["path"] == json!(path);
        let one = told.iter().find(named).unwrap();
        assert!(text.contains(one["next"].as_str().unwrap()), "{text}");
    }
    // It went on to the end.
    assert!(text.contains("\nSandbox: "), "{text}");
    assert!(report["sandbox"].is_array(), "{report}");
}
