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
    let (ours, _) = shown.split_once("\nContainment: ").unwrap();
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
async fn a_new_home_is_in_order() {
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
    assert!(text.contains("  bad  database  "), "{text}");
    assert!(text.contains("put a backup in its place"), "{text}");
    assert!(
        text.contains("config.toml:2: queue.max_depth: expected a whole number, found a string"),
        "{text}"
    );

    std::fs::write(&database, "this is a letter, and no database at all").unwrap();
    let (text, _) = examined(&person, &[]).await;
    assert!(text.contains("  bad  database  "), "{text}");
}
