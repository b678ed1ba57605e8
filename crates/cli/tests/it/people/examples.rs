//! The examples in the help texts are typed as they stand there, and work.
//!
//! The invariant here: an example is typed, or named below with the reason why it is not. Ids stand
//! for whatever there is; the daemon plays a script instead of asking a model.

use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TestProcess, skipped};

use super::Person;
use super::help::every_command;
use crate::serve::Daemon;

/// What is not typed, and why.
const NOT_TYPED: &[(&str, &str)] = &[
    ("turnlane serve", "it runs until it is stopped"),
    ("turnlane app-server --", "it runs until it is stopped"),
    ("turnlane exec-server --", "it runs until it is stopped"),
    ("turnlane thread tail ", "it runs until it is left"),
    ("turnlane thread list --server ", "its port may be taken"),
    ("codex ", "a program of others"),
    ("curl ", "a program of others, and its port may be taken"),
    ("turnlane demo", "it has its own tests"),
    (
        "turnlane queue wait",
        "it fails while the queue is held; it has its own tests",
    ),
    ("turnlane shim", "it runs until it is ended"),
    ("turnlane fanout", "it needs a job; it has its own tests"),
    ("git ls-files ", "its job has its own tests"),
    ("turnlane store compact", "the daemon of this test runs"),
];

/// The lines below `Examples:` that are commands, without what is said about them.
fn examples(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with("  "));
    let command = |line: &str| {
        let line = line.strip_prefix("  ")?;
        let begins = ["turnlane", "git ", "codex ", "curl "];
        let is_command = begins.iter().any(|word| line.starts_with(word));
        is_command.then(|| line.split("  ").next().unwrap_or(line).to_owned())
    };
    lines.filter_map(command).collect()
}

/// What the examples need to be there: a thread with two queued turns, approvals, files.
async fn prepared(person: &Person) -> [String; 4] {
    let (thread, _) = person.queued("docs", "hello").await;
    person.until_idle(&thread).await;
    person.json(&["queue", "pause", "docs"]).await;
    person.adds("docs", "first").await;
    let row = person.adds("docs", "second").await;
    person.queued("one", "clean up").await;
    let first = person.asked().await["approvalId"].clone();
    person.queued("two", "clean up").await;
    let mut open = Vec::new();
    super::eventually("two approvals", DEADLINE, async || {
        open = person.json(&["approvals", "list"]).await;
        open.len() == 2
    })
    .await
    .unwrap();
    let second = open.iter().find(|one| one["approvalId"] != first).unwrap();
    let text = |id: &serde_json::Value| id.as_str().unwrap().to_owned();
    let work = person.home.workspace();
    std::fs::write(work.join("prompt.txt"), "hello\n").unwrap();
    std::fs::write(work.join("schema.json"), r#"{"type": "object"}"#).unwrap();
    [thread, row, text(&first), text(&second["approvalId"])]
}

#[tokio::test]
async fn the_examples_in_the_help_work_as_they_stand() {
    let person = Person::new();
    let script = person.script();
    let _daemon = Daemon::start(&person.home, &["--script", script.to_str().unwrap()]).await;
    let [thread, row, accepted, declined] = prepared(&person).await;
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_turnlane"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let shell = |line: &str| {
        ProcessSpec::new("/bin/sh")
            .args(["-c", line])
            .envs(person.home.env())
            .env("PATH", &path)
            .current_dir(person.home.workspace())
    };
    let folders = "mkdir -p ~/src/app ~/.zfunc ~/.config/fish/completions \
                   ~/.local/share/bash-completion/completions && git init -q .";
    let made = TestProcess::run(shell(folders), DEADLINE).await.unwrap();
    if !made.status.success() {
        skipped(format!("examples need git: {}", made.stderr_tail));
        return;
    }
    let mut typed = 0;
    for command in every_command().await {
        for example in examples(&command.help) {
            let excused = NOT_TYPED
                .iter()
                .any(|(begin, _)| example.starts_with(begin));
            if excused || example == "turnlane app-server" || example == "turnlane exec-server" {
                continue;
            }
            if example.contains("jq") && !is_installed("jq") {
                skipped(format!("no jq: {example}"));
                continue;
            }
            let approval = if example.contains("decline") {
                &declined
            } else {
                &accepted
            };
            let line = example
                .replace("0198c0de-41", &thread)
                .replace("5b1d07e4", &thread[28..])
                .replace(" nightly", &format!(" {}", &thread[28..]))
                .replace("0198c0df-77", &row)
                .replace("7f3a90c2", &approval[28..]);
            let output = TestProcess::run(shell(&line), DEADLINE).await.unwrap();
            let code = output.status.code();
            // Doctor also says by its code what the machine lacks.
            let is_well = code == Some(0) || (example == "turnlane doctor" && code == Some(1));
            assert!(is_well, "{example}: {code:?} {}", output.stderr_tail);
            typed += 1;
        }
    }
    assert!(typed >= 20, "{typed}");
}

/// Whether this machine has a program.
pub(super) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}
