//! Commands that run and end within their call.

use serde_json::json;
use turnlane_protocol::item::{CommandOutcome, CommandSource, ItemStatus};

use super::support::{KEY, Thread, lives, told_output};

#[tokio::test]
async fn a_command_is_shown_from_start_to_end_and_told_to_the_model() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    let output = turn
        .exec("a", json!({"cmd": "echo hi; echo err >&2", "x": 1}))
        .await;
    assert!(output.success);
    let lines: Vec<&str> = output.text.lines().collect();
    assert!(lines[0].starts_with("Wall time: 0.") && lines[0].ends_with(" seconds"));
    assert_eq!(
        lines[1..4],
        [
            "Process exited with code 0",
            "Original token count: 2",
            "Output:"
        ]
    );
    let mut written: Vec<&str> = lines[4..].to_vec();
    written.sort_unstable();
    assert_eq!(written, ["err", "hi"]);
    let told = turn.end().await;
    assert_eq!(told.words(), ["a started", "a grew", "a completed"]);
    let started = told.started("a");
    assert_eq!(started.command, "/bin/sh -c 'echo hi; echo err >&2'");
    assert_eq!(started.cwd, thread.settings.cwd);
    assert_eq!(started.source, Some(CommandSource::UnifiedExecStartup));
    assert_eq!(started.process_id.as_deref(), Some("1000"));
    assert_eq!(started.status, ItemStatus::InProgress);
    let completed = told.completed("a");
    assert_eq!(completed.status, ItemStatus::Completed);
    assert_eq!(completed.exit_code, Some(0));
    assert_eq!(completed.outcome, Some(CommandOutcome::Exited));
    assert_eq!(completed.duration_ms, Some(0));
    let aggregated = completed.aggregated_output.unwrap();
    assert_eq!(told.deltas("a").concat(), aggregated);
    assert_eq!(aggregated.trim_end().len(), "hi\nerr".len());
    assert!(thread.sessions.background(Thread::id()).is_empty());
}

#[tokio::test]
async fn a_failing_command_and_one_that_a_signal_ends_say_so() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    let failed = turn.exec("a", json!({"cmd": "exit 3"})).await;
    assert!(!failed.success && failed.text.contains("\nProcess exited with code 3\n"));
    assert!(failed.text.ends_with("Original token count: 0\nOutput:\n"));
    let killed = turn.exec("b", json!({"cmd": "kill -9 $$"})).await;
    assert!(killed.text.contains("\nProcess exited with code 137\n"));
    let told = turn.end().await;
    let failed = told.completed("a");
    assert_eq!(
        (failed.status, failed.exit_code),
        (ItemStatus::Failed, Some(3))
    );
    assert_eq!(failed.aggregated_output, None);
    let killed = told.completed("b");
    assert_eq!(
        (killed.status, killed.exit_code),
        (ItemStatus::Failed, Some(137))
    );
    assert_eq!(killed.outcome, Some(CommandOutcome::Signalled));
    assert_eq!(killed.process_id.as_deref(), Some("1001"));
}

#[tokio::test]
async fn a_directory_is_found_from_the_turns_and_a_missing_one_starts_nothing() {
    let mut thread = Thread::new();
    std::fs::create_dir(thread.path("sub")).unwrap();
    let turn = thread.turn();
    let there = turn
        .exec("a", json!({"cmd": "pwd", "workdir": "sub"}))
        .await;
    let sub = thread.path("sub").to_str().unwrap().to_owned();
    assert_eq!(told_output(&there), format!("{sub}\n"));
    let gone = turn
        .exec("b", json!({"cmd": "pwd", "workdir": "gone"}))
        .await;
    let path = thread.path("gone");
    assert_eq!(
        gone.text,
        format!("workdir is not a directory: {}", path.display())
    );
    let told = turn.end().await;
    assert_eq!(told.started("a").cwd, sub);
    assert_eq!(told.words(), ["a started", "a grew", "a completed"]);
}

#[tokio::test]
async fn bad_arguments_are_a_text_for_the_model() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    for (arguments, why) in [
        (json!({}), "missing field `cmd`"),
        (
            json!({"cmd": 1}),
            "invalid type: integer `1`, expected a string",
        ),
        (
            json!({"cmd": "ls", "sandbox_permissions": "all"}),
            "unknown variant `all`, expected `use_default` or `require_escalated`",
        ),
        (
            json!("ls"),
            "invalid type: string \"ls\", expected struct Arguments",
        ),
    ] {
        let output = turn.exec("a", arguments).await;
        assert_eq!(
            output.text,
            format!("failed to parse function arguments: {why}")
        );
        assert!(!output.success);
    }
    let justified = json!({"cmd": "ls", "sandbox_permissions": "require_escalated",
        "justification": " "});
    let output = turn.exec("a", justified).await;
    assert!(output.text.ends_with("needs a justification"));
    assert!(turn.end().await.events.is_empty());
}

