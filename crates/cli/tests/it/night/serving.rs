//! A daemon and what may happen to it at night: closed terminals, deleted sockets, stops.

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::Terminal;
use crate::people::Person;
use crate::serve::Daemon;

/// The daemon of a home, ended with the test whatever becomes of it.
struct Background(i32);

impl Background {
    async fn of(person: &Person) -> Self {
        let status = person.json(&["serve", "status"]).await.remove(0);
        Self(i32::try_from(status["pid"].as_i64().unwrap()).unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.0) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

async fn status(person: &Person) -> (Option<i32>, Value) {
    let output = crate::run(person.spec(&["serve", "status", "--json"])).await;
    let shown = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code(), shown)
}

#[tokio::test]
async fn a_detached_daemon_is_told_ready_and_stops_when_told() {
    let person = Person::new();
    let (code, shown) = status(&person).await;
    assert_eq!((code, &shown["state"]), (Some(3), &"none".into()));
    let script = person.script();
    let script = script.to_str().unwrap();
    let output = crate::run(person.spec(&["serve", "--detach", "--script", script])).await;
    assert!(output.status.success(), "{}", output.stderr_tail);
    let daemon = Background::of(&person).await;
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("listening on ws://127.0.0.1:"), "{told}");
    assert!(
        told.contains(&format!("process {} serves", daemon.0)),
        "{told}"
    );
    let log = person.home.turnlane().join("log/serve.log");
    let mode = std::fs::metadata(&log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (code, shown) = status(&person).await;
    assert_eq!((code, &shown["state"]), (Some(0), &"running".into()));
    assert_eq!(shown["version"], env!("CARGO_PKG_VERSION"), "{shown}");

    let (thread, _) = person.queued("docs", "say hello").await;
    person.until_idle(&thread).await;

    // A second one says who serves, and the first goes on.
    let second = crate::run(person.spec(&["serve", "--detach"])).await;
    assert_eq!(second.status.code(), Some(1));
    let why = format!("process {} serves this home", daemon.0);
    assert!(second.stderr_tail.contains(&why), "{}", second.stderr_tail);

    let stopped = person.json(&["serve", "stop", "--now"]).await.remove(0);
    assert_eq!(stopped["stopped"], true, "{stopped}");
    let (code, _) = status(&person).await;
    assert_eq!(code, Some(3));
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.ends_with("stopped\n"), "{text}");
    let none = person.json(&["serve", "stop"]).await.remove(0);
    assert_eq!(none["stopped"], false, "{none}");
}

#[tokio::test]
async fn a_stop_without_grace_cuts_a_turn_that_the_next_daemon_continues() {
    let person = Person::new();
    let script = person.script();
    let flags = ["--script", script.to_str().unwrap()];
    let mut daemon = Daemon::start(&person.home, &flags).await;
    let (thread, _) = person.queued("docs", "hang on").await;
    person.until_running(&thread).await;
    // Its grace is 30 s; the test would wait for longer than that only if it were given.
    person.json(&["serve", "stop", "--now"]).await;
    let ended = daemon.process.wait(DEADLINE).await.unwrap();
    assert!(ended.success(), "{ended}");
    let queue = person.queue(&thread).await;
    assert_eq!(queue["blocked"], Value::Null, "{queue}");
    assert_eq!(queue["data"][0]["status"]["type"], "pending", "{queue}");
    let shown = person.json(&["thread", "show", "docs"]).await;
    let text = serde_json::to_string(&shown).unwrap();
    assert!(text.contains("\"kind\":\"stopped\""), "{text}");

    let _next = Daemon::start(&person.home, &flags).await;
    person.until_running(&thread).await;
}

#[tokio::test]
async fn a_hangup_stops_a_daemon_that_has_no_terminal() {
    let person = Person::new();
    let script = person.script();
    // In a session of its own, as a supervisor starts it; the tests may have a terminal.
    let output =
        crate::run(person.spec(&["serve", "--detach", "--script", script.to_str().unwrap()])).await;
    assert!(output.status.success(), "{}", output.stderr_tail);
    let daemon = Background::of(&person).await;
    kill_process(Pid::from_raw(daemon.0).unwrap(), Signal::HUP).unwrap();
    let gone = async || status(&person).await.1["state"] == "none";
    eventually("its end", DEADLINE, gone).await.unwrap();
    let log = person.home.turnlane().join("log/serve.log");
    let text = std::fs::read_to_string(log).unwrap();
    assert!(text.contains("stopping; "), "{text}");
    assert!(text.ends_with("stopped\n"), "{text}");
}

