//! `thread tail` and `run` while the server dies: both say so, and `tail` misses nothing when it is back.

use std::time::Duration;

use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::{Following, Person};

async fn says(tail: &Following, text: &str) {
    let told = tail
        .process
        .wait_for_stderr_line(|line| line.contains(text), DEADLINE);
    told.await.unwrap();
}

#[tokio::test]
async fn tail_finds_a_server_again_and_shows_what_it_did_not_tell() {
    let person = Person::new();
    let mut daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hello").await;
    person.until_idle(&thread).await;
    person.adds("docs", "hang on").await;
    person.until_running(&thread).await;
    let mut tail = Following::new(person.spec(&["thread", "tail", "docs", "-n", "0"]));
    tail.until_followed().await;
    tail.until("working on it").await;
    daemon.kill9().await.unwrap();
    says(
        &tail,
        "the connection to the server was lost; looking for it",
    )
    .await;
    // While nobody serves: one more is queued, behind the one that the crash left.
    person.adds("docs", "run the test").await;
    let row = person.queue(&thread).await["data"][0]["id"].clone();
    person
        .json(&["queue", "rm", "docs", row.as_str().unwrap()])
        .await;
    let _daemon = person.daemon().await;
    says(&tail, "the connection is there again").await;
    tail.until("interrupted").await;
    tail.until("agent\nOne failed.\n").await;
    tail.until("completed in ").await;
    person.until_idle(&thread).await;
    person.adds("docs", "good bye").await;
    tail.until("You said: good bye").await;
    tail.interrupt();
    let (code, seen, stderr) = tail.end().await;
    assert_eq!(code, Some(130), "{stderr}");
    for once in [
        "user\nhang on\n",
        "working on it",
        "interrupted",
        "user\nrun the test\n",
        "1 failed\n",
        "agent\nOne failed.\n",
        "user\ngood bye\n",
    ] {
        assert_eq!(seen.matches(once).count(), 1, "{once:?}: {seen}");
    }
    assert!(!seen.contains("hello"), "{seen}");
}

#[tokio::test]
async fn programs_are_told_every_turn_once_across_a_restart() {
    let person = Person::new();
    let mut daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hello").await;
    person.until_idle(&thread).await;
    let arguments = ["thread", "tail", "docs", "-n", "0", "--json"];
    let mut tail = Following::new(person.spec(&arguments));
    tail.until("queue.changed").await;
    daemon.kill9().await.unwrap();
    says(&tail, "looking for it").await;
    for text in ["one", "two", "three"] {
        person.adds("docs", text).await;
    }
    let _daemon = person.daemon().await;
    tail.until("You said: three").await;
    person.until_idle(&thread).await;
    person.adds("docs", "four").await;
    tail.until("You said: four").await;
    person.until_idle(&thread).await;
    // It is told last, so everything was.
    person.json(&["thread", "archive", "docs"]).await;
    let (code, seen, stderr) = tail.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    let lines = seen.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line
    });
    let mut said = Vec::new();
    let mut ended = 0;
    for line in lines {
        if line["type"] == "turn.ended" {
            ended += 1;
        }
        if line["type"] == "item.completed" && line["item"]["type"] == "agentMessage" {
            said.push(line["item"]["text"].as_str().unwrap().to_owned());
        }
    }
    let expected = ["one", "two", "three", "four"].map(|text| format!("You said: {text}"));
    assert_eq!(said, expected, "{seen}");
    assert_eq!(ended, 4, "{seen}");
}

#[tokio::test]
async fn a_wait_for_a_lost_server_can_be_left() {
    let person = Person::new();
    let mut daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hello").await;
    person.until_idle(&thread).await;
    let tail = Following::new(person.spec(&["thread", "tail", "docs", "-n", "0"]));
    tail.until_followed().await;
    daemon.kill9().await.unwrap();
    says(&tail, "looking for it").await;
    tail.interrupt();
    let (code, _, stderr) = within("its end", DEADLINE, tail.end()).await.unwrap();
    assert_eq!(code, Some(130), "{stderr}");
}

#[tokio::test]
async fn a_run_ends_soon_after_its_daemon_was_killed_and_says_what_to_do() {
    let person = Person::new();
    let mut daemon = person.daemon().await;
    let flags = ["run", "--skip-git-repo-check", "hang on"];
    let mut run = Following::new(person.spec(&flags));
    drop(run.process.take_stdin());
    says(&run, "working on it").await;
    let thread = person.json(&["thread", "list"]).await[0]["id"].clone();
    daemon.kill9().await.unwrap();
    // Far below the 30 s for which a client looks for its server.
    let soon = Duration::from_secs(15);
    let (code, _, stderr) = within("its end", soon, run.end()).await.unwrap();
    assert_eq!(code, Some(1), "{stderr}");
    let thread = thread.as_str().unwrap();
    for part in [
        "the daemon has ended while the turn ran; the turn does not run again by itself",
        "`turnlane serve --detach`",
        &format!("`turnlane thread show {thread}`"),
    ] {
        assert!(stderr.contains(part), "no {part:?} in {stderr}");
    }
    // It is as the text says.
    let shown = person.json(&["thread", "show", thread]).await.remove(0);
    assert_eq!(shown["turns"][0]["status"], "interrupted");
    assert_eq!(shown["queue"]["depth"], 0);
}

#[tokio::test]
async fn a_turn_that_was_still_queued_for_a_client_ends_with_its_daemon() {
    let person = Person::new();
    let mut daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hang on").await;
    person.until_running(&thread).await;
    let flags = [
        "exec",
        "--skip-git-repo-check",
        "resume",
        &thread,
        "and more",
    ];
    let mut run = Following::new(person.spec(&flags));
    drop(run.process.take_stdin());
    let queued = async || person.queue(&thread).await["depth"] == 1;
    let what = "the turn behind the running one";
    eventually(what, DEADLINE, queued).await.unwrap();
    daemon.kill9().await.unwrap();
    says(&run, "the daemon has ended; waiting for the next one").await;
    let _daemon = person.daemon().await;
    let (code, _, stderr) = within("its end", DEADLINE, run.end()).await.unwrap();
    assert_eq!(code, Some(1), "{stderr}");
    let text = "the queued turn was removed before it began";
    assert!(stderr.contains(text), "{stderr}");
    // Only the turn that was cut is left: a turn that its client waits for goes with its daemon.
    let queue = person.queue(&thread).await;
    assert_eq!(queue["depth"], 1, "{queue}");
    assert!(!queue["data"].to_string().contains("and more"), "{queue}");
}

#[tokio::test]
async fn a_wait_for_a_row_says_that_its_daemon_is_gone_and_goes_on_with_the_next() {
    let person = Person::new();
    let mut daemon = person.daemon().await;
    let (_, row) = person.queued("docs", "clean up").await;
    person.asked().await;
    let wait = Following::new(person.spec(&["queue", "wait", "docs", &row]));
    says(&wait, "needs approval").await;
    daemon.kill9().await.unwrap();
    says(
        &wait,
        "the connection to the server was lost; looking for it",
    )
    .await;
    let _daemon = person.daemon().await;
    let (code, stdout, stderr) = within("its end", DEADLINE, wait.end()).await.unwrap();
    assert!(stderr.contains("the connection is there again"), "{stderr}");
    assert_eq!(code, Some(1), "{stdout} {stderr}");
    assert!(stdout.contains("failed"), "{stdout}");
}
