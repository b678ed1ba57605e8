//! `--json` of every command: what is on standard output is JSON, line by line, and nothing else.
//!
//! The invariant here: a command that is neither in the list nor among the exceptions fails the test.

use serde_json::Value;

use turnlane_testkit::wait::{DEADLINE, eventually};

use super::Person;
use super::help::every_command;
use crate::run;

/// Servers, and commands whose output is a file of another kind.
const WITHOUT: &[&str] = &[
    "app-server",
    "app-server generate-json-schema",
    "completions",
    "demo",
    "exec-server",
    "man",
    "serve",
    "shim",
];

/// Those that need a job; `fanout_cli` tries each of them.
const WITH_A_JOB: &[&str] = &[
    "fanout cancel",
    "fanout cost",
    "fanout export",
    "fanout items",
    "fanout list",
    "fanout logs",
    "fanout pause",
    "fanout resume",
    "fanout retry",
    "fanout rm",
    "fanout run",
    "fanout show",
    "fanout watch",
];

/// Those that are tried in a home whose daemon is gone.
const WITHOUT_A_DAEMON: &[&str] = &[
    "queue retry",
    "store compact",
    "store prune",
    "thread release",
];

/// Those whose answer is one document over several lines.
const ONE_DOCUMENT: &[&str] = &["doctor"];

#[tokio::test]
async fn every_command_can_be_read_by_programs() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hang on").await;
    person.until_running(&thread).await;
    let [first, second, third] = [
        person.adds("docs", "one").await,
        person.adds("docs", "two").await,
        person.adds("docs", "three").await,
    ];
    let (failing, _) = person.queued("other", "clean up").await;
    let approval = person.asked().await["approvalId"]
        .as_str()
        .unwrap()
        .to_owned();
    let (_, _) = person.queued("third", "clean up").await;
    let two_open = async || person.json(&["approvals", "list"]).await.len() == 2;
    eventually("two approvals", DEADLINE, two_open)
        .await
        .unwrap();
    let open = person.json(&["approvals", "list"]).await;
    let other = open
        .iter()
        .find(|one| one["approvalId"] != approval.as_str());
    let other = other.unwrap()["approvalId"].as_str().unwrap().to_owned();
    let script = person.script();
    let script = script.to_str().unwrap();
    let here = ["--skip-git-repo-check", "--script", script];
    let id = thread.as_str();
    let copy = person.home.path().join("copy.db");
    let copy = copy.to_str().unwrap();
    let lines: Vec<Vec<&str>> = vec![
        vec!["doctor"],
        [&["run"], &here[..], &["hello"]].concat(),
        [&["exec"], &here[..], &["hello"]].concat(),
        vec!["status"],
        vec!["thread", "list"],
        vec!["thread", "show", id],
        vec!["queue", "list"],
        vec!["queue", "list", id],
        vec!["queue", "add", "--thread", id, "four"],
        vec!["queue", "edit", id, &first, "one, again"],
        vec!["queue", "mv", id, &second, "--first"],
        vec!["queue", "rm", id, &third],
        vec!["queue", "pause", id],
        vec!["queue", "resume", id],
        vec!["queue", "pause", id],
        vec!["thread", "stop", id],
        vec!["thread", "tail", id, "-n", "2", "--until-idle"],
        vec!["queue", "start", id, &second],
        vec!["approvals", "list"],
        vec!["approvals", "show", &approval],
        vec!["queue", "wait", id, &second],
        vec!["approvals", "accept", &approval],
        vec!["approvals", "decline", &other],
        vec!["thread", "fork", &failing],
        vec!["thread", "archive", &failing],
        vec!["thread", "unarchive", &failing],
        vec!["thread", "rename", &failing, "renamed"],
        vec!["thread", "rm", "--yes", &failing],
        vec!["serve", "status"],
        vec!["store", "backup", copy],
        vec!["store", "check"],
        vec!["serve", "stop", "--now"],
    ];
    for line in &lines {
        reads_as_json(&person, line).await;
    }
    a_failed_one_is_retried().await;
    for command in every_command().await {
        let name = command.name();
        if command.is_group() || name.is_empty() || WITHOUT.contains(&name.as_str()) {
            continue;
        }
        assert!(command.help.contains("--json"), "{name} has no --json");
        let is_this = |line: &&Vec<&str>| line.join(" ").starts_with(&name);
        let is_tried = lines.iter().any(|line| is_this(&line))
            || WITHOUT_A_DAEMON.contains(&name.as_str())
            || WITH_A_JOB.contains(&name.as_str());
        // What exec does with threads that exist is told by the tests of exec.
        assert!(is_tried || name.starts_with("exec "), "{name} is not tried");
    }
}

async fn reads_as_json(person: &Person, line: &[&str]) {
    let output = run(person.spec(line).args(["--json"])).await;
    // A queue that is held, and a machine without a sandbox, are told by the exit code.
    let code = output.status.code();
    assert!(
        matches!(code, Some(0 | 1)),
        "{line:?}: {}",
        output.stderr_tail
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.is_empty(), "{line:?}: {}", output.stderr_tail);
    if ONE_DOCUMENT.contains(&line[0]) {
        let document: Value = serde_json::from_str(&text).unwrap();
        assert!(document.is_object(), "{line:?}");
        return;
    }
    for one in text.lines() {
        let value: Value =
            serde_json::from_str(one).unwrap_or_else(|error| panic!("{line:?}: {error}: {one}"));
        assert!(value.is_object(), "{line:?}: {one}");
    }
}

/// In a home of its own, since its daemon has to die.
async fn a_failed_one_is_retried() {
    let home = Person::new();
    let mut daemon = home.daemon().await;
    let (thread, _) = home.queued("held", "hang on").await;
    home.until_running(&thread).await;
    daemon.kill9().await.unwrap();
    let blocked = async || !home.queue(&thread).await["blocked"].is_null();
    eventually("a failed row", DEADLINE, blocked).await.unwrap();
    reads_as_json(&home, &["queue", "retry", &thread]).await;
    reads_as_json(&home, &["thread", "release", "--yes", &thread]).await;
    reads_as_json(&home, &["thread", "fork", &thread]).await;
    let prune = ["store", "prune", "--older-than", "0s", "--dry-run"];
    reads_as_json(&home, &prune).await;
    reads_as_json(&home, &["store", "compact"]).await;
}