#[tokio::test]
async fn shell_and_login_are_the_models_choice_within_limits() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    turn.exec("a", json!({"cmd": "true", "shell": "bash", "login": true}))
        .await;
    turn.exec("b", json!({"cmd": "true", "shell": "python3"}))
        .await;
    let told = turn.end().await;
    assert_eq!(told.started("a").command, "bash -lc true");
    assert_eq!(told.started("b").command, "/bin/sh -c true");
}

#[tokio::test]
async fn a_shell_that_is_not_there_fails_the_item_and_not_the_turn() {
    let mut thread = Thread::new();
    thread.tools.shell = "/nowhere/sh".to_owned();
    let turn = thread.turn();
    let output = turn.exec("a", json!({"cmd": "true"})).await;
    let why = "the command could not be started: program not found: /nowhere/sh";
    assert!(output.text.starts_with(why), "{}", output.text);
    let told = turn.end().await;
    assert_eq!(told.words(), ["a started", "a completed"]);
    let completed = told.completed("a");
    assert_eq!(
        (completed.status, completed.exit_code),
        (ItemStatus::Failed, None)
    );
}

#[tokio::test]
async fn the_environment_is_plain_and_has_no_keys() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    let output = turn.exec("a", json!({"cmd": "env", "tty": true})).await;
    for line in ["NO_COLOR=1", "TERM=dumb", "PAGER=cat", "GIT_PAGER=cat"] {
        assert!(
            told_output(&output).lines().any(|said| said == line),
            "{line}"
        );
    }
    // Everything of the service comes along but its secrets.
    let named = ["CARGO_MANIFEST_DIR", "HOME", "PATH"].into_iter();
    // The first one is set only where cargo runs the test.
    let named = named.filter(|name| std::env::var_os(name).is_some());
    let ours = format!("\n{}=", named.clone().next().unwrap());
    assert!(output.text.contains(&ours), "no {ours} in {}", output.text);
    let names = told_output(&output)
        .lines()
        .filter_map(|line| line.split_once('='));
    for (name, _) in names {
        let is_secret = ["KEY", "TOKEN", "SECRET", "PASSWORD"]
            .iter()
            .any(|word| name.contains(word));
        assert!(!is_secret, "{name}");
    }
    turn.end().await;
}

#[tokio::test]
async fn a_planted_key_is_nowhere() {
    let mut thread = Thread::new();
    std::fs::write(thread.path("secret"), KEY).unwrap();
    let turn = thread.turn();
    // In pieces, on both streams, and in the command itself.
    let halves =
        "head -c 9 secret; head -c 9 secret >&2; tail -c +10 secret; tail -c +10 secret >&2";
    let cmd = format!("cat secret; echo; {halves}; echo {KEY}");
    let output = turn.exec("a", json!({"cmd": cmd})).await;
    assert!(output.text.contains("[redacted]\n") && !output.text.contains(KEY));
    let told = turn.end().await;
    let all = format!("{:?}", told.events);
    assert!(!all.contains(KEY), "{all}");
    assert!(!told.deltas("a").concat().contains(KEY));
    assert!(told.started("a").command.contains("echo [redacted]"));
}

#[tokio::test]
async fn a_patch_in_a_command_is_applied_and_a_bare_one_is_an_error() {
    let mut thread = Thread::new();
    std::fs::create_dir(thread.path("sub")).unwrap();
    let turn = thread.turn();
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch";
    let cmd = format!("cd sub && apply_patch <<'EOF'\n{patch}\nEOF\n");
    let called = super::support::Turn::called(
        "a",
        json!({"cmd": cmd}),
        crate::native::tools::Permission::Usual,
    );
    let output = super::super::exec_command(&turn.tools, &called)
        .await
        .unwrap();
    assert!(
        output
            .text
            .starts_with("Success. Updated the following files:"),
        "{}",
        output.text
    );
    let made = std::fs::read_to_string(thread.path("sub/new.txt")).unwrap();
    assert_eq!(made, "hello\n");
    let bare = turn.exec("b", json!({"cmd": patch})).await;
    assert!(!bare.success && bare.text.contains("apply_patch"));
    assert_eq!(thread.service.counters().spawned, 0);
    turn.end().await;
}

#[tokio::test]
async fn what_a_command_leaves_behind_belongs_to_the_thread() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    let cmd = "sleep 1000 >/dev/null 2>&1 & echo $!";
    let output = turn.exec("a", json!({"cmd": cmd})).await;
    assert!(output.text.contains("Process exited with code 0"));
    let pid = told_output(&output).to_owned();
    assert!(lives(&pid));
    turn.end().await;
    let listed = thread.sessions.background(Thread::id());
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].process_id, "1000");
    assert_eq!(
        thread
            .sessions
            .end(Thread::id(), Some("1000".to_owned()))
            .await,
        1
    );
    assert!(!lives(&pid));
    assert!(thread.sessions.is_forgotten(Thread::id()));
}
