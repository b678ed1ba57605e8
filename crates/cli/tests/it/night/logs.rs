//! What a daemon logs by default, and what `/metrics` counts beside it.

use rustix::process::Signal;
use serde_json::{Value, json};
use turnlane_testkit::TestProcess;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::people::Person;
use crate::serve::pages::database_of;
use crate::serve::{self, Daemon};

/// Prompts that must not be logged hold this word.
const PRIVATE: &str = "marzipan";

async fn daemon(person: &Person) -> Daemon {
    let script = person.script();
    Daemon::start(&person.home, &["--script", script.to_str().unwrap()]).await
}

#[tokio::test]
async fn ends_holds_and_approvals_are_one_line_each_without_a_prompt() {
    let person = Person::new();
    let mut daemon = daemon(&person).await;
    let sees = async |text: String| {
        let has = |line: &str| line.contains(&text);
        let line = daemon.process.wait_for_stderr_line(has, DEADLINE).await;
        let line = line.unwrap_or_else(|_| panic!("no {text}: {}", daemon.process.stderr_tail()));
        assert!(!line.contains(PRIVATE), "{line}");
        line
    };
    let (thread, _) = person.queued("docs", &format!("say {PRIVATE}")).await;
    person.until_idle(&thread).await;
    let line = sees("a turn completed".to_owned()).await;
    assert!(line.contains(&thread), "{line}");
    for part in ["docs", "duration_ms=", "input_tokens=", "output_tokens="] {
        assert!(line.contains(part), "{part}: {line}");
    }

    let (failing, _) = person.queued("failing", &format!("refuse {PRIVATE}")).await;
    let line = sees(format!("a turn failed thread={failing}")).await;
    assert!(line.contains("WARN"), "{line}");
    assert!(line.contains("error=\"bad_request\""), "{line}");

    person.json(&["queue", "pause", &failing]).await;
    let line = sees(format!("a lane is held thread={failing}")).await;
    assert!(
        line.contains("WARN") && line.contains("why=\"paused\""),
        "{line}"
    );
    let next = format!("turnlane queue resume {failing}");
    assert!(line.contains(&next), "{line}");

    let (held, _) = person.queued("held", &format!("limit {PRIVATE}")).await;
    let line = sees(format!("a lane is held thread={held}")).await;
    assert!(line.contains("WARN") && line.contains("quota"), "{line}");

    let (asking, _) = person.queued("asking", &format!("clean {PRIVATE}")).await;
    let approval = person.asked().await;
    let id = approval["approvalId"].as_str().unwrap();
    let line = sees("an approval is asked for".to_owned()).await;
    assert!(line.contains(&asking) && line.contains(id), "{line}");
    assert!(!line.contains("rm -r"), "{line}");
    assert_eq!(daemon.metric("turnlane_approvals_open").await, 1);
    for reason in ["approval", "quota"] {
        let held = format!("turnlane_lanes_held{{reason=\"{reason}\"}}");
        assert_eq!(daemon.metric(&held).await, 1, "{reason}");
    }
    person.json(&["approvals", "accept", id]).await;
    let line = sees("an approval was decided".to_owned()).await;
    assert!(line.contains("accept") && line.contains("client"), "{line}");
    let none = async || daemon.metric("turnlane_approvals_open").await == 0;
    eventually("no open approval", DEADLINE, none)
        .await
        .unwrap();

    assert!(
        daemon
            .metric("turnlane_database_bytes{file=\"main\"}")
            .await
            > 0
    );
    let version = env!("CARGO_PKG_VERSION");
    let build = format!("turnlane_build_info{{version=\"{version}\"}}");
    assert_eq!(daemon.metric(&build).await, 1);
    daemon.signal(Signal::TERM);
    daemon.process.wait(DEADLINE).await.unwrap();
    assert!(!daemon.process.stderr_tail().contains(PRIVATE));
}

/// The line with this text in the log of a daemon.
async fn line_of(daemon: &Daemon, text: &str) -> String {
    let has = |line: &str| line.contains(text);
    let line = daemon.process.wait_for_stderr_line(has, DEADLINE).await;
    line.unwrap_or_else(|_| panic!("no {text}: {}", daemon.process.stderr_tail()))
}

