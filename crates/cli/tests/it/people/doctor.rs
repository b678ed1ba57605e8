//! `turnlane doctor`: what is said about a home, its database, its daemon and its settings.
//!
//! What the machine offers differs from machine to machine and is left out of the snapshots.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;
use serde_json::Value;

use super::Person;
use crate::run;
use crate::serve::Daemon;

/// What doctor says of the home and the settings, and its exit code where those are broken.
async fn examined(person: &Person, variables: &[(&str, &str)]) -> (String, Value) {
    let spec = |arguments: &[&str]| person.spec(arguments).envs(variables.iter().copied());
    let text = run(spec(&["doctor"])).await;
    let json = run(spec(&["doctor", "--json"])).await;
    assert_eq!(text.status.code(), json.status.code());
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    let expected = i32::from(!report["problems"].as_array().unwrap().is_empty());
    assert_eq!(text.status.code(), Some(expected), "{report}");
    assert_eq!(report["complete"], expected == 0);
    let shown = String::from_utf8(text.stdout).unwrap();
    // Settings that cannot be read name no engines.
    let machine = ["\nEngines: ", "\nContainment: "];
    let (ours, _) = machine
        .iter()
        .find_map(|title| shown.split_once(title))
        .unwrap();
    let home = person.home.path().to_str().unwrap();
    let ours = ours.replace(home, "<home>");
    let is_size = |word: &str| word.parse::<f64>().is_ok();
    let mut words = Vec::new();
    for line in ours.lines() {
        let mut line = line.to_owned();
        for unit in [" kB", " MB", " GB", " TB"] {
            if let Some((before, after)) = line.clone().split_once(unit)
                && let Some((start, size)) = before.rsplit_once(' ')
                && is_size(size)
            {
                line = format!("{start} <size>{after}");
            }
        }
        words.push(line);
    }
    (words.join("\n") + "\n", report)
}

