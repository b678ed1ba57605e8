//! `turnlane queue`: stories with and without a daemon, with what `list` shows after each step.

use insta::assert_snapshot;
use serde_json::Value;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::people::Person;

#[tokio::test]
async fn a_queue_is_filled_changed_and_emptied_without_a_daemon() {
    let mut person = Person::new();
    let (_, first) = person.queued("docs", "first").await;
    let second = person.adds("docs", "second").await;
    let third = person.adds("docs", "third").await;
    for arguments in [
        &["queue", "list"][..],
        &["queue", "list", "docs"],
        &["queue", "edit", "docs", &second, "second, again"],
        &["queue", "list", "docs"],
        &["queue", "mv", "docs", &third, "--first"],
        &["queue", "list", "docs"],
        &["queue", "mv", "docs", &third, "--after", &first],
        &["queue", "mv", "docs", &first, "--last"],
        &["queue", "mv", "docs", &second, "--before", &third],
        &["queue", "list", "docs"],
        &["queue", "pause", "docs", "--reason", "lunch"],
        &["queue", "list", "docs"],
        &["queue", "add", "--thread", "docs", "fourth"],
        &["queue", "resume", "docs"],
        &["queue", "rm", "docs", &second, &third],
        &["queue", "rm", "docs", &second],
        &["queue", "list", "docs"],
    ] {
        person.types(arguments).await;
    }
    assert_snapshot!(person.story());
}

#[tokio::test]
async fn what_a_crash_left_holds_the_queue_until_it_is_retried() {
    let mut person = Person::new();
    let mut daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hang on").await;
    person.until_running(&thread).await;
    person.adds("docs", "hello").await;
    daemon.kill9().await.unwrap();
    // It is dead when all that it started is.
    let blocked = async || !person.queue(&thread).await["blocked"].is_null();
    eventually("a failed row", DEADLINE, blocked).await.unwrap();
    person.types(&["queue", "list", "docs"]).await;
    person.types(&["queue", "list"]).await;
    person.types(&["thread", "list"]).await;
    person.types(&["queue", "start", "docs"]).await;
    let row = person.queue("docs").await["data"][0]["id"].clone();
    let row = row.as_str().unwrap();
    person
        .types(&["queue", "edit", "docs", row, "do not wait"])
        .await;
    person.types(&["queue", "retry", "docs"]).await;
    person.types(&["queue", "list", "docs"]).await;
    person.types(&["queue", "retry", "docs"]).await;
    person.types(&["queue", "retry", "docs", row]).await;
    assert_snapshot!(person.story());

    // The next daemon runs both, in their order.
    let _daemon = person.daemon().await;
    person.json(&["queue", "start", "docs"]).await;
    person.until_idle(&thread).await;
    let shown = person.json(&["thread", "show", "docs"]).await.remove(0);
    let said: Vec<_> = shown["turns"].as_array().unwrap()[1..]
        .iter()
        .map(|turn| turn["items"][0]["content"][0]["text"].clone())
        .collect();
    assert_eq!(said, ["do not wait", "hello"]);
}

#[tokio::test]
async fn a_queue_is_held_and_goes_on_with_a_daemon() {
    let mut person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hang on").await;
    person.until_running(&thread).await;
    let next = person.adds("docs", "hello").await;
    let other = person.adds("docs", "other").await;
    person.types(&["queue", "list", "docs"]).await;
    person.types(&["queue", "start", "docs"]).await;
    person.types(&["queue", "pause", "docs"]).await;
    person.types(&["thread", "stop", "docs", "--pause"]).await;
    let stopped = async || person.queue(&thread).await["running"].is_null();
    eventually("its end", DEADLINE, stopped).await.unwrap();
    person
        .types(&["thread", "tail", "docs", "-n", "0", "--until-idle"])
        .await;
    person.types(&["queue", "list", "docs"]).await;
    person.types(&["queue", "rm", "docs", &other]).await;
    assert_snapshot!(person.story());
    person.json(&["queue", "start", "docs", &next]).await;
    person.until_idle(&thread).await;
    let queue = person.queue("docs").await;
    assert_eq!(queue["paused"], Value::Null, "{queue}");
}

