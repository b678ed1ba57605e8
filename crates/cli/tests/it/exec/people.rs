//! Without `--json`: the answer alone on standard output, progress on standard error.

use turnlane_testkit::mock_model::{ApiError, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::{World, shell_or_ok};

#[tokio::test]
async fn standard_output_is_the_answer_and_nothing_else() {
    let world = World::new(shell_or_ok).await;
    let ran = world.run(&["$ echo hi"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "ok: $ echo hi\n"));
    let place = world.work().display().to_string();
    for part in [
        "Turnlane v",
        "--------\nworkdir: ",
        "model: mock-model\n",
        "provider: mock\n",
        "engine: native\n",
        "approval: never\n",
        "sandbox: read-only\n",
        "reasoning effort: none\n",
        "reasoning summaries: none\n",
        "session id: ",
        "user\n$ echo hi\n",
        "exec\n",
        &format!("-c 'echo hi' in {place}\n"),
        " succeeded in ",
        "native\nok: $ echo hi\n",
        "tokens used\n",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
}

#[tokio::test]
async fn a_failed_turn_leaves_standard_output_empty() {
    let world = World::new(|_| Reply::http_error(ApiError::bad_request("x", "no"))).await;
    let ran = world.run(&["hi"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(ran.stderr.contains("ERROR: "), "{}", ran.stderr);
}

#[tokio::test]
async fn colours_are_for_those_who_ask() {
    let world = World::new(|_| Reply::text("x")).await;
    let plain = world.run(&["hi"]).await;
    assert!(!plain.stderr.contains('\u{1b}'), "{}", plain.stderr);
    let coloured = world.run(&["--color", "always", "hi"]).await;
    assert!(
        coloured.stderr.contains("\u{1b}[36muser"),
        "{}",
        coloured.stderr
    );
    assert_eq!(coloured.stdout, "x\n");
}

#[tokio::test]
async fn an_interrupted_turn_is_said_and_leaves_standard_output_empty() {
    let world = World::new(shell_or_ok).await;
    let running = world
        .begin(&["-s", "danger-full-access", "$ touch there; sleep 1000"])
        .without_input();
    let there = async || world.work().join("there").exists();
    eventually("the command", DEADLINE, there).await.unwrap();
    running.signal(rustix::process::Signal::INT);
    let ran = running.end().await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
    assert!(
        ran.stderr.contains("\nturn interrupted\n"),
        "{}",
        ran.stderr
    );
}

#[tokio::test]
async fn a_turn_without_an_answer_says_nothing_on_standard_output() {
    let world = World::new(|_| Reply::of([])).await;
    let ran = world.run(&["hi"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
}