#[tokio::test]
async fn a_new_home_lacks_only_a_key() {
    let person = Person::new();
    let (text, report) = examined(&person, &[]).await;
    assert_snapshot!(text);
    assert_eq!(report["daemon"], Value::Null);
    assert_eq!(report["database"], Value::Null);
    assert_eq!(report["home"]["writable"], true);
    let left = std::fs::read_dir(person.home.turnlane()).unwrap().count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[tokio::test]
async fn a_home_in_use_is_told_with_its_daemon() {
    let person = Person::new();
    let script = person.script();
    let daemon = Daemon::start(&person.home, &["--script", script.to_str().unwrap()]).await;
    person.queued("docs", "hello").await;
    person.until_idle("docs").await;
    let key = [("OPENAI_API_KEY", "sk-never-to-be-shown")];
    let (text, report) = examined(&person, &key).await;
    assert!(!text.contains("never-to-be-shown") && !report.to_string().contains("never-to-be"));
    let text = text.replace(&daemon.process.pid().to_string(), "<pid>");
    let text = text.replace(daemon.url.trim_end_matches('/'), "<url>");
    assert_snapshot!(text);
    assert_eq!(report["daemon"]["pid"], daemon.process.pid());
    assert!(report["daemon"]["startedAtMs"].is_i64(), "{report}");
    assert_eq!(report["provider"]["keySet"], "OPENAI_API_KEY");
    assert!(report["database"]["schema"].is_i64(), "{report}");
}

#[tokio::test]
async fn what_is_broken_is_said_with_what_to_do() {
    let person = Person::new();
    person.queued("docs", "hello").await;
    let database = person.home.turnlane().join("turnlane.db");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .open(&database)
        .unwrap();
    file.seek(SeekFrom::Start(4096)).unwrap();
    file.write_all(&[0x5a; 4096]).unwrap();
    drop(file);
    let config = person.home.turnlane().join("config.toml");
    std::fs::write(&config, "[queue]\nmax_depth = \"many\"\n").unwrap();
    // The test must pass under any umask.
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (text, report) = examined(&person, &[]).await;
    let problems = report["problems"].as_array().unwrap();
    let broken: Vec<_> = problems
        .iter()
        .map(|one| one["what"].as_str().unwrap())
        .collect();
    assert_eq!(&broken[..2], ["database", "settings"], "{report}");
    assert!(report["turn"]["canRun"] == false, "{report}");
    assert!(text.contains("  fix this  database   "), "{text}");
    assert!(text.contains("put a backup in its place"), "{text}");
    assert!(
        text.contains("config.toml:2: queue.max_depth: expected a whole number, found a string"),
        "{text}"
    );

    std::fs::write(&database, "this is a letter, and no database at all").unwrap();
    let (text, _) = examined(&person, &[]).await;
    assert!(text.contains("  fix this  database   "), "{text}");
}

#[tokio::test]
async fn the_exit_code_says_whether_a_turn_could_run() {
    let person = Person::new();
    let (text, report) = examined(&person, &[]).await;
    assert!(text.contains("  fix this  key        "), "{text}");
    assert_eq!(report["turn"]["canRun"], false, "{report}");
    let whole = run(person.spec(&["doctor"])).await;
    assert_eq!(whole.status.code(), Some(1));
    let whole = String::from_utf8(whole.stdout).unwrap();
    assert!(
        whole.contains("\nNo turn can run in this directory: "),
        "{whole}"
    );
    let (_, report) = examined(&person, &[("OPENAI_API_KEY", "sk-x")]).await;
    let key = |one: &Value| one["what"] == "key";
    assert!(
        !report["problems"].as_array().unwrap().iter().any(key),
        "{report}"
    );
    // Where the machine can confine commands, nothing else is in the way.
    if report["problems"].as_array().unwrap().is_empty() {
        assert_eq!(report["turn"]["canRun"], true, "{report}");
    }
}

#[tokio::test]
async fn a_key_counts_only_where_the_daemon_has_it() {
    let person = Person::new();
    let daemon = Daemon::start(&person.home, &[]).await;
    let key = [("OPENAI_API_KEY", "sk-never-to-be-shown")];
    let (text, report) = examined(&person, &key).await;
    let pid = daemon.process.pid();
    let line =
        format!("OPENAI_API_KEY is set in this shell, but not for the daemon (process {pid})");
    assert!(text.contains(&line), "{text}");
    assert!(text.contains("keys.env"), "{text}");
    assert_eq!(report["provider"]["keyOfDaemon"], "missing");
    assert_eq!(report["turn"]["canRun"], false, "{report}");
    assert_eq!(report["daemon"]["version"], env!("CARGO_PKG_VERSION"));
    // The advice works, without a restart.
    let keys = person.home.turnlane().join("keys.env");
    std::fs::write(&keys, "OPENAI_API_KEY=sk-y\n").unwrap();
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (text, report) = examined(&person, &[]).await;
    assert!(text.contains("is set for the daemon"), "{text}");
    assert_eq!(report["provider"]["keyOfDaemon"], "set");
}

#[tokio::test]
async fn the_size_of_a_database_counts_its_log() {
    let person = Person::new();
    let script = person.script();
    let _daemon = Daemon::start(&person.home, &["--script", script.to_str().unwrap()]).await;
    person.queued("docs", "hello").await;
    person.until_idle("docs").await;
    let (_, report) = examined(&person, &[]).await;
    let size = |name: &str| {
        let path = person.home.turnlane().join(name);
        std::fs::metadata(path).unwrap().len()
    };
    let shown = report["database"]["bytes"].as_u64().unwrap();
    assert!(
        shown >= size("turnlane.db") + size("turnlane.db-wal"),
        "{report}"
    );
    assert_eq!(report["database"]["writable"], true, "{report}");
}

#[tokio::test]
async fn a_daemon_that_is_stopped_or_gone_is_told_as_such() {
    let person = Person::new();
    let script = person.script();
    let mut daemon = Daemon::start(&person.home, &["--script", script.to_str().unwrap()]).await;
    let raw = daemon.process.pid();
    let pid = rustix::process::Pid::from_raw(raw).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let stopped = async || {
        let stat = std::fs::read_to_string(format!("/proc/{raw}/stat")).unwrap();
        stat.contains(") T ")
    };
    turnlane_testkit::wait::eventually(
        "a stopped daemon",
        turnlane_testkit::wait::DEADLINE,
        stopped,
    )
    .await
    .unwrap();
    let (text, report) = examined(&person, &[]).await;
    assert!(
        text.contains(&format!("process {raw} is stopped by a signal")),
        "{text}"
    );
    assert!(text.contains(&format!("run: kill -CONT {raw}")), "{text}");
    assert_eq!(report["daemon"]["answers"], false, "{report}");
    let added = crate::shown(person.spec(&["queue", "add", "--new", "x"])).await;
    assert!(added.contains("is suspended"), "{added}");
    assert!(!added.contains("no daemon runs"), "{added}");
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();

    // A socket that somebody deletes is made again.
    std::fs::remove_file(&daemon.socket).unwrap();
    let answers = async || examined(&person, &[]).await.1["daemon"]["answers"] == true;
    let limit = turnlane_testkit::wait::DEADLINE;
    turnlane_testkit::wait::eventually("the daemon's socket", limit, answers)
        .await
        .unwrap();

    daemon.process.kill9().await.unwrap();
    let (text, report) = examined(&person, &[]).await;
    assert!(text.contains("  fine      daemon     none runs"), "{text}");
    assert_eq!(report["daemon"], Value::Null);
}

#[tokio::test]
async fn files_that_their_owner_cannot_write_are_named() {
    if rustix::process::geteuid().is_root() {
        return turnlane_testkit::skipped("a database without write permission: root may write it");
    }
    let person = Person::new();
    person.queued("docs", "hello").await;
    let database = person.home.turnlane().join("turnlane.db");
    std::fs::set_permissions(&database, std::fs::Permissions::from_mode(0o400)).unwrap();
    let (text, report) = examined(&person, &[]).await;
    assert!(text.contains("run: chmod u+rwX "), "{text}");
    assert_eq!(report["database"]["writable"], false, "{report}");
    std::fs::set_permissions(&database, std::fs::Permissions::from_mode(0o600)).unwrap();
    let home = person.home.turnlane();
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o000)).unwrap();
    let (text, _) = examined(&person, &[]).await;
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut ours = text.lines().filter(|line| line.contains("<home>/turnlane"));
    assert!(!ours.any(|line| line.contains("does not exist")), "{text}");
    assert!(text.contains("run: chmod u+rwx "), "{text}");
}

