//! Commands that run on: polled, written to, listed, ended.

use std::sync::Arc;

use serde_json::json;
use turnlane_protocol::approval::Decision;
use turnlane_protocol::item::{CommandSource, ItemStatus};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::support::{KEY, Thread, Turn, decide, lives, told_output};
use crate::Event;
use crate::native::tools::Permission;
use crate::native::tools::exec::exec_command;
use crate::native::tools::write_stdin::write_stdin;

#[tokio::test]
async fn a_terminal_is_fed_polled_and_interrupted() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    let cmd = "stty -echo; echo ready; while read line; do echo \"got $line\"; done";
    let arguments = json!({"cmd": cmd, "tty": true, "yield_time_ms": 250});
    let output = turn.exec("a", arguments).await;
    assert!(output.success);
    assert!(
        output
            .text
            .contains("\nProcess running with session ID 1000\n")
    );
    let first = told_output(&output).to_owned();
    if !first.contains("ready") {
        turn.write_until("", 1000, "ready").await;
    }
    let told = turn.write_until("one\n", 1000, "got one").await;
    assert!(!told.contains("ready"), "told once: {told}");
    let told = turn.write_until("two\n", 1000, "got two").await;
    assert!(!told.contains("got one"), "told once: {told}");
    let ended = turn
        .write(
            "w",
            json!({"session_id": 1000, "chars": "\u{3}",
        "yield_time_ms": 30_000}),
        )
        .await;
    assert!(
        ended.text.contains("\nProcess exited with code 130\n"),
        "{}",
        ended.text
    );
    let unknown = turn
        .write("w", json!({"session_id": 1000, "chars": "x"}))
        .await;
    assert_eq!(unknown.text, "write_stdin failed: Unknown process id 1000");
    let told = turn.end().await;
    let words = told.words();
    assert_eq!(words[0], "a started");
    assert_eq!(words.last().unwrap(), "a completed");
    assert!(words.contains(&"a was told \"one\\n\"".to_owned()));
    assert_eq!(told.completed("a").exit_code, Some(130));
    assert_eq!(
        told.deltas("a").concat(),
        told.completed("a").aggregated_output.unwrap()
    );
    assert!(thread.sessions.is_forgotten(Thread::id()));
}

#[tokio::test]
async fn a_command_without_a_terminal_reads_nothing_and_takes_nothing() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    let read = turn.exec("a", json!({"cmd": "cat; echo end"})).await;
    assert_eq!(told_output(&read), "end\n");
    turn.exec("b", json!({"cmd": "sleep 1000", "yield_time_ms": 250}))
        .await;
    let refused = turn
        .write("w", json!({"session_id": 1001, "chars": "x"}))
        .await;
    assert_eq!(
        refused.text,
        "stdin is closed for this session; rerun exec_command with tty=true"
    );
    turn.end().await;
    thread.sessions.close(Thread::id()).await;
}

#[tokio::test]
async fn a_command_survives_its_turn_and_ends_with_the_thread() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    let cmd = format!("echo $$ {KEY}; trap '' HUP; sleep 1000");
    let output = turn
        .exec("a", json!({"cmd": cmd, "yield_time_ms": 250}))
        .await;
    let pid = told_output(&output).split(' ').next().unwrap().to_owned();
    let told = turn.end().await;
    assert_eq!(told.words(), ["a started", "a grew", "a completed"]);
    let item = told.completed("a");
    assert_eq!(
        (item.status, item.exit_code, item.outcome),
        (ItemStatus::Completed, None, None)
    );
    assert!(lives(&pid));
    let listed = thread.sessions.background(Thread::id());
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].process_id.as_str(), listed[0].item_id.as_str()),
        ("1000", "a")
    );
    assert_eq!(listed[0].cwd, thread.settings.cwd);
    assert!(listed[0].command.contains("echo $$ [redacted]"));
    thread.sessions.close(Thread::id()).await;
    assert!(!lives(&pid));
    thread.sessions.close(Thread::id()).await;
    assert!(thread.sessions.is_forgotten(Thread::id()));
}