#[tokio::test]
async fn a_wait_for_a_provider_is_shown_and_can_be_ended() {
    let mut person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "limit").await;
    let waits = async || !person.queue(&thread).await["waiting"].is_null();
    eventually("a wait", DEADLINE, waits).await.unwrap();
    let queue = person.queue(&thread).await;
    assert_eq!(queue["waiting"]["kind"], "quota", "{queue}");
    person.types(&["queue", "list", "docs"]).await;
    let story = person.story();
    assert!(
        story.contains("waiting  no more today; goes on in "),
        "{story}"
    );
    assert!(
        story.contains("         try: turnlane queue resume <id 1>\n"),
        "{story}"
    );
}

#[tokio::test]
async fn refusals_are_in_words_with_the_next_step() {
    let mut person = Person::new();
    let (thread, row) = person.queued("docs", "first").await;
    let unknown = "0198c0de-0000-7000-8000-000000000000";
    std::fs::write(person.home.workspace().join("empty"), " \n").unwrap();
    for arguments in [
        &["queue", "add", "--thread", unknown, "x"][..],
        &["queue", "add", "--thread", "docs"],
        &["queue", "add", "--thread", "docs", "--file", "empty"],
        &["queue", "add", "--thread", "docs", "--file", "missing"],
        &["queue", "add", "--new", "--cd", "missing", "x"],
        &[
            "queue",
            "add",
            "--thread",
            "docs",
            "--not-before",
            "400d",
            "x",
        ],
        &["queue", "add", "--thread", "docs", "--key", "k", "x"],
        &["queue", "add", "--thread", "docs", "--key", "k", "x"],
        &["queue", "add", "--thread", "docs", "--key", "k", "y"],
        &[
            "queue",
            "add",
            "--thread",
            "docs",
            "--not-before",
            "8h",
            "late",
        ],
        &["queue", "list", unknown],
        &["queue", "edit", "docs", unknown, "x"],
        &["queue", "rm", "docs", unknown],
        &["queue", "rm", "docs", "abcdefgh"],
        &["queue", "mv", "docs", unknown, "--first"],
        &["queue", "mv", "docs", &row, "--before", unknown],
        &["queue", "retry", "docs"],
        &["queue", "retry", "docs", &row],
        &["queue", "start", "docs"],
        &["queue", "pause", unknown],
        &["queue", "resume", unknown],
    ] {
        person.types(arguments).await;
    }
    assert_snapshot!(person.story());
    let past = ["--not-before", "2020-01-01T00:00Z", "x"];
    let add = ["queue", "add", "--thread", "docs"];
    person.types(&[&add[..], &past].concat()).await;
    assert!(
        person
            .story()
            .contains("error: --not-before is in the past\n")
    );
    // Enough of an id is enough.
    person.json(&["queue", "rm", "docs", &row[..18]]).await;
    let queue = person.queue(&thread).await;
    assert_eq!(queue["depth"], 2, "{queue}");
}

#[tokio::test]
async fn a_full_queue_says_so_and_leaves_nothing_behind() {
    let mut person = Person::new();
    let config = ["-c", "queue.max_depth=1"];
    let add = ["queue", "add", "--new", "--name", "small", "one"];
    person.types(&[&config[..], &add].concat()).await;
    person
        .types(&["queue", "add", "--thread", "small", "two"])
        .await;
    let story = person.story();
    assert!(story.contains("is full (1 turns)\n"), "{story}");
    let before = person.json(&["thread", "list"]).await.len();
    let late = ["queue", "add", "--new", "--not-before", "400d", "x"];
    person.types(&late).await;
    assert!(person.story().contains("--not-before is too far away"));
    assert_eq!(person.json(&["thread", "list"]).await.len(), before);
}