/// Writes a program that says it is this version of Codex.
fn codex(person: &Person, version: &str) -> String {
    let program = person.home.path().join(format!("codex-{version}"));
    std::fs::write(&program, format!("#!/bin/sh\necho codex-cli {version}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn codex_is_found_judged_and_needed_only_where_it_runs_turns() {
    let person = Person::new();
    let doctor = async |flags: &[&str]| {
        let json = run(person.spec(&[flags, &["doctor", "--json"]].concat())).await;
        let report: Value = serde_json::from_slice(&json.stdout).unwrap();
        let text = run(person.spec(&[flags, &["doctor"]].concat())).await;
        (report, String::from_utf8(text.stdout).unwrap())
    };
    let mentioned = |report: &Value, what: &str| {
        let problems = report["problems"].as_array().unwrap();
        problems.iter().any(|one| one["what"] == what)
    };
    let absent = "engine.codex.program=/no/such/codex";
    let (report, text) = doctor(&["-c", absent]).await;
    assert!(
        !mentioned(&report, "codex"),
        "another engine runs turns: {text}"
    );
    let (report, text) = doctor(&["-c", absent, "-c", "engine=codex"]).await;
    assert!(mentioned(&report, "codex"), "{text}");
    assert_eq!(report["turn"]["canRun"], false, "{text}");
    assert!(text.contains("npm install -g @openai/codex"), "{text}");

    let old = format!("engine.codex.program={}", codex(&person, "0.150.9"));
    let (report, text) = doctor(&["-c", &old, "-c", "engine=codex"]).await;
    let reason = "engine 'codex' needs Codex 0.151 or newer, found 0.150.9; use 'codex-exec'";
    assert_eq!(report["turn"]["reason"], reason, "{text}");
    let new = format!("engine.codex.program={}", codex(&person, "0.166.0"));
    let (report, text) = doctor(&["-c", &new, "-c", "engine=codex"]).await;
    assert_eq!(report["turn"]["canRun"], false, "{text}");
    assert!(mentioned(&report, "login"), "{text}");
    assert_eq!(report["codex"]["version"], "0.166.0", "{text}");
    assert!(
        text.contains("type `codex login`"),
        "no login is seen: {text}"
    );
    let (report, text) = doctor(&["-c", &new]).await;
    assert!(!mentioned(&report, "login"), "{text}");

    std::fs::create_dir_all(person.home.codex()).unwrap();
    std::fs::write(person.home.codex().join("auth.json"), "{}").unwrap();
    for (program, engine) in [(&old, "codex-exec"), (&new, "codex")] {
        let engine = format!("engine={engine}");
        let (report, text) = doctor(&["-c", program, "-c", &engine]).await;
        assert_eq!(report["turn"]["canRun"], true, "{text}");
    }
    let provider = [
        "-c",
        &new,
        "-c",
        "engine=codex",
        "-c",
        "model_provider=mine",
    ];
    let (_, text) = doctor(&provider).await;
    assert!(text.contains("Codex uses the provider `mine`"), "{text}");
}
