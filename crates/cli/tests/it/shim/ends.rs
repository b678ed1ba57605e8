//! The ends of a shim, and the handoff to the next one.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::rig::{Rig, names, of};

pub(super) async fn shell(rig: &Rig, script: &str) -> String {
    let spec = ProcessSpec::shell(script)
        .current_dir(rig.home.workspace())
        .env("HOME", rig.home.path())
        .env("GIT_AUTHOR_NAME", "a")
        .env("GIT_AUTHOR_EMAIL", "a@b")
        .env("GIT_COMMITTER_NAME", "a")
        .env("GIT_COMMITTER_EMAIL", "a@b");
    let output = TestProcess::run(spec, DEADLINE).await.unwrap();
    assert!(output.status.success(), "{script}: {}", output.stderr_tail);
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_kill_ends_every_process_and_preserves_the_work() {
    let rig = Rig::new();
    let prepare = "git init -q . && echo one > kept && git add kept && git commit -qm first \
                   && echo two > kept && echo new > other";
    shell(&rig, prepare).await;
    let status = shell(&rig, "git status --porcelain").await;
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    member.message("m", "daemonize").await;
    member.event("MessageDelivered").await;
    let mark = format!("--id eng-1 --cwd {}", rig.home.workspace().display());
    let agents = || {
        let found = processes_below(rig.home.workspace().to_str().unwrap());
        found
            .into_iter()
            .filter(|line| !line.contains(&mark))
            .count()
    };
    eventually("the agent's processes", DEADLINE, async || agents() > 1)
        .await
        .unwrap();
    member.send(json!({"cmd": "Kill"})).await;
    let events = member.rest().await;
    let told = ["StateChanged", "DeliveryFailed", "StateChanged", "Died"];
    assert_eq!(names(&events), told);
    assert_eq!(of(&events, "DeliveryFailed")[0]["kind"], "interrupted");
    assert_eq!(of(&events, "StateChanged")[1]["to"], "dead");
    assert_eq!(member.exit().await.code(), Some(0));
    assert_eq!(agents(), 0);
    let files =
        "git ls-tree -r --name-only $(git for-each-ref --format='%(refname)' refs/turnlane)";
    assert_eq!(shell(&rig, files).await, "kept\nother\n");
    assert_eq!(shell(&rig, "git status --porcelain").await, status);
}

/// The command lines of processes that work in a directory.
pub(super) fn processes_below(directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap();
    let line = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.ok()?.path();
        let cwd = std::fs::read_link(path.join("cwd")).ok()?;
        let line = std::fs::read(path.join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (cwd.to_str() == Some(directory) && !line.is_empty()).then_some(line)
    };
    entries.filter_map(line).collect()
}

/// Time that the orchestrator gives; the turn may use half of it.
const SHUTDOWN_SECS: u64 = 8;

#[tokio::test]
async fn a_shutdown_has_exited_within_its_time() {
    let rig = Rig::with_script(STUBBORN);
    let mut member = rig.member(&["-s", "workspace-write"]);
    member.event("Ready").await;
    member.send(json!({"cmd": "Hello", "version": 2})).await;
    member.event("Welcome").await;
    member.message("m", "stubborn").await;
    member.event("MessageDelivered").await;
    member.message("n", "hello").await;
    member.event("Warning").await;
    let started = rig.home.workspace().join("started");
    eventually("the agent", DEADLINE, async || started.exists())
        .await
        .unwrap();
    // The clock of the shim tells its times: the answer to a ping is its begin.
    member.send(json!({"cmd": "Ping"})).await;
    let began_ms = member.event("Pong").await["ts"].as_u64().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a time limit is what is tested")]
    let began = Instant::now();
    let end = json!({"cmd": "Shutdown", "timeout_secs": SHUTDOWN_SECS, "reason": "requested"});
    member.send(end).await;
    member.message("late", "hello").await;
    member.send(json!({"cmd": "Ping"})).await;
    let events = member.rest().await;
    assert_eq!(member.exit().await.code(), Some(0));
    let took = began.elapsed();
    let died = events.last().unwrap();
    assert_eq!(died["event"], "Died");
    let took_ms = died["ts"].as_u64().unwrap() - began_ms;
    let limit_ms = SHUTDOWN_SECS * 1_000;
    assert!(took_ms >= limit_ms / 2, "the turn may go on: {took_ms} ms");
    assert!(
        took_ms <= limit_ms,
        "killed by the orchestrator: {took_ms} ms"
    );
    // A busy machine may delay the exit itself.
    assert!(took < 2 * Duration::from_secs(SHUTDOWN_SECS), "{took:?}");
    let failed = of(&events, "DeliveryFailed");
    assert_eq!(failed[0]["code"], "closing");
    assert_eq!(
        (&failed[1]["id"], &failed[1]["kind"]),
        (&json!("m"), &json!("interrupted"))
    );
    assert_eq!(of(&events, "Pong").len(), 1);
    let told = names(&events);
    assert_eq!(told[told.len() - 2..], ["StateChanged", "Died"]);
    let workspace = rig.home.workspace();
    assert_eq!(
        processes_below(workspace.to_str().unwrap()),
        Vec::<String>::new(),
        "what it ran has ended with it"
    );
    // Nothing new began; what waited runs under the next shim.
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    assert_eq!(member.event("Completion").await["message_id"], "n");
    member.shutdown().await;
}

/// An agent whose command ignores all that can be ignored.
const STUBBORN: &str = r#"version: 1
turns:
  - match: "stubborn"
    steps:
      - exec: {cmd: "trap '' INT TERM HUP; touch started; while :; do sleep 0.05; done", real: true}
  - match: ""
    steps: [{say: {text: "done", phase: final_answer}}]
"#;

#[tokio::test]
async fn a_turn_that_ends_in_the_time_of_a_shutdown_has_its_receipts() {
    let rig = Rig::new();
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    member.message("m", "busy").await;
    member.event("MessageDelivered").await;
    member.message("n", "hello").await;
    member.event("Warning").await;
    let end = json!({"cmd": "Shutdown", "timeout_secs": 60, "reason": "requested"});
    member.send(end).await;
    rig.go();
    let events = member.rest().await;
    assert_eq!(member.exit().await.code(), Some(0));
    let completed = of(&events, "Completion");
    assert_eq!(completed.len(), 1, "nothing new begins: {events:?}");
    assert_eq!(completed[0]["message_id"], "m");
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    assert_eq!(member.event("Completion").await["message_id"], "n");
    member.shutdown().await;
}

#[tokio::test]
async fn a_signal_ends_the_shim_and_is_seen_by_its_parent() {
    let rig = Rig::new();
    let mut member = rig.member(&["--graceful-shutdown-timeout-secs", "0"]);
    member.event("Ready").await;
    let pid = Pid::from_raw(member.process.pid()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let events = member.rest().await;
    assert_eq!(events.last().unwrap()["reason"], "SIGTERM");
    let status = member.exit().await;
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(15)
    );
}

#[tokio::test]
async fn a_successor_waits_for_its_predecessor() {
    let rig = Rig::new();
    let mut first = rig.member(&[]);
    let thread = first.event("Ready").await["thread_id"].clone();
    first.message("m", "busy").await;
    first.event("MessageDelivered").await;
    let mut late = rig.member(&["--handoff-wait", "1"]);
    assert_eq!(late.rest().await.len(), 2, "a change of state and Died");
    assert_eq!(late.exit().await.code(), Some(4));
    let mut second = rig.member(&["--handoff-wait", "60"]);
    second.send(json!({"cmd": "Ping"})).await;
    assert_eq!(second.next().await.unwrap()["event"], "Pong");
    second.send(json!({"cmd": "GetState"})).await;
    assert_eq!(second.next().await.unwrap()["state"], "starting");
    first
        .send(json!({"cmd": "Shutdown", "timeout_secs": 2, "reason": "restart_handoff"}))
        .await;
    let events = first.rest().await;
    assert_eq!(of(&events, "DeliveryFailed")[0]["id"], "m");
    let ready = second.until("Ready").await;
    assert_eq!(names(&ready), ["Ready"], "no error and no other event");
    assert_eq!(ready[0]["thread_id"], thread);
    rig.go();
    second.message("m", "busy").await;
    let events = second.until("Completion").await;
    assert_eq!(of(&events, "MessageDelivered")[0]["attempt"], 2);
    second.shutdown().await;
    // A shim that is starting can be killed.
    let mut first = rig.member(&[]);
    first.event("Ready").await;
    let mut second = rig.member(&[]);
    second.send(json!({"cmd": "Kill"})).await;
    let events = second.rest().await;
    assert_eq!(names(&events), ["StateChanged", "Died"]);
    assert_eq!(second.exit().await.code(), Some(0));
    first.shutdown().await;
}

#[tokio::test]
async fn the_end_of_the_channel_stops_the_turn() {
    let rig = Rig::new();
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    member.message("m", "busy").await;
    member.event("MessageDelivered").await;
    member.hang_up();
    assert_eq!(
        member.exit().await.code(),
        Some(0),
        "{}",
        member.process.stderr_tail()
    );
    let mut member = rig.member(&[]);
    let ready = member.event("Ready").await;
    assert_eq!(ready["queue_depth"], 0);
    member.shutdown().await;
}

#[tokio::test]
async fn wrong_usage_is_told_by_the_exit_code() {
    let rig = Rig::new();
    let exits = async |arguments: &[&str]| {
        let spec = crate::turnlane(&["shim"])
            .args(arguments.iter().copied())
            .envs(rig.home.env())
            .current_dir(rig.home.workspace());
        let output = crate::run(spec).await;
        assert!(output.stdout.is_empty());
        output.status.code()
    };
    assert_eq!(exits(&["--id", "a b", "--stdio"]).await, Some(2));
    assert_eq!(exits(&["--stdio"]).await, Some(2));
    assert_eq!(exits(&["--id", "a"]).await, Some(2), "no descriptor 3");
    assert_eq!(
        exits(&["--id", "a", "--stdio", "--cwd", "nowhere"]).await,
        Some(2)
    );
    assert_eq!(
        exits(&["--id", "a", "--stdio", "--on-disconnect", "detach"]).await,
        Some(2)
    );
    assert_eq!(
        exits(&["--id", "a", "--stdio", "--agent-type", "bash"]).await,
        Some(3)
    );
    assert_eq!(
        exits(&["--id", "a", "--stdio", "--daemon", "require"]).await,
        Some(3)
    );
}
