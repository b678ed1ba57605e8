//! File descriptors that run out are told in the log, with the limit, and by `turnlane doctor`.

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use turnlane_testkit::mock_model::{At, Gate, Item, Reply};
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::{Daemon, add, drained};
use crate::app_server::{Served, thread};
use crate::people::Person;

#[tokio::test]
async fn a_command_without_descriptors_is_told_in_the_log() {
    let gate = Gate::new();
    let held = gate.clone();
    let served = Served::new(move |request| {
        let last = request.input().last();
        if last.is_some_and(|item| item["type"] == "function_call_output") {
            return Reply::text("done");
        }
        let id = format!("call_{}", request.input().len());
        let call = json!({"cmd": "true", "yield_time_ms": 30_000});
        let reply = Reply::of([Item::function_call("exec_command", call).call_id(id)]);
        if request.last_user_text().starts_with("hold") {
            reply.gated_by(At::Request, &held)
        } else {
            reply
        }
    })
    .await;
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let unconfined = json!({"sandbox": "danger-full-access", "approvalPolicy": "never"});
    let id = thread(&mut client, &served.work(), unconfined).await;
    // What the first command needs once is there afterwards.
    add(&mut client, &id, "first", json!({})).await;
    drained(&mut client, &id).await;
    add(&mut client, &id, "hold", json!({})).await;
    gate.reached().await;
    let pid = Pid::from_raw(daemon.process.pid());
    // The daemon has the limits of this process. None of its numbers below 3 is free.
    let before = getrlimit(Resource::Nofile);
    let none_left = Rlimit {
        current: Some(3),
        ..before
    };
    prlimit(pid, Resource::Nofile, none_left).unwrap();
    gate.release();
    let told = |line: &str| line.contains("file descriptors ran out");
    let line = daemon.process.wait_for_stderr_line(told, DEADLINE).await;
    prlimit(pid, Resource::Nofile, before).unwrap();
    let line = line.unwrap();
    for part in ["limit=\"3\"", "`ulimit -n 1024`", "LimitNOFILE=1024"] {
        assert!(line.contains(part), "no {part} in {line}");
    }
}

#[tokio::test]
async fn doctor_checks_the_limit_of_open_files() {
    let person = Person::new();
    let binary = env!("CARGO_BIN_EXE_turnlane");
    let spec = |limit: &str| {
        let script = format!("ulimit -n {limit} && exec \"$0\" doctor --json");
        ProcessSpec::new("sh")
            .args(["-c", &script, binary])
            .envs(person.home.env())
            .current_dir(person.home.workspace())
    };
    for (limit, is_low) in [("100", true), ("300", false)] {
        let output = crate::run(spec(limit)).await;
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["openFiles"]["limit"].to_string(), limit);
        let problems = report["problems"].as_array().unwrap();
        let told = problems.iter().find(|problem| problem["what"] == "limit");
        assert_eq!(told.is_some(), is_low, "{report}");
        if let Some(told) = told {
            let next = told["next"].as_str().unwrap();
            assert!(next.contains("`ulimit -n 1024`"), "{next}");
        }
    }
}

/// With so few descriptors a daemon starts, and a command may or may not find one.
#[tokio::test]
async fn a_daemon_with_40_descriptors_runs_commands_or_says_why_not() {
    let served = Served::new(|request| {
        let last = request.input().last();
        if last.is_some_and(|item| item["type"] == "function_call_output") {
            return Reply::text("done");
        }
        let call = json!({"cmd": "touch made", "yield_time_ms": 30_000});
        Reply::of([Item::function_call("exec_command", call)])
    })
    .await;
    let script = "ulimit -n 40 && exec \"$0\" serve";
    let spec = ProcessSpec::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_turnlane")])
        .envs(served.home.env())
        .current_dir(served.home.workspace());
    let daemon = Daemon::of(&served.home, TestProcess::start(spec).unwrap()).await;
    let mut client = daemon.unix().await;
    let unconfined = json!({"sandbox": "danger-full-access", "approvalPolicy": "never"});
    let id = thread(&mut client, &served.work(), unconfined).await;
    add(&mut client, &id, "work", json!({})).await;
    drained(&mut client, &id).await;
    if !served.work().join("made").exists() {
        let told = |line: &str| line.contains("file descriptors ran out");
        let line = daemon.process.wait_for_stderr_line(told, DEADLINE).await;
        assert!(line.unwrap().contains("limit=\"40\""));
    }
    let report = crate::run(
        crate::turnlane(&["doctor", "--json"])
            .envs(served.home.env())
            .current_dir(served.home.workspace()),
    )
    .await;
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let problems = report["problems"].to_string();
    assert!(problems.contains("may open 40"), "{report}");
}