#[tokio::test]
async fn a_later_turn_shows_what_it_asks_for_in_items_of_its_own() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    let cmd = "stty -echo; echo ready; while read line; do echo \"got $line\"; done; exit 4";
    turn.exec("a", json!({"cmd": cmd, "tty": true, "yield_time_ms": 250}))
        .await;
    turn.end().await;

    let turn = thread.turn();
    let told = turn.write_until("one\n", 1000, "got one").await;
    assert!(told.contains("Process running with session ID 1000"));
    let told = turn.end().await;
    assert_eq!(
        told.started("w").source,
        Some(CommandSource::UnifiedExecInteraction)
    );
    assert_eq!(told.started("w").process_id.as_deref(), Some("1000"));
    assert!(told.started("w").command.starts_with("/bin/sh -c"));
    let item = told.completed("w");
    assert_eq!((item.status, item.exit_code), (ItemStatus::Completed, None));
    assert!(told.deltas("w").concat().contains("got one"));
    let words = told.words();
    assert_eq!(words[0], "w started");
    assert!(words.contains(&"w was told \"one\\n\"".to_owned()));

    // A turn that finds it ended shows how.
    let turn = thread.turn();
    let session = turn.tools.sessions.get(1000).unwrap();
    session.process.write("\u{4}".into()).await.unwrap();
    session.end().await;
    let output = turn
        .write("late", json!({"session_id": 1000, "chars": "x"}))
        .await;
    assert!(
        output.text.contains("\nProcess exited with code 4\n"),
        "{}",
        output.text
    );
    let told = turn.end().await;
    assert_eq!(told.words().first().unwrap(), "late started");
    assert_eq!(told.words().last().unwrap(), "late completed");
    assert_eq!(told.completed("late").exit_code, Some(4));
    drop(session);
    assert!(thread.sessions.is_forgotten(Thread::id()));
}

#[tokio::test]
async fn a_command_that_ends_between_polls_completes_its_item_at_once() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    let cmd = "while [ ! -e go ]; do sleep 0.01; done; echo done";
    turn.exec("a", json!({"cmd": cmd, "yield_time_ms": 250}))
        .await;
    std::fs::write(thread.path("go"), "").unwrap();
    let heard = turn.heard.clone();
    let completed = async || {
        let events = heard.events.lock().unwrap();
        matches!(events.last(), Some(Event::ItemCompleted(_)))
    };
    eventually("the item's end", DEADLINE, completed)
        .await
        .unwrap();
    assert!(thread.sessions.background(Thread::id()).is_empty());
    let output = turn.write("w", json!({"session_id": 1000})).await;
    assert!(output.text.contains("Process exited with code 0"));
    assert_eq!(told_output(&output), "done\n");
    let told = turn.end().await;
    assert_eq!(told.words(), ["a started", "a grew", "a completed"]);
}

#[tokio::test]
async fn hooks_have_a_say_about_what_is_written() {
    let mut thread = Thread::new();
    let turn = thread.turn_deciding(decide([Decision::Decline, Decision::Accept]));
    let cmd = "stty -echo; while read line; do echo \"got $line\"; done";
    turn.exec("a", json!({"cmd": cmd, "tty": true, "yield_time_ms": 250}))
        .await;
    let write = async |item: &str, permission| {
        let chars = format!("{item}\n");
        let arguments = json!({"session_id": 1000, "chars": chars});
        let called = Turn::called(item, arguments, permission);
        write_stdin(&turn.tools, &called).await.unwrap().text
    };
    let blocked = Permission::Blocked(format!("not {KEY}"));
    assert_eq!(write("blocked", blocked).await, "not [redacted]");
    let declined = write("declined", Permission::Asked).await;
    assert_eq!(declined, "exec command rejected by user");
    let accepted = write("accepted", Permission::Asked).await;
    assert!(accepted.contains("session ID 1000"), "{accepted}");
    let told = if accepted.contains("got accepted") {
        accepted
    } else {
        turn.write_until("", 1000, "got accepted").await
    };
    assert!(!told.contains("got blocked") && !told.contains("got declined"));
    let told = turn.end().await;
    for (item, status) in [
        ("blocked", ItemStatus::Declined),
        ("declined", ItemStatus::Declined),
        ("accepted", ItemStatus::Completed),
    ] {
        assert_eq!(told.completed(item).status, status, "{item}");
    }
    assert_eq!(told.asked.len(), 2);
    assert_eq!(
        told.asked[1].reason.as_deref(),
        Some("to write \"accepted\\n\" to it")
    );
    thread.sessions.close(Thread::id()).await;
}

#[tokio::test]
async fn the_sixty_fifth_command_is_refused() {
    let mut thread = Thread::new();
    let turn = thread.turn();
    let calls = (0..64).map(|_| {
        let turn = Arc::clone(&turn.tools);
        let arguments = json!({"cmd": "sleep 1000", "yield_time_ms": 250});
        let called = Turn::called("a", arguments, Permission::Usual);
        tokio::spawn(async move { exec_command(&turn, &called).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert!(call.await.unwrap().unwrap().success);
    }
    let refused = turn.exec("z", json!({"cmd": "true"})).await;
    assert_eq!(refused.text, "too many running commands (64)");
    assert!(!refused.success);
    assert_eq!(
        thread
            .sessions
            .end(Thread::id(), Some("1063".to_owned()))
            .await,
        1
    );
    assert_eq!(
        thread
            .sessions
            .end(Thread::id(), Some("1063".to_owned()))
            .await,
        0
    );
    assert!(turn.exec("y", json!({"cmd": "true"})).await.success);
    assert_eq!(thread.sessions.background(Thread::id()).len(), 63);
    assert_eq!(thread.sessions.end(Thread::id(), None).await, 63);
    assert_eq!(thread.running(), 0);
    turn.end().await;
}