#[tokio::test]
async fn a_hold_after_a_crash_or_a_failed_start_is_one_line() {
    let person = Person::new();
    let mut first = daemon(&person).await;
    let (cut, _) = person
        .queued("cut-off", &format!("hang on {PRIVATE}"))
        .await;
    let working = async || person.queue(&cut).await["running"].is_object();
    eventually("a turn", DEADLINE, working).await.unwrap();
    let (damaged, row) = person
        .queued("damaged", &format!("hang about {PRIVATE}"))
        .await;
    let working = async || person.queue(&damaged).await["running"].is_object();
    eventually("another turn", DEADLINE, working).await.unwrap();
    let behind = person.adds(&damaged, "say it").await;
    first.process.kill9().await.unwrap();
    let store = database_of(&person.home);
    let damage = "UPDATE queued_turn SET params = CAST('{\"input\": [' AS BLOB) WHERE id = ?1";
    assert_eq!(store.execute(damage, [&behind]).unwrap(), 1);
    drop(store);

    let next = daemon(&person).await;
    for thread in [&cut, &damaged] {
        let line = line_of(&next, &format!("a turn was interrupted thread={thread}")).await;
        assert!(line.contains("error=\"interrupted\""), "{line}");
        assert!(line.contains("duration_ms="), "{line}");
        let line = line_of(&next, &format!("a lane is held thread={thread}")).await;
        assert!(
            line.contains("WARN") && line.contains("why=\"failed\""),
            "{line}"
        );
        let retry = format!("turnlane queue retry {thread}");
        assert!(line.contains(&retry), "{line}");
    }

    // Without the row that the crash left, the damaged one is the head.
    person.json(&["queue", "rm", &damaged, &row]).await;
    let held = format!("a lane is held thread={damaged}");
    let twice = async || next.process.stderr_tail().matches(&held).count() == 2;
    let what = "a line about the row that cannot start";
    eventually(what, DEADLINE, twice).await.unwrap();
    let blocked = person.queue(&damaged).await["blocked"].clone();
    assert_eq!(blocked["queuedTurnId"], behind.as_str(), "{blocked}");
    assert!(!next.process.stderr_tail().contains(PRIVATE));
}

#[tokio::test]
async fn every_line_of_a_daemon_is_json_where_the_log_is() {
    let person = Person::new();
    let script = person.script();
    let arguments = ["--script", script.to_str().unwrap()];
    let spec = serve::spec(&person.home, &arguments).env("LOG_FORMAT", "json");
    let mut process = TestProcess::start(spec).unwrap();
    let ready = |line: &str| line.contains("\"message\":\"ready; ");
    process.wait_for_stderr_line(ready, DEADLINE).await.unwrap();
    let (thread, _) = person.queued("docs", "say hello").await;
    person.until_idle(&thread).await;
    let ended = |line: &str| line.contains("a turn completed");
    process.wait_for_stderr_line(ended, DEADLINE).await.unwrap();
    process.terminate().unwrap();
    process.wait(DEADLINE).await.unwrap();
    let last = |line: &str| line.contains("\"message\":\"stopped\"");
    process.wait_for_stderr_line(last, DEADLINE).await.unwrap();
    let lines = process.stderr_tail();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    for part in ["listening on ws://", "ready; ", "stopping; ", "stopped"] {
        let found = lines.iter().find(|line| {
            let message = line["message"].as_str();
            message.is_some_and(|message| message.starts_with(part))
        });
        let found = found.unwrap_or_else(|| panic!("no {part}: {lines:?}"));
        assert_eq!(found["level"], "INFO");
        assert!(
            found["timestamp"].as_str().unwrap().ends_with('Z'),
            "{found}"
        );
    }
    let ended = lines
        .iter()
        .find(|line| line["message"] == "a turn completed");
    assert_eq!(ended.unwrap()["thread"], json!(thread));

    // An error that ends the start is one of them.
    let spec = serve::spec(&person.home, &["--listen", "tcp://x"]).env("LOG_FORMAT", "json");
    let output = crate::run(spec).await;
    let line: Value = serde_json::from_str(&output.stderr_tail).unwrap();
    assert_eq!(line["level"], "ERROR", "{line}");
}
