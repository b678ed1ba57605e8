//! Jobs that a daemon runs: detached, followed, over restarts, and from another machine.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use turnlane_testkit::TestProcess;
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::{Desk, lines};
use crate::run;
use crate::serve::Daemon;

const TASK: [&str; 5] = ["in.csv", "--instruction", "do {name}", "-o", "out.csv"];

impl Desk {
    async fn daemon(&self, script: &str) -> Daemon {
        let script = self.home.path().join(script);
        Daemon::start(&self.home, &["--script", script.to_str().unwrap()]).await
    }

    /// The counts of the only job once they fit.
    async fn until(&self, what: &str, fits: impl Fn(&Value) -> bool) {
        let seen = async || self.jobs().await.first().is_some_and(&fits);
        eventually(what, DEADLINE, seen).await.unwrap();
    }
}

fn signal(process: &TestProcess, signal: Signal) {
    kill_process(Pid::from_raw(process.pid()).unwrap(), signal).unwrap();
}

#[tokio::test]
async fn a_detached_job_goes_on_over_a_restart_of_the_daemon_without_a_loss() {
    let desk = Desk::new();
    desk.write("in.csv", "name\na\nstall-me\nc\n");
    let refused = desk
        .types(&[&["run"], &TASK[..], &["--detach"]].concat())
        .await;
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr_tail);
    let mut daemon = desk.daemon("script.yaml").await;
    let ran = desk
        .types(&[&["run"], &TASK[..], &["--detach"]].concat())
        .await;
    assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr_tail);
    let id = String::from_utf8(ran.stdout).unwrap().trim().to_owned();
    desk.until("two results", |job| job["counts"]["succeeded"] == 2)
        .await;
    let shown = run(desk.spec(&["show", &id, "--json"])).await;
    assert_eq!(lines(&shown)[0]["owner"], "detached");
    daemon.signal(Signal::TERM);
    daemon.process.wait(DEADLINE).await.unwrap();
    let _daemon = desk.daemon("healed.yaml").await;
    let watched = desk.types(&["watch", &id]).await;
    assert_eq!(watched.status.code(), Some(0), "{}", watched.stderr_tail);
    let item = run(desk.spec(&["logs", &id, "row-2", "--json"])).await;
    let item = lines(&item).remove(0);
    let outcomes: Vec<_> = item["attempts"].as_array().unwrap().iter().collect();
    let outcomes: Vec<_> = outcomes.iter().map(|it| it["outcome"].clone()).collect();
    assert_eq!(outcomes, ["interrupted", "reported"], "{item}");
    assert_eq!(desk.read("out.csv").lines().count(), 4);
}

#[tokio::test]
async fn ctrl_c_pauses_a_job_of_the_daemon_and_the_same_command_continues_it() {
    let desk = Desk::new();
    desk.write("in.csv", "name\na\nstall-me\nc\n");
    let mut daemon = desk.daemon("script.yaml").await;
    let spec = desk.spec(&["run"]).args(TASK);
    let mut process = TestProcess::start(spec).unwrap();
    desk.until("two results", |job| job["counts"]["succeeded"] == 2)
        .await;
    signal(&process, Signal::INT);
    let status = process.wait(DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(130), "{}", process.stderr_tail());
    let jobs = desk.jobs().await;
    assert_eq!(jobs[0]["state"], "paused", "{}", jobs[0]);
    assert_eq!(jobs[0]["counts"]["pending"], 1, "{}", jobs[0]);
    daemon.signal(Signal::TERM);
    daemon.process.wait(DEADLINE).await.unwrap();
    let _daemon = desk.daemon("healed.yaml").await;
    let again = desk
        .types(&[&["run"], &TASK[..], &["-j", "3"]].concat())
        .await;
    let told = &again.stderr_tail;
    assert_eq!(again.status.code(), Some(0), "{told}");
    assert!(told.contains("continuing job in"), "{told}");
    assert!(told.contains("concurrency 8 (not 3)"), "{told}");
    assert_eq!(desk.jobs().await.len(), 1);
    assert_eq!(desk.read("out.csv").lines().count(), 4);
}

#[tokio::test]
async fn a_named_server_takes_standard_input_and_the_results_are_written_here() {
    let desk = Desk::new();
    let daemon = desk.daemon("script.yaml").await;
    let token = desk.home.turnlane().join("token");
    let token = token.to_str().unwrap();
    let spec = desk.spec(&[
        "run",
        "-",
        "--format",
        "lines",
        "--instruction",
        "do {line}",
    ]);
    let spec = spec.args([
        "-o",
        "out.csv",
        "--server",
        &daemon.url,
        "--token-file",
        token,
    ]);
    let mut process = TestProcess::start(spec).unwrap();
    let mut stdin = process.take_stdin().unwrap();
    stdin.write_all(b"a\nb\nc\n").await.unwrap();
    drop(stdin);
    let status = process.wait(DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(0), "{}", process.stderr_tail());
    assert_eq!(desk.read("out.csv").lines().count(), 4);
}
