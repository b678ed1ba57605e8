//! `turnlane run`, and wrong values of arguments.

use insta::assert_snapshot;
use serde_json::Value;

use crate::people::Person;
use crate::run;

#[tokio::test]
async fn a_run_tells_what_happens_and_leaves_the_answer_alone_on_stdout() {
    let person = Person::new();
    let script = person.script();
    let script = script.to_str().unwrap();
    let flags = ["run", "--skip-git-repo-check", "--script", script];
    let output = run(person.spec(&flags).args(["run the test"])).await;
    assert!(output.status.success(), "{}", output.stderr_tail);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "One failed.\n");
    for part in [
        "user\nrun the test\n",
        "exec\nmake test in ",
        " exited 2 in ",
        "agent\nOne",
    ] {
        assert!(
            output.stderr_tail.contains(part),
            "{part}: {}",
            output.stderr_tail
        );
    }
    assert!(!output.stderr_tail.contains('\u{1b}'));
    // The thread is there afterwards.
    let listed = person.json(&["thread", "list"]).await;
    assert_eq!(listed[0]["preview"], "run the test");

    let output = run(person.spec(&flags).args(["--json", "hello"])).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["type"], "thread.started");
    assert_eq!(lines.last().unwrap()["type"], "turn.completed");
}

#[tokio::test]
async fn a_run_without_a_prompt_or_out_of_place_is_refused() {
    let mut person = Person::new();
    person.types(&["run", "--skip-git-repo-check"]).await;
    // Directories of temporary files may lie in a work tree; this one does not.
    person.types(&["run", "-C", "/proc", "x"]).await;
    person.types(&["run", "--last", "x"]).await;
    person.types(&["run", "x", "y"]).await;
    assert_snapshot!(person.story());
}

#[tokio::test]
async fn wrong_usage_says_what_is_right() {
    let mut person = Person::new();
    for arguments in [
        &["thread", "lst"][..],
        &["thread", "show"],
        &["thread", "list", "-n", "0"],
        &["queue", "add", "x"],
        &["queue", "add", "--new", "--thread", "t", "x"],
        &["queue", "add", "--thread", "t", "--engine", "e", "x"],
        &["queue", "add", "--new", "--not-before", "tomorrow", "x"],
        &["queue", "add", "--new", "--file", "f", "x"],
        &["queue", "mv", "t", "r"],
        &["queue", "mv", "t", "r", "--first", "--last"],
        &["queue", "rm", "t"],
        &["approvals", "accept"],
        &["completions", "tcsh"],
        &["man"],
    ] {
        person.types(arguments).await;
    }
    assert_snapshot!(person.story());
}
