//! Hooks that are commands, run for real.

use turnlane_testkit::wait::{DEADLINE, eventually};

use super::*;

fn command(phase: HookPhase, command: &str) -> HookSet {
    HookSet::new().shell(at(phase), "script", command)
}

/// A place for a command, and what it is asked about there.
fn place() -> (tempfile::TempDir, Subject) {
    let dir = tempfile::tempdir().unwrap();
    // A project of its own, whatever lies above the directory of temporary files.
    std::fs::create_dir(dir.path().join(".git")).unwrap();
    let mut asked = subject("hello");
    asked.cwd = Some(dir.path().to_owned());
    (dir, asked)
}

#[tokio::test]
async fn exit_code_two_blocks_with_what_was_said() {
    let (_dir, mut asked) = place();
    let set = command(HookPhase::PreTurn, "echo 'too bold' >&2; exit 2");
    let blocked = runner(&set).before_turn(&mut asked).await.unwrap_err();
    assert_eq!(
        blocked.to_string(),
        "blocked by hook 'script' at PreTurn: too bold"
    );
}

#[tokio::test]
async fn a_command_reads_its_input_and_rewrites_the_prompt() {
    let (dir, mut asked) = place();
    let set = command(
        HookPhase::PreTurn,
        r#"cat > input.json; env > env.txt; echo '{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","turnlane":{"prompt":"rewritten","model":"big","metadata":{"by":"script"}}}}'"#,
    );
    let mut runner = runner(&set);
    runner.before_turn(&mut asked).await.unwrap();
    assert_eq!(runner.report().issues, []);
    assert_eq!(asked.input, "rewritten".into());
    assert_eq!(asked.model.as_deref(), Some("big"));
    assert_eq!(asked.metadata["by"], "script");
    let input = std::fs::read(dir.path().join("input.json")).unwrap();
    let input: Value = serde_json::from_slice(&input).unwrap();
    assert_eq!(input["prompt"], "hello");
    assert_eq!(input["session_id"], "t");
    let env = std::fs::read_to_string(dir.path().join("env.txt")).unwrap();
    let has = |line: &str| env.lines().any(|one| one == line);
    assert!(has("HOOK_EVENT=UserPromptSubmit") && has("TURNLANE_THREAD_ID=t"));
    let root = dir.path().display();
    assert!(has(&format!("PROJECT_DIR={root}")), "{env}");
    assert!(!env.contains("CARGO"), "the environment is built: {env}");
}

#[tokio::test]
async fn plain_text_is_added_to_the_prompt() {
    let (_dir, mut asked) = place();
    let set = command(HookPhase::PreTurn, "echo remember the milk");
    runner(&set).before_turn(&mut asked).await.unwrap();
    assert_eq!(asked.input, "hello\n\nremember the milk".into());
}

#[tokio::test]
async fn whatever_fails_blocks() {
    for (script, message) in [
        ("exit 3", "hook failed (execution): hook exited with code 3"),
        (
            "kill -9 $$",
            "hook failed (execution): hook exited without a status code",
        ),
        (
            "echo '{oops'",
            "hook failed (validation): hook output is not JSON",
        ),
        (
            "head -c 2000000 /dev/zero | tr '\\0' a",
            "hook failed (validation): hook wrote more than 1 MiB",
        ),
    ] {
        let (_dir, mut asked) = place();
        let set = command(HookPhase::PreRun, script);
        let blocked = runner(&set).before_turn(&mut asked).await.unwrap_err();
        assert!(blocked.message.starts_with(message), "{}", blocked.message);
    }
    let mut asked = subject("x");
    asked.cwd = Some(PathBuf::from("/no/such/place"));
    let set = command(HookPhase::PreRun, "true");
    let blocked = runner(&set).before_turn(&mut asked).await.unwrap_err();
    assert!(blocked.message.starts_with("hook failed (execution)"));
}

#[tokio::test]
async fn metadata_of_a_wrong_type_is_an_issue_and_nothing_else() {
    let (_dir, mut asked) = place();
    let set = command(
        HookPhase::PreTurn,
        r#"echo '{"hookSpecificOutput":{"turnlane":{"metadata":5}}}'"#,
    );
    let mut runner = runner(&set);
    runner.before_turn(&mut asked).await.unwrap();
    assert_eq!(messages(&runner), ["metadata_delta must be null or object"]);
    assert_eq!(runner.report().runs[0].outcome, HookOutcome::Noop);
}

#[tokio::test]
async fn those_who_watch_are_told_how_it_ended() {
    let (dir, asked) = place();
    let set = HookSet::new().shell(
        Matcher::phases([HookPhase::PostTurn, HookPhase::PostRun]),
        "script",
        "cat >> seen.jsonl; echo >> seen.jsonl; echo done",
    );
    let mut runner = runner(&set);
    runner.after_turn(&asked, MainStatus::Error).await;
    let seen = std::fs::read_to_string(dir.path().join("seen.jsonl")).unwrap();
    let seen: Vec<Value> = seen
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(seen[0]["hook_event_name"], "TurnEnd");
    assert_eq!(seen[0]["status"], "failed");
    assert_eq!(seen[1]["hook_event_name"], "PostRun");
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    // A zombie that nobody has reaped yet runs no more.
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn nothing_that_a_command_started_outlives_it() {
    let (dir, mut asked) = place();
    let set = command(
        HookPhase::PreTurn,
        "sleep 300 & echo $! > pid; echo '{}'; exit 0",
    );
    runner(&set).before_turn(&mut asked).await.unwrap();
    let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
    assert!(!is_alive(&pid), "{pid} lives");
}

#[tokio::test]
async fn a_command_whose_turn_is_given_up_ends() {
    let (dir, mut asked) = place();
    let set = command(
        HookPhase::PreTurn,
        "sleep 300 & echo $! > child; echo $$ > pid.tmp; mv pid.tmp pid; wait",
    );
    let file = dir.path().join("pid");
    let mut runner = runner(&set);
    let given_up = eventually("the command", DEADLINE, async || file.exists());
    tokio::select! {
        done = runner.before_turn(&mut asked) => panic!("{done:?}"),
        started = given_up => started.unwrap(),
    }
    let pids = ["pid", "child"].map(|name| std::fs::read_to_string(dir.path().join(name)).unwrap());
    let all_ended = async || !pids.iter().any(|pid| is_alive(pid));
    eventually("the end of the command", Duration::from_secs(10), all_ended)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_command_that_hangs_is_ended_with_all_it_started() {
    let (dir, mut asked) = place();
    let script = "trap '' TERM; sleep 300 & echo $! > child; echo '{}'; wait; wait";
    let limit = Duration::from_millis(700);
    let hook = super::super::shell::ShellHook::new("script", script, limit);
    let set = HookSet::new().with(at(HookPhase::PreTurn), Handler::Shell(hook));
    let mut runner = runner(&set);
    let blocked = runner.before_turn(&mut asked).await.unwrap_err();
    // What it wrote before makes no difference.
    assert_eq!(
        blocked.message,
        "hook failed (timeout): hook timed out after 0.7s"
    );
    assert_eq!(runner.report().issues[0].class, IssueClass::Timeout);
    let child = std::fs::read_to_string(dir.path().join("child")).unwrap();
    assert!(!is_alive(&child), "{child} lives");
}
