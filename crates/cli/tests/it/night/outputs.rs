//! Outputs that cannot be delivered, and waits that only a person ends.

use serde_json::Value;
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{Output, ProcessSpec};

use crate::people::Person;
use crate::serve::Daemon;

/// A command with a redirection of the shell.
async fn redirected(person: &Person, arguments: &[&str], redirection: &str) -> Output {
    let spec = ProcessSpec::shell(&format!("exec \"$0\" \"$@\" {redirection}"))
        .args([env!("CARGO_BIN_EXE_turnlane")])
        .args(arguments.iter().copied())
        .envs(person.home.env())
        .current_dir(person.home.workspace());
    crate::run(spec).await
}

#[tokio::test]
async fn an_answer_that_cannot_be_written_is_no_success() {
    let person = Person::new();
    let script = person.script();
    let script = script.to_str().unwrap();
    for flags in [&["exec"][..], &["exec", "--json"], &["run"]] {
        let rest = ["--skip-git-repo-check", "--script", script, "say hello"];
        let arguments = [flags, &rest].concat();
        let output = redirected(&person, &arguments, "< /dev/null > /dev/full").await;
        let said = &output.stderr_tail;
        assert_eq!(output.status.code(), Some(1), "{flags:?}: {said}");
        let why = "Error: cannot write to standard output: No space left on device";
        assert_eq!(said.matches(why).count(), 1, "{flags:?}: {said}");
        assert!(!said.contains("closed by reader"), "{flags:?}: {said}");
    }
}

#[tokio::test]
async fn a_run_is_strict_where_exec_is_as_codex() {
    let person = Person::new();
    let script = person.script();
    let script = script.to_str().unwrap();
    let schema = person.home.workspace().join("schema.json");
    std::fs::write(&schema, "{\"type\":\"object\"}").unwrap();
    let schema = schema.to_str().unwrap();
    for (more, said) in [
        (&["-i", "nope.png"][..], "nope.png"),
        (
            &["--output-schema", schema],
            "does not fit the output schema",
        ),
        (&["-o", "no/such/file"], "no/such/file"),
    ] {
        for (command, code) in [("run", 1), ("exec", 0)] {
            let line = [
                command,
                "--skip-git-repo-check",
                "--script",
                script,
                "say hello",
            ];
            let output = crate::run(person.spec(&line).args(more.iter().copied())).await;
            let text = &output.stderr_tail;
            assert_eq!(
                output.status.code(),
                Some(code),
                "{command} {more:?}: {text}"
            );
            assert!(text.contains(said), "{command} {more:?}: {text}");
            let is_sent = !(command == "run" && more[0] == "-i");
            let answer = String::from_utf8(output.stdout).unwrap();
            assert_eq!(!answer.is_empty(), is_sent, "{command} {more:?}: {answer}");
        }
    }
    let listed = person.json(&["thread", "list"]).await;
    assert_eq!(
        listed.len(),
        5,
        "the run without its picture made no thread"
    );
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_not_called_shorter_than_it_is() {
    let person = Person::new();
    let file = person.home.workspace().join("long.txt");
    std::fs::write(&file, "x".repeat(5_000_000)).unwrap();
    let arguments = ["run", "--skip-git-repo-check"];
    let output = redirected(&person, &arguments, "< long.txt").await;
    let said = &output.stderr_tail;
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("has more than 1048576 characters"), "{said}");
}

#[tokio::test]
async fn following_until_idle_ends_where_only_a_person_can_go_on() {
    let person = Person::new();
    // The engine of the configuration, without the key that it needs.
    let daemon = Daemon::start(&person.home, &[]).await;
    let (thread, _) = person.queued("docs", "say hello").await;
    let held = async || {
        let queue = person.queue(&thread).await;
        !queue["waiting"].is_null() || !queue["blocked"].is_null()
    };
    eventually("a hold", DEADLINE, held).await.unwrap();
    let tail = person.spec(&["thread", "tail", "docs", "--until-idle"]);
    let output = crate::run(tail).await;
    assert_eq!(output.status.code(), Some(1), "{}", output.stderr_tail);
    assert!(
        output.stderr_tail.contains("try: turnlane queue re"),
        "{}",
        output.stderr_tail
    );
    drop(daemon);
}

#[tokio::test]
async fn a_missing_key_is_said_to_be_missing_where_the_turn_runs() {
    let person = Person::new();
    let run = ["run", "--skip-git-repo-check", "say hello"];
    let output = crate::run(person.spec(&run)).await;
    let said = &output.stderr_tail;
    assert!(
        said.contains("Set OPENAI_API_KEY in this shell, or write "),
        "{said}"
    );
    let daemon = Daemon::start(&person.home, &[]).await;
    let output = crate::run(person.spec(&run).env("OPENAI_API_KEY", "set-here-only")).await;
    let said = &output.stderr_tail;
    assert!(
        said.contains("The daemon does not have OPENAI_API_KEY"),
        "{said}"
    );
    assert!(said.contains("keys.env"), "{said}");
    assert!(!said.contains("set-here-only"), "{said}");
    drop(daemon);
}

#[tokio::test]
async fn settings_of_codex_without_effect_are_named_by_whoever_runs_turns() {
    let person = Person::new();
    let config = person.home.turnlane().join("config.toml");
    std::fs::create_dir_all(person.home.turnlane()).unwrap();
    std::fs::write(&config, "[mcp_servers.docs]\ncommand = \"docs\"\n").unwrap();
    let script = person.script();
    let script = script.to_str().unwrap();
    let line = [
        "exec",
        "--skip-git-repo-check",
        "--strict-config",
        "--script",
        script,
        "say hello",
    ];
    let output = crate::run(person.spec(&line)).await;
    assert!(output.status.success(), "{}", output.stderr_tail);
    let named = "config.toml:1: `mcp_servers` has no effect: MCP servers are not started yet";
    assert_eq!(
        output.stderr_tail.matches(named).count(),
        1,
        "{}",
        output.stderr_tail
    );
    let daemon = Daemon::start(&person.home, &["--script", script]).await;
    assert_eq!(daemon.process.stderr_tail().matches(named).count(), 1);
    let listed: Vec<Value> = person.json(&["thread", "list"]).await;
    assert_eq!(
        listed.len(),
        1,
        "and commands that run nothing do not name it"
    );
    let checked = crate::run(person.spec(&["doctor"])).await;
    let checked = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.matches(named).count(), 1, "{checked}");
}