#[tokio::test]
async fn a_closed_terminal_does_not_end_the_daemon() {
    let person = Person::new();
    let script = person.script();
    let program = env!("CARGO_BIN_EXE_turnlane");
    let line = [program, "serve", "--script", script.to_str().unwrap()];
    let env = person.home.env();
    let _terminal = Terminal::start(&line, &person.home.workspace(), env).await;
    let running = async || status(&person).await.1["state"] == "running";
    eventually("a daemon", DEADLINE, running).await.unwrap();
    let daemon = Background::of(&person).await;
    kill_process(Pid::from_raw(daemon.0).unwrap(), Signal::HUP).unwrap();
    let log = person.home.turnlane().join("log/serve.log");
    let said = async || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.contains("the terminal is gone; going on without it")
    };
    eventually("a line in the log", DEADLINE, said)
        .await
        .unwrap();
    // It serves: a turn runs, and what is logged is in the file.
    let (thread, _) = person.queued("docs", "say hello").await;
    person.until_idle(&thread).await;
    let logged = async || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.contains("a turn completed") && text.contains(&thread)
    };
    eventually("the turn in the log", DEADLINE, logged)
        .await
        .unwrap();
    person.json(&["serve", "stop", "--now"]).await;
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.ends_with("stopped\n"), "{text}");
    assert_eq!(text.matches("the terminal is gone").count(), 1, "{text}");
}

#[tokio::test]
async fn a_deleted_socket_is_made_again() {
    let person = Person::new();
    let script = person.script();
    let daemon = Daemon::start(&person.home, &["--script", script.to_str().unwrap()]).await;
    for deleted in [&daemon.socket, daemon.socket.parent().unwrap()] {
        if deleted.is_dir() {
            std::fs::remove_dir_all(deleted).unwrap();
        } else {
            std::fs::remove_file(deleted).unwrap();
        }
        let there = async || daemon.socket.exists();
        eventually("the socket", DEADLINE, there).await.unwrap();
        let mode = std::fs::metadata(&daemon.socket)
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        daemon.unix().await;
    }
    let (_, shown) = status(&person).await;
    assert_eq!(shown["state"], "running", "{shown}");
}

#[tokio::test]
async fn a_daemon_that_does_not_answer_is_told_from_one_that_is_not_there() {
    let mut person = Person::new();
    let script = person.script();
    let mut daemon = Daemon::start(&person.home, &["--script", script.to_str().unwrap()]).await;
    let pid = daemon.process.pid();
    daemon.process.stop().unwrap();
    let (code, shown) = status(&person).await;
    assert_eq!((code, &shown["state"]), (Some(0), &"suspended".into()));
    person
        .types(&["queue", "add", "--new", "--name", "docs", "say hello"])
        .await;
    person.types(&["queue", "start", "docs"]).await;
    daemon.process.cont().unwrap();
    let story = person.story();
    let next = format!("kill -CONT {pid}");
    assert_eq!(story.matches(&next).count(), 2, "{story}");
    assert!(!story.contains("no daemon runs"), "{story}");
}

#[tokio::test]
async fn an_address_is_told_only_after_the_database_is_open() {
    let person = Person::new();
    std::fs::create_dir_all(person.home.turnlane()).unwrap();
    let database = person.home.turnlane().join("turnlane.db");
    std::fs::write(
        &database,
        "this is no database, and it is long enough to be seen as one",
    )
    .unwrap();
    std::fs::set_permissions(&database, std::fs::Permissions::from_mode(0o600)).unwrap();
    let output = crate::run(person.spec(&["serve"])).await;
    assert_eq!(output.status.code(), Some(1), "{}", output.stderr_tail);
    assert!(
        !output.stderr_tail.contains("listening on"),
        "{}",
        output.stderr_tail
    );
    assert!(
        output.stderr_tail.contains("cannot open"),
        "{}",
        output.stderr_tail
    );
}
