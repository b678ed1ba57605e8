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
        story.contains("         try: turnlane queue resume docs\n"),
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

#[tokio::test]
async fn rows_are_named_by_their_numbers_and_all_are_removed_at_once() {
    let person = Person::new();
    let (_, first) = person.queued("docs", "first").await;
    let second = person.adds("docs", "second").await;
    let third = person.adds("docs", "third").await;
    let ids = async || {
        let queue = person.queue("docs").await;
        let rows = queue["data"].as_array().unwrap().clone();
        rows.iter()
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    person
        .json(&["queue", "mv", "docs", "3", "--before", "#1"])
        .await;
    assert_eq!(ids().await, [&third, &first, &second].map(String::clone));
    let moved = crate::run(person.spec(&["queue", "mv", "docs", "2", "--before", &first])).await;
    assert_eq!(moved.status.code(), Some(1));
    assert!(
        moved
            .stderr_tail
            .contains("cannot be moved before or behind itself"),
        "{}",
        moved.stderr_tail
    );
    let missing = crate::run(person.spec(&["queue", "edit", "docs", "4", "x"])).await;
    assert!(
        missing
            .stderr_tail
            .contains("there is no row #4: 3 turns waiting\n  `turnlane queue list docs`"),
        "{}",
        missing.stderr_tail
    );
    // The end of an id, as lists show it.
    let edited = person
        .json(&["queue", "edit", "docs", &second[28..], "again"])
        .await;
    assert_eq!(edited[0]["id"], second.as_str());
    let two = crate::shown(person.spec(&["queue", "list", "docs", "-n", "2"])).await;
    assert!(two.contains("and 1 more, which wait behind these"), "{two}");
    assert!(
        two.contains(&first[28..]) && !two.contains(&second[28..]),
        "{two}"
    );
    // What is removed is named by what it asks, since numbers move.
    let removed = crate::shown(person.spec(&["queue", "rm", "docs", "2"])).await;
    assert!(
        removed.contains(&format!("removed {}: first", &first[28..])),
        "{removed}"
    );
    assert_eq!(
        person.json(&["queue", "rm", "docs", "--all"]).await.len(),
        2
    );
    assert_eq!(ids().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_row_says_what_it_waits_for() {
    let person = Person::new();
    person.queued("docs", "first").await;
    person
        .json(&[
            "queue",
            "add",
            "--thread",
            "docs",
            "--not-before",
            "6h",
            "later",
        ])
        .await;
    person.adds("docs", "behind").await;
    let listed = crate::shown(person.spec(&["queue", "list", "docs"])).await;
    let rows: Vec<_> = listed
        .lines()
        .filter(|line| line.contains("just now"))
        .collect();
    assert!(rows[0].contains("a daemon"), "{listed}");
    assert!(
        rows[1].contains("not before ") && rows[1].contains(" UTC"),
        "{listed}"
    );
    assert!(rows[2].contains("row #2"), "{listed}");
    let all = crate::shown(person.spec(&["thread", "list"])).await;
    assert!(all.contains("  queued  "), "{all}");
}

#[tokio::test]
async fn waiting_for_a_row_ends_with_its_turn() {
    let person = Person::new();
    person.queued("alone", "hello").await;
    // Nothing would ever run it.
    let alone = crate::run(person.spec(&["queue", "wait", "alone", "1"])).await;
    assert_eq!(alone.status.code(), Some(1));
    assert!(
        alone.stderr_tail.contains("no daemon runs in "),
        "{}",
        alone.stderr_tail
    );

    let _daemon = person.daemon().await;
    let (_, row) = person.queued("docs", "hello").await;
    let (thread, hanging) = person.queued("long", "hang on").await;
    person.until_running(&thread).await;
    let failing = person.adds("long", "refuse it").await;
    let wait = crate::people::Following::new(person.spec(&["queue", "wait", "long", "1"]));
    let done = person.json(&["queue", "wait", "docs", &row]).await;
    assert_eq!(done[0]["status"], "completed", "{done:?}");
    // Also when it has ended, and by its short id.
    let done = person.json(&["queue", "wait", "docs", &row[28..]]).await;
    assert_eq!(done[0]["queuedTurnId"], row.as_str());

    let left = crate::people::Following::new(person.spec(&["queue", "wait", "long", &hanging]));
    person.json(&["thread", "stop", "long"]).await;
    let (code, seen, _) = left.end().await;
    assert_eq!(code, Some(1), "{seen}");
    assert!(seen.contains(" interrupted"), "{seen}");
    let (code, seen, _) = wait.end().await;
    assert_eq!(code, Some(1), "{seen}");
    let short = &failing[28..];
    assert!(
        seen.starts_with(&format!("{short} failed: the provider refused it")),
        "{seen}"
    );

    // A queue that only a person lets go on.
    person.json(&["queue", "pause", "docs"]).await;
    person.adds("docs", "more").await;
    let held = crate::run(person.spec(&["queue", "wait", "docs", "1"])).await;
    assert_eq!(held.status.code(), Some(1));
    let text = String::from_utf8(held.stdout).unwrap();
    assert!(text.contains(" held: paused"), "{text}");
    assert!(text.contains("turnlane queue resume docs"), "{text}");
}

#[tokio::test]
async fn ctrl_c_leaves_a_wait_and_stops_nothing() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, row) = person.queued("docs", "clean up").await;
    person.asked().await;
    let wait = crate::people::Following::new(person.spec(&["queue", "wait", "docs", &row]));
    // It says what the turn waits for.
    let asked = |line: &str| line.contains("needs approval  rm -r build");
    wait.process
        .wait_for_stderr_line(asked, DEADLINE)
        .await
        .unwrap();
    wait.interrupt();
    let (code, _, stderr) = wait.end().await;
    assert_eq!(code, Some(130), "{stderr}");
    let queue = person.queue(&thread).await;
    assert!(!queue["running"].is_null(), "{queue}");
}
