//! Approvals and interrupts reach the turns of a daemon that stops, with and without a successor.

use rustix::process::Signal;
use turnlane_testkit::wait::DEADLINE;

use super::Daemon;
use crate::people::Person;

async fn daemon(person: &Person) -> Daemon {
    let script = person.script();
    Daemon::start(&person.home, &["--script", script.to_str().unwrap()]).await
}

/// Tells the daemon to stop and waits until it drains.
async fn stop(daemon: &Daemon) {
    daemon.signal(Signal::TERM);
    let told = |line: &str| line.starts_with("stopping; ");
    let told = daemon.process.wait_for_stderr_line(told, DEADLINE);
    told.await.unwrap();
}

async fn ends(mut daemon: Daemon) {
    let status = daemon.process.wait(DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(0), "{}", daemon.process.stderr_tail());
}

/// The status of the only turn and what the agent said last in it.
async fn outcome(person: &Person, thread: &str) -> (String, String) {
    let shown = person.json(&["thread", "show", thread]).await.remove(0);
    let turn = &shown["turns"][0];
    let items = turn["items"].as_array().unwrap();
    let last = items.last().unwrap()["text"].as_str().unwrap_or_default();
    (turn["status"].as_str().unwrap().to_owned(), last.to_owned())
}

/// The names in `run/` that belong to a drain.
fn drain_files(person: &Person) -> Vec<String> {
    let run = person.home.turnlane().join("run");
    let names = std::fs::read_dir(run).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("drain-")).collect()
}

#[tokio::test]
async fn an_approval_is_decided_while_its_daemon_stops() {
    let person = Person::new();
    let daemon = daemon(&person).await;
    person.queued("docs", "clean up").await;
    let id = person.asked().await["approvalId"].clone();
    stop(&daemon).await;
    let said = person
        .json(&["approvals", "accept", id.as_str().unwrap()])
        .await;
    assert_eq!(said[0]["decision"], "accept");
    ends(daemon).await;
    let expected = ("completed".to_owned(), "It is gone.".to_owned());
    assert_eq!(outcome(&person, "docs").await, expected);
    assert_eq!(drain_files(&person), [""; 0]);
}

#[tokio::test]
async fn an_approval_of_a_stopping_daemon_is_decided_beside_its_successor() {
    let person = Person::new();
    let old = daemon(&person).await;
    person.queued("docs", "clean up").await;
    let id = person.asked().await["approvalId"].clone();
    stop(&old).await;
    let _new = daemon(&person).await;
    let said = person
        .json(&["approvals", "decline", id.as_str().unwrap()])
        .await;
    assert_eq!(said[0]["decision"], "decline");
    ends(old).await;
    let expected = ("completed".to_owned(), "I left it.".to_owned());
    assert_eq!(outcome(&person, "docs").await, expected);
}

#[tokio::test]
async fn a_turn_of_a_stopping_daemon_is_interrupted_with_and_without_a_successor() {
    for with_successor in [false, true] {
        let person = Person::new();
        let old = daemon(&person).await;
        let (thread, _) = person.queued("docs", "hang on").await;
        person.until_running(&thread).await;
        stop(&old).await;
        let _new = if with_successor {
            Some(daemon(&person).await)
        } else {
            None
        };
        let said = person.json(&["thread", "stop", "docs"]).await;
        assert_eq!(said[0]["threadId"], thread.as_str());
        ends(old).await;
        let expected = ("interrupted".to_owned(), "working on it".to_owned());
        assert_eq!(outcome(&person, "docs").await, expected);
    }
}

#[tokio::test]
async fn what_a_daemon_leaves_that_is_killed_while_it_stops_is_removed() {
    let person = Person::new();
    let mut old = daemon(&person).await;
    let (thread, _) = person.queued("docs", "hang on").await;
    person.until_running(&thread).await;
    stop(&old).await;
    assert_eq!(drain_files(&person).len(), 2);
    old.process.kill9().await.unwrap();
    let _new = daemon(&person).await;
    assert_eq!(drain_files(&person), [""; 0]);
}

#[tokio::test]
async fn commands_say_that_the_daemon_is_stopping_while_it_drains() {
    let person = Person::new();
    let daemon = daemon(&person).await;
    let (thread, _) = person.queued("docs", "clean up").await;
    let id = person.asked().await["approvalId"].clone();
    stop(&daemon).await;
    for arguments in [
        &["queue", "add", "--thread", "docs", "say more"][..],
        &["queue", "list"],
        &["queue", "list", "docs"],
        &["status"],
    ] {
        let text = crate::shown(person.spec(arguments)).await;
        assert!(text.contains("is stopping"), "{arguments:?}: {text}");
        assert!(!text.contains("no daemon runs"), "{arguments:?}: {text}");
    }
    let id = id.as_str().unwrap();
    person.json(&["approvals", "accept", id]).await;
    ends(daemon).await;
    assert_eq!(person.queue(&thread).await["depth"], 1);
    let text = crate::shown(person.spec(&["status"])).await;
    assert!(text.contains("no daemon runs"), "{text}");
}
